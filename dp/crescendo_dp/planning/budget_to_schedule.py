"""From a budget to a schedule: sizes, rounds and noise, with the privacy events that they will cause.

`tight` takes, of the family of schedules that the request leaves open (`family`), the one with the least aggregated noise under
the tight accountant: sqrt(T) sigma, or the root of the sum of sigma_i^2 where noise may differ by round. `paper` follows the
paper's parameter selection.
"""

import math
from dataclasses import replace
from typing import Literal

from crescendo_dp.accounting.epsilon import Progress, account
from crescendo_dp.directed_rounding import noise_up
from crescendo_dp.errors import UsageError
from crescendo_dp.planning.by_round import spread
from crescendo_dp.planning.comparison import CURVE_POINTS, Alternative, alternatives, compared, curve
from crescendo_dp.planning.family import POWERS, Delay, Limits, Member
from crescendo_dp.planning.schedule import Plan, PlannedSizes
from crescendo_dp.planning.search import choose
from crescendo_dp.planning.sigmas import Sigmas
from crescendo_dp.planning.staircase import Curve, Staircase
from crescendo_dp.planning.target import Target

_MAX_SHARE = 0.046
"""The share of a client's records in one round that Example 3 allows: r0/sigma = 1/(8e)."""


def plan(
    epsilon: float,
    delta: float,
    records: int,
    gradients: int,
    first_size: int | None = None,
    power: float | None = None,
    rounds: int | None = None,
    max_share: float | None = None,
    method: Literal["tight", "paper"] = "tight",
    *,
    r0: float | None = None,
    delay: Delay | None = None,
    sigma_by_round: bool = False,
    compare: bool = True,
    progress: Progress | None = None,
) -> Plan:
    """Choose sizes, rounds and noise for one client's (epsilon, delta), records and gradients.

    The search is under ``rounds`` if given, else under ``max_share`` (0.046), the largest share of the records in one round;
    given both, both hold. ``power`` leaves only sizes of that power open. ``delay`` decides whether a schedule's delay
    condition holds. ``r0`` is for ``method="paper"``. ``sigma_by_round`` lets noise differ from one size to the next. With
    ``compare`` the rest of the family and constant sizes are priced too.

    >>> found = plan(1, 1e-5, 1000, 2000, rounds=40, compare=False)
    >>> found.sizes, found.rounds, f"{found.sigma:.3g}", found.epsilon <= 1
    (PlannedSizes(shape='constant', q=0.05, m=0.0, p=0.0, first=50, last=50), 40, '1.59', True)
    """
    target = Target.checked(epsilon, delta, records, gradients, first_size, power, rounds, max_share)
    if method not in ("tight", "paper"):
        raise UsageError(f"the method must be 'tight' or 'paper', got {method!r}")
    if r0 is not None and not 0 < r0 <= 1 / math.e:
        raise UsageError(f"r0 must lie above 0 and at most 1/e = {1 / math.e:.6f}, got {r0:g}")
    share = max_share if max_share is not None else (_MAX_SHARE if rounds is None else 1.0)
    limits = Limits(first_size, power, rounds, int(share * records + 1e-9), delay)
    if method == "paper" and sigma_by_round:
        raise UsageError("the paper's procedure has one sigma; plan noise by round with the tight method")
    steps = _Steps(progress, 6 + len(POWERS) + CURVE_POINTS if compare else 1)
    member, sigma = (
        _by_paper(target, first_size, power, r0) if method == "paper" else choose(target, limits, sigma_by_round)
    )
    noise = spread(target, member.stairs, sigma) if sigma_by_round else Sigmas.constant(sigma)
    made = _made(target, member, noise, method)
    steps.step()
    if not compare:
        return made
    rest = []
    for one in alternatives(target, limits, sigma_by_round, sigma / target.quick_sigma(member.stairs)):
        rest.append(one)
        steps.step()
    own = Alternative.of(member, noise, "the paper's procedure" if method == "paper" else "", chosen=True)
    better = None if sigma_by_round or method == "paper" else spread(target, member.stairs, sigma)
    steps.step()
    points = []
    for point in curve(target, made.sizes.first, limits.cap):
        points.append(point)
        steps.step()
    compared_to = compared(target, made.sizes.first, made.sizes.p or 1.0, r0)
    steps.end()
    found = replace(made, family=_family(own, rest), compared_to=compared_to, curve=tuple(points))
    return found.with_notes(limits, better)


def _made(target: Target, member: Member, sigma: Sigmas, method: str) -> Plan:
    stairs = member.stairs
    plan = Plan(
        sizes=PlannedSizes(member.shape, member.q, member.m, member.p, stairs[0][0], stairs[-1][0]),
        staircase=stairs,
        rounds=member.rounds,
        sigma=sigma,
        aggregated_noise=sigma.aggregated(member.rounds),
        epsilon=math.inf,
        delta=target.delta,
        method=method,
        records=target.records,
        gradients=target.gradients,
    )
    spent = account(plan.events, target.delta)
    assert spent.epsilon <= target.epsilon
    return replace(plan, epsilon=spent.epsilon)


def _by_paper(target: Target, first: int | None, power: float | None, r0: float | None) -> tuple[Member, float]:
    if first is None:
        raise UsageError("the paper's procedure starts from a first size; give one, for example 16")
    found = target.by_paper(first, 1.0 if power is None else power, r0)
    member = Member("constant", Staircase.flat(first, target.gradients), first / target.records)
    if found.p > 0:
        followed = Curve.through(first, found.p, min(found.rounds, target.gradients // first), target.gradients)
        stairs = followed.steps(target.gradients)
        member = Member("power", stairs, followed.scale / target.records, followed.m, followed.p)
    sigma = noise_up(found.sigma)
    if target.spent(member.stairs, sigma) > target.epsilon:
        raise UsageError(
            "the paper's procedure claims more than the tight accountant confirms; plan with the tight method"
        )
    return member, sigma


def _family(own: Alternative, rest: list[Alternative]) -> tuple[Alternative, ...]:
    """The plan and its alternatives, the least aggregated noise first; the plan's own row has its own numbers."""
    others = [one for one in rest if (one.name, one.rounds, one.last) != (own.name, own.rounds, own.last)]
    return tuple(sorted([own, *others], key=lambda one: (one.aggregated_noise, not one.chosen)))


class _Steps:
    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def step(self, count: int = 1) -> None:
        self._done = min(self._total, self._done + count)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def end(self) -> None:
        self.step(self._total)
