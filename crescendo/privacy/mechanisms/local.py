"""The `local` mechanism: a moving model, a convex loss of a scalar margin, and non-expansive steps."""

import math

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.errors import Refused
from crescendo.privacy.mechanisms.certificate import Requirement, printed
from crescendo.privacy.mechanisms.proposal import Proposal
from crescendo.privacy.mechanisms.reach import SHORTENED
from crescendo.privacy.mechanisms.rounding import MOST, MOST_SLACK, U


class Local(Proposal):
    """Hides the displacement of the model, including the pull of L2 on the start model.

    Rounding grows with the start model, so its bound is the longest that rounding allows, up to the run's reach. It must leave
    room for models that the noise alone reaches, or clients would shorten their start models all the time.
    """

    name = "local"

    def requirements(self) -> list[Requirement]:
        steps = self._non_expansive()
        return [steps, self.shrink(steps.right)]

    def _non_expansive(self) -> Requirement:
        """Require that no step brings two models further apart."""
        bend, l2, blocks = self.objective.traits.margin, self.objective.traits.l2, self.terms.blocks
        if bend is None:
            raise Refused(
                f"the local mechanism needs a convex loss of a scalar margin, such as logistic, and {self.objective.traits.name} "
                f"{self.objective.traits.no_margin}; minibatch is certified for any model"
            )
        if self.norm_bound is None:
            raise Refused(
                "the local mechanism needs privacy.norm_bound, the largest length of (x, 1); records above it are scaled down"
            )
        if np.dtype(self.objective.dtype) != np.float64:
            raise Refused('the local mechanism accumulates in float64; objective.dtype = "float64" would pass')
        smooth = float(bend(self.norm_bound, self.clip))
        if not 0 < smooth < math.inf:
            raise Refused(
                f"a clipped loss that is {smooth:g}-smooth gives no limit on steps; minibatch is certified for any model"
            )
        step, limit = self.largest_step, 2.0 / smooth
        times = f" times {blocks} blocks" if blocks > 1 else ""
        return Requirement(
            "non-expansive steps",
            step,
            limit,
            step <= limit,
            f"the largest step size{times} is {step:.6g} and must be at most 2 / L_eff = {limit:.6g}; "
            f"eta = {printed(min(limit, 1 / l2 if l2 > 1 / MOST else math.inf) / blocks)} would pass",
        )

    def bound(self, least: float, most: float) -> float:
        return max(least, self._widest(most))

    def slack(self, bound: float) -> float:
        """Return the largest slack of any client; see the top of `rounding`."""
        margin = self.objective.traits.margin
        assert margin is not None and self.norm_bound is not None  # required before
        size, drawn, slots = self.objective.size, self.drawn, self.extremes.slots.astype(np.float64)
        bend, bounds = min(self.largest_step * margin(self.norm_bound, self.clip), 2.0), self._units(bound)
        steps = (bend * (size + 3) + 2) * (drawn * bounds + drawn * (drawn + 1) / 2) + 16 * drawn
        own = 2 * (steps + 2 * slots * (bounds + drawn)) + 4 * (bounds + drawn) + size + 24
        return float(np.max(own, initial=0.0)) * U

    def remedy(self, bound: float, least: float, first: float) -> str:
        less = 0.9 * self.sigma.most * (self._widest(least) - first) / (least - first) if least > first else 0.0
        helps = less > 0 and self.multiples(least).holds  # less noise does not help if the steps fall too far
        larger = f"sigma = {printed(less, 3)}, larger" if helps else "larger last"
        return (
            f"models of length {bound:.3g} are reached by the noise alone; "
            f"{larger} steps or fewer slots per round would pass"
        )

    def model_part(self, bound: float) -> float:
        return float(np.max(self._units(bound)))

    def _units(self, bound: float) -> Floats:
        """Return a length in units of each client's least eta D C."""
        return SHORTENED * bound / (self.extremes.least * self.terms.blocks * self.clip)

    def _widest(self, most: float) -> float:
        """Return the largest length up to ``most`` at which rounding stays within its limits; 0 if there is none."""

        def allowed(bound: float) -> bool:
            return self.slack(bound) <= MOST_SLACK and self.multiples(bound).holds

        if allowed(most):
            return most
        low, high = 0.0, most
        while high - low > 0.01 * high and high > 1e-9 * most:
            middle = (low + high) / 2
            low, high = (middle, high) if allowed(middle) else (low, middle)
        return low
