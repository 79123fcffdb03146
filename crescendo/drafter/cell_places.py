"""Places in which cells are counted: an octave of numbers, missing, a date, or a text. Each cell has one place.

A cell's place does not depend on other cells. The octaves are the same for every table: powers of two of either sign,
in rising order; the middle one takes all numbers closer to 0, and the outermost ones all larger numbers.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from crescendo.core.arrays import Array, Floats, Ints
from crescendo.data.tables.cells import missing, numbers, texts
from crescendo.data.tables.drafting import DATE as A_DATE
from crescendo.data.tables.feature_schema import is_text

MOST_POWER = 128  # octaves go from 2^-128 to 2^128: all float32 numbers, and any measurement
OCTAVES = 4 * MOST_POWER + 1
MISSING, DATE = OCTAVES, OCTAVES + 1
PLACES = OCTAVES + 2  # known before any record is read


def octaves(values: Floats) -> Ints:
    """Return the octave of each number, -1 for nan.

    >>> octaves(np.array([0.0, 1.0, 1.9, 2.0, -1.0, 1e300, np.inf, np.nan])) - 256
    array([   0,  129,  129,  130, -129,  256,  256, -257])
    """
    powers = (
        np.frexp(np.where(np.isfinite(values), values, 1.0))[1].astype(np.int64) - 1
    )  # 2^power <= |value| < 2^(power + 1)
    powers = np.where(np.isinf(values), MOST_POWER, powers)
    away = np.where(values == 0, 0, np.clip(powers, -MOST_POWER - 1, MOST_POWER - 1) + MOST_POWER + 1)
    found: Ints = 2 * MOST_POWER + np.where(values < 0, -away, away)
    return np.where(np.isnan(values), -1, found)


def edge(at: int) -> float:
    """Return the lower edge of octave ``at``, which may be one beyond the last; next to 0 it is 0.

    >>> [edge(256 + at) for at in (-1, 0, 1, 2, 129, 130)] == [-2.0**-127, 0.0, 0.0, 2.0**-127, 1.0, 2.0]
    True
    """
    away = at - 2 * MOST_POWER
    if away in (0, 1):
        return 0.0
    return 2.0 ** (away - 1 - MOST_POWER) if away > 0 else -(2.0 ** (-away - MOST_POWER))


def places(cells: Array, *, by_number: bool, by_text: bool) -> tuple[Floats, Counter[str]]:
    """Count the cells in each known place, and those with each text; a cell counts at most once.

    Without ``by_number`` numbers are texts like others. Without ``by_text`` other cells count as missing.

    >>> known, said = places(np.array(["1.5", "", "5", "long", "2024-02-29"], dtype=object), by_number=True, by_text=True)
    >>> known[[256 + 129, 256 + 131, MISSING, DATE]].tolist(), dict(said)
    ([1.0, 1.0, 1.0, 1.0], {'long': 1})
    """
    values = numbers(cells) if by_number else np.full(len(cells), np.nan)
    at = octaves(values)
    rest = at < 0
    known = np.bincount(at[~rest], minlength=PLACES).astype(np.float64)
    if not by_text:
        known[MISSING] += np.count_nonzero(rest)
        return known, Counter()
    absent = missing(cells)  # none of these reads as a number
    known[MISSING] += np.count_nonzero(absent)
    said = Counter(texts(cells[rest & ~absent]))
    known[DATE] += sum(said.pop(text) for text in [text for text in said if A_DATE.fullmatch(text)])
    return known, Counter({text: many for text, many in said.items() if is_text(text)})


def bins(values: Floats, low: float, step: float, many: int) -> Floats:
    """Count the numbers in each of ``many`` bins of width ``step`` from ``low`` on; ignore nan and numbers outside.

    >>> bins(np.array([0.0, 0.5, 1.5, 2.0, np.inf, np.nan]), 0.0, 1.0, 2)
    array([2., 1.])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        at = np.floor((values - low) / step)
    inside = (at >= 0) & (at < many)  # false for nan
    return np.bincount(at[inside].astype(np.int64), minlength=many).astype(np.float64)
