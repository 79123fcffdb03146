"""The family of schedules that a request leaves open: constant sizes, one step, powers of the round, two levels.

All have the same gradients. With a first size s, *one step* is s in the first round and sizes as even as whole numbers allow
in the others; *power p* grows as N q (i+m)^p from s; *constant* is s throughout. Without a first size, constant sizes are even
ones. *Two levels* (`levels`) are small rounds and then large ones. Each member has the fewest rounds that the request allows it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from crescendo_dp.planning.staircase import Curve, Staircase, fewest_rounds

Delay: TypeAlias = Callable[[tuple[int, ...]], bool]
"""A schedule's delay condition: may a client run these sizes, round by round?"""
Shape: TypeAlias = Literal["constant", "step", "power", "levels"]

POWERS = (0.1, 0.25, 0.5, 1.0, 2.0)
"""The powers that a plan is compared to."""
MANY_POWERS = (*(j / 20 for j in range(1, 41)), 3.0, 4.0)
"""The powers that are searched where a delay condition decides how fast sizes may grow."""


@dataclass(frozen=True)
class Member:
    """One schedule; ``q``, ``m`` and ``p`` of a power's N q (i+m)^p, and the rate of the last round for other shapes."""

    shape: Shape
    stairs: Staircase
    q: float
    m: float = 0.0
    p: float = 0.0

    @property
    def rounds(self) -> int:
        return self.stairs.rounds

    def __str__(self) -> str:
        first = self.stairs[0][0]
        words = {"constant": "constant", "step": f"{first:,}, then even", "levels": "two levels"}
        return words.get(self.shape, f"power {self.p:g}")


@dataclass(frozen=True)
class Limits:
    """Limits of a request on the sizes: the first, their growth, the number of rounds, the most in one round."""

    first: int | None
    power: float | None
    rounds: int | None
    cap: int
    delay: Delay | None = None

    def allow(self, stairs: Staircase) -> bool:
        """Do these sizes stay under the cap and meet the delay condition?"""
        return max(size for size, _ in stairs) <= self.cap and (self.delay is None or self.delay(stairs.per_round()))

    def constant(self, gradients: int, records: int) -> Member | None:
        """Give every round the first size and the last the remainder; without a first size all are even."""
        if self.first is None:
            stairs = self._fewest(
                lambda count: Staircase.even(gradients, count), math.ceil(gradients / self.cap), gradients
            )
        else:
            stairs = Staircase.flat(self.first, gradients)
            if self.rounds not in (None, stairs.rounds) or not self.allow(stairs):
                return None
        return (
            None if stairs is None else Member("constant", stairs, (self.first or gradients / stairs.rounds) / records)
        )

    def step(self, gradients: int, records: int) -> Member | None:
        """The first size once, or as often as the delay condition asks for it, and then even sizes."""
        first = self.first
        assert first is not None

        def stairs_of(small: int) -> Staircase:
            rest = gradients - small * first
            if rest <= 0:
                return Staircase.flat(first, gradients)
            large = math.ceil(rest / self.cap) if self.rounds is None else self.rounds - small
            return Staircase.merged([(first, small), *Staircase.even(rest, large)])

        most = gradients // first if self.rounds is None else min(self.rounds - 1, gradients // first)
        if most < 1:  # one round
            whole = Staircase.even(gradients, 1)
            stairs: Staircase | None = whole if gradients == first and self.allow(whole) else None
        else:
            small = fewest_rounds(lambda count: self.allow(stairs_of(count)), 1, most)
            stairs = None if small is None else stairs_of(small)
        if stairs is None:
            return None
        return Member("constant" if len(stairs) == 1 else "step", stairs, stairs[-1][0] / records)

    def of_power(self, gradients: int, records: int, p: float) -> Member | None:
        """N q (i+m)^p from the first size, or from round 0 with m = 1."""
        first = self.first

        def curve(count: int) -> Curve:
            return Curve.through(first, p, count, gradients)

        least, most = max(1, math.ceil(gradients / self.cap)), gradients // (first or 1)
        stairs = self._fewest(lambda count: curve(count).steps(gradients), least, most)
        if stairs is None:
            return None
        found = curve(stairs.rounds)
        if first is not None and stairs[0][0] != first:
            return None
        return Member("power" if found.p else "constant", stairs, found.scale / records, found.m, found.p)

    def _fewest(self, stairs: Callable[[int], Staircase], least: int, most: int) -> Staircase | None:
        """The fewest rounds whose sizes are allowed, or as many rounds as were asked for."""
        count = self.rounds
        if count is None:
            count = fewest_rounds(lambda count: self.allow(stairs(count)), least, most)
        elif not self.allow(stairs(count)):
            return None
        return None if count is None else stairs(count)
