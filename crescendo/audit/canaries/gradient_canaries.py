"""Canaries in gradient space: records whose clipped gradient is as long as the clip, each on a separate coordinate.

No record can be more visible. The run's objective is widened by a coordinate for each canary; on its old coordinates, and for
the real records, it is unchanged. Only `minibatch`, which sums gradients at one model, can use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats, Ints, Vector
from crescendo.data.records import Records
from crescendo.objectives.base import Block, LoopStepper, Objective, Slots, Stepper, Traits
from crescendo.privacy.mechanisms.minibatch import FrozenStepper


class WithCanaries:
    """``base`` with ``canaries`` more coordinates. Records from number ``first`` on are canaries."""

    def __init__(self, base: Objective, canaries: int, first: int) -> None:
        self.base, self.canaries, self.first = base, canaries, first
        self.size, self.dtype = base.size + canaries, base.dtype

    @property
    def traits(self) -> Traits:
        return replace(self.base.traits, margin=None, clips=True, layered=False)

    @property
    def coordinates(self) -> slice:
        return slice(self.base.size, self.size)

    def initial(self, rng: np.random.Generator) -> Vector:
        return np.concatenate([self.base.initial(rng), np.zeros(self.canaries)])

    def gradient(
        self,
        w: Vector,
        data: Records,
        rows: Ints,
        clip: float | None = None,
        block: Block | None = None,
        unit: float | None = None,
    ) -> Floats:
        """Return the base's sum over the real records, each clipped as in a private round, and a clip for every canary."""
        real, planted = rows[rows < self.first], rows[rows >= self.first]
        inner = FrozenStepper(self.base, data)
        inner.load(w[: self.base.size])
        inner.advance(Slots(real, np.ones(1), np.array([len(real)]), clip=clip, unit=unit), 0, 1)
        seen = np.bincount(planted - self.first, minlength=self.canaries) * self.length(clip, unit)
        return np.concatenate([inner.gradients(), seen])[slice(*(block or (0, self.size)))]

    @staticmethod
    def length(clip: float | None, unit: float | None) -> float:
        """Return the length of a canary's gradient: the clip, rounded down to the unit of the round."""
        whole = 1.0 if clip is None else clip
        return whole if unit is None else float(np.floor(whole / unit) * unit)

    def evaluate(
        self, w: Vector, data: Records, weighted: npt.ArrayLike | None = None, metrics: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Evaluate the base's coordinates; canaries among the data count as records without features."""
        return self.base.evaluate(w[..., : self.base.size], data, weighted)

    def stepper(self, data: Records) -> Stepper:
        return LoopStepper(self, data)
