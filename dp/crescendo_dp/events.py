"""Events: releases as plain data, which can be saved and given to another accountant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from crescendo_dp.arrays import Vector
from crescendo_dp.errors import UsageError


@dataclass(frozen=True, order=True, slots=True)
class Event:
    """One client round: each record drawn with public rate ``rate``, noise of ``sigma`` times the sensitivity.

    A subclass defines the noise; files know it by its name. More noise, and fewer draws, cost no more.
    """

    kinds: ClassVar[dict[str, type[Event]]] = {}

    rate: float
    sigma: float

    def __init_subclass__(cls) -> None:
        Event.kinds[cls.__name__] = cls

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", _number("rate", self.rate))
        object.__setattr__(self, "sigma", _number("sigma", self.sigma))
        if self.rate > 1:
            raise UsageError(f"a sampling rate is at most 1, got {self.rate}; draw fewer records a round")

    def log_moments(self, orders: Vector) -> Vector:
        """(a - 1) D_a at whole orders a = 1, 2, ..: D_a bounds the Renyi divergence between a record's being there and not."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Plain data, and `from_json` the way back; a Poisson-sampled Gaussian needs no name.

        >>> PoissonGaussian(0.1, 2.0).to_json()
        {'rate': 0.1, 'sigma': 2.0}
        """
        name = {} if isinstance(self, PoissonGaussian) else {"event": type(self).__name__}
        return {"rate": self.rate, "sigma": self.sigma, **name}

    @staticmethod
    def from_json(rate: float, sigma: float, event: str = "PoissonGaussian") -> Event:
        """Return the event that `to_json` wrote, from keywords or from values in order."""
        return Event.named(event)(rate, sigma)

    @staticmethod
    def named(name: str) -> type[Event]:
        """The class that files know by this name."""
        if name not in Event.kinds:
            raise UsageError(f"there is no event called {name!r}; import the module of its mechanism")
        return Event.kinds[name]


class PoissonGaussian(Event):
    """A round with Gaussian noise; the accountant knows its whole privacy loss.

    >>> PoissonGaussian(rate=0.0016, sigma=1.423)
    PoissonGaussian(rate=0.0016, sigma=1.423)
    """

    __slots__ = ()


Counted: TypeAlias = tuple[tuple[Event, int], ...]
"""Distinct events, sorted, each with how often it happened."""


def tally(events: Iterable[Event | tuple[Event, int]]) -> Counted:
    """Distinct events with their counts, sorted. The order of rounds does not change their total cost.

    >>> big, small = PoissonGaussian(0.2, 2.0), PoissonGaussian(0.1, 2.0)
    >>> tally([big, small, (big, 3)]) == ((small, 1), (big, 4))
    True
    """
    counts: Counter[Event] = Counter()
    for item in events:
        event, count = item if isinstance(item, tuple) else (item, 1)
        if not isinstance(event, Event):
            raise UsageError(f"an event is a PoissonGaussian(rate, sigma), got {event!r}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise UsageError(f"an event happens a whole number of times, got {count!r}")
        counts[event] += count
    found = ((event, count) for event, count in counts.items() if count)
    return tuple(sorted(found, key=lambda item: (type(item[0]).__name__, item)))


def to_json(events: Iterable[Event | tuple[Event, int]]) -> list[dict[str, Any]]:
    """A list of plain objects; floats survive the way to a file and back bit for bit.

    >>> to_json([PoissonGaussian(0.1, 2.0)] * 3)
    [{'rate': 0.1, 'sigma': 2.0, 'count': 3}]
    """
    return [{**event.to_json(), "count": count} for event, count in tally(events)]


def from_json(items: Iterable[dict[str, Any]]) -> Counted:
    """Return the events that `to_json` wrote; a missing count is 1.

    >>> from_json([{"rate": 0.1, "sigma": 2.0, "count": 3}])
    ((PoissonGaussian(rate=0.1, sigma=2.0), 3),)
    """
    found = []
    for item in items:
        if not isinstance(item, dict) or not {"rate", "sigma"} <= item.keys() <= {"rate", "sigma", "event", "count"}:
            raise UsageError(f"an event is an object with rate, sigma and count, got {item!r}")
        numbers = {name: value for name, value in item.items() if name != "count"}
        found.append((Event.from_json(**numbers), item.get("count", 1)))
    return tally(found)


def _number(name: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]  # numpy numbers too
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool | str | bytes) or not 0 <= number < math.inf:
        raise UsageError(f"{name} must be a finite number, 0 or more, got {value!r}")
    return number + 0.0  # -0.0 and 0.0 are one event
