"""Sentinels: codes for a missing number, such as -999, far from all other numbers of their column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.data.tables.doctor.table_finding import TableFinding

_NINES = tuple(sign * (10.0**digits - 1) for digits in range(1, 10) for sign in (-1, 1))
_EIGHTS = (-888.0, 888.0, -8888.0, 8888.0, -777.0, 777.0, -7777.0, 7777.0)
_LIMITS = (2.0**31 - 1, -(2.0**31), 2.0**15 - 1, -(2.0**15), 2.0**16 - 1, -1e20, 1e20, -1e30, 1e30, 1e36)
_CODES = np.array(sorted((*_NINES, *_EIGHTS, *_LIMITS)))
_FRACTIONS = (-99.9, -999.9, 999.9, -9999.9, 9999.9)
_SHORT = 100  # a code nearer to 0 must occur twice
_FEWEST = 5  # other numbers that a code can be far from


def sentinels(name: str, values: Floats) -> Iterator[TableFinding]:
    """Report the codes in a column of numbers.

    >>> numbers = np.array([21.5, 19.0, -999, 22.5, 20.0, -999, 18.5])
    >>> for found in sentinels("temp", numbers): print(found.in_schema)
    the column 'temp' says -999 in 2 of its 7 cells, far from all its other numbers (18.5 to 22.5), as a code for a missing cell \
does; write missing = [-999]
    """
    codes = _codes(values[np.isfinite(values)])
    if not codes:
        return
    rest = values[np.isfinite(values) & ~np.isin(values, codes)]
    said = " or ".join(f"{code:.12g}" for code in codes)
    listed, many = ", ".join(f"{code:.12g}" for code in codes), int(np.count_nonzero(np.isin(values, codes)))
    yield TableFinding(
        name,
        f"the column '{name:.60}' says {said} in {many:,} of its {len(values):,} cells, far from all its other numbers "
        f"({rest.min():.6g} to {rest.max():.6g}), as a code for a missing cell does",
        f"missing = [{listed}]",
        f"if it is one, set data.missing = [{listed}]",
        codes=tuple(codes),
    )


def _codes(finite: Floats) -> list[float]:
    if not len(finite) or not np.isin([finite.min(), finite.max()], (*_CODES, *_FRACTIONS)).any():
        return []  # a code far from the other numbers would be the least or the largest
    here = [code for code in (*_CODES, *_FRACTIONS) if (finite == code).any()]
    here = [code for code in here if abs(code) >= _SHORT or np.count_nonzero(finite == code) > 1]
    rest = finite[~np.isin(finite, here)]
    while here and len(np.unique(rest)) >= _FEWEST:
        low, high = float(rest.min()), float(rest.max())
        with np.errstate(over="ignore"):
            wide = high - low
        near = [code for code in here if low - wide <= code <= high + wide]
        if not near:
            return sorted(here)
        here = [code for code in here if code not in near]
        rest = finite[~np.isin(finite, here)]
    return []
