"""Calibration target: the budget that every schedule of a request is held to, and the least noise that meets it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

from crescendo_dp.accounting.epsilon import account, check_delta
from crescendo_dp.directed_rounding import noise_up
from crescendo_dp.errors import UsageError
from crescendo_dp.paper.recipe import Recipe
from crescendo_dp.planning.calibration import least_sigma
from crescendo_dp.planning.staircase import Noise, Staircase

_MOST_EPSILON = 100.0
RARE = 1e-9  # the most of delta that a run may take for rare events, such as a draw beyond its bound


@dataclass(frozen=True)
class Target:
    """One client's (epsilon, delta), records and gradients."""

    epsilon: float
    delta: float
    records: int
    gradients: int

    @classmethod
    def checked(
        cls,
        epsilon: float,
        delta: float,
        records: int,
        gradients: int,
        first_size: float | None,
        power: float | None = None,
        rounds: float | None = None,
        max_share: float | None = None,
    ) -> Target:
        """The target of a request whose numbers make sense."""
        for name, value in (
            ("epsilon", epsilon),
            ("records", records),
            ("gradients", gradients),
            ("first size", first_size),
            ("power", power),
            ("rounds", rounds),
            ("largest share of a round", max_share),
        ):
            if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
                raise UsageError(f"the {name} must be a number, got {value!r:.60}")
        check_delta(delta)
        if not 0 < epsilon <= _MOST_EPSILON:
            raise UsageError(f"epsilon must lie above 0 and at most {_MOST_EPSILON:g}, got {epsilon:g}")
        for name, value in (
            ("records", records),
            ("gradients", gradients),
            ("first size", first_size),
            ("rounds", rounds),
        ):
            if value is not None and (isinstance(value, bool) or not 1 <= value < math.inf or value != int(value)):
                raise UsageError(f"the {name} must be a whole number, 1 or more, got {value}")
        if power is not None and not 0 <= power <= 8:
            raise UsageError(f"the power must lie between 0 and 8, got {power:g}")
        if max_share is not None and not 0 < max_share <= 1:
            raise UsageError(f"the largest share of a round must lie above 0 and at most 1, got {max_share:g}")
        return cls(float(epsilon), float(delta), int(records), int(gradients))

    def sigma(self, stairs: Staircase, rtol: float = 0.001, start: float | None = None) -> float:
        """The least noise under the tight accountant; ``start`` is a guess, else that of the quick accountant."""
        first = self.quick_sigma(stairs) if start is None else start
        found = least_sigma(lambda s: self.spent(stairs, noise_up(s)), self.epsilon, first, rtol)
        return noise_up(found)  # which is what was accounted for

    def scaled(self, stairs: Staircase, shape: Sequence[float]) -> tuple[float, ...]:
        """A sigma for each step: ``shape`` times the least factor under the tight accountant."""

        def noise(factor: float) -> tuple[float, ...]:
            return tuple(noise_up(factor * one) for one in shape)

        return noise(least_sigma(lambda factor: self.spent(stairs, noise(factor)), self.epsilon, 1.0, 0.001))

    def quick_sigma(self, stairs: Staircase) -> float:
        """The noise under the quick accountant, or that of a plain Gaussian for an epsilon too small for it."""
        try:
            return least_sigma(lambda s: self.spent(stairs, s, quick=True), self.epsilon, 1.0, 0.02)
        except UsageError:
            energy = sum(rounds * (size / self.records) ** 2 for size, rounds in stairs)
            return math.sqrt(2 * energy * (math.log(1.25) - math.log(self.delta))) / self.epsilon

    def slope(self, stairs: Staircase, sigma: float) -> float:
        """By how many percent epsilon falls when sigma rises by one, as the quick accountant has it."""
        here, there = (self.spent(stairs, by * sigma, quick=True) for by in (1.0, 1.01))
        return math.log(here / there) / math.log(1.01) if here > there > 0 else 1.0

    def by_paper(self, first: int, power: float, r0: float | None) -> Recipe:
        """The paper's parameter selection."""
        return Recipe.least(self.epsilon, self.delta, self.records, self.gradients, first, power, r0)

    def spent(self, stairs: Staircase, sigma: Noise, quick: bool = False) -> float:
        """Return the epsilon of a schedule at this noise, with delta less the most that rare events may take."""
        return account(
            stairs.events(self.records, sigma), self.delta * (1 - RARE), quick=quick, state_error=False
        ).epsilon
