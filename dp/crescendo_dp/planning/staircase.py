"""Staircases: the sizes of all rounds in at most 32 steps, so that the accountant need round nothing.

A `Staircase` is plain data: a tuple of (size, rounds), in the order they are run. A `Curve` makes one that grows as a power of
the round, `Staircase.even` one that does not grow.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from crescendo_dp.errors import UsageError
from crescendo_dp.events import Counted, PoissonGaussian, tally
from crescendo_dp.sampling_rate import rate_of

Noise: TypeAlias = float | tuple[float, ...]
"""One sigma for all rounds, or one for each step of a staircase."""
MOST_STEPS = 32


class Staircase(tuple[tuple[int, int], ...]):
    """Steps of (size, rounds)."""

    __slots__ = ()

    @classmethod
    def even(cls, gradients: int, rounds: int) -> Staircase:
        """As even as whole numbers allow, the larger size last.

        >>> Staircase.even(10, 4)
        ((2, 2), (3, 2))
        """
        size, more = divmod(gradients, rounds)
        if size < 1:
            raise UsageError(
                f"{rounds:,} rounds need at least {rounds:,} gradients, got {gradients:,}; ask for fewer rounds"
            )
        return cls((s, n) for s, n in ((size, rounds - more), (size + 1, more)) if n)

    @classmethod
    def flat(cls, size: int, gradients: int) -> Staircase:
        """Return rounds of one size; the last takes the remainder.

        >>> Staircase.flat(4, 10)
        ((4, 2), (2, 1))
        """
        whole, rest = divmod(gradients, size)
        return cls((s, n) for s, n in ((size, whole), (rest, 1)) if s and n)

    @classmethod
    def merged(cls, steps: Iterable[tuple[int, int]]) -> Staircase:
        """Neighbours of one size as one step, steps without rounds left out."""
        joined: list[tuple[int, int]] = []
        for size, rounds in steps:
            if joined and joined[-1][0] == size:
                joined[-1] = (size, joined[-1][1] + rounds)
            elif rounds:
                joined.append((size, rounds))
        return cls(joined)

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return sum(rounds for _, rounds in self)

    def per_round(self) -> tuple[int, ...]:
        """The size of every round.

        >>> Staircase(((2, 3), (5, 1))).per_round()
        (2, 2, 2, 5)
        """
        return tuple(size for size, rounds in self for _ in range(rounds))

    def aggregated(self, sigmas: Sequence[float]) -> float:
        """The root of the sum of the squares over all rounds, of one sigma for each step."""
        return math.sqrt(sum(rounds * one * one for (_, rounds), one in zip(self, sigmas, strict=True)))

    def events(self, records: int, sigma: Noise) -> Counted:
        """Return the releases of a client with ``records`` records, with one sigma or one for each step."""
        noise = sigma if isinstance(sigma, tuple) else (sigma,) * len(self)
        steps = zip(self, noise, strict=True)
        return tally((PoissonGaussian(rate_of(size, records), one), rounds) for (size, rounds), one in steps)


@dataclass(frozen=True)
class Curve:
    """The curve that the steps follow: N q (i+m)^p in round i from 0, over ``rounds`` rounds; p = 0 is constant.

    >>> curve = Curve.through(first=16, power=1, rounds=183, gradients=25_000)
    >>> round(curve.scale, 3), round(curve.m, 2), round(curve(0), 9), round(curve(182))
    (1.325, 12.07, 16.0, 257)
    """

    scale: float
    m: float
    p: float
    rounds: int

    @classmethod
    def through(cls, first: float | None, power: float, rounds: int, gradients: int) -> Curve:
        """The curve of this power that begins at ``first`` and has ``gradients`` in all; m = 1 if no first is given."""
        if power == 0 or (first is not None and gradients <= first * rounds):
            return cls(gradients / rounds, 0.0, 0.0, rounds)
        m = 1.0 if first is None else _shift(first, power, rounds, gradients)
        shape = (np.arange(rounds) + m) ** power
        return cls(float(gradients / shape.sum()), m, float(power), rounds)

    def __call__(self, i: float) -> float:
        return float(self.scale * (i + self.m) ** self.p)

    def steps(self, gradients: int) -> Staircase:
        """At most 32 steps, sizes that never fall, exactly ``rounds`` rounds and ``gradients`` gradients.

        The first round has the curve's first size; later steps are about equally high.

        >>> Curve.through(first=2, power=1, rounds=6, gradients=30).steps(30)
        ((2, 1), (3, 1), (5, 2), (7, 1), (8, 1))
        """
        if self.p == 0:
            return Staircase.even(gradients, self.rounds)
        sizes = self.scale * (np.arange(self.rounds) + self.m) ** self.p
        # The first round and the last step may add one step each. No step begins at the very last size: a lone round
        # there would have to take up what rounding left over.
        levels = np.linspace(sizes[0], sizes[-1], MOST_STEPS - 1)[:-1]
        ends = np.unique(np.append(np.searchsorted(sizes, levels, side="left"), 1))
        ends = np.append(ends[(ends > 0) & (ends < self.rounds)], self.rounds)
        sums = np.concatenate([[0.0], np.cumsum(sizes)]) * (gradients / sizes.sum())
        steps: list[tuple[int, int]] = []
        done = begin = 0
        for end in ends[:-1].tolist():
            least = steps[-1][0] if steps else 1
            size = max(least, round((float(sums[end]) - done) / (end - begin)))
            # never so much that a later round must be smaller
            size = min(size, (gradients - done) // (self.rounds - begin))
            steps.append((size, end - begin))
            done, begin = done + size * (end - begin), end
        return Staircase.merged([*steps, *Staircase.even(gradients - done, self.rounds - begin)])


def fewest_rounds(fits: Callable[[int], bool], least: int, most: int) -> int | None:
    """The least number of rounds that fits, where more rounds (smaller sizes) fit if fewer do; None if none does.

    It doubles from ``least``, so that it never looks at schedules much longer than the answer.
    """
    low, high = least, least
    while high <= most and not fits(high):
        if high == most:
            return None
        low, high = high + 1, min(2 * high, most)
    if high > most:
        return None
    return low + bisect.bisect_left(range(low, high), True, key=fits)


def _shift(first: float, power: float, rounds: int, gradients: int) -> float:
    """m with first * sum ((i+m)/m)^p = gradients: the smaller m, the steeper."""
    from scipy.optimize import brentq

    i = np.arange(rounds)

    def over(log_m: float) -> float:
        with np.errstate(over="ignore"):
            return min(first * float(((i * math.exp(-log_m) + 1) ** power).sum()), 1e300) / gradients - 1

    high = 1.0
    while over(high) > 0 and high < 60:
        high += 8
    low = high - 8
    while over(low) < 0 and low > -700:
        low -= 8
    return math.exp(brentq(over, low, high, xtol=1e-14)) if over(low) * over(high) < 0 else math.exp(high)
