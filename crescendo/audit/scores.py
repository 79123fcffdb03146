"""p-values of the audit: exact if the law is known, otherwise conservative at the small levels of a verdict.

Every statistic of the audit is brought to a form whose law under a sound mechanism is known exactly: a normal score, a sum of
squares of independent normal scores, an order statistic of independent uniform numbers, or a count of independent events. The
auditor makes a count continuous with a uniform random number, so that its p-value is uniform too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats, Ints

_Rng = np.random.Generator

NOTHING = "there was nothing to test"


@dataclass(frozen=True)
class Tested:
    """The result of a check: a p-value, and a description of the place that contradicts the certificate most."""

    p: float
    says: str


@dataclass(frozen=True, eq=False)
class Group:
    """p-values of one statistic at many places, and a description of each place, or of all of them."""

    ps: Floats
    says: Callable[[int], str] | str

    def loudest(self) -> str:
        """Describe the place with the smallest p-value."""
        return self.says if isinstance(self.says, str) else self.says(int(np.nanargmin(self.ps)))


@dataclass(frozen=True, eq=False)
class Tails:
    """The chances of a smaller and of a larger value of a statistic, at many places."""

    below: Floats
    above: Floats

    @property
    def p(self) -> Floats:
        """Two-sided p-values."""
        return np.asarray(np.minimum(1.0, 2 * np.minimum(self.below, self.above)))

    @property
    def score(self) -> Floats:
        """The standard normal numbers with these chances; the smaller of the two is the exact one."""
        from scipy.special import ndtri

        low, high = np.clip(self.below, 1e-300, 1.0), np.clip(self.above, 1e-300, 1.0)
        return np.asarray(np.where(low < high, ndtri(low), -ndtri(high)))


def combined(*groups: Group) -> Tested:
    """Combine all p-values into that of the smallest, by Šidák's rule. NaN marks a place without anything to test.

    If the places are independent, p is uniform; `renewal` makes places of one and the same numbers independent. However they
    depend on each other, with m places and a level a, P(p <= a) <= m (1 - (1 - a)^(1/m)) <= a / (1 - a). At the small levels of
    a verdict this is Bonferroni's bound, so a verdict does not require independence.
    """
    count = sum(int(np.isfinite(group.ps).sum()) for group in groups)
    found = [(float(np.nanmin(group.ps)), group) for group in groups if np.isfinite(group.ps).any()]
    if not found:
        return Tested(1.0, NOTHING)
    least, group = min(found, key=lambda pair: pair[0])
    return Tested(_sidak(least, count), group.loudest())


def _sidak(least: float, count: int) -> float:
    """Return the p-value of the smallest of ``count`` p-values.

    >>> _sidak(0.5, 1), round(_sidak(0.01, 100), 4), _sidak(0.0, 7)
    (0.5, 0.634, 0.0)
    """
    return 1.0 if least >= 1 else float(-np.expm1(count * np.log1p(-least)))


def normal_p(scores: npt.ArrayLike) -> Floats:
    """Return two-sided p-values of standard normal scores."""
    from scipy.special import ndtr

    return np.asarray(2 * ndtr(-np.abs(np.asarray(scores, dtype=np.float64))))


def squared(total: npt.ArrayLike, count: npt.ArrayLike) -> Tails:
    """Return the tails of sums of squares of ``count`` standard normal numbers; NaN if ``count`` is 0.

    >>> squared([0.0, 10.0], [10, 10]).p.round(3)
    array([0.  , 0.881])
    """
    from scipy.special import chdtr, chdtrc

    counts = np.asarray(count, dtype=np.float64)
    counts = np.where(counts > 0, counts, np.nan)
    return Tails(chdtr(counts, total), chdtrc(counts, total))


def counted(hits: npt.ArrayLike, trials: npt.ArrayLike, chance: npt.ArrayLike, rng: _Rng) -> Tails:
    """Return the tails of counts of independent events, with ties broken by ``rng``: exactly uniform.

    >>> rng = np.random.default_rng(1)
    >>> counted([0, 500], 1000, 0.5, rng).p < 1e-9
    array([ True, False])
    """
    from scipy.stats import binom

    shape = np.broadcast_shapes(np.shape(hits), np.shape(trials), np.shape(chance))
    tie, equal = rng.random(shape), np.asarray(binom.pmf(hits, trials, chance))
    below = np.asarray(binom.cdf(np.asarray(hits) - 1, trials, chance)) + tie * equal
    above = np.asarray(binom.sf(hits, trials, chance)) + (1 - tie) * equal
    return Tails(below, above)


def uniform_p(values: Floats) -> float:
    """Return the Kolmogorov-Smirnov p-value for independent uniform numbers."""
    from scipy.stats import kstwo

    n, u = len(values), np.sort(values)
    if not n:
        return float("nan")
    apart = max(float((np.arange(1, n + 1) / n - u).max()), float((u - np.arange(n) / n).max()))
    return float(kstwo.sf(apart, n))


def ends_p(values: Floats) -> tuple[Floats, Ints]:
    """Return two-sided p-values of both ends of independent uniform numbers, and their ranks: from 0 up, then from 1 down.

    Each tests the step from the previous rank (1, 16, 256, ...), given that rank, so they are independent of each other.
    """
    n, ordered = len(values), np.sort(values)
    ranks = 16 ** np.arange(12)
    ranks = ranks[ranks <= max(1, n // 4)]
    if not n:
        return np.empty(0), np.empty(0, dtype=np.int64)
    low = ordered[ranks - 1]
    found = [steps_p(low, ranks, n)]
    if n > ranks[-1]:  # given the low end, the other numbers are uniform above it
        found.append(steps_p((1 - ordered[n - ranks]) / (1 - low[-1]), ranks, n - int(ranks[-1])))
    return np.concatenate(found), np.concatenate([ranks, -ranks])[: sum(map(len, found))]


def steps_p(points: Floats, ranks: Ints, n: int) -> Floats:
    """Return independent two-sided p-values of order statistics of ``n`` uniform numbers, each given the lower ranks."""
    from scipy.special import betainc, betaincc

    before, below = np.concatenate([[0.0], points[:-1]]), np.concatenate([[0], ranks[:-1]])
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip((points - before) / (1 - before), 0.0, 1.0)
    law = ranks - below, n - ranks + 1
    return Tails(betainc(*law, share), betaincc(*law, share)).p


def binned(counts: Ints, rng: _Rng) -> Tails:
    """Return independent tails of the counts in equally likely bins, each given those before it."""
    left = np.concatenate([[counts.sum()], counts.sum() - np.cumsum(counts)[:-1]])
    bins = len(counts) - np.arange(len(counts))
    return counted(counts[:-1], left[:-1], 1.0 / bins[:-1], rng)


def mean_and_spread(sums: Floats, squares: Floats, count: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return p-values of the mean and of the spread about it, independent for normal numbers; NaN for an empty place."""
    counts = np.asarray(count, dtype=np.float64)
    counts = np.where(counts > 0, counts, np.nan)
    about = np.maximum(squares - np.square(sums) / counts, 0.0)
    return normal_p(sums / np.sqrt(counts)), squared(about, counts - 1).p
