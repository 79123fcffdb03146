"""From a budget to a schedule: sizes, rounds and noise, with the privacy events they will cause beside them.

`tight` finds the least noise under the tight accountant for a staircase that follows N q (i+m)^p. Among the schedules
the request leaves open it takes the least aggregated noise sqrt(T) sigma. `paper` follows the paper's parameter selection.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from crescendo.errors import UsageError
from crescendo.privacy.accountant import Progress, account
from crescendo.privacy.events import Counted, to_json
from crescendo.privacy.recipe import Recipe, Request, paper_recipe
from crescendo.privacy.search import Budget, Delay, checked, flat, rounded_up, schedule
from crescendo.privacy.staircase import Curve, Staircase, events_of, per_round

MAX_SHARE = 0.046
"""The share of a client's records in one round that Example 3 allows: r0/sigma = 1/(8e)."""
_CURVE_POINTS = 6


@dataclass(frozen=True)
class Sizes:
    """N q (i+m)^p with rounds i from 0, and the first and last size of the steps that follow it."""

    q: float
    m: float
    p: float
    first: int
    last: int


@dataclass(frozen=True)
class Point:
    """One constant size: the largest share of the records in a round, and what it takes."""

    size: int
    share: float
    rounds: int
    sigma: float
    aggregated_noise: float


@dataclass(frozen=True)
class Plan:
    """A schedule for one client and what it costs. ``epsilon`` is the tight one, never above what was asked for."""

    sizes: Sizes
    staircase: Staircase
    rounds: int
    sigma: float
    aggregated_noise: float
    epsilon: float
    delta: float
    method: str
    records: int
    gradients: int
    compared_to: dict[str, dict[str, Any]] = field(default_factory=dict)
    curve: tuple[Point, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def events(self) -> Counted:
        """What a client that follows the plan will release."""
        return events_of(self.staircase, self.records, self.sigma)

    @property
    def per_round(self) -> tuple[int, ...]:
        """The size of each round."""
        return per_round(self.staircase)

    def to_json(self) -> dict[str, Any]:
        """Plain data, the events included."""
        return {**asdict(self), "events": to_json(self.events)}

    def __str__(self) -> str:
        head = (
            f"{self.rounds:,} rounds of {self.sizes.first:,} to {self.sizes.last:,} out of {self.records:,} records, "
            f"sigma {self.sigma:g}, aggregated noise {self.aggregated_noise:.4g}: "
            f"epsilon {self.epsilon:.4g} at delta {self.delta:g}"
        )
        table = [
            f"  share {point.share:<7.3g} rounds {point.rounds:<7,} sigma {point.sigma:<8.4g} noise {point.aggregated_noise:.4g}"
            for point in self.curve
        ]
        return "\n".join([head, *(["constant sizes:", *table] if table else []), *self.notes])


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
    compare: bool = True,
    progress: Progress | None = None,
) -> Plan:
    """Choose sizes, rounds and noise for one client's (epsilon, delta), records and gradients.

    The search is under ``rounds`` if given, else under ``max_share`` (.046), the largest share of the records in one round; given
    both, both hold. ``delay`` says whether a schedule's delay condition holds. ``r0`` is for ``method="paper"``.

    >>> found = plan(1, 1e-5, 1000, 2000, rounds=40, compare=False)
    >>> found.sizes, found.rounds, round(found.sigma, 2), found.epsilon <= 1
    (Sizes(q=0.05, m=0.0, p=0.0, first=50, last=50), 40, 1.59, True)
    """
    budget = checked(epsilon, delta, records, gradients, first_size, power, rounds, max_share)
    if method not in ("tight", "paper"):
        raise UsageError(f"the method must be 'tight' or 'paper', got {method!r}")
    if r0 is not None and not 0 < r0 <= 1 / math.e:
        raise UsageError(f"r0 must lie above 0 and at most 1/e = {1 / math.e:.6f}, got {r0:g}")
    share = max_share if max_share is not None else (MAX_SHARE if rounds is None else 1.0)
    steps = _Steps(progress, 3 + _CURVE_POINTS if compare else 1)
    if method == "paper":
        made = _by_paper(budget, first_size, power, r0)
    else:
        curve, stairs = schedule(budget, first_size, power, rounds, int(share * records + 1e-9), delay)
        made = _made(budget, curve, stairs, budget.sigma(stairs), "tight")
    steps.step()
    if not compare:
        return made
    compared_to = {
        "constant": _constant(budget, made.sizes.first),
        "paper": _paper_row(budget, made.sizes.first, made.sizes.p or 1.0, r0),
    }
    steps.step(2)
    points = []
    for size in _curve_sizes(made, int(share * records + 1e-9)):
        points.append(_point(budget, size))
        steps.step()
    notes = _notes(made, first_size, delay)
    return Plan(**{**made.__dict__, "compared_to": compared_to, "curve": tuple(points), "notes": notes})


def _made(budget: Budget, curve: Curve, stairs: Staircase, sigma: float, method: str) -> Plan:
    spent = account(events_of(stairs, budget.records, sigma), budget.delta)
    assert spent.epsilon <= budget.epsilon
    return Plan(
        sizes=Sizes(curve.scale / budget.records, curve.m, curve.p, stairs[0][0], stairs[-1][0]),
        staircase=stairs,
        rounds=curve.rounds,
        sigma=sigma,
        aggregated_noise=math.sqrt(curve.rounds) * sigma,
        epsilon=spent.epsilon,
        delta=budget.delta,
        method=method,
        records=budget.records,
        gradients=budget.gradients,
    )


def _by_paper(budget: Budget, first: int | None, power: float | None, r0: float | None) -> Plan:
    if first is None:
        raise UsageError("the paper's procedure starts from a first size; give one, for example 16")
    found = _recipe(budget, first, 1.0 if power is None else power, r0)
    stairs, curve = flat(first, budget.gradients), Curve(float(first), 0.0, 0.0, math.ceil(budget.gradients / first))
    if found.p > 0:
        curve = Curve.through(first, found.p, min(found.rounds, budget.gradients // first), budget.gradients)
        stairs = curve.steps(budget.gradients)
    sigma = rounded_up(found.sigma)
    if account(events_of(stairs, budget.records, sigma), budget.delta).epsilon > budget.epsilon:
        raise UsageError(
            "the paper's procedure claims more than the tight accountant confirms; plan with the tight method"
        )
    return _made(budget, curve, stairs, sigma, "paper")


def _recipe(budget: Budget, first: int, power: float, r0: float | None) -> Recipe:
    return paper_recipe(Request(budget.epsilon, budget.delta, budget.records, budget.gradients, first, power, r0))


def compared(epsilon: float, delta: float, records: int, gradients: int, first_size: int) -> dict[str, dict[str, Any]]:
    """What a budget takes with constant rounds of ``first_size``, and by the paper's recipe from it."""
    budget = checked(epsilon, delta, records, gradients, first_size, None, None, None)
    return {"constant": _constant(budget, first_size), "paper": _paper_row(budget, first_size, 1.0, None)}


def _constant(budget: Budget, size: int) -> dict[str, Any]:
    point = _point(budget, size)
    return {key: value for key, value in asdict(point).items() if key != "share"}


def _paper_row(budget: Budget, first: int, power: float, r0: float | None) -> dict[str, Any]:
    try:
        found = _recipe(budget, first, power, r0)
    except UsageError as error:
        return {"why": str(error)}
    noise = {"rounds": found.rounds, "sigma": found.sigma, "aggregated_noise": found.aggregated_noise}
    return {"q": found.q, "m": found.m, "p": found.p, **noise}


def _point(budget: Budget, size: int) -> Point:
    stairs = flat(size, budget.gradients)
    count, sigma = sum(n for _, n in stairs), budget.sigma(stairs, 0.004)
    return Point(size, size / budget.records, count, sigma, math.sqrt(count) * sigma)


def _curve_sizes(made: Plan, cap: int) -> list[int]:
    """From a sixteenth of the cap, or the first size if smaller, to the cap, in even ratios."""
    cap = min(cap, made.gradients)
    low = max(1, min(made.sizes.first, cap // 16))
    return sorted({round(low * (cap / low) ** (j / (_CURVE_POINTS - 1))) for j in range(_CURVE_POINTS)})


def _notes(made: Plan, first: int | None, delay: Delay | None) -> tuple[str, ...]:
    notes = [
        "At equal gradients, fewer and larger rounds lower the aggregated noise while the noise of each round rises.",
        "At an equal number of rounds, constant sizes need no more noise than growing ones.",
    ]
    if first is None and delay is None:
        notes.append(
            "Without a first size or a delay condition, constant sizes as large as allowed are best, as the curve shows."
        )
    else:
        notes.append("Growing sizes pay for a small start: quick early progress, and few rounds later.")
    return tuple(notes)


class _Steps:
    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def step(self, count: int = 1) -> None:
        self._done = min(self._total, self._done + count)
        if self._progress is not None:
            self._progress(self._done, self._total)
