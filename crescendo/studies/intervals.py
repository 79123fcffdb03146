"""Means over seeds, with t-intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from crescendo.errors import UsageError

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """The mean of ``count`` values, and bounds that hold the true mean at the given level if the values are about normal.

    One value has no bounds.
    """

    mean: float
    low: float | None
    high: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float], level: float = LEVEL, least_spread: float = 0.0) -> Self:
        """Student's interval: mean +- t s / sqrt(n), with n - 1 degrees of freedom and s no less than ``least_spread``.

        >>> Interval.of([0.5, 0.5, 0.5]), Interval.of([2.0])
        (Interval(mean=0.5, low=0.5, high=0.5, count=3), Interval(mean=2.0, low=None, high=None, count=1))
        """
        if not values or not all(map(math.isfinite, values)):
            raise UsageError("a mean is of finite numbers, one at least")
        if not 0 < level < 1:
            raise UsageError(f"a level lies between 0 and 1, got {level}")
        mean = math.fsum(values) / len(values)
        if len(values) == 1:
            return cls(mean, None, None, 1)
        from scipy.special import stdtrit

        if (
            min(values) == max(values) and not least_spread
        ):  # the mean of equal numbers is that number, whatever rounding says
            return cls(values[0], values[0], values[0], len(values))
        spread = max(float(np.std(np.asarray(values, dtype=np.float64) - mean, ddof=1)), least_spread)
        half = float(stdtrit(len(values) - 1, (1 + level) / 2)) * spread / math.sqrt(len(values))
        return cls(mean, mean - half, mean + half, len(values))

    @classmethod
    def of_ratios(cls, ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Self:
        """The geometric mean of theirs / ours, pair by pair, with the interval of its logarithm.

        >>> Interval.of_ratios([1.0, 2.0], [2.0, 4.0])
        Interval(mean=2.0, low=2.0, high=2.0, count=2)
        """
        if min(*ours, *theirs) <= 0:
            raise UsageError("a ratio is of numbers above 0")
        found = cls.of([math.log(b / a) for a, b in zip(ours, theirs, strict=True)], level)
        with np.errstate(over="ignore"):  # two seeds can leave a ratio as good as open
            low, high = (None if bound is None else float(np.exp(bound)) for bound in (found.low, found.high))
        return cls(math.exp(found.mean), low, high, found.count)

    def excludes(self, value: float) -> bool:
        """Can ``value`` be told from the mean?"""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high

    def to_json(self) -> dict[str, Any]:
        return {"mean": self.mean, "low": self.low, "high": self.high, "seeds": self.count}


def mean_of(values: Sequence[float | None]) -> Interval | None:
    """None if any value is missing: a mean over those that are left would flatter what failed.

    >>> mean_of([1.0, None]), mean_of([])
    (None, None)
    """
    known = [value for value in values if value is not None]
    return Interval.of(known) if known and len(known) == len(values) else None
