"""Means over seeds, with t-intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from crescendo.errors import UsageError

LEVEL = 0.95
ANYTHING = (-math.inf, math.inf)
SHARE = (0.0, 1.0)  # the range of an accuracy
_LIMITS = {"accuracy": SHARE, "auc": SHARE, "r2": (-math.inf, 1.0)}
_ENOUGH = 3  # shares needed for an interval of their angles
_COUNTED = (0.0, math.inf)  # losses, errors, bytes, rounds and times


@dataclass(frozen=True)
class Interval:
    """The mean of ``count`` values, and bounds for the true mean at the given level if the values are about normal.

    A single value has no bounds. A few values of a limited measure may have none either.
    """

    mean: float
    low: float | None
    high: float | None
    count: int

    @classmethod
    def of(
        cls,
        values: Sequence[float],
        level: float = LEVEL,
        least_spread: float = 0.0,
        within: tuple[float, float] = ANYTHING,
    ) -> Self:
        """Return Student's interval: mean +- t s / sqrt(n), with n - 1 degrees of freedom and s at least
        ``least_spread``.

        ``within`` is the range of the measure. An interval that leaves the range shows that the values are too few,
        or too close to a limit, to count as normal. Three or more shares then get the interval of arcsin sqrt(x),
        whose spread hardly depends on the mean. In all other cases there are no bounds: truncating the interval would
        hide the problem.

        >>> Interval.of([0.4, 0.6], within=SHARE)
        Interval(mean=0.5, low=None, high=None, count=2)
        >>> Interval.of([0.9, 1.0, 1.0, 1.0], within=SHARE)
        Interval(mean=0.975, low=0.891023649199779, high=1.0, count=4)
        >>> Interval.of([0.5, 0.5, 0.5]), Interval.of([2.0])
        (Interval(mean=0.5, low=0.5, high=0.5, count=3), Interval(mean=2.0, low=None, high=None, count=1))
        """
        if not values or not all(map(math.isfinite, values)):
            raise UsageError("a mean needs at least one number, and all must be finite")
        if not 0 < level < 1:
            raise UsageError(f"level must be between 0 and 1, got {level}")
        mean = math.fsum(values) / len(values)
        if len(values) == 1:
            return cls(mean, None, None, 1)
        from scipy.special import stdtrit

        if min(values) == max(values) and not least_spread:  # exact: no rounding of the mean of equal numbers
            return cls(values[0], values[0], values[0], len(values))
        spread = max(float(np.std(np.asarray(values, dtype=np.float64) - mean, ddof=1)), least_spread)
        quantile = float(stdtrit(len(values) - 1, (1 + level) / 2))
        half = quantile * spread / math.sqrt(len(values))
        if within[0] <= mean - half and mean + half <= within[1]:
            return cls(mean, mean - half, mean + half, len(values))
        if within != SHARE or len(values) < _ENOUGH:
            return cls(mean, None, None, len(values))
        return cls(mean, *_of_shares(values, mean, quantile), len(values))

    @classmethod
    def of_ratios(cls, ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Self:
        """Return the geometric mean of the paired ratios theirs / ours, with the interval of its logarithm.

        >>> Interval.of_ratios([1.0, 2.0], [2.0, 4.0])
        Interval(mean=2.0, low=2.0, high=2.0, count=2)
        """
        if min(*ours, *theirs) <= 0:
            raise UsageError("a ratio needs numbers above 0")
        found = cls.of([math.log(b / a) for a, b in zip(ours, theirs, strict=True)], level)
        with np.errstate(over="ignore"):  # two seeds can leave a ratio almost unbounded
            low, high = (None if bound is None else float(np.exp(bound)) for bound in (found.low, found.high))
        return cls(math.exp(found.mean), low, high, found.count)

    @property
    def lacks(self) -> str:
        """A note for a mean of several values without bounds; empty for any other mean."""
        return f" ({self.count} seeds: no interval)" if self.low is None and self.count > 1 else ""

    @property
    def skew(self) -> bool:
        """True if the interval is not symmetric about its mean."""
        if self.low is None or self.high is None:
            return False
        return abs(self.low + self.high - 2 * self.mean) > 1e-9 * max(1.0, abs(self.mean))

    def excludes(self, value: float) -> bool:
        """Return True if ``value`` lies outside the bounds."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high

    def to_json(self) -> dict[str, Any]:
        return {"mean": self.mean, "low": self.low, "high": self.high, "seeds": self.count}


def _of_shares(values: Sequence[float], mean: float, quantile: float) -> tuple[float, float]:
    """Return bounds computed on the angles arcsin sqrt(x), which stay within 0 and 1."""
    angles = np.arcsin(np.sqrt(np.asarray(values, dtype=np.float64)))
    half = quantile * float(np.std(angles, ddof=1)) / math.sqrt(len(values))
    low, high = (math.sin(min(max(float(angles.mean()) + side, 0.0), math.pi / 2)) ** 2 for side in (-half, half))
    return min(low, mean), max(high, mean)


def limits(measure: str) -> tuple[float, float]:
    """Return the range of a measure.

    >>> limits("accuracy"), limits("r2"), limits("bytes")
    ((0.0, 1.0), (-inf, 1.0), (0.0, inf))
    """
    return _LIMITS.get(measure, _COUNTED)


def mean_of(values: Sequence[float | None], within: tuple[float, float] = ANYTHING) -> Interval | None:
    """Return the mean, or None if any value is missing: a mean over the rest would flatter an algorithm that failed.

    >>> mean_of([1.0, None]), mean_of([])
    (None, None)
    """
    known = [value for value in values if value is not None]
    return Interval.of(known, within=within) if known and len(known) == len(values) else None
