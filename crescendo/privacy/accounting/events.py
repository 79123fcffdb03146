"""What was released, as plain data: it can be saved, and given to another accountant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from crescendo.errors import UsageError


@dataclass(frozen=True, order=True, slots=True)
class PoissonGaussian:
    """One client round: each record drawn with public rate ``rate``, noise of ``sigma`` times the sensitivity.

    >>> PoissonGaussian(rate=0.0016, sigma=1.423)
    PoissonGaussian(rate=0.0016, sigma=1.423)
    """

    rate: float
    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", _number("rate", self.rate))
        object.__setattr__(self, "sigma", _number("sigma", self.sigma))
        if self.rate > 1:
            raise UsageError(f"a sampling rate is at most 1, got {self.rate}; draw fewer records a round")


Counted: TypeAlias = tuple[tuple[PoissonGaussian, int], ...]
"""Distinct events, sorted, each with how often it happened."""


def tally(events: Iterable[PoissonGaussian | tuple[PoissonGaussian, int]]) -> Counted:
    """Distinct events with their counts, sorted. The order of rounds does not matter to what they cost together.

    >>> big, small = PoissonGaussian(0.2, 2.0), PoissonGaussian(0.1, 2.0)
    >>> tally([big, small, (big, 3)]) == ((small, 1), (big, 4))
    True
    """
    counts: Counter[PoissonGaussian] = Counter()
    for item in events:
        event, count = item if isinstance(item, tuple) else (item, 1)
        if not isinstance(event, PoissonGaussian):
            raise UsageError(f"an event is a PoissonGaussian(rate, sigma), got {event!r}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise UsageError(f"an event happens a whole number of times, got {count!r}")
        counts[event] += count
    return tuple(sorted((event, count) for event, count in counts.items() if count))


def to_json(events: Iterable[PoissonGaussian | tuple[PoissonGaussian, int]]) -> list[dict[str, float]]:
    """A list of plain objects; floats survive the way to a file and back bit for bit.

    >>> to_json([PoissonGaussian(0.1, 2.0)] * 3)
    [{'rate': 0.1, 'sigma': 2.0, 'count': 3}]
    """
    return [{"rate": event.rate, "sigma": event.sigma, "count": count} for event, count in tally(events)]


def from_json(items: Iterable[dict[str, Any]]) -> Counted:
    """What `to_json` made; a missing count is 1.

    >>> from_json([{"rate": 0.1, "sigma": 2.0, "count": 3}])
    ((PoissonGaussian(rate=0.1, sigma=2.0), 3),)
    """
    found = []
    for item in items:
        if not isinstance(item, dict) or not {"rate", "sigma"} <= item.keys() <= {"rate", "sigma", "count"}:
            raise UsageError(f"an event is an object with rate, sigma and count, got {item!r}")
        found.append((PoissonGaussian(item["rate"], item["sigma"]), item.get("count", 1)))
    return tally(found)


def _number(name: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]  # numpy numbers too
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool | str | bytes) or not 0 <= number < math.inf:
        raise UsageError(f"{name} must be a finite number, 0 or more, got {value!r}")
    return number + 0.0  # -0.0 and 0.0 are one event
