"""Delay functions: tau(t) is the number of newest updates that the model of gradient t may lack.

Before the first gradient, tau(t) = tau(0). A wait rule by tau requires that tau and t - tau(t) never decrease. The
certificate checks this label by label up to ``steady_from()``, and relies on calculus from there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, overload

import numpy as np

from crescendo.errors import UsageError
from crescendo.schedules.gamma import GAMMA, Gamma
from crescendo.schedules.parameters import NOT_NEGATIVE, POSITIVE, WHOLE, Declared, FloatArray, Range, real, whole
from crescendo.schedules.recipe import StronglyConvexSizes


@dataclass(frozen=True)
class Delay(Declared, ABC):
    """tau(t) for a label t, or an array of labels.

    A new kind is a frozen dataclass with declared parameters and ``_tau``, and a line in the registry.
    """

    @abstractmethod
    def _tau(self, t: FloatArray) -> FloatArray:
        """Return tau at labels t >= 0."""

    @overload
    def __call__(self, t: float) -> float: ...
    @overload
    def __call__(self, t: np.ndarray[Any, Any]) -> FloatArray: ...
    def __call__(self, t: Any) -> Any:
        if isinstance(t, np.ndarray):
            return self._tau(np.maximum(t, 0).astype(np.float64))
        if not isinstance(t, int | float | np.integer | np.floating) or t != t:
            raise UsageError(f"a label must be a number, got {t!r}")
        return float(self._tau(np.array([max(t, 0)], np.float64))[0])

    def steady_from(self) -> float:
        """Return the label from which tau and t - tau(t) provably never decrease; inf if unknown."""
        return math.inf

    def lifted(self, by: float) -> Delay:
        """Return the delay plus a constant: ``by``, or up to a thousandth more to get a short number."""
        return LiftedDelay(self, _readable(by))


@dataclass(frozen=True)
class ConstantDelay(Delay):
    """tau(t) = tau.

    >>> ConstantDelay(100)(7), ConstantDelay(100)(np.array([-1, 5])).tolist()
    (100.0, [100.0, 100.0])
    """

    tau: Annotated[float, POSITIVE, "tau(t) = tau"]

    def _tau(self, t: FloatArray) -> FloatArray:
        return np.full(t.shape, self.tau, np.float64)

    def steady_from(self) -> float:
        return 0.0

    def lifted(self, by: float) -> Delay:
        return replace(self, tau=_readable(self.tau + by))


@dataclass(frozen=True)
class PowerDelay(Delay):
    """tau(t) = scale * (t + shift)**power + offset.

    >>> PowerDelay(0.5, 0.5, offset=10, shift=100)(300)
    20.0
    """

    scale: Annotated[float, NOT_NEGATIVE, "tau(t) = scale (t + shift)^power + offset"]
    power: Annotated[float, NOT_NEGATIVE, "how fast the allowed delay grows"] = 0.5
    offset: Annotated[float, NOT_NEGATIVE, "added to every tau(t)"] = 0.0
    shift: Annotated[float, NOT_NEGATIVE, "added to t"] = 0.0

    def _tau(self, t: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.asarray(self.scale * (t + self.shift) ** self.power + self.offset)

    def steady_from(self) -> float:
        if self.power > 1:
            return math.inf
        rise = self.scale * ((1 + self.shift) ** self.power - self.shift**self.power)
        return 0.0 if rise <= 1 else math.inf  # a concave function rises fastest in its first step

    def lifted(self, by: float) -> Delay:
        return replace(self, offset=_readable(self.offset + by))


@dataclass(frozen=True)
class RecipeDelay(Delay):
    """The delay that the recipe's sizes respect when M0 >= ((m+1) (g-1)/g)^(g/(g-1)) and M1 >= d + 1.

    Paper [lemsample]::

        tau(t) = M1 + ( (t + M0) / gamma(t + M0) )^(1/g)

    >>> from crescendo.schedules.gamma import LogGamma
    >>> round(RecipeDelay(g=2, gamma=LogGamma(4), m0=100, m1=1)(0), 3)
    3.33
    """

    g: Annotated[float, Range(above=1), "tau(t) = m1 + ((t + m0) / gamma(t + m0))^(1/g)"]
    gamma: Annotated[Gamma, GAMMA, "the recipe's slowly growing function"]
    m0: Annotated[float, NOT_NEGATIVE, "added to t"]
    m1: Annotated[float, NOT_NEGATIVE, "added to every tau(t)"]

    def check(self) -> None:
        if self.m0 < (least := self.gamma.holds_from(self.g)):
            raise UsageError(f"m0 must be {least:.6g} or more, where {self.gamma} meets its conditions, got {self.m0}")

    def _tau(self, t: FloatArray) -> FloatArray:
        x = t + self.m0
        return np.asarray(self.m1 + (x / self.gamma(x)) ** (1 / self.g))

    def steady_from(self) -> float:
        """For x = t + M0 >= 1 the slope is in 0 .. 1/g: 0 <= (1 - x gamma'/gamma) / (g gamma^(1/g) x^(1-1/g))."""
        return max(0.0, 1.0 - self.m0)

    def lifted(self, by: float) -> Delay:
        return replace(self, m1=_readable(self.m1 + by))


@dataclass(frozen=True)
class StronglyConvexDelay(Delay):
    """The strongly convex theorem's delay, with M0 = (m+1)^2 / 4; ``theorem_m1`` gives M1.

    Paper [thmsc]::

        tau(t) = M1 + sqrt( (t + M0) / (4 ln(t + M0)) )

    >>> round(StronglyConvexDelay(m=6317, m1=720)(20_000), 3)
    1113.821
    """

    m: Annotated[int, WHOLE]
    m1: Annotated[float, NOT_NEGATIVE]

    def check(self) -> None:
        if self.m < (least := StronglyConvexSizes.least_m(0)):
            raise UsageError(f"m must be {least} or more, where (m+1)^2/4 >= e^2, got {self.m}")

    @property
    def m0(self) -> float:
        return (self.m + 1) ** 2 / 4

    def _tau(self, t: FloatArray) -> FloatArray:
        x = t + self.m0
        return np.asarray(self.m1 + np.sqrt(x / (4 * np.log(x))))

    def steady_from(self) -> float:
        return 0.0  # RecipeDelay's argument, with M0 >= e^2

    @staticmethod
    def theorem_m1(d: int, L: float, mu: float, s0: int, alpha: float = 36, blocks: int = 1) -> float:
        """Return M1 of the strongly convex theorem, for L-smooth and mu-strongly convex problems.

        Paper [thmsc], with the D (``blocks``) of Paper [tau1], which requires tau(t) >= 2 L alpha D / mu under masks::

            M1 = max(d + 1, 2 L alpha D / mu, s_0 / 2)

        >>> [StronglyConvexDelay.theorem_m1(d=1, L=1, mu=0.1, s0=50, blocks=D) for D in (1, 4)]
        [720.0, 2880.0]
        """
        L, mu = real("L", L, above=0), real("mu", mu, above=0)
        alpha = real("alpha", alpha, above=0)
        if mu > L:
            raise UsageError(f"mu cannot exceed L, got mu={mu!r} and L={L!r}")
        masked = 2 * L * alpha * whole("blocks", blocks, least=1) / mu
        return max(whole("d", d) + 1.0, masked, whole("s0", s0, least=1) / 2)

    def lifted(self, by: float) -> Delay:
        return replace(self, m1=_readable(self.m1 + by))


@dataclass(frozen=True)
class OwnDelay(Delay):
    """A user's own function of one label. The certificate checks it at every label of the horizon.

    >>> OwnDelay(lambda t: 10 + t / 2)(8)
    14.0
    """

    function: Callable[[int], float]

    def check(self) -> None:
        if not callable(self.function):
            raise UsageError(f"your own delay must be a function of t, got {self.function!r}")

    def _tau(self, t: FloatArray) -> FloatArray:
        return np.array([self.function(int(label)) for label in t.flat], np.float64).reshape(t.shape)


@dataclass(frozen=True)
class LiftedDelay(Delay):
    """Another delay with a constant added.

    >>> LiftedDelay(ConstantDelay(4), 2)(0)
    6.0
    """

    base: Delay
    by: Annotated[float, NOT_NEGATIVE]

    def _tau(self, t: FloatArray) -> FloatArray:
        return self.base._tau(t) + self.by

    def steady_from(self) -> float:
        return self.base.steady_from()

    def lifted(self, by: float) -> Delay:
        return replace(self, by=_readable(self.by + by))


def growth_limit(t: float) -> float:
    """Return the growth limit of the theory on a delay, up to constants, for t >= e^2.

    Paper [tau1], for t large enough::

        tau(t) <= sqrt( t/ln t * (1 - 1/ln t) )

    Without its last factor the bound is sqrt(t / ln t).

    >>> round(growth_limit(20_000), 1), round(math.sqrt(20_000 / math.log(20_000)), 1)
    (42.6, 44.9)
    """
    t = real("t", t, least=math.e**2)
    return math.sqrt(t / math.log(t) * (1 - 1 / math.log(t)))


def _readable(x: float) -> float:
    """Round x up to a thousandth, unless x is too large for thousandths.

    >>> _readable(1.23401), _readable(50)
    (1.235, 50.0)
    """
    return math.ceil(x * 1000) / 1000 if abs(x) < 1e12 else float(x)
