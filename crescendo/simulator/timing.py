"""Timing of a simulated federation: client speeds, message latencies, losses and crashes, in virtual seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np

from crescendo.core.terms import Terms
from crescendo.errors import UsageError
from crescendo.schedules.parameters import NOT_NEGATIVE, POSITIVE, Declared, Range
from crescendo.schedules.rules import Registry

SLOWEST, FASTEST = 1e-9, 1e9  # slots per second
LONGEST = 1e12  # seconds; with these bounds no sum of times in a run overflows
WIDEST = 20.0  # sigma of a log-normal time: its most extreme draws stay far below the largest float
TIME = Range(least=0, most=LONGEST)


class _Distribution(Protocol):
    """A random time, zero or more."""

    def draw(self, rng: np.random.Generator) -> float: ...


def _at_least_zero(what: str, *values: float) -> None:
    for value in values:
        if not (math.isfinite(value) and value >= 0):
            raise UsageError(f"{what} must be a finite number, zero or more; got {value}")
        if value > LONGEST:
            raise UsageError(f"{what} must be at most {LONGEST:g} seconds; got {value:g}")


@dataclass(frozen=True)
class Constant(Declared):
    value: Annotated[float, TIME, "the value, always"]

    def draw(self, rng: np.random.Generator) -> float:
        return self.value


@dataclass(frozen=True)
class Uniform(Declared):
    low: Annotated[float, TIME, "the lowest value"]
    high: Annotated[float, TIME, "the highest value"]

    def check(self) -> None:
        if self.low > self.high:
            raise UsageError(f"a uniform time needs low <= high; got {self.low} and {self.high}")

    def draw(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(self.low, self.high))


@dataclass(frozen=True)
class Exponential(Declared):
    mean: Annotated[float, TIME, "the mean value"]

    def draw(self, rng: np.random.Generator) -> float:
        return float(rng.exponential(self.mean))


@dataclass(frozen=True)
class LogNormal(Declared):
    """exp(N(ln median, sigma^2)): most draws are near the median, a few are very late."""

    median: Annotated[float, Range(above=0, most=LONGEST), "the median value"]
    sigma: Annotated[float, Range(least=0, most=WIDEST), "standard deviation of the logarithm"]

    def draw(self, rng: np.random.Generator) -> float:
        return float(rng.lognormal(math.log(self.median), self.sigma))


TIMES: Registry[Any] = Registry(Declared)
"""Random times by their name in run files; each class has the widest limits, the run file its own words for them."""
TIMES.register("constant", Constant, within={"value": NOT_NEGATIVE})
TIMES.register("uniform", Uniform, within={"low": NOT_NEGATIVE, "high": POSITIVE})
TIMES.register("exponential", Exponential, within={"mean": POSITIVE})
TIMES.register("lognormal", LogNormal, within={"median": POSITIVE, "sigma": NOT_NEGATIVE})


@dataclass(frozen=True)
class Crashes:
    """Crashes after an exponential time with mean ``every``; the client returns after one with mean ``down``."""

    every: float
    down: float

    def __post_init__(self) -> None:
        _at_least_zero("the time between crashes and the time away", self.every, self.down)
        if self.every == 0:
            raise UsageError("the mean time between crashes must be above zero; leave crashes out to have none")


@dataclass(frozen=True)
class Timing:
    """Speed (slots per second) and start of every client, network latency, and failures.

    A lost message is resent after ``resend`` seconds, until it arrives. A duplicate draws its own latency, so
    messages can overtake each other. A client that has been away for ``absent_after`` seconds is declared absent;
    with None the server waits for it.
    """

    speeds: tuple[float, ...]
    starts: tuple[float, ...]
    latency: _Distribution = Constant(0.0)
    duplicate: float = 0.0
    lose: float = 0.0
    resend: float = 1.0
    crashes: Crashes | None = None
    absent_after: float | None = None

    def __post_init__(self) -> None:
        if len(self.speeds) != len(self.starts) or not self.speeds:
            raise UsageError(
                f"every client needs a speed and a start; got {len(self.speeds)} speeds and {len(self.starts)} starts"
            )
        if any(not (math.isfinite(speed) and speed > 0) for speed in self.speeds):
            raise UsageError(f"every speed must be above zero, in slots per second; got {min(self.speeds)}")
        for speed in (min(self.speeds), max(self.speeds)):
            if not SLOWEST <= speed <= FASTEST:
                raise UsageError(f"every speed must be from {SLOWEST:g} to {FASTEST:g} slots per second; got {speed:g}")
        _at_least_zero("a client's start", *self.starts)
        if not (0 <= self.duplicate <= 1 and 0 <= self.lose < 1):
            raise UsageError(
                f"duplicate must be from 0 to 1 and lose from 0 to below 1, or nothing arrives; got {self.duplicate}, {self.lose}"
            )
        _at_least_zero("resend and absent_after", self.resend, self.absent_after or 0.0)

    @classmethod
    def preset(cls, name: str, terms: Terms) -> Timing:
        """Return one of the three timings of the experiments.

        *lock-step*: every client computes one slot per second, and messages take no time. *staggered*: the same, but
        client c starts c/n of round 0 later. *heterogeneous*: speeds from 1 to 4 in equal ratios, and a log-normal
        latency with a median of a twentieth of round 0.
        """
        n, first = terms.clients, terms.before(1) / terms.clients
        if name == "lock-step":
            return cls(speeds=(1.0,) * n, starts=(0.0,) * n)
        if name == "staggered":
            return cls(speeds=(1.0,) * n, starts=tuple(first * c / n for c in range(n)))
        if name == "heterogeneous":
            speeds = tuple(float(4 ** (c / max(1, n - 1))) for c in range(n))
            return cls(speeds=speeds, starts=(0.0,) * n, latency=LogNormal(median=first / 20, sigma=1.0))
        raise UsageError(f"unknown timing preset {name!r}; choose lock-step, staggered or heterogeneous")
