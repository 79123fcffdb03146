"""Calibration target: what every schedule of a request is measured by, and the least noise that a schedule needs for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from crescendo.errors import UsageError
from crescendo.privacy.accounting.accountant import account
from crescendo.privacy.accounting.directed_rounding import noise_up
from crescendo.privacy.mechanisms.certificate import RARE
from crescendo.privacy.planning.calibration import least_sigma
from crescendo.privacy.planning.staircase import Noise, Staircase, events_of


@dataclass(frozen=True)
class Target:
    """One client's (epsilon, delta), records and gradients."""

    epsilon: float
    delta: float
    records: int
    gradients: int

    def sigma(self, stairs: Staircase, rtol: float = 0.001, start: float | None = None) -> float:
        """The least noise under the tight accountant; ``start`` is a guess, else what the quick accountant says."""
        first = self.quick_sigma(stairs) if start is None else start
        found = least_sigma(lambda s: self.spent(stairs, noise_up(s)), self.epsilon, first, rtol)
        return noise_up(found)  # which is what was accounted for

    def scaled(self, stairs: Staircase, shape: Sequence[float]) -> tuple[float, ...]:
        """A sigma for each step: ``shape`` times the least factor under the tight accountant."""

        def noise(factor: float) -> tuple[float, ...]:
            return tuple(noise_up(factor * one) for one in shape)

        return noise(least_sigma(lambda factor: self.spent(stairs, noise(factor)), self.epsilon, 1.0, 0.001))

    def quick_sigma(self, stairs: Staircase) -> float:
        """The noise under the quick accountant, or, of an epsilon too small for it, what a plain Gaussian would need."""
        try:
            return least_sigma(lambda s: self.spent(stairs, s, quick=True), self.epsilon, 1.0, 0.02)
        except UsageError:
            energy = sum(rounds * (size / self.records) ** 2 for size, rounds in stairs)
            return math.sqrt(2 * energy * (math.log(1.25) - math.log(self.delta))) / self.epsilon

    def slope(self, stairs: Staircase, sigma: float) -> float:
        """By how many percent epsilon falls when sigma rises by one, as the quick accountant has it."""
        here, there = (self.spent(stairs, by * sigma, quick=True) for by in (1.0, 1.01))
        return math.log(here / there) / math.log(1.01) if here > there > 0 else 1.0

    def spent(self, stairs: Staircase, sigma: Noise, quick: bool = False) -> float:
        """The epsilon of a schedule at this noise, at what rare events leave of delta at least."""
        return account(
            events_of(stairs, self.records, sigma), self.delta * (1 - RARE), quick=quick, state_error=False
        ).epsilon
