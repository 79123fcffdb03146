"""Clipping by layers: groups of the model's numbers, each with its own clip for a record's gradient."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.errors import UsageError
from crescendo.objectives.base import clipped

_FINEST = 1e-6  # of the largest clip, so that each clip is many rounding units
_MOST = 4096  # layers: each costs time for every few records


@dataclass(frozen=True)
class LayerClips:
    """``layers`` of (numbers, clip), in the order of the model's vector.

    >>> clips = LayerClips(((2, 3.0), (1, 4.0)))
    >>> clips.numbers, 5 < clips.length < 5 + 1e-14, clips.clipped(np.array([30.0, 40.0, 1.0]))
    (3, True, array([1.8, 2.4, 1. ]))
    """

    layers: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.layers) <= _MOST or not all(n > 0 and 0 < clip < math.inf for n, clip in self.layers):
            raise UsageError(
                f"privacy.clip is a number above 0, or a list of 1 to {_MOST} layers, each [numbers, clip] with both above 0"
            )
        if not _FINEST * max(self.clips) <= min(self.clips):
            raise UsageError(
                f"privacy.clip cuts one layer to {min(self.clips):g} and another to {max(self.clips):g}; one must be at least a "
                "millionth of the other, or its gradients are lost in rounding"
            )

    @classmethod
    def of(cls, value: Any) -> LayerClips | None:
        """Read a list of pairs, as in run files and terms; None for a number."""
        if isinstance(value, LayerClips) or not isinstance(value, Sequence):
            return value if isinstance(value, LayerClips) else None
        return cls(tuple((operator.index(numbers), float(clip)) for numbers, clip in value))

    @property
    def numbers(self) -> int:
        return sum(numbers for numbers, _ in self.layers)

    @property
    def length(self) -> float:
        """The maximal norm of a clipped gradient: the root of the sum of the clips' squares, rounded up."""
        return math.nextafter(math.nextafter(math.hypot(*self.clips), math.inf), math.inf)

    @property
    def clips(self) -> tuple[float, ...]:
        return tuple(clip for _, clip in self.layers)

    def pieces(self, sizes: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
        """Yield the overlaps of layers and tensors of these sizes, as (tensor, first, last, layer).

        >>> list(LayerClips(((2, 1.0), (3, 1.0))).pieces([4, 1]))
        [(0, 0, 2, 0), (0, 2, 4, 1), (1, 0, 1, 1)]
        """
        layer, left = 0, self.layers[0][0]
        for tensor, size in enumerate(sizes):
            first = 0
            while first < size:
                if not left:
                    layer, left = layer + 1, self.layers[layer + 1][0]
                last = min(size, first + left)
                yield tensor, first, last, layer
                first, left = last, left - (last - first)

    def clipped(self, gradient: Floats) -> Floats:
        """Scale each layer down to its clip; a non-finite gradient counts as 0 in every layer."""
        if not np.isfinite(gradient).all():
            return np.zeros_like(gradient)
        ends = np.cumsum([numbers for numbers, _ in self.layers])[:-1]
        parts = zip(np.split(gradient, ends), self.clips, strict=True)
        return np.concatenate([clipped(part, clip) for part, clip in parts])

    def scaled(self, factor: float) -> LayerClips:
        """Return the layers with all clips times a factor."""
        return LayerClips(tuple((numbers, clip * factor) for numbers, clip in self.layers))

    def to_json(self) -> list[list[float]]:
        return [[numbers, clip] for numbers, clip in self.layers]
