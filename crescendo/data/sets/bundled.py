"""Small sets that come with scikit-learn, every feature scaled to [0, 1] by its range in the whole set.

The sets never change, so the ranges are constants; the sets are too small and too well known to keep private.
"""

from functools import partial
from pathlib import Path

import numpy as np

from crescendo.data.records import Raw
from crescendo.data.sets.named_source import NamedSource


def _read(name: str, folder: Path | None, test: float) -> Raw:
    """Read one set.

    >>> _read("iris", None, 0.2).x.shape, float(_read("iris", None, 0.2).x.max())
    ((150, 4), 1.0)
    """
    from sklearn import datasets

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    low, high = x.min(axis=0), x.max(axis=0)
    return Raw((x - low) / np.where(high > low, high - low, 1.0), y)


SOURCES = tuple(
    NamedSource(name, about, rows, features, tuple(range(classes)), "scikit-learn", partial(_read, name))
    for name, about, rows, features, classes in (
        ("breast_cancer", "breast tumours, malignant or benign", 569, 30, 2),
        ("digits", "handwritten digits of 8 by 8 pixels", 1797, 64, 10),
        ("iris", "three kinds of iris", 150, 4, 3),
        ("wine", "three growers of wine", 178, 13, 3),
    )
)
