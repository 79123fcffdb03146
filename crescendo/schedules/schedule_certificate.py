"""Certificate of a schedule, computed over the whole horizon before a run starts.

A run may wait by a delay function, client by client (the tau rule), or by rounds (the d rule: at most d rounds ahead
of the newest broadcast). A schedule that could stop forever, or exceed its stated delay, is refused, with the round,
both sides of the inequality, and the nearest values that pass.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from crescendo.errors import Refused, UsageError
from crescendo.schedules.as_toml import wait_line
from crescendo.schedules.conditions import Horizon, ScheduleCondition, Sides, show
from crescendo.schedules.delay import ConstantDelay, Delay
from crescendo.schedules.parameters import kind, whole
from crescendo.schedules.sequence import Sizes
from crescendo.schedules.theory import ConstantRate, Theorem
from crescendo.views import html_lines, html_table

__all__ = ["ScheduleCertificate", "ScheduleCondition", "ScheduleRefused", "certify"]


@dataclass(frozen=True, repr=False)
class ScheduleCertificate:
    """The conditions that hold over ``rounds`` rounds, and the staleness of the models used for gradients.

    ``consistent_delay`` is the least whole tau that bounds the delay of every gradient permitted by the wait rule,
    first reached in the round that ends before label ``at``; under the d rule it is the largest s_{i-d} + ... + s_i.
    Since the client waits while tau <= t_delay, the gradient itself lacks at most one update fewer.
    ``theorem_allows`` is the theorem's tau at that label, None without a theorem. ``theorem`` and ``constant`` hold
    the theory that applies to the run, None if none does.
    """

    rounds: int
    gradients: int
    rule: str
    conditions: tuple[ScheduleCondition, ...]
    consistent_delay: int
    theorem_allows: float | None
    notes: tuple[str, ...]
    at: int
    theorem: Theorem | None = None
    constant: ConstantRate | None = None

    def against(self, constant: ConstantRate) -> Self:
        """Return the certificate with the conditions and notes of the theory of constant steps."""
        conditions, notes = (*self.conditions, *constant.conditions()), (*self.notes, *constant.notes())
        return replace(self, conditions=conditions, notes=notes, constant=constant)

    @property
    def within_theorem(self) -> bool | None:
        """True if the run stays within the theorem's delay in every round; None without a theorem."""
        return next((found.holds for found in self.conditions if found.name == WITHIN), None)

    def __repr__(self) -> str:
        held = sum(one.holds for one in self.conditions)
        return (
            f"ScheduleCertificate(rounds={self.rounds}, gradients={self.gradients}, rule={self.rule!r}, "
            f"consistent_delay={self.consistent_delay}, conditions={held} of {len(self.conditions)} hold)"
        )

    def _repr_html_(self) -> str:
        rows = [(one.name, one.where, one.says, "holds" if one.holds else "fails") for one in self.conditions]
        table = html_table(rows, ("condition", "where", "says", "")) if rows else ""
        return html_lines([repr(self)]) + table + html_lines(self.notes)

    def summary(self) -> str:
        """Return plain text, one line per condition and note."""
        return str(self)

    def __str__(self) -> str:
        head = f"{self.rounds:,} rounds, {self.gradients:,} gradients, waiting by the {self.rule} rule"
        found = [f"{'holds' if c.holds else 'fails'}: {c.name}, {c.where}: {c.says}" for c in self.conditions]
        return "\n  ".join([head, *found, *self.notes])


class ScheduleRefused(Refused):
    """A condition fails. Each of ``delay``, ``size`` (of the failing round) and ``d``, if not None, would pass."""

    def __init__(
        self, condition: ScheduleCondition, delay: Delay | None = None, size: int | None = None, d: int | None = None
    ) -> None:
        ways = [wait_line(delay)] if delay is not None else []
        ways += [f"at most {size:,} gradients in round {condition.round} (schedule.sizes)"] if size is not None else []
        ways += [f"schedule.wait.d = {d}"] if d is not None else []
        ways += ["schedule.wait = {rounds = 1}, which always passes"]
        meaning = ", so clients could wait forever" if condition.name == LIVENESS else ""
        super().__init__(
            f"the schedule fails '{condition.name}' in round {condition.round}: {condition.says}{meaning}; "
            f"what would pass: {', or '.join(ways)}"
        )
        self.condition, self.delay, self.size, self.d = condition, delay, size, d


WITHIN, LIVENESS = "within the theorem", "liveness"


def certify(
    sizes: Sizes, rounds: int, *, d: int | None = None, tau: Delay | None = None, theorem: Theorem | None = None
) -> ScheduleCertificate:
    """Certify ``rounds`` rounds of ``sizes``, or raise ScheduleRefused.

    With ``tau`` the run waits by the delay function: tau and t - tau(t) must not decrease, every round must be live,
    and a stated ``d`` must satisfy Paper [eqtausample]. With ``d`` alone every schedule is live and accepted; the
    certificate compares it with ``theorem``.

    >>> from crescendo.schedules import ConstantSizes, PowerSizes
    >>> certify(PowerSizes(50), 28, d=1).consistent_delay
    2750
    >>> certify(ConstantSizes(100), 40, tau=ConstantDelay(80))
    Traceback (most recent call last):
    crescendo.schedules.schedule_certificate.ScheduleRefused: the schedule fails 'liveness' in round 0:
    tau(98) = 80 <= s_0 - 1 = 99, so clients could wait forever; what would pass: schedule.wait.tau = 99.001,
    or at most 80 gradients in round 0 (schedule.sizes), or schedule.wait = {rounds = 1}, which always passes
    """
    kind("sizes", sizes, Sizes)
    horizon = Horizon(sizes.prefix(whole("rounds", rounds, least=1)))
    d = None if d is None else whole("d", d)
    if theorem is not None:
        kind("theorem", theorem, Theorem)
    if tau is not None:
        kind("tau", tau, Delay)
        return _by_tau(horizon, tau, d, theorem)
    if d is None:
        raise UsageError("a wait rule is needed: give d, tau, or both")
    return _by_rounds(horizon, d, theorem)


def _by_tau(horizon: Horizon, tau: Delay, d: int | None, theorem: Theorem | None) -> ScheduleCertificate:
    conditions = list(horizon.steadiness(tau))
    if not conditions[-1].holds:
        raise ScheduleRefused(conditions[-1], delay=ConstantDelay(int(horizon.windows(d or 0).max())))
    conditions.append(_checked_liveness(horizon, tau, d))
    if d is not None:
        conditions.append(_checked_ahead(horizon, tau, d))
    last = int(horizon.sums[-1])
    delay = min(last, math.ceil(tau(last - 2)))
    if d is not None:
        delay = max(delay, int(horizon.windows(d).max()))  # the run may wait by rounds instead
    if theorem is not None:
        conditions.append(_within(Sides(theorem.tau(horizon.sums[1:]), tau(horizon.sums[1:]), strict=False), "tau"))
    notes = [f"Every gradient t is computed with a model that has all updates below t - tau(t), for {tau}."]
    return _certificate(horizon, "tau", conditions, delay, last, theorem, notes)


def _by_rounds(horizon: Horizon, d: int, theorem: Theorem | None) -> ScheduleCertificate:
    window = horizon.windows(d)
    worst = int(np.argmax(window))
    delay, at = int(window[worst]), int(horizon.sums[worst + 1])
    notes = [
        "Waiting by rounds is always live: a client that is behind never waits.",
        f"The run is consistent with a delay of {delay:,}, reached in round {worst}, which ends at t = {at:,}.",
    ]
    if at >= 8:
        grows = math.sqrt(at / math.log(at))
        notes.append(f"The strongly convex theory lets delays grow like sqrt(t / ln t), which is {grows:.1f} there.")
    conditions = []
    if theorem is not None:
        conditions.append(_within(horizon.rounds_ahead(theorem.tau, d), f"{d + 1} rounds"))
    return _certificate(horizon, "d", conditions, delay, at, theorem, notes)


def _certificate(
    horizon: Horizon,
    rule: str,
    conditions: list[ScheduleCondition],
    delay: int,
    at: int,
    theorem: Theorem | None,
    notes: list[str],
) -> ScheduleCertificate:
    allows, rounds, gradients = None, len(horizon.sums) - 1, int(horizon.sums[-1])
    if theorem is not None:
        allows = theorem.tau(at)
        beyond = f"The theorem allows {show(allows)} there: the run goes beyond it, and its rate is not promised."
        notes += theorem.notes(gradients) if conditions[-1].holds else [beyond]
    return ScheduleCertificate(rounds, gradients, rule, tuple(conditions), delay, allows, tuple(notes), at, theorem)


def _within(sides: Sides, what: str) -> ScheduleCondition:
    return _condition(
        WITHIN, sides, lambda i, sign: f"theorem {show(sides.left[i])} {sign} {what} {show(sides.right[i])}"
    )


def _checked_liveness(horizon: Horizon, tau: Delay, d: int | None) -> ScheduleCondition:
    sides = horizon.liveness(tau)
    found = _condition(
        LIVENESS,
        sides,
        lambda k, sign: (
            f"tau({horizon.sums[k + 1] - 2}) = {show(sides.left[k])} {sign} s_{k} - 1 = {show(sides.right[k])}"
        ),
    )
    if not found.holds:
        start, size = (int(horizon.sums[sides.place + shift]) for shift in (0, 1))
        fits = _largest(lambda n: tau(start + n - 2) > n - 1, size - start)
        raise ScheduleRefused(found, delay=_lift(horizon, tau, d), size=fits)
    return found


def _checked_ahead(horizon: Horizon, tau: Delay, d: int) -> ScheduleCondition:
    sides = horizon.rounds_ahead(tau, d)
    found = _condition(
        f"d = {d} rounds ahead",
        sides,
        lambda i, sign: (
            f"tau({horizon.sums[i + 1]}) = {show(sides.left[i])} {sign} s_{max(0, i - d)} + ... + s_{i} = {show(sides.right[i])}"
        ),
    )
    if not found.holds:
        i = sides.place
        start, end, since = int(horizon.sums[i]), int(horizon.sums[i + 1]), int(horizon.sums[max(0, i - d)])
        fits = _largest(lambda n: tau(start + n) >= start + n - since, end - start)
        lower = _largest(lambda ahead: bool(horizon.rounds_ahead(tau, ahead - 1).holds.all()), d)
        raise ScheduleRefused(found, _lift(horizon, tau, d), fits, None if lower is None else lower - 1)
    return found


def _condition(name: str, sides: Sides, says: Callable[[int, str], str]) -> ScheduleCondition:
    place, holds = sides.place, bool(sides.holds.all())
    signs = (">", "<=") if sides.strict else (">=", "<")
    left, right = float(sides.left[place]), float(sides.right[place])
    return ScheduleCondition(name, place, left, right, signs[0], holds, says(place, signs[not holds]))


def _largest(passes: Callable[[int], bool], most: int) -> int | None:
    """Return the largest n in 1 .. most that passes, for a test monotone in n; None if even 1 fails."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low or None


def _lift(horizon: Horizon, tau: Delay, d: int | None) -> Delay:
    """Return the delay raised just enough to meet every required condition."""

    def asked(delay: Delay) -> list[Sides]:
        return [horizon.liveness(delay)] + ([] if d is None else [horizon.rounds_ahead(delay, d)])

    by = max(sides.short_of for sides in asked(tau))
    extra = 0.0
    while True:  # liveness is strict and sums are rounded, so the first try may just miss
        lifted = tau.lifted(by + extra)
        if all(sides.holds.all() for sides in asked(lifted)):
            return lifted
        extra = max(2 * extra, 0.001, by * 2.0**-50)
