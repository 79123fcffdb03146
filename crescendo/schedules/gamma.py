"""The recipe's slowly growing gamma(z), which limits the growth of sizes and delays."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from crescendo.schedules.parameters import POSITIVE, Declared, FloatArray, Range

GAMMA = Range(words='a number of at least 1, "log" or a table with a kind')


@dataclass(frozen=True)
class Gamma(Declared, ABC):
    """Paper [lemsample] requires, for every z that occurs::

        gamma(z) >= 1,    gamma'(z) >= 0,    gamma(z) >= z gamma'(z) g / (g-1)

    A new gamma is a frozen subclass whose `holds_from` gives the z from which all three hold.
    """

    @abstractmethod
    def __call__(self, z: FloatArray) -> FloatArray:
        """Return gamma(z), elementwise."""

    @abstractmethod
    def holds_from(self, g: float) -> float:
        """Return the least z from which the lemma's three conditions hold, for exponent g."""


@dataclass(frozen=True)
class ConstantGamma(Gamma):
    """gamma(z) = value, at least 1: delays grow like t^(1/g), without a logarithm.

    >>> ConstantGamma().holds_from(2)
    0.0
    """

    value: Annotated[float, Range(least=1), "gamma(z) = value"] = 1.0

    def __call__(self, z: FloatArray) -> FloatArray:
        return np.full_like(z, self.value)

    def holds_from(self, g: float) -> float:
        return 0.0


@dataclass(frozen=True)
class LogGamma(Gamma):
    """gamma(z) = scale ln z; the strongly convex theorem uses scale 4 with g = 2.

    gamma >= 1 from z = e^(1/scale) on, and gamma >= z gamma' g/(g-1) from z = e^(g/(g-1)) on.

    >>> LogGamma().holds_from(2) == math.e ** 2
    True
    """

    scale: Annotated[float, POSITIVE, "gamma(z) = scale ln z"] = 4.0

    def __call__(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # an overflow is infinite, which the conditions refuse
            return self.scale * np.log(z)

    def holds_from(self, g: float) -> float:
        exponent = max(1 / self.scale, g / (g - 1))
        return math.e**exponent if exponent < 700 else math.inf
