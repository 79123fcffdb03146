"""Mechanisms whose noise has one bug each. The docstring is the bug; the audit must find every one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.objectives.base import Slots
from crescendo.privacy.mechanisms.gaussian import noised
from crescendo.privacy.mechanisms.mechanism import Private

Floats = npt.NDArray[np.float64]


class _Noise(Private):
    """Other noise: ``factors`` of the certified scale, by coordinate."""

    def draw(self, i: int, size: int) -> Slots:
        slots = super().draw(i, size)
        self._drawn = len(slots.rows)
        return slots

    def _factors(self, i: int, size: int) -> Any:
        return 1.0

    def _noised(self, i: int, hidden: Floats) -> Floats:
        released = super()._noised(i, hidden)
        return np.asarray(hidden + (released - hidden) * self._factors(i, len(hidden)))


class ForgetsTheStepInTheNoise(Private):
    """The noise is for a sum of gradients, and is added to a displacement."""

    def _noised(self, i: int, hidden: Floats) -> Floats:
        scale = self._certificate.sigma(i) * self._certificate.clip
        if not scale:
            return hidden
        return noised(hidden, scale, self._source.words(i, len(hidden)), lambda j: self._source.more(i, j))


class RepeatsItsNoise(Private):
    """Every round has the same noise."""

    def _noised(self, i: int, hidden: Floats) -> Floats:
        scale = self._certificate.noise_scale(i, self._me)
        if not scale:
            return hidden
        return noised(hidden, scale, self._source.words(0, len(hidden)), lambda j: self._source.more(0, j))


class LeavesOneCoordinateOut(_Noise):
    """One coordinate gets no noise."""

    def _factors(self, i: int, size: int) -> Any:
        return np.arange(size) != size // 3


class LeavesTheInterceptOut(_Noise):
    """The intercept gets no noise."""

    def _factors(self, i: int, size: int) -> Any:
        return np.arange(size) != size - 1


class LeavesOneRoundOut(_Noise):
    """One round in the middle of the run gets no noise."""

    def _factors(self, i: int, size: int) -> Any:
        return float(i != self._terms.rounds // 2)


class TooLittleNoise(_Noise):
    """The noise has 0.97 of the certified variance."""

    def _factors(self, i: int, size: int) -> Any:
        return math.sqrt(0.97)


class ScaleTellsTheDraw(_Noise):
    """The noise grows with the number of records drawn."""

    def _factors(self, i: int, size: int) -> Any:
        return 1 + 0.02 * self._drawn


class CutsTheNoiseOfEmptyDraws(_Noise):
    """The noise of an empty draw is cut at 2.5 sigma."""

    def _noised(self, i: int, hidden: Floats) -> Floats:
        released, scale = super()._noised(i, hidden), 2.5 * self._certificate.noise_scale(i, self._me)
        return released if self._drawn or not scale else np.clip(released, hidden - scale, hidden + scale)


class NoiseTellsOneRecord(_Noise):
    """A draw with the first record in it gets a little more noise."""

    def draw(self, i: int, size: int) -> Slots:
        slots = super().draw(i, size)
        self._first = bool((slots.rows == 0).any())
        return slots

    def _factors(self, i: int, size: int) -> Any:
        return 1.1 if self._first else 1.0


class DropsSomeNoise(_Noise):
    """One noise number in five hundred is dropped."""

    def _factors(self, i: int, size: int) -> Any:
        return np.random.default_rng(i + 1000 * self._drawn).random(size) > 1 / 500


class DividesByTheDraw(Private):
    """A mean over the records drawn, times the number expected."""

    def draw(self, i: int, size: int) -> Slots:
        slots = super().draw(i, size)
        self._factor = len(slots) / max(1, len(slots.rows))
        return slots

    def _noised(self, i: int, hidden: Floats) -> Floats:
        return super()._noised(i, hidden * self._factor)


class DividesNoiseAndAll(DividesByTheDraw):
    """The noisy sum is divided by the number drawn, which its noise then tells."""

    def _noised(self, i: int, hidden: Floats) -> Floats:
        return Private._noised(self, i, hidden) * self._factor


class FloatLattice(Private):
    """Float noise, four draws summed up, is added to floats, and rounded to nothing: the sums form a lattice."""

    def _noised(self, i: int, hidden: Floats) -> Floats:
        scale = self._certificate.noise_scale(i, self._me)
        seed = int(self._source.words(i, len(hidden))[0])
        noise = np.random.default_rng(seed).standard_normal((4, len(hidden))).sum(axis=0)
        return np.asarray(hidden + noise * (scale / 2))


class NarrowNoise(Private):
    """The noise is a float32 before it is added and rounded: of some values there are more, and which depends on the sum."""

    def _noised(self, i: int, hidden: Floats) -> Floats:
        released, scale = super()._noised(i, np.zeros_like(hidden)), self._certificate.noise_scale(i, self._me)
        if not scale:
            return hidden
        g = math.ldexp(1.0, math.frexp(scale)[1] - 21)
        return np.rint((hidden + released.astype(np.float32)) / g) * g
