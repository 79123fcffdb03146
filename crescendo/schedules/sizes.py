"""Round sizes: the gradients of each round over all clients, s_0, s_1, s_2, ... with rounds counted from 0."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from crescendo.errors import UsageError
from crescendo.schedules.parameters import (
    COUNT,
    LIMIT,
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
    FloatArray,
    IntArray,
    Range,
    settle,
    whole,
)
from crescendo.schedules.recipe import RecipeSizes, StronglyConvexSizes
from crescendo.schedules.sequence import Sizes, round_up

__all__ = [
    "ConstantSizes",
    "CutSizes",
    "ListedSizes",
    "LogSizes",
    "PerClient",
    "PowerSizes",
    "RecipeSizes",
    "Sizes",
    "StronglyConvexSizes",
]

TOO_MANY = LIMIT + LIMIT // 2  # also exceeds LIMIT as a float
TOO_LATE = 2**32  # more than any run's rounds, but small enough to sum


@dataclass(frozen=True)
class ConstantSizes(Sizes):
    """s_i = size.

    >>> sizes = ConstantSizes(100); sizes, sizes(0), sizes.before(10**6)
    (ConstantSizes(size=100), 100, 100000000)
    """

    size: Annotated[int, COUNT, "s_i = size"]

    def _between(self, lo: int, hi: int) -> IntArray | FloatArray:
        return np.full(hi - lo, self.size, np.int64)


@dataclass(frozen=True)
class PowerSizes(Sizes):
    """s_i = ceil(scale * (i + shift)**power + offset), with i from 0.

    The experiments write a*i^c + b and count from 1, which is shift 1: they start with s_0 = ceil(a + b). With shift
    = m and scale = N*q this is the private form N*q*(i+m)^p.

    >>> [PowerSizes(50)(i) for i in range(4)], [PowerSizes(1.322, shift=0, offset=16)(i) for i in range(4)]
    ([50, 100, 150, 200], [16, 18, 19, 20])
    >>> PowerSizes(2, power=0.5)
    PowerSizes(scale=2, power=0.5, shift=1.0, offset=0.0)
    """

    scale: Annotated[float, POSITIVE, "s_i = ceil(scale (i + shift)^power + offset)"]
    power: Annotated[float, NOT_NEGATIVE, "how fast the rounds grow: 0 constant, 1 linear"] = 1.0
    shift: Annotated[float, NOT_NEGATIVE, "where the sequence starts"] = 1.0
    offset: Annotated[float, NUMBER, "added to every round"] = 0.0

    def _between(self, lo: int, hi: int) -> IntArray | FloatArray:
        with np.errstate(over="ignore"):
            return round_up(self.scale * (np.arange(lo, hi, dtype=np.float64) + self.shift) ** self.power + self.offset)


@dataclass(frozen=True)
class LogSizes(Sizes):
    """s_i = ceil(scale * x / ln x + offset) with x = i + shift and i from 0.

    The experiments count from 2, which is shift 2. x / ln x is unbounded as x falls to 1, and smallest at x = e.

    >>> [LogSizes(50)(i) for i in range(4)]
    [145, 137, 145, 156]
    """

    scale: Annotated[float, POSITIVE, "s_i = ceil(scale (i + shift) / ln(i + shift) + offset)"]
    shift: Annotated[float, Range(least=2), "where the sequence starts"] = 2.0
    offset: Annotated[float, NUMBER, "added to every round"] = 0.0

    def _between(self, lo: int, hi: int) -> IntArray | FloatArray:
        x = np.arange(lo, hi, dtype=np.float64) + self.shift
        with np.errstate(over="ignore"):
            return round_up(self.scale * x / np.log(x) + self.offset)


@dataclass(frozen=True)
class ListedSizes(Sizes):
    """A user's own sequence; a pair (size, rounds) means that many rounds of one size, and the last size repeats.

    >>> [ListedSizes((3, 1, 4))(i) for i in range(5)], [ListedSizes((16, (20, 3), 25))(i) for i in range(6)]
    ([3, 1, 4, 4, 4], [16, 20, 20, 20, 25, 25])
    """

    values: Annotated[
        tuple[int | tuple[int, int], ...],
        Range(least=1, words="a list of whole numbers of at least 1, or of pairs of them"),
        "s_0, s_1, ..; a pair [size, rounds] is that many rounds of one size; the last size repeats",
    ]

    def check(self) -> None:
        if isinstance(self.values, str | bytes) or not hasattr(self.values, "__iter__"):
            raise UsageError(f"values must be a list of whole numbers, got {self.values!r}")
        settle(self, values=tuple(_listed(value) for value in self.values))
        if not self.values:
            raise UsageError("a list of sizes needs at least one; its last value repeats")
        super().check()

    @cached_property
    def _steps(self) -> tuple[IntArray, IntArray]:
        """The sizes, and the round in which each one ends."""
        pairs = np.array([value if isinstance(value, tuple) else (value, 1) for value in self.values], np.int64)
        return pairs[:, 0], np.cumsum(np.minimum(pairs[:, 1], TOO_LATE))

    def _between(self, lo: int, hi: int) -> IntArray | FloatArray:
        sizes, ends = self._steps
        return sizes[np.minimum(np.searchsorted(ends, np.arange(lo, hi), side="right"), len(sizes) - 1)]


def _listed(value: Any) -> int | tuple[int, int]:
    if not isinstance(value, tuple | list):
        return whole("a listed size", value, least=1)
    if len(value) != 2:
        raise UsageError(f"a list of sizes has sizes and pairs of size and rounds, got {value!r}")
    return whole("a listed size", value[0], least=1), whole("the rounds of a listed size", value[1], least=1)


@dataclass(frozen=True)
class PerClient(Sizes):
    """``clients`` times another sequence: the sizes over all clients of a rule per client.

    >>> PerClient(PowerSizes(100), clients=5)(0)
    500
    """

    each: Sizes
    clients: Annotated[int, COUNT]

    def _between(self, lo: int, hi: int) -> IntArray | FloatArray:
        each = np.diff(self.each._sums.grow(hi)[lo : hi + 1])
        return np.where(each > LIMIT // self.clients, TOO_MANY, each * self.clients)


@dataclass(frozen=True)
class CutSizes(Sizes):
    """Another sequence cut after exactly ``gradients``: the last round is shortened, and later ones are 0.

    >>> sizes = CutSizes(PowerSizes(50), gradients=20_000)
    >>> sizes.rounds, sizes(26), sizes(27), sizes(28), sizes.before(10**9)
    (28, 1350, 1100, 0, 20000)
    """

    base: Sizes
    gradients: Annotated[int, COUNT]

    def check(self) -> None:
        assert self.rounds >= 1

    @classmethod
    def of_rounds(cls, base: Sizes, rounds: int) -> CutSizes:
        """Return ``rounds`` whole rounds of ``base``.

        >>> CutSizes.of_rounds(PowerSizes(50), 3)
        CutSizes(base=PowerSizes(scale=50, power=1.0, shift=1.0, offset=0.0), gradients=300)
        """
        return cls(base, base.before(whole("rounds", rounds, least=1)))

    @cached_property
    def rounds(self) -> int:
        """T, the least number of rounds that reaches ``gradients``."""
        return self.base.rounds_for(self.gradients)

    def _between(self, lo: int, hi: int) -> IntArray | FloatArray:
        return np.diff(self._cut[lo : hi + 1])

    @cached_property
    def _cut(self) -> IntArray:
        sums = np.minimum(self.base.prefix(self.rounds), self.gradients)
        sums.flags.writeable = False
        return sums

    def before(self, i: int) -> int:
        return int(self._cut[min(whole("a round", i), self.rounds)])

    def prefix(self, rounds: int) -> IntArray:
        extra = whole("rounds", rounds) - self.rounds
        if extra <= 0:
            return self._cut[: rounds + 1]
        sums = np.concatenate([self._cut, np.full(extra, self.gradients, np.int64)])
        sums.flags.writeable = False
        return sums

    def rounds_for(self, gradients: int) -> int:
        gradients = whole("gradients", gradients)
        if gradients > self.gradients:
            raise UsageError(f"{gradients:,} gradients were requested from a run that ends after {self.gradients:,}")
        return int(np.searchsorted(self._cut, gradients))
