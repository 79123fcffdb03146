"""Columns in two units, such as 172 (cm) and 1.72 (m): two clusters of numbers, a power of ten apart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.data.tables.doctor.table_finding import TableFinding

_FEWEST = 10  # different numbers in each cluster
_CENTURY = 100
_NEAR = 0.05  # the largest deviation of the clusters' ratio from a power of ten, in powers of ten
_WIDER = 2.0  # the least ratio of the gap to the width of a cluster


def two_units(name: str, values: Floats) -> Iterator[TableFinding]:
    """Report the two clusters of a column of positive numbers.

    >>> heights = np.linspace(150, 200, 40)
    >>> for found in two_units("height", np.append(heights[::2], heights[1::2] / 100)): print(found.sentence)
    the column 'height' has numbers from 1.51282 to 2 and, 100 times as large, from 150 to 198.718, as in two units; write all \
of them in one unit
    """
    found = np.unique(values[np.isfinite(values)])
    if len(found) < 2 * _FEWEST or found[0] <= 0:
        return
    if (
        (short := found[found < _CENTURY]).size >= _FEWEST
        and _are_years(found[found >= _CENTURY])
        and _are_whole(short)
    ):
        yield TableFinding(
            name,
            f"the column '{name:.60}' has years with two digits, such as {short[0]:g}, and with four, such as {found[-1]:g}",
            "",
            "write all of them with four",
        )
        return
    powers = np.log10(found)
    at = int(np.diff(powers).argmax()) + 1
    low, high = powers[:at], powers[at:]
    if min(len(low), len(high)) < _FEWEST or high[0] - low[-1] < _WIDER * max(np.ptp(low), np.ptp(high)):
        return
    apart = float(np.median(high) - np.median(low))
    times = round(apart)
    if times >= 1 and abs(apart - times) <= _NEAR:
        yield TableFinding(
            name,
            f"the column '{name:.60}' has numbers from {found[0]:.6g} to {found[at - 1]:.6g} and, {10**times:,} times as large, "
            f"from {found[at]:.6g} to {found[-1]:.6g}, as in two units",
            "",
            "write all of them in one unit",
        )


def _are_years(values: Floats) -> bool:
    return len(values) >= _FEWEST and values[0] >= 1900 and values[-1] < 2100 and _are_whole(values)


def _are_whole(values: Floats) -> bool:
    return bool((values == np.rint(values)).all())
