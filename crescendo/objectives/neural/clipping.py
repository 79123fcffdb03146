"""Sums of clipped gradients: one record a row, norms in float64, each multiple of the unit exact.

Gradients come in parts, as a library gives them: one array for each tensor of the model, with a row for each record. They are not
put side by side, since copying them takes longer than adding them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.objectives.compiled import compiled
from crescendo.objectives.layer_clips import LayerClips

Parts = Sequence[Array]  # one array for each tensor of the model, in the model's order; a row is one record's
_PLAIN = 1e200  # a sum of squares below it has lost nothing to overflow
_LANES = 64
_BLOCK = 2048  # numbers of the sum that stay in the nearest cache while all records add to them


class ClippedSum:
    """``total``, of gradients scaled down to their clips and rounded to multiples of ``unit`` (0: not rounded).

    One that is not finite counts as 0. A row is one record's, so what it adds depends on that record alone.

    >>> two = ClippedSum([1, 2], LayerClips(((3, 1.0),)), unit=2.0**-40)
    >>> two.add([np.array([[3.0], [0.5]]), np.array([[4.0, 0.0], [0.0, np.inf]])])
    >>> np.round(two.total, 9)
    array([0.6, 0.8, 0. ])
    """

    def __init__(self, sizes: Sequence[int], clips: LayerClips | None = None, unit: float = 0.0) -> None:
        """``sizes`` are those of the tensors. Without ``clips`` nothing is scaled down."""
        self.total: Floats = np.zeros(sum(sizes))
        self._clips, self._unit = clips, unit
        whole = LayerClips(((sum(sizes), 1.0),))
        self._pieces = list((clips or whole).pieces(sizes))

    @np.errstate(all="ignore")  # the code that gave the gradients may have set numpy to raise, and a record would show
    def add(self, parts: Parts) -> None:
        """Add every row."""
        layers = 1 if self._clips is None else len(self._clips.layers)
        squares = np.zeros((layers, len(parts[0])))
        for tensor, first, last, layer in self._pieces:
            _add_squares(squares[layer], parts[tensor], first, last)
        careful = np.logical_not(np.all(squares < _PLAIN, axis=0))  # one that is no number too
        factors, at = self._factors(squares, careful), 0
        for tensor, first, last, layer in self._pieces:
            end = at + last - first
            _add_scaled(self.total[at:end], parts[tensor], first, factors[layer], self._unit)
            at = end
        for r in np.flatnonzero(careful):
            self._add_with_care(np.concatenate([part[r] for part in parts]).astype(np.float64))

    def _factors(self, squares: Floats, careful: Array) -> Floats:
        """What each row is multiplied by, layer by layer, before it is rounded to whole numbers: its scale over the unit."""
        scale = np.ones_like(squares)
        if self._clips is not None:
            clip = np.array(self._clips.clips)[:, None]
            scale = np.where(squares <= clip * clip, 1.0, clip / np.sqrt(squares))
        return np.where(careful, 0.0, scale / (self._unit or 1.0))

    def _add_with_care(self, gradient: Floats) -> None:
        """One whose squares overflow, or that is not finite."""
        if not np.isfinite(gradient).all():
            return
        short = gradient if self._clips is None else self._clips.clipped(gradient)
        self.total += np.rint(short / self._unit) * self._unit if self._unit else short


@compiled
def _add_squares(squares: Floats, part: Array, first: int, last: int) -> None:
    """Of numbers first..last-1 of each row, number j is added to lane j mod 64, and the lanes to each other.

    So the compiler adds several at once, and the order is this one however the rows lie in memory: a norm that were left to the
    compiler had other last bits for a record that was alone.
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
            if factor == 0.0:  # times 0 an infinite number is none
                continue
            if unit == 0.0:
                for j in range(some.size):
                    some[j] += np.float64(row[j]) * factor
            else:
                for j in range(some.size):
                    some[j] += np.rint(np.float64(row[j]) * factor) * unit
