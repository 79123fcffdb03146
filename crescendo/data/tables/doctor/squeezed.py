"""Squeezed columns: a few outliers leave the other numbers little room, so that scaled to [-1, 1] they look equal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.data.tables.doctor.table_finding import TableFinding

_FEWEST = 20  # cells
_WIDER = 20.0  # the least ratio of the range to the width of nine in ten of the numbers


def squeezed(name: str, values: Floats, low: float, high: float) -> Iterator[TableFinding]:
    """Report a column whose numbers fill a small part of its range from ``low`` to ``high``.

    >>> ages = np.append(np.linspace(20, 80, 97), [20000.0, 60000.0, 80000.0])
    >>> for found in squeezed("age", ages, 20, 80000): print(found.sentence)
    the column 'age' goes from 20 to 80000, and nine in ten of its numbers lie between 23.0938 and 78.7812, which scaling makes \
nearly one; correct those far out if they are mistakes
    """
    finite = values[np.isfinite(values)]
    if len(finite) < _FEWEST:
        return
    least, most = (float(q) for q in np.quantile(finite, (0.05, 0.95)))
    if 0 < _WIDER * (most - least) < high - low:
        yield TableFinding(
            name,
            f"the column '{name:.60}' goes from {low:.6g} to {high:.6g}, and nine in ten of its numbers lie between {least:.6g} "
            f"and {most:.6g}, which scaling makes nearly one",
            "",
            "correct those far out if they are mistakes",
        )
