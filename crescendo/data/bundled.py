"""The small sets that come with scikit-learn, every feature scaled to [0, 1] by the range it has in the whole set.

The sets never change, so the ranges are constants of theirs; they are too small and too well known to keep private.
"""

from __future__ import annotations

import numpy as np

from crescendo.data.tables import Raw

SETS = {
    "breast_cancer": "breast tumours, malignant or benign",
    "digits": "handwritten digits of 8 by 8 pixels",
    "iris": "three kinds of iris",
    "wine": "three growers of wine",
}


def load(name: str) -> Raw:
    """One of ``SETS``.

    >>> load("iris").x.shape, float(load("iris").x.max())
    ((150, 4), 1.0)
    """
    from sklearn import datasets

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    low, high = x.min(axis=0), x.max(axis=0)
    return Raw((x - low) / np.where(high > low, high - low, 1.0), y)
