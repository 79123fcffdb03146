"""The member of the family with the least aggregated noise.

At equal gradients, fewer rounds lower the noise over all rounds, and even sizes lower it further. So the search starts from even
sizes in the fewest rounds (after a first size, if there is one). A small first round has the noise of a large one, which costs a
share of about 1/(2T): where epsilon is small, more rounds pay for that, and the fewest rounds within 0.25% of the least noise are
taken. Powers and two levels are taken instead where the tight accountant finds less noise for them; whether they may is asked of
the quick accountant first, at the noise where both tie. `dp/tests/brute_force.py` searches the same by brute force.
"""

import bisect
import math
from dataclasses import replace

from crescendo_dp.errors import UsageError
from crescendo_dp.planning.family import MANY_POWERS, POWERS, Limits, Member
from crescendo_dp.planning.levels import two_levels
from crescendo_dp.planning.staircase import Curve
from crescendo_dp.planning.target import Target

_NEAR = 1.0025  # fewer rounds are worth this much of the least noise
_STRIDE = 1.4  # between the numbers of rounds that are tried first


def choose(target: Target, limits: Limits, by_round: bool = False) -> tuple[Member, float]:
    """The member with the least aggregated noise and its sigma; UsageError where the request leaves none open.

    Where noise may differ ``by_round``, a small round has little noise, and no more rounds are wanted for its sake.
    """
    found = _members(target, limits)
    best, sigma = found[0], target.sigma(found[0].stairs)
    if best.shape == "step" and limits.rounds is None and limits.delay is None and not by_round:
        best, sigma = _more_rounds(target, limits, best, sigma)
    for other in found[1:]:
        if _beats(target, other, best, sigma):
            best, sigma = other, target.sigma(other.stairs)
    if limits.power is None and (levels := two_levels(target, limits, best, sigma)) is not None:
        better = target.sigma(levels.stairs, start=sigma)
        best, sigma = (levels, better) if better < sigma else (best, sigma)
    return best, sigma


def _members(target: Target, limits: Limits) -> list[Member]:
    """All but two levels, even sizes in the fewest rounds first; UsageError if there is none, with values that would work."""
    _check_possible(target, limits)
    found = _simple(target, limits)
    if not found:
        raise UsageError(_why_none(target, limits))
    return found


def compared_members(target: Target, limits: Limits) -> list[Member]:
    """Return the comparisons of a plan: the step, the powers and the constant size that the request leaves open."""
    loose = replace(limits, power=None)
    found = _simple(target, loose, POWERS)
    level = loose.constant(target.gradients, target.records)
    if level is not None and all(level.stairs != one.stairs for one in found):
        found.append(level)
    return found


def _simple(target: Target, limits: Limits, powers: tuple[float, ...] | None = None) -> list[Member]:
    """All but two levels, even sizes in the fewest rounds first."""
    numbers = target.gradients, target.records
    if limits.power is not None:
        flat = limits.power == 0
        only = limits.constant(*numbers) if flat else limits.of_power(*numbers, limits.power)
        return [only] if only is not None else []
    if limits.first is None:
        level = limits.constant(*numbers)
        return [level] if level is not None else []
    tried = powers or (MANY_POWERS if limits.delay is not None else POWERS)
    members = [limits.step(*numbers), *(limits.of_power(*numbers, p) for p in tried)]
    grown = {one.stairs: one for one in reversed(members) if one is not None}
    return sorted(grown.values(), key=lambda one: (one.rounds, one.p))


def _more_rounds(target: Target, limits: Limits, fewest: Member, sigma: float) -> tuple[Member, float]:
    """One step in the fewest rounds whose aggregated noise is within 0.25% of the least; it falls, then rises with the rounds.

    At the noise where it would tie with ``fewest``, the distance of epsilon from its target gives the noise, to well under 0.1%.
    """
    assert limits.first is not None
    least = math.sqrt(fewest.rounds) * sigma
    noise, members = {fewest.rounds: least}, {fewest.rounds: fewest}

    def priced(rounds: int) -> float:
        if rounds not in noise:
            member = replace(limits, rounds=rounds).step(target.gradients, target.records)
            assert member is not None
            tie = least / math.sqrt(rounds)
            noise[rounds] = least * (target.spent(member.stairs, tie) / target.epsilon) ** (
                1 / target.slope(member.stairs, tie)
            )
            members[rounds] = member
        return noise[rounds]

    best = fewest.rounds
    while (more := math.ceil(_STRIDE * best)) * limits.first <= target.gradients and priced(more) < noise[best]:
        best = more
    enough = _NEAR * min(noise.values())
    more = bisect.bisect_left(range(fewest.rounds, best), True, key=lambda rounds: priced(rounds) <= enough)
    if not more:
        return fewest, sigma
    rounds = fewest.rounds + more
    return members[rounds], target.sigma(members[rounds].stairs, start=noise[rounds] / math.sqrt(rounds))


def _beats(target: Target, one: Member, best: Member, sigma: float) -> bool:
    """Does it reach the target with less aggregated noise than ``best`` has with ``sigma``?"""
    tie = sigma * math.sqrt(best.rounds / one.rounds)
    if target.spent(one.stairs, tie, quick=True) >= target.spent(best.stairs, sigma, quick=True):
        return False
    return target.spent(one.stairs, tie) < target.spent(best.stairs, sigma)


def _check_possible(target: Target, limits: Limits) -> None:
    """Refuse limits that no member meets, with the nearest value that would work."""
    most, n, first, rounds, cap = target.gradients, target.records, limits.first, limits.rounds, limits.cap
    if cap < 1:
        if n == 1:
            raise UsageError("one record is too few: a round draws a part of the records; plan for 2 or more")
        raise UsageError(
            f"the share of the {n:,} records that a round may have is less than one record; allow {1 / n:.3g} or more"
        )
    if first is not None and first > cap:
        raise UsageError(
            f"a first size of {first:,} is over the {cap:,} records allowed in a round; start with {cap:,} or less"
        )
    if first is not None and first > most:
        raise UsageError(f"a first size of {first:,} is more than all {most:,} gradients; start with {most:,} or less")
    if rounds is None or (limits.power == 0 and first is not None):
        return  # how many rounds a constant size takes is known; another number is answered with it
    if rounds * cap < most:
        least = math.ceil(most / cap)
        raise UsageError(
            f"{rounds:,} rounds of at most {cap:,} records cannot compute {most:,} gradients; take {least:,} rounds or more"
        )
    if rounds == 1 and first not in (None, most):
        raise UsageError(f"one round has all {most:,} gradients, not {first:,}; take 2 rounds or more")
    if rounds * (first or 1) > most:
        fewer = most // (first or 1)
        raise UsageError(
            f"{rounds:,} rounds of at least {first or 1:,} are more than {most:,} gradients; take {fewer:,} rounds or fewer"
        )


def _why_none(target: Target, limits: Limits) -> str:
    first, power, rounds, cap = limits.first, limits.power, limits.rounds, limits.cap
    if limits.delay is not None and _simple(target, replace(limits, delay=None)):
        return "no schedule for this request meets the delay condition; start with a smaller first size or allow a larger delay"
    if power == 0 and first is not None:
        count = math.ceil(target.gradients / first)
        return f"constant rounds of {first:,} take {count:,} rounds for {target.gradients:,} gradients; ask for {count:,} rounds"
    if rounds is None:  # without a power one step would fit
        return (
            f"no sizes of power {power or 0:g} begin with {first or 1:,}, stay within {cap:,} and add up to "
            f"{target.gradients:,} gradients; start with a smaller first size, allow a larger share or take power 0"
        )
    if power is None and first is not None:  # one step, the most even of all
        last = math.ceil((target.gradients - first) / max(1, rounds - 1))
    else:
        last = Curve.through(first, power or 0.0, rounds, target.gradients).steps(target.gradients)[-1][0]
    share = math.ceil(last / target.records * 1e4) / 1e4
    more = _simple(target, replace(limits, rounds=None))
    ways = [f"allow a share of {share:g}"] if share <= 1 and rounds > 1 else []
    ways += [f"take {more[0].rounds:,} rounds"] if more else []
    return f"{rounds:,} rounds would end with {last:,} of {target.records:,} records, over the {cap:,} allowed; " + (
        " or ".join(ways) or "start with a smaller first size"
    )
