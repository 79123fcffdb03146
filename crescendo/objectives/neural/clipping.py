"""Sums of clipped gradients: one record a row, norms in float64, each multiple of the unit exact.

Gradients come in parts, as a library gives them: one array for each tensor of the model, with a row for each record. They are not
put side by side, since copying them takes longer than adding them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.objectives.base import clipped
from crescendo.objectives.compiled import compiled

Parts = Sequence[Array]  # one array for each tensor of the model, in the model's order; a row is one record's
_PLAIN = 1e200  # a sum of squares below it has lost nothing to overflow
_LANES = 64
_BLOCK = 2048  # numbers of the sum that stay in the nearest cache while all records add to them


class ClippedSum:
    """``total``, of gradients scaled down to the norm ``clip`` each and rounded to multiples of ``unit`` (0: not rounded).

    One that is not finite counts as 0. A row is one record's, so what it adds depends on that record alone.

    >>> two = ClippedSum(3, clip=1.0, unit=2.0**-40)
    >>> two.add([np.array([[3.0], [0.5]]), np.array([[4.0, 0.0], [0.0, np.inf]])])
    >>> np.round(two.total, 9)
    array([0.6, 0.8, 0. ])
    """

    def __init__(self, size: int, clip: float = math.inf, unit: float = 0.0) -> None:
        self.total: Floats = np.zeros(size)
        self._clip, self._unit = clip, unit

    @np.errstate(all="ignore")  # the code that gave the gradients may have set numpy to raise, and a record would show
    def add(self, parts: Parts) -> None:
        """Add every row."""
        squares = np.zeros(len(parts[0]))
        for part in parts:
            _add_squares(squares, part)
        careful = ~(squares < _PLAIN)  # one that is no number too
        factors = self._factors(squares, careful)
        at = 0
        for part in parts:
            _add_scaled(self.total[at : at + part.shape[1]], part, factors, self._unit)
            at += part.shape[1]
        for r in np.flatnonzero(careful):
            self._add_with_care(np.concatenate([part[r] for part in parts]).astype(np.float64))

    def _factors(self, squares: Floats, careful: Array) -> Floats:
        """What each row is multiplied by before it is rounded to whole numbers: its scale over the unit."""
        scale = np.where(squares <= self._clip * self._clip, 1.0, self._clip / np.sqrt(squares))
        return np.where(careful, 0.0, scale / (self._unit or 1.0))

    def _add_with_care(self, gradient: Floats) -> None:
        """One whose squares overflow, or that is not finite."""
        short = clipped(gradient, self._clip)
        self.total += np.rint(short / self._unit) * self._unit if self._unit else short


@compiled
def _add_squares(squares: Floats, part: Array) -> None:
    """Number j of a row is added to lane j mod 64, and the lanes to each other.

    So the compiler adds several at once, and the order is this one however the rows lie in memory: a norm that were left to the
    compiler had other last bits for a record that was alone.
    """
    lanes = np.zeros(_LANES)
    for r in range(part.shape[0]):
        lanes[:] = 0.0
        row = part[r]
        whole = row.size // _LANES * _LANES
        for first in range(0, whole, _LANES):
            for k in range(_LANES):
                lanes[k] += np.float64(row[first + k]) * np.float64(row[first + k])
        for j in range(whole, row.size):
            lanes[j - whole] += np.float64(row[j]) * np.float64(row[j])
        for k in range(_LANES):
            squares[r] += lanes[k]


@compiled
def _add_scaled(total: Floats, part: Array, factors: Floats, unit: float) -> None:
    for low in range(0, total.size, _BLOCK):
        some = total[low : low + _BLOCK]
        for r in range(part.shape[0]):
            row, factor = part[r, low : low + _BLOCK], factors[r]
            if factor == 0.0:  # times 0 an infinite number is none
                continue
            if unit == 0.0:
                for j in range(some.size):
                    some[j] += np.float64(row[j]) * factor
            else:
                for j in range(some.size):
                    some[j] += np.rint(np.float64(row[j]) * factor) * unit
