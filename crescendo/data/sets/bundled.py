"""The small sets that come with scikit-learn, every feature scaled to [0, 1] by the range it has in the whole set.

The sets never change, so the ranges are constants of theirs; they are too small and too well known to keep private.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crescendo.data.records import Raw


@dataclass(frozen=True)
class _Bundled:
    about: str
    rows: int
    features: int
    classes: int  # 0, 1, 2, ...


SETS = {
    "breast_cancer": _Bundled("breast tumours, malignant or benign", 569, 30, 2),
    "digits": _Bundled("handwritten digits of 8 by 8 pixels", 1797, 64, 10),
    "iris": _Bundled("three kinds of iris", 150, 4, 3),
    "wine": _Bundled("three growers of wine", 178, 13, 3),
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
