"""Sums of clipped gradients: one record per row, norms in float64, exact multiples of the unit.

Gradients come in parts, as a library gives them: one array per tensor of the model, with one row per record. They are
not concatenated, since copying takes longer than adding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.objectives.compiled import compiled
from crescendo.objectives.layer_clips import LayerClips

Parts = Sequence[Array]  # one array per tensor, in the model's order, with one row per record
_PLAIN = 1e200  # a sum of squares below this has not overflowed
_LANES = 64
_BLOCK = 2048  # numbers of the sum that stay in the L1 cache while all records are added


class ClippedSum:
    """``total`` sums gradients scaled down to their clips and rounded to multiples of ``unit`` (0: not rounded).

    A non-finite gradient counts as 0. Each row belongs to one record, so its contribution depends on that record alone.

    >>> two = ClippedSum([1, 2], LayerClips(((3, 1.0),)), unit=2.0**-40)
    >>> two.add([np.array([[3.0], [0.5]]), np.array([[4.0, 0.0], [0.0, np.inf]])])
    >>> np.round(two.total, 9)
    array([0.6, 0.8, 0. ])
    """

    def __init__(self, sizes: Sequence[int], clips: LayerClips | None = None, unit: float = 0.0) -> None:
        """``sizes`` are the tensors' sizes. Without ``clips`` gradients are not scaled down."""
        self.total: Floats = np.zeros(sum(sizes))
        self._clips, self._unit = clips, unit
        whole = LayerClips(((sum(sizes), 1.0),))
        self._pieces = list((clips or whole).pieces(sizes))

    @np.errstate(all="ignore")  # the user's code may have set numpy to raise, which would reveal a record
    def add(self, parts: Parts) -> None:
        """Add every row."""
        layers = 1 if self._clips is None else len(self._clips.layers)
        squares = np.zeros((layers, len(parts[0])))
        for tensor, first, last, layer in self._pieces:
            _add_squares(squares[layer], parts[tensor], first, last)
        careful = np.logical_not(np.all(squares < _PLAIN, axis=0))  # NaN too
        factors, at = self._factors(squares, careful), 0
        for tensor, first, last, layer in self._pieces:
            end = at + last - first
            _add_scaled(self.total[at:end], parts[tensor], first, factors[layer], self._unit)
            at = end
        for r in np.flatnonzero(careful):
            self._add_with_care(np.concatenate([part[r] for part in parts]).astype(np.float64))

    def _factors(self, squares: Floats, careful: Array) -> Floats:
        """Return each row's factor per layer before rounding to integers: its scale over the unit."""
        scale = np.ones_like(squares)
        if self._clips is not None:
            clip = np.array(self._clips.clips)[:, None]
            scale = np.where(squares <= clip * clip, 1.0, clip / np.sqrt(squares))
        return np.where(careful, 0.0, scale / (self._unit or 1.0))

    def _add_with_care(self, gradient: Floats) -> None:
        """Add a gradient whose squares overflow, or that is not finite."""
        if not np.isfinite(gradient).all():
            return
        short = gradient if self._clips is None else self._clips.clipped(gradient)
        self.total += np.rint(short / self._unit) * self._unit if self._unit else short


@compiled
def _add_squares(squares: Floats, part: Array, first: int, last: int) -> None:
    """Add the squares of numbers first..last-1 of each row: number j to lane j mod 64, then the lanes together.

    This lets the compiler vectorise with a fixed order for any memory layout of the rows: with the compiler's own
    order, a single record's norm had different last bits.
    """
    lanes = np.zeros(_LANES)
    for r in range(part.shape[0]):
        lanes[:] = 0.0
        row = part[r, first:last]
        whole = row.size // _LANES * _LANES
        for low in range(0, whole, _LANES):
            for k in range(_LANES):
                lanes[k] += np.float64(row[low + k]) * np.float64(row[low + k])
        for j in range(whole, row.size):
            lanes[j - whole] += np.float64(row[j]) * np.float64(row[j])
        for k in range(_LANES):
            squares[r] += lanes[k]


@compiled
def _add_scaled(total: Floats, part: Array, first: int, factors: Floats, unit: float) -> None:
    for low in range(0, total.size, _BLOCK):
        some = total[low : low + _BLOCK]
        for r in range(part.shape[0]):
            row, factor = part[r, first + low : first + low + some.size], factors[r]
            if factor == 0.0:  # 0 times infinity is NaN
                continue
            if unit == 0.0:
                for j in range(some.size):
                    some[j] += np.float64(row[j]) * factor
            else:
                for j in range(some.size):
                    some[j] += np.rint(np.float64(row[j]) * factor) * unit
