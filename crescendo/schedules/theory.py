"""The paper's theory applied to a run: the strongly convex theorem for its own sizes, and the rate of constant steps.

Both assume the sum of updates on a strongly convex problem, without noise. Neither refuses a run: a run beyond the
theory is allowed, and its certificate notes it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from crescendo.errors import UsageError
from crescendo.schedules.conditions import ScheduleCondition, show
from crescendo.schedules.convergence import log_t0, upper_bound
from crescendo.schedules.delay import StronglyConvexDelay
from crescendo.schedules.steps import ConstantSteps


@dataclass(frozen=True)
class Theorem:
    """Paper [thmsc] for its own sizes, on an L-smooth (``smooth``) and mu-strongly convex (``convex``) problem.

    ``blocks`` is the D of masks. ``bounds`` is True if the theorem's bound covers the run, which then also uses its
    step sizes, without clipping and noise.
    """

    smooth: float
    convex: float
    m: int
    m1: float
    blocks: int = 1
    bounds: bool = False

    @property
    def tau(self) -> StronglyConvexDelay:
        return StronglyConvexDelay(self.m, self.m1)

    @property
    def log_t0(self) -> float:
        return log_t0(self.smooth, self.convex, self.m, self.m1)

    def upper_bound(self, t: Any, G: float) -> Any:
        return upper_bound(t, G, self.convex, self.m, self.m1, self.blocks)

    def notes(self, gradients: int) -> Iterator[str]:
        masks = f", D = {self.blocks} blocks included" if self.blocks > 1 else ""
        yield f"The theorem's own sizes: m = {self.m}, M1 = {show(self.m1)}{masks}."
        if not self.bounds:
            yield "Its bound on the distance from w* assumes its own step sizes, without privacy, and so is not about this run."
            return
        factor, reached = (
            "8 36^2 D G / mu^2" if self.blocks > 1 else "8 36^2 G / mu^2",
            math.log(gradients) >= self.log_t0,
        )
        verdict = (
            "which this run reaches"
            if reached
            else "which this run does not reach, so the bound promises nothing for it"
        )
        yield f"E|w - w*|^2 is at most {factor} t / (t + 2 tau(t) - 1)^2 from t = T0 on. T0 is {_power(self.log_t0)}, {verdict}."


@dataclass(frozen=True)
class ConstantRate:
    """A constant step ``eta`` with delays of ``tau`` at most, d rounds ahead (None by tau), for dense data.

    Paper [appconst], with a = eta L and G = 2 E|grad f(w*)|^2, if both conditions hold::

        E|w_t - w*|^2  <=  2 (1 - rho)^t |w_0 - w*|^2  +  (4 eta (C1 + tau C2) / mu + 2 eta^2 C1 tau) G
        rho = a mu / L,    C1 = 1 + tau,    C2 = 1 + eta mu C1

    The paper prints rho = a L / mu, which can exceed 1; Leblond's original theorem has a mu / L.

    >>> rate = ConstantRate(eta=0.001, smooth=1, convex=0.1, tau=40, d=1)
    >>> rate.holds, f"{rate.rho:.4g}", f"{rate.spread:.5g}"
    (True, '0.0001', '3.2498')
    """

    eta: float
    smooth: float
    convex: float
    tau: int
    d: int | None = None

    @property
    def rho(self) -> float:
        """The share of the squared distance that one gradient removes."""
        return self.eta * self.convex

    @property
    def spread(self) -> float:
        """The remaining squared distance from w*, over G: the second term of the bound."""
        c1 = 1.0 + self.tau
        c2 = 1.0 + self.rho * c1
        return 4 * self.eta * (c1 + self.tau * c2) / self.convex + 2 * self.eta**2 * c1 * self.tau

    @property
    def holds(self) -> bool:
        return all(one.holds for one in self.conditions())

    def bound(self, t: int, first: float, G: float) -> float:
        """Return the bound after t gradients, with ``first`` = |w_0 - w*|^2."""
        return 2 * (1 - self.rho) ** t * first + self.spread * G

    def conditions(self) -> Iterator[ScheduleCondition]:
        """Yield the conditions that the step is small enough for the delay, and the delay for the step."""
        most, longest = (
            ConstantSteps.largest(self.smooth, self.convex, self.tau),
            1 / self.rho if self.rho else math.inf,
        )
        holds = most >= self.eta
        says = f"largest eta for a delay of {self.tau} is {show(most)} {'>=' if holds else '<'} eta = {show(self.eta)}"
        yield ScheduleCondition("constant step", None, most, self.eta, ">=", holds, says)
        holds = longest >= self.tau
        says = f"1 / (eta mu) = {show(longest)} {'>=' if holds else '<'} delay {self.tau}"
        yield ScheduleCondition("delay of a constant step", None, longest, float(self.tau), ">=", holds, says)

    def notes(self) -> Iterator[str]:
        if self.holds:
            yield (
                f"A constant step: E|w - w*|^2 is at most 2 (1 - {self.rho:.4g})^t |w_0 - w*|^2 + {self.spread:.4g} G; "
                "the second term remains in a run of any length."
            )
            return
        step, delay = self.conditions()
        ways = f"eta = {step.left * (1 - 6e-5):.5g} would pass"  # stays below the limit after rounding
        if not delay.holds and (size := self._largest_size()) is not None:
            ways += f", and rounds of {size:,} gradients would keep the delay within 1 / (eta mu)"
        yield f"No rate of convergence is promised for this constant step: {ways}."

    def _largest_size(self) -> int | None:
        try:
            return None if self.d is None else ConstantSteps(self.eta).largest_size(self.convex, self.d)
        except UsageError:  # not even rounds of one gradient
            return None


def _power(log: float) -> str:
    """Format e^log for a message: T0 exceeds floats.

    >>> _power(math.log(5000)), _power(146.0)
    ('5,000', 'about 10^63')
    """
    return f"{math.exp(log):,.0f}" if log < math.log(1e6) else f"about 10^{log / math.log(10):,.0f}"
