"""p-values of the audit: exact where a law is known, conservative at the small levels that a verdict is taken at.

Every statistic of the audit is brought to a form whose law under a sound mechanism is known exactly: a normal score, a sum of
squares of independent normal scores, an order statistic of independent uniform numbers, or a count of independent events. A
count is made continuous by a uniform number of the auditor's own, so that its p-value is uniform too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats, Ints

_Rng = np.random.Generator

NOTHING = "there was nothing to test"


@dataclass(frozen=True)
class Tested:
    """What a check came to: a p-value, and the place that speaks loudest against the certificate, in words."""

    p: float
    says: str


@dataclass(frozen=True, eq=False)
class Group:
    """p-values of one statistic at many places, and the words for each place."""

    ps: Floats
    says: Callable[[int], str]


def always(text: str) -> Callable[[int], str]:
    """The same words for every place."""
    return lambda place: text


def combined(*groups: Group) -> Tested:
    """One p-value for all: that of the smallest, by Šidák's rule. NaN is a place where there was nothing to test.

    If the places are independent, p is uniform; `renewal` makes places of one and the same numbers independent. However they
    depend on each other, with m places and a level a, P(p <= a) <= m (1 - (1 - a)^(1/m)) <= a / (1 - a). At the small levels of
    a verdict this is Bonferroni's bound, so that a verdict needs no independence.
    """
    count = sum(int(np.isfinite(group.ps).sum()) for group in groups)
    found = [(float(np.nanmin(group.ps)), group) for group in groups if np.isfinite(group.ps).any()]
    if not found:
        return Tested(1.0, NOTHING)
    least, group = min(found, key=lambda pair: pair[0])
    return Tested(sidak(least, count), group.says(int(np.nanargmin(group.ps))))


def sidak(least: float, count: int) -> float:
    """The p-value of the smallest of ``count`` p-values.

    >>> sidak(0.5, 1), round(sidak(0.01, 100), 4), sidak(0.0, 7)
    (0.5, 0.634, 0.0)
    """
    return 1.0 if least >= 1 else float(-np.expm1(count * np.log1p(-least)))


def normal_p(scores: npt.ArrayLike) -> Floats:
    """Two-sided p-values of standard normal scores."""
    from scipy.special import ndtr

    return np.asarray(2 * ndtr(-np.abs(np.asarray(scores, dtype=np.float64))))


def _two_sided(below: Floats, above: Floats) -> Floats:
    """From the chances of a smaller and of a larger value."""
    return np.asarray(np.minimum(1.0, 2 * np.minimum(below, above)))


def squares_p(total: npt.ArrayLike, count: npt.ArrayLike) -> Floats:
    """Two-sided p-values of sums of squares of ``count`` standard normal numbers; NaN for none.

    >>> squares_p([0.0, 10.0], [10, 10]).round(3)
    array([0.  , 0.881])
    """
    from scipy.special import chdtr, chdtrc

    counts = np.asarray(count, dtype=np.float64)
    counts = np.where(counts > 0, counts, np.nan)
    return _two_sided(chdtr(counts, total), chdtrc(counts, total))


def squares_score(total: npt.ArrayLike, count: npt.ArrayLike) -> Floats:
    """The same sums as standard normal scores."""
    from scipy.special import chdtr, chdtrc

    return normal_score(chdtr(count, total), chdtrc(count, total))


def normal_score(below: Any, above: Any) -> Floats:
    """The standard normal number with these chances of a smaller and of a larger one; the smaller of the two is the exact one."""
    from scipy.special import ndtri

    low, high = np.clip(below, 1e-300, 1.0), np.clip(above, 1e-300, 1.0)
    return np.asarray(np.where(low < high, ndtri(low), -ndtri(high)))


def _sides(hits: npt.ArrayLike, trials: npt.ArrayLike, chance: npt.ArrayLike, rng: _Rng) -> tuple[Floats, Floats]:
    """The chances of a smaller and of a larger count of independent events, ties broken by ``rng``: uniform, exactly."""
    from scipy.stats import binom

    shape = np.broadcast_shapes(np.shape(hits), np.shape(trials), np.shape(chance))
    tie, equal = rng.random(shape), np.asarray(binom.pmf(hits, trials, chance))
    below = np.asarray(binom.cdf(np.asarray(hits) - 1, trials, chance)) + tie * equal
    above = np.asarray(binom.sf(hits, trials, chance)) + (1 - tie) * equal
    return below, above


def count_p(hits: npt.ArrayLike, trials: npt.ArrayLike, chance: npt.ArrayLike, rng: _Rng) -> Floats:
    """Two-sided p-values of counts.

    >>> rng = np.random.default_rng(1)
    >>> count_p([0, 500], 1000, 0.5, rng) < 1e-9
    array([ True, False])
    """
    return _two_sided(*_sides(hits, trials, chance, rng))


def count_of_score(scores: Floats, trials: npt.ArrayLike, chance: npt.ArrayLike) -> Ints:
    """The counts that have these scores: the inverse of `count_score`.

    >>> rng = np.random.default_rng(1)
    >>> count_of_score(count_score([0, 3, 9], 9, 0.5, rng), 9, 0.5)
    array([0, 3, 9])
    """
    from scipy.special import ndtr
    from scipy.stats import binom

    low, high = binom.ppf(ndtr(scores), trials, chance), binom.isf(ndtr(-scores), trials, chance)
    return np.asarray(np.where(scores < 0, low, high).clip(0, trials), dtype=np.int64)


def count_score(hits: npt.ArrayLike, trials: npt.ArrayLike, chance: npt.ArrayLike, rng: _Rng) -> Floats:
    """Counts as standard normal scores."""
    return normal_score(*_sides(hits, trials, chance, rng))


def sum_p(hits: int, chances: Sequence[float], trials: int, rng: _Rng) -> float:
    """The two-sided p-value of a count of events of different chances, each tried ``trials`` times: by convolution.

    >>> sum_p(0, [0.2, 0.4], 20, np.random.default_rng(1)) < 1e-4
    True
    """
    from scipy.stats import binom

    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, binom.pmf(np.arange(trials + 1), trials, min(1.0, chance)))
    tie = rng.random()
    below, above = law[:hits].sum() + tie * law[hits], law[hits + 1 :].sum() + (1 - tie) * law[hits]
    return float(min(1.0, 2 * min(below, above)))


def uniform_p(values: Floats) -> float:
    """Kolmogorov and Smirnov: are these independent uniform numbers?"""
    from scipy.stats import kstwo

    n, u = len(values), np.sort(values)
    if not n:
        return float("nan")
    apart = max(float((np.arange(1, n + 1) / n - u).max()), float((u - np.arange(n) / n).max()))
    return float(kstwo.sf(apart, n))


def ends_p(values: Floats) -> tuple[Floats, Ints]:
    """Two-sided p-values of both ends of independent uniform numbers, and the ranks they are of: from 0 up, then from 1 down.

    Each is of the step from the rank before it (1, 16, 256, ...) and given that one, so that they are independent of each other.
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
    """Two-sided p-values of some order statistics of ``n`` uniform numbers, each given those of the ranks below: independent."""
    from scipy.special import betainc, betaincc

    before, below = np.concatenate([[0.0], points[:-1]]), np.concatenate([[0], ranks[:-1]])
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip((points - before) / (1 - before), 0.0, 1.0)
    law = ranks - below, n - ranks + 1
    return _two_sided(betainc(*law, share), betaincc(*law, share))


def bins_p(counts: Ints, rng: _Rng) -> Floats:
    """Two-sided p-values of counts in equally likely bins, each given those before it: independent of each other."""
    return _two_sided(*_bins(counts, rng))


def bins_score(counts: Ints, rng: _Rng) -> Floats:
    """The same as standard normal scores."""
    return normal_score(*_bins(counts, rng))


def _bins(counts: Ints, rng: _Rng) -> tuple[Floats, Floats]:
    left = np.concatenate([[counts.sum()], counts.sum() - np.cumsum(counts)[:-1]])
    bins = len(counts) - np.arange(len(counts))
    return _sides(counts[:-1], left[:-1], 1.0 / bins[:-1], rng)


def mean_and_spread(sums: Floats, squares: Floats, count: npt.ArrayLike) -> tuple[Floats, Floats]:
    """p-values of the mean and of the spread about it, which are independent for normal numbers; NaN for none."""
    counts = np.asarray(count, dtype=np.float64)
    counts = np.where(counts > 0, counts, np.nan)
    about = np.maximum(squares - np.square(sums) / counts, 0.0)
    return normal_p(sums / np.sqrt(counts)), squares_p(about, counts - 1)
