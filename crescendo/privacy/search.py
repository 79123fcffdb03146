"""The schedules a request leaves open, and the one of them with the least aggregated noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from crescendo.errors import UsageError
from crescendo.privacy.accountant import account, check_delta
from crescendo.privacy.calibrate import least_sigma
from crescendo.privacy.staircase import Curve, Staircase, events_of, fewest_rounds, per_round

Delay: TypeAlias = Callable[[tuple[int, ...]], bool]
"""A schedule's delay condition: may a client run these sizes, round by round?"""

POWERS = (0.5, 0.75, 1.0, 1.5, 2.0)
"""What a free power is chosen from. Below 1/2 the sizes jump from the first to the largest at once."""
MOST_EPSILON = 100.0


@dataclass(frozen=True)
class Budget:
    """The part of a request that every schedule is measured by."""

    epsilon: float
    delta: float
    records: int
    gradients: int

    def sigma(self, stairs: Staircase, rtol: float = 0.001) -> float:
        """The least noise under the tight accountant, from the one under the quick accountant."""
        start = self.quick_sigma(stairs)
        sigma = rounded_up(least_sigma(lambda s: self._spent(stairs, s, False), self.epsilon, start, rtol))
        while self._spent(stairs, sigma, False) > self.epsilon:  # a step of the accountant's grid may lie in between
            sigma = rounded_up(1.0005 * sigma)
        return sigma

    def quick_sigma(self, stairs: Staircase) -> float:
        """The noise under the quick accountant, or, of an epsilon too small for it, what a plain Gaussian would need."""
        try:
            return least_sigma(lambda s: self._spent(stairs, s, True), self.epsilon, 1.0, 0.02)
        except UsageError:
            energy = sum(rounds * (size / self.records) ** 2 for size, rounds in stairs)
            return math.sqrt(2 * energy * (math.log(1.25) - math.log(self.delta))) / self.epsilon

    def _spent(self, stairs: Staircase, sigma: float, quick: bool) -> float:
        return account(events_of(stairs, self.records, sigma), self.delta, quick=quick, state_error=False).epsilon


def checked(epsilon: float, delta: float, records: int, gradients: int, *rest: float | None) -> Budget:
    check_delta(delta)
    if not 0 < epsilon <= MOST_EPSILON:
        raise UsageError(f"epsilon must lie above 0 and at most {MOST_EPSILON:g}, got {epsilon:g}")
    first_size, power, rounds, max_share = rest
    for name, value in (("records", records), ("gradients", gradients), ("first size", first_size), ("rounds", rounds)):
        if value is not None and (isinstance(value, bool) or not 1 <= value < math.inf or value != int(value)):
            raise UsageError(f"the {name} must be a whole number, 1 or more, got {value}")
    if power is not None and not 0 <= power <= 8:
        raise UsageError(f"the power must lie between 0 and 8, got {power:g}")
    if max_share is not None and not 0 < max_share <= 1:
        raise UsageError(f"the largest share of a round must lie above 0 and at most 1, got {max_share:g}")
    return Budget(float(epsilon), float(delta), int(records), int(gradients))


def schedule(
    budget: Budget, first: int | None, power: float | None, rounds: int | None, cap: int, delay: Delay | None
) -> tuple[Curve, Staircase]:
    """The schedule with the least aggregated noise among those the request leaves open, ranked by the quick accountant."""
    if power != 0 or first is None:
        _check_possible(budget, first, rounds, cap)
    else:  # how many rounds a constant size takes is known; another number is answered with it
        _check_possible(budget, first, None, cap)
    found = [pair for p in _powers(first, power) if (pair := _fit(budget, first, p, rounds, cap, delay)) is not None]
    if not found and power is None and (constant := _fit(budget, first, 0.0, rounds, cap, delay)) is not None:
        return constant  # a first size at the cap leaves no room to grow
    if not found:
        raise UsageError(_why_none(budget, first, power, rounds, cap, delay))
    if len(found) == 1:
        return found[0]
    return min(found, key=lambda pair: math.sqrt(pair[0].rounds) * budget.quick_sigma(pair[1]))


def _fit(
    budget: Budget, first: int | None, power: float, rounds: int | None, cap: int, delay: Delay | None
) -> tuple[Curve, Staircase] | None:
    """The fewest rounds whose sizes stay under the cap and meet the delay condition."""

    def steps(count: int) -> tuple[Curve, Staircase]:
        curve = Curve.through(first, power, count, budget.gradients)
        return curve, curve.steps(budget.gradients)

    def fits(count: int) -> bool:
        stairs = steps(count)[1]
        return stairs[-1][0] <= cap and (delay is None or delay(per_round(stairs)))

    if power == 0 and first is not None:  # every round has the first size, the last what is left
        stairs = flat(first, budget.gradients)
        count = sum(n for _, n in stairs)
        good = rounds in (None, count) and first <= cap and (delay is None or delay(per_round(stairs)))
        return (Curve(float(first), 0.0, 0.0, count), stairs) if good else None
    if rounds is not None:
        return steps(rounds) if fits(rounds) else None
    least, most = max(1, math.ceil(budget.gradients / cap)), budget.gradients // (first or 1)
    fewest = fewest_rounds(fits, least, most)
    return None if fewest is None else steps(fewest)


def _check_possible(budget: Budget, first: int | None, rounds: int | None, cap: int) -> None:
    """Refuse what no power can mend, with the nearest value that would work."""
    most, n = budget.gradients, budget.records
    if cap < 1:
        raise UsageError(f"no round may have a whole record; allow a share of at least {1 / n:.3g}")
    if first is not None and first > cap:
        raise UsageError(
            f"a first size of {first:,} is over the {cap:,} records allowed in a round; start with {cap:,} or less"
        )
    if first is not None and first > most:
        raise UsageError(f"a first size of {first:,} is more than all {most:,} gradients; start with {most:,} or less")
    if rounds is not None and rounds * cap < most:
        least = math.ceil(most / cap)
        raise UsageError(
            f"{rounds:,} rounds of at most {cap:,} records cannot compute {most:,} gradients; take {least:,} rounds or more"
        )
    if rounds is not None and rounds * (first or 1) > most:
        fewer = most // (first or 1)
        raise UsageError(
            f"{rounds:,} rounds of at least {first or 1:,} are more than {most:,} gradients; take {fewer:,} rounds or fewer"
        )


def _why_none(
    budget: Budget, first: int | None, power: float | None, rounds: int | None, cap: int, delay: Delay | None
) -> str:
    if delay is not None and _fit_any(budget, first, power, rounds, cap):
        return "no schedule for this request meets the delay condition; start with a smaller first size or allow a larger delay"
    if power == 0 and first is not None:
        count = math.ceil(budget.gradients / first)
        return f"constant rounds of {first:,} take {count:,} rounds for {budget.gradients:,} gradients; ask for {count:,} rounds"
    if rounds is None:  # without a power the constant schedule would fit
        return (
            f"no sizes of power {power or 0:g} begin with {first or 1:,}, stay within {cap:,} and add up to "
            f"{budget.gradients:,} gradients; start with a smaller first size, allow a larger share or take power 0"
        )
    last, p = min(
        (Curve.through(first, p, rounds, budget.gradients).steps(budget.gradients)[-1][0], p)
        for p in _powers(first, power)
    )
    share = math.ceil(last / budget.records * 1e4) / 1e4
    more = _fit(budget, first, p, None, cap, delay)
    ways = [f"allow a share of {share:g}"] if share <= 1 else []
    ways += [f"take {more[0].rounds:,} rounds"] if more is not None else []
    return f"{rounds:,} rounds would end with {last:,} of {budget.records:,} records, over the {cap:,} allowed; " + (
        " or ".join(ways) or "start with a smaller first size"
    )


def _fit_any(budget: Budget, first: int | None, power: float | None, rounds: int | None, cap: int) -> bool:
    return any(_fit(budget, first, p, rounds, cap, None) is not None for p in _powers(first, power))


def _powers(first: int | None, power: float | None) -> tuple[float, ...]:
    """Without a first size, constant sizes are best, at a given number of rounds as under a cap."""
    if power is not None:
        return (power,)
    return (0.0,) if first is None else POWERS


def flat(size: int, gradients: int) -> Staircase:
    whole, rest = divmod(gradients, size)
    return tuple((s, n) for s, n in ((size, whole), (rest, 1)) if s and n)


def rounded_up(sigma: float) -> float:
    """To five digits, never down."""
    scale = 10.0 ** (4 - math.floor(math.log10(sigma)))
    return math.ceil(sigma * scale) / scale
