"""What the paper's theory promises a run: the strongly convex theorem for its own sizes, and the rate of constant steps.

Both are about the sum of updates on a strongly convex problem, without noise. Neither refuses a run: one that goes beyond what is
promised is run, and its certificate says so.
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
    """Paper [thmsc] for sizes that are its own, on an L-smooth (``smooth``) and mu-strongly convex (``convex``) problem.

    ``blocks`` is the D of masks. ``bounds`` says whether the theorem's bound is about the run, which then takes its step sizes
    too, without clipping and noise.
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
            yield "Its bound on the distance from w* is about its own step sizes, without privacy, and so not about this run."
            return
        factor, reached = (
            "8 36^2 D G / mu^2" if self.blocks > 1 else "8 36^2 G / mu^2",
            math.log(gradients) >= self.log_t0,
        )
        verdict = (
            "which this run reaches" if reached else "which this run does not reach: for it the bound is no promise"
        )
        yield f"E|w - w*|^2 is at most {factor} t / (t + 2 tau(t) - 1)^2 from t = T0 on. T0 is {_power(self.log_t0)}, {verdict}."


@dataclass(frozen=True)
class ConstantRate:
    """A constant step ``eta`` with delays of ``tau`` at most, d rounds ahead (None by tau), for dense data.

    Paper [appconst], with a = eta L and G = 2 E|grad f(w*)|^2, if both conditions hold::

        E|w_t - w*|^2  <=  2 (1 - rho)^t |w_0 - w*|^2  +  (4 eta (C1 + tau C2) / mu + 2 eta^2 C1 tau) G
        rho = a mu / L,    C1 = 1 + tau,    C2 = 1 + eta mu C1

    The paper prints rho = a L / mu, which can be over 1; Leblond, whose theorem it is, has a mu / L.

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
        """The share of the squared distance that a gradient takes away."""
        return self.eta * self.convex

    @property
    def spread(self) -> float:
        """How far from w* the steps keep on wandering: the second term of the bound, over G."""
        c1 = 1.0 + self.tau
        c2 = 1.0 + self.rho * c1
        return 4 * self.eta * (c1 + self.tau * c2) / self.convex + 2 * self.eta**2 * c1 * self.tau

    @property
    def holds(self) -> bool:
        return all(one.holds for one in self.conditions())

    def bound(self, t: int, first: float, G: float) -> float:
        """The bound after t gradients, with ``first`` = |w_0 - w*|^2."""
        return 2 * (1 - self.rho) ** t * first + self.spread * G

    def conditions(self) -> Iterator[ScheduleCondition]:
        """Is the step small enough for the delay, and the delay for the step?"""
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
                "the second term stays, however long the run."
            )
            return
        step, delay = self.conditions()
        ways = f"eta = {step.left * (1 - 6e-5):.5g} would pass"  # not above the limit when it is rounded
        if not delay.holds and (size := self._largest_size()) is not None:
            ways += f", and rounds of {size:,} gradients would keep the delay within 1 / (eta mu)"
        yield f"No rate of convergence is promised for this constant step: {ways}."

    def _largest_size(self) -> int | None:
        try:
            return None if self.d is None else ConstantSteps(self.eta).largest_size(self.convex, self.d)
        except UsageError:  # not even rounds of one gradient
            return None


def _power(log: float) -> str:
    """e^log for a sentence: T0 is beyond what floats hold.

    >>> _power(math.log(5000)), _power(146.0)
    ('5,000', 'about 10^63')
    """
    return f"{math.exp(log):,.0f}" if log < math.log(1e6) else f"about 10^{log / math.log(10):,.0f}"
