"""Sizes that grow as fast as a delay function allows: the paper's recipe and its strongly convex instance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from crescendo.errors import UsageError
from crescendo.schedules.gamma import GAMMA, Gamma, LogGamma
from crescendo.schedules.parameters import LIMIT, WHOLE, FloatArray, IntArray, Range, whole
from crescendo.schedules.sequence import Sizes, round_up


@dataclass(frozen=True)
class RecipeSizes(Sizes):
    """The largest sizes with which a delay tau(t) = M1 + ((t + M0) / gamma(t + M0))^(1/g) allows d rounds ahead.

    Paper [lemsample], for every round i >= 0::

        s_i = ceil( S((m+i+1) / (d+1)) / (d+1) )
        S(x) = ( x/omega(x) * (g-1)/g )^(1/(g-1)),    omega(x) = gamma( (x (g-1)/g)^(g/(g-1)) )

    >>> from crescendo.schedules.gamma import ConstantGamma, LogGamma
    >>> sizes = RecipeSizes(g=2, gamma=ConstantGamma(), d=1, m=40); [sizes(i) for i in range(6)]
    [6, 6, 6, 6, 6, 6]
    >>> RecipeSizes(g=2, gamma=LogGamma(4), d=0, m=6317)(0)
    50
    """

    g: Annotated[float, Range(above=1), "exponent of the recipe: delays grow like t^(1/g)"]
    gamma: Annotated[Gamma, GAMMA, "the recipe's slowly growing function"]
    d: Annotated[int, WHOLE, "rounds a client may run ahead"]
    m: Annotated[int, WHOLE, "where the sequence starts"]

    def check(self) -> None:
        if (first := float(self._z(self._x(0, 1))[0])) < (least := self.gamma.holds_from(self.g)):
            raise UsageError(
                f"{self.gamma} meets the recipe's conditions from z = {least:.6g} on, but round 0 has z = {first:.6g}; "
                "raise m or lower d"
            )
        super().check()

    def _x(self, lo: int, hi: int) -> FloatArray:
        return (np.arange(lo, hi) + (self.m + 1.0)) / (self.d + 1)

    def _z(self, x: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return (x * (self.g - 1) / self.g) ** (self.g / (self.g - 1))

    def _between(self, lo: int, hi: int) -> IntArray | FloatArray:
        x, g = self._x(lo, hi), self.g
        with np.errstate(over="ignore", invalid="ignore"):
            s = (x / self.gamma(self._z(x)) * (g - 1) / g) ** (1 / (g - 1))
        return np.maximum(1.0, round_up(np.minimum(s / (self.d + 1), 2.0 * LIMIT)))  # S > 0 may underflow to 0


@dataclass(frozen=True)
class StronglyConvexSizes(Sizes):
    """The recipe with g = 2 and gamma(z) = 4 ln z, for strongly convex problems; requires m + 1 >= 2e(d+1).

    Paper [thmsc], summarised in Paper [thmsc2], for every round i >= 0::

        s_i = ceil( (m+i+1) / (16 (d+1)^2 ln( (m+i+1) / (2(d+1)) )) )

    >>> sizes = StronglyConvexSizes(d=0, m=6317); sizes(0), sizes(1000), sizes(10**6 - 1)
    (50, 56, 4791)
    """

    d: Annotated[int, WHOLE, "rounds a client may run ahead in the theorem"]
    m: Annotated[int, WHOLE, "where the sequence starts; m + 1 >= 2e(d + 1)"]

    def check(self) -> None:
        if self.m < (least := self.least_m(self.d)):
            raise UsageError(
                f"the recipe needs m + 1 >= 2e(d+1): with d={self.d}, m must be {least} or more, got {self.m}"
            )
        super().check()

    def _between(self, lo: int, hi: int) -> IntArray | FloatArray:
        x = (np.arange(lo, hi) + (self.m + 1.0)) / (self.d + 1)
        return round_up(x / (16 * (self.d + 1) * np.log(x / 2)))

    @staticmethod
    def least_m(d: int) -> int:
        """Return the least m of the strongly convex recipe, m + 1 >= 2e(d+1).

        gamma(z) = 4 ln z meets the conditions of Paper [lemsample] only from z = e^2 on, which the paper omits;
        the first z is ((m+1) / (2(d+1)))^2.

        >>> [StronglyConvexSizes.least_m(d) for d in range(4)]
        [5, 10, 16, 21]
        """
        return math.ceil(2 * math.e * (whole("d", d) + 1)) - 1

    @classmethod
    def of(cls, sizes: Sizes) -> StronglyConvexSizes | None:
        """Return these sizes as the theorem's, or None: the theorem does not cover a recipe with another g or gamma.

        >>> from crescendo.schedules.gamma import ConstantGamma, LogGamma
        >>> [StronglyConvexSizes.of(RecipeSizes(2, gamma, d=0, m=50)) for gamma in (LogGamma(4), ConstantGamma())]
        [StronglyConvexSizes(d=0, m=50), None]
        """
        if isinstance(sizes, RecipeSizes) and (sizes.g, sizes.gamma) == (2, LogGamma(4)):
            return cls(sizes.d, sizes.m)
        return sizes if isinstance(sizes, StronglyConvexSizes) else None

    @classmethod
    def starting_with(cls, s0: int, d: int) -> StronglyConvexSizes:
        """Return the sizes with the least m for which s_0 = s0.

        Paper [thmsc] gives m = 2(d+1)*1450 for s_0 = 50, which is wrong: that m = 2900 makes s_0 = 25 with d = 0.

        >>> StronglyConvexSizes.starting_with(50, d=0), StronglyConvexSizes(0, 6317)(0), StronglyConvexSizes(0, 6316)(0)
        (StronglyConvexSizes(d=0, m=6317), 50, 49)
        """
        s0 = whole("s0", s0, least=1)
        if s0 > 2**40:
            raise UsageError(f"a first size of {s0:,} is out of reach; ask for less than 2**40")
        low = cls.least_m(d)  # from here on s_0 grows with m by less than 1 at a time, so it takes every value
        if cls(d, low)(0) >= s0:
            return cls(d, low)
        high = 2 * low
        while cls(d, high)(0) < s0:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if cls(d, middle)(0) < s0 else (low, middle)
        return cls(d, high)
