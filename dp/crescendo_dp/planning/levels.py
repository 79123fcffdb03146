"""Two levels: small rounds, then rounds at the cap, where these need less noise than even sizes in as many rounds.

At rates near 1, or at a large epsilon, a round costs about the logarithm of its rate: a concave function, of which few large
arguments and many small ones have the least sum. Small rates cost about their squares, which are convex. A sum of such functions
is least where all arguments but one lie at one common value, at the least or at the largest allowed, so the schedules searched
have that form: even small rounds, at most one round between, and the others at the cap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from crescendo_dp.planning.family import Limits, Member
from crescendo_dp.planning.staircase import Staircase
from crescendo_dp.planning.target import Target

_WORTH = 0.999  # of epsilon at equal noise: what is nearer to even sizes is not worth a second level
_HEIGHTS = (0.25, 0.5, 0.75, 1.0)


def two_levels(target: Target, limits: Limits, base: Member, sigma: float) -> Member | None:
    """The best with the rounds of ``base``, which needs ``sigma``; None unless its epsilon at that noise is lower.

    The quick accountant makes schedules like these look better than they are, never worse, so a schedule that it does not
    prefer is left out; the tight one decides.
    """
    room = _Room.of(target.gradients, base.rounds, limits)
    if room.rounds < 2:
        return None
    plain, quick = target.spent(base.stairs, sigma), target.spent(base.stairs, sigma, quick=True)
    found: dict[Staircase, float] = {}

    def cost(stairs: Staircase | None) -> float:
        if stairs is None or not limits.allow(stairs):
            return math.inf
        if stairs not in found:
            promising = target.spent(stairs, sigma, quick=True) < _WORTH * quick
            found[stairs] = target.spent(stairs, sigma) if promising else math.inf
        return found[stairs]

    counts = room.counts()
    tall = min(counts, key=lambda count: min(cost(stairs) for stairs in room.coarse(count)))
    if min(found.values(), default=math.inf) < math.inf:
        room.refine(cost, counts, tall)
    best = min(found, key=lambda stairs: found[stairs], default=None)
    if best is None or found[best] >= _WORTH * plain:
        return None
    return Member("levels", best, best[-1][0] / target.records)


class _Room:
    """The schedules with ``tall`` rounds at the cap, at most one of ``between`` and the others even."""

    def __init__(self, head: tuple[tuple[int, int], ...], gradients: int, rounds: int, least: int, cap: int) -> None:
        self.head, self.gradients, self.rounds, self.least, self.cap = head, gradients, rounds, least, cap
        self.most = min(rounds - 1, max(0, gradients - rounds * least) // max(1, cap - least))

    @classmethod
    def of(cls, gradients: int, rounds: int, limits: Limits) -> _Room:
        if limits.first is None:
            return cls((), gradients, rounds, 1, limits.cap)
        return cls(((limits.first, 1),), gradients - limits.first, rounds - 1, limits.first, limits.cap)

    def stairs(self, tall: int, height: float = 0.0) -> Staircase | None:
        """``height`` from 0 to 1: where the round between lies, on a logarithmic scale from even to the most that fits."""
        rest, rounds = self.gradients - tall * self.cap, self.rounds - tall
        if rounds < 1 or rest < rounds * self.least:
            return None
        if not height or rounds < 2:
            return Staircase.merged([*self.head, *Staircase.even(rest, rounds), (self.cap, tall)])
        low, high = rest / rounds, min(self.cap, rest - (rounds - 1) * self.least)
        between = min(high, max(round(low), round(low * (high / low) ** height)))
        return Staircase.merged(
            [*self.head, *Staircase.even(rest - between, rounds - 1), (between, 1), (self.cap, tall)]
        )

    def counts(self) -> list[int]:
        """How many rounds are tall: none, powers of two, as many as fit."""
        return sorted({0, self.most, *(1 << j for j in range(self.most.bit_length()))})

    def coarse(self, tall: int) -> Iterator[Staircase | None]:
        """A few with this many tall rounds."""
        yield self.stairs(tall)
        for height in _HEIGHTS if tall in (0, self.most) else ():
            yield self.stairs(tall, height)

    def refine(self, cost: Callable[[Staircase | None], float], counts: list[int], tall: int) -> None:
        """Closer to the best of the coarse ones: first how many are tall, then where the round between lies."""
        at = counts.index(tall)
        low, high = counts[max(0, at - 1)], counts[min(len(counts) - 1, at + 1)]
        while high - low > 2:
            third = (high - low) // 3
            left, right = low + third, high - third
            low, high = (low, right) if cost(self.stairs(left)) <= cost(self.stairs(right)) else (left, high)
        tall = min({tall, *range(low, high + 1)}, key=lambda tall: cost(self.stairs(tall)))
        for count in sorted({max(0, tall - 1), tall, self.most}):
            for j in range(1, 9):
                cost(self.stairs(count, j / 8))
