"""Step sizes: eta at a label t. A schedule looks eta up once per slot or once per round, by its ``per``.

Per round, t = s_0 + ... + s_{i-1} ("diminishing_2" in the experiments). Per slot, t is the client's own slots so far
over its share of all slots ("diminishing_1"). `Terms.etas` computes the labels.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, overload

import numpy as np

from crescendo.errors import UsageError
from crescendo.schedules.delay import StronglyConvexDelay
from crescendo.schedules.parameters import (
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
    UNIT,
    WHOLE,
    Declared,
    FloatArray,
    real,
    whole,
)

Per = Literal["slot", "round"]
PerKey = Annotated[Per, NUMBER, "look the step size up at every gradient (slot) or once a round"]


@dataclass(frozen=True)
class Steps(Declared, ABC):
    """eta at label t >= 0.

    A new kind is a frozen dataclass with declared parameters, ``_eta`` and, if it steps per slot, ``per``, and a line
    in the registry. ``falls`` is True if eta is at least 0 and never rises: a round's first step is then its largest.
    """

    falls: ClassVar[bool] = False

    def __init_subclass__(cls, **given: Any) -> None:
        """Reset ``falls`` in a subclass that overrides the formula without declaring it."""
        super().__init_subclass__(**given)
        if vars(cls).keys() & {"_eta", "at"} and "falls" not in vars(cls):
            cls.falls = False

    @abstractmethod
    def _eta(self, t: FloatArray) -> FloatArray:
        """Return eta at labels t >= 0."""

    @property
    def per(self) -> Per:
        return "round"

    @overload
    def at(self, t: float) -> float: ...
    @overload
    def at(self, t: np.ndarray[Any, Any]) -> FloatArray: ...
    def at(self, t: Any) -> Any:
        """Return the step size at label t, or at each of an array of labels."""
        labels = np.asarray(t)
        if labels.dtype.kind not in "iuf" or not bool(np.all(labels >= 0)):
            raise UsageError(f"a label must be 0 or more, got {t!r}")
        with np.errstate(over="ignore"):  # a step that underflows is 0
            eta = self._eta(np.atleast_1d(labels).astype(np.float64))
        return eta if labels.ndim else float(eta[0])


@dataclass(frozen=True)
class ConstantSteps(Steps):
    """The same eta at every label; `largest` gives its limit.

    >>> ConstantSteps(0.0025).at(10**6)
    0.0025
    """

    eta: Annotated[float, POSITIVE, "the step size at all times"]
    falls = True

    def _eta(self, t: FloatArray) -> FloatArray:
        return np.full(t.shape, self.eta, np.float64)

    @staticmethod
    def largest(L: float, mu: float, tau: float, Delta: float = 1.0) -> float:
        """Return the largest constant eta for a delay of tau: a/L, and at most 1/(mu tau).

        Paper [appconst], where Delta in (0, 1] is the sparsity, 1 for dense data::

            a <= 1 / ( 5 (1 + 2 tau sqrt(Delta)) sqrt(1 + mu/(2L) min(1/sqrt(Delta), tau)) )
            tau <= 1 / (eta mu)

        >>> ConstantSteps.largest(L=1, mu=0.1, tau=0)
        0.2
        >>> f"{ConstantSteps.largest(L=1, mu=0.1, tau=100):.6f}"
        '0.000971'
        """
        L, mu = real("L", L, above=0), real("mu", mu, above=0, most=real("L", L, above=0))
        tau, root = real("tau", tau, least=0), math.sqrt(real("Delta", Delta, above=0, most=1))
        a = 1 / (5 * (1 + 2 * tau * root) * math.sqrt(1 + mu / (2 * L) * min(1 / root, tau)))
        return min(a / L, 1 / (mu * tau) if mu * tau else math.inf)

    def largest_size(self, mu: float, d: int) -> int:
        """Return the largest constant round size s for this step size if clients may run d rounds ahead.

        Paper [appconst] requires tau = (d+1) s <= 1/(eta mu)::

            s <= 1 / (eta mu (d+1))

        >>> ConstantSteps(0.01).largest_size(mu=0.1, d=1)
        500
        """
        bound = 1 / (self.eta * real("mu", mu, above=0) * (whole("d", d) + 1))
        size = math.floor(bound * (1 + 1e-12))  # a bound of 9.999999999999998 is a rounded 10
        if size < 1:
            raise UsageError(
                f"no size is within 1/(eta mu (d+1)) = {bound:.3g}; lower eta to {1 / (mu * (d + 1)):.3g} or d"
            )
        return size


@dataclass(frozen=True)
class DiminishingSteps(Steps):
    """eta0 / (1 + beta t), or with ``root`` eta0 / (1 + beta sqrt(t)).

    >>> DiminishingSteps(0.1, beta=0.001).at(1000), DiminishingSteps(0.1, beta=0.01, root=True).at(10_000)
    (0.05, 0.05)
    """

    eta0: Annotated[float, POSITIVE, "the step size is eta0 / (1 + beta t); t counts gradients over all clients"]
    beta: Annotated[float, NOT_NEGATIVE, "how fast the step size falls"]
    root: Annotated[bool, NUMBER, "use the square root of t in place of t"] = False
    per: PerKey = "round"
    falls = True

    def _eta(self, t: FloatArray) -> FloatArray:
        return np.asarray(self.eta0 / (1 + self.beta * (np.sqrt(t) if self.root else t)))


@dataclass(frozen=True)
class CurvatureSteps(Steps):
    """eta0 (t+1)^(-1/(2-h)) for curvature h from 0, plain convex, to 1, strongly convex.

    Paper [app-nonconvex] writes O(t^(-1/(2-h))); the 1 is added because labels start at 0.

    >>> CurvatureSteps(1, h=0).at(99), CurvatureSteps(1, h=1).at(99)
    (0.1, 0.01)
    """

    eta0: Annotated[float, POSITIVE, "the step size is eta0 (t + 1)^(-1 / (2 - h))"]
    h: Annotated[float, UNIT, "curvature of the objective: 0 convex, 1 strongly convex"]
    per: PerKey = "round"
    falls = True

    def _eta(self, t: FloatArray) -> FloatArray:
        return np.asarray(self.eta0 * (t + 1) ** (-1 / (2 - self.h)))


@dataclass(frozen=True)
class TheoremSteps(Steps):
    """The strongly convex theorem's step sizes; t = s_0 + ... + s_{i-1} gives that of round i.

    Paper [thmsc], from Paper [lemstep] with a_0 = 12, q = 1 and E_t = 2 tau(t)::

        eta = (12/mu) / ( t + 2 M1 + sqrt( ((m+1)^2/4 + t) / ln((m+1)^2/4 + t) ) )

    >>> round(TheoremSteps(mu=0.1, m=6317, m1=720).at(0), 6)
    0.053887
    """

    mu: Annotated[float, POSITIVE, "strong convexity of the objective; left out, its l2"]
    m: Annotated[int, WHOLE, "m of the theorem; left out, that of the sizes"]
    m1: Annotated[float, NOT_NEGATIVE, "M1 of the theorem; left out, that for this objective and data"]
    per: Per = "round"
    falls = True

    def check(self) -> None:
        StronglyConvexDelay(self.m, self.m1)  # refuses an m that is too small

    def _eta(self, t: FloatArray) -> FloatArray:
        return np.asarray(12 / self.mu / (t + 2 * StronglyConvexDelay(self.m, self.m1)(t)))
