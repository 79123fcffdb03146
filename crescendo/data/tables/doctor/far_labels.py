"""Outlying labels: a few numbers so far from all others that they dominate least squares."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.data.tables.doctor.sentinels import sentinels

_FEWEST = 50  # records
_FEW, _MOST = 0.01, 0.8  # of the records, and of the labels' squared distance from their mean


def about_coded_labels(labels: Floats) -> Iterator[str]:
    """Warn if some labels are a code for a missing one.

    >>> list(about_coded_labels(np.append(np.linspace(3, 8, 20), [-999, -999])))
    ['2 of the 22 labels are -999, far from all others, as a code for a missing one is; leave such records out']
    """
    for found in sentinels("the label", labels):
        many = int(np.count_nonzero(np.isin(labels, found.codes)))
        said = " or ".join(f"{code:g}" for code in found.codes)
        yield (
            f"{many:,} of the {len(labels):,} labels are {said}, far from all others, as a code for a missing one is; leave such "
            "records out"
        )


def about_far_labels(labels: Floats) -> Iterator[str]:
    """Warn if a hundredth of the labels makes up most of the squared error.

    >>> for says in about_far_labels(np.append(np.linspace(0, 1, 99), 1e6)): print(says)
    1 of the 100 labels, such as 1e+06, lies so far from the others that it makes 99% of what least squares measures; correct \
or remove it if it is a mistake
    """
    if len(labels) < _FEWEST or not np.isfinite(labels).all() or np.abs(labels).max() > 1e150:
        return
    squares = (labels - labels.mean()) ** 2
    order = np.argsort(squares)[::-1][: max(1, round(_FEW * len(labels)))]
    if squares.sum() == 0 or (share := squares[order].sum() / squares.sum()) < _MOST:
        return
    lies, it, is_, a = ("lie", "they", "are", "mistakes") if len(order) > 1 else ("lies", "it", "is", "a mistake")
    makes, them = ("make", "them") if len(order) > 1 else ("makes", "it")
    how = f"correct or remove {them} if {it} {is_} {a}"
    if labels.min() > 0:
        how += ", or predict the logarithm of the labels"
    yield (
        f"{len(order):,} of the {len(labels):,} labels, such as {labels[order[0]]:.6g}, {lies} so far from the others that {it} "
        f"{makes} {100 * share:.0f}% of what least squares measures; {how}"
    )
