"""Statistics that tell releases with a record from those without it, learned from releases of both kinds.

Any statistic makes a true bound, so these may guess: the better the guess, the higher the bound. They cover shifts of the
mean, changes of the spread, of a direction's spread and of the norm; each coordinate; values that recur and differ; and the last
bits of the floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from crescendo_dp.arrays import Bools, Floats, Uints
from crescendo_dp.black_box.epsilon_bounds import spared

_Score: TypeAlias = Callable[[Floats], Floats]

_COORDINATES = 24  # that are looked at one by one: those that differ most
_DENSE = 200  # up to so many coordinates, covariances are inverted
_KEPT = 4  # single numbers of a release that are kept
RANKED = 20_000  # releases that are enough to choose those by
_OFTEN = 4  # times that a value comes up before it counts as one that does
_CUTS = 120


@dataclass(frozen=True)
class _Statistic:
    """One number of each release."""

    name: str
    score: _Score

    def of(self, releases: Floats) -> Floats:
        """Finite numbers, whatever overflows on the way."""
        with np.errstate(all="ignore"):
            return np.nan_to_num(self.score(releases))


@dataclass(frozen=True)
class Rule:
    """Releases with ``sign * score >= cut`` speak for the record being there, or for it not being there."""

    statistic: _Statistic
    sign: int
    cut: float
    there: bool
    expected: float  # the bound that it should give
    sure: float  # a bound from the releases that it was learned from, two deviations worse than they say
    gap: float  # the largest difference of the two distributions of the score

    @classmethod
    def learned(
        cls, releases: Floats, present: Bools, level: float, delta: float, runs: int, floats: bool
    ) -> list[Rule]:
        """Rules, the most promising first: statistics from one half of the releases, thresholds from the other.

        ``floats`` asks for the last bits of the floats as well, which can differ where the real numbers are equal.
        """
        first, then = (releases[::2], present[::2]), (releases[1::2], present[1::2])
        if min(first[1].sum(), (~first[1]).sum(), then[1].sum(), (~then[1]).sum()) < 2:
            return []
        few = first[0][:RANKED], first[1][:RANKED]
        single = [*_single(*few), *(last_bits(*few) if floats else ())]
        statistics = [*_joint(*first), *_best(single, *few, level, delta, runs)]
        rules = [cls.best(statistic, *then, level, delta, runs) for statistic in statistics]
        return sorted(rules, key=lambda rule: (rule.expected, rule.gap), reverse=True)

    @classmethod
    def best(
        cls, statistic: _Statistic, releases: Floats, present: Bools, level: float, delta: float, runs: int
    ) -> Rule:
        """The threshold that should give the highest bound in ``runs`` further runs.

        Counts are taken one deviation worse than they are, or the luckiest threshold of the far tail would win.
        """
        from scipy.special import ndtri

        scores, best = statistic.of(releases), cls(statistic, 1, np.inf, True, -1.0, 0.0, 0.0)
        factor, less, deviations = runs / len(scores), spared(runs, level, delta), -float(ndtri(level))
        for sign in (1, -1):
            order = np.argsort(-sign * scores, kind="stable")
            ranked, there = sign * scores[order], np.cumsum(present[order])
            ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
            if len(ends) > _CUTS:
                ends = ends[np.unique(np.geomspace(1, len(ends), _CUTS).astype(int)) - 1]
            yes = there[ends].astype(float)
            no = ends + 1 - yes
            gap = float(np.max(np.abs(yes / max(there[-1], 1) - no / max(len(scores) - there[-1], 1))))
            for toward, hits, others in ((True, yes, no), (False, no, yes)):
                worse = np.maximum(hits - np.sqrt(hits), 0.0), others + np.sqrt(others + 0.25) + 0.5
                bounds = _roughly(factor * worse[0] - less, factor * worse[1], deviations)
                at, sure = int(np.argmax(bounds)), float(_roughly(hits, others + 0.5, 2.0).max())
                if (bounds[at], gap) > (best.expected, best.gap):
                    end = int(ends[at])
                    below = ranked[end + 1] if end + 1 < len(ranked) else ranked[end]
                    best = cls(
                        statistic, sign, float(ranked[end] / 2 + below / 2), toward, float(bounds[at]), sure, gap
                    )
        return best

    def counts(self, releases: Floats, present: Bools) -> tuple[int, int]:
        """How many releases lie in the set, from the side that it points to and from the other."""
        inside = self.sign * self.statistic.of(releases) >= self.cut
        right = int(np.count_nonzero(inside & (present == self.there)))
        return right, int(np.count_nonzero(inside)) - right

    def nearby(self, releases: Floats) -> list[Rule]:
        """The same with a third and with three times of the releases in the set: the best threshold is a guess."""
        scores = np.sort(self.sign * self.statistic.of(releases))[::-1]
        inside = int(np.count_nonzero(scores >= self.cut))
        places = {max(inside // 3, 1), min(inside * 3, len(scores) - 1)}
        return [replace(self, cut=float(scores[place])) for place in sorted(places)]

    def centred(self, releases: Floats, present: Bools) -> Rule:
        """The threshold at which the two distributions of the score differ most: that of Gaussians lies between their means."""
        scores = self.statistic.of(releases)
        sign = 1 if scores[present].mean() >= scores[~present].mean() else -1
        order = np.argsort(-sign * scores, kind="stable")
        ranked, there = sign * scores[order], np.cumsum(present[order])
        gaps = there / there[-1] - (np.arange(len(there)) + 1 - there) / max(len(there) - there[-1], 1)
        at = int(np.argmax(gaps))
        return Rule(self.statistic, sign, float(ranked[at]), True, 0.0, 0.0, float(gaps[at]))


def _roughly(hits: Floats, others: Floats, deviations: float) -> Floats:
    """Approximate `epsilon_bound` for many counts at once."""
    hits = np.maximum(hits, 1e-9)
    bounds: Floats = np.maximum(np.log(hits / others) - deviations * np.sqrt(1 / hits + 1 / others), 0.0)
    return bounds


def _best(
    statistics: list[_Statistic], releases: Floats, present: Bools, level: float, delta: float, runs: int
) -> list[_Statistic]:
    """Of many statistics, those few that do best on the releases they were made from."""
    rules = [Rule.best(statistic, releases, present, level, delta, runs) for statistic in statistics]
    by_bound = sorted(rules, key=lambda rule: rule.expected, reverse=True)[:_KEPT]
    by_gap = sorted(rules, key=lambda rule: rule.gap, reverse=True)[:_KEPT]
    return list({rule.statistic.name: rule.statistic for rule in (*by_bound, *by_gap)}.values())


# -- statistics -------------------------------------------------------------------------------------------------------


def _joint(x: Floats, present: Bools) -> Iterator[_Statistic]:
    """Of all coordinates together."""
    yes, no = x[present], x[~present]
    means = yes.mean(axis=0), no.mean(axis=0)
    spreads = _floored(yes.var(axis=0)), _floored(no.var(axis=0))
    moved, pooled = means[0] - means[1], (spreads[0] + spreads[1]) / 2
    yield _direction("shift of the mean", moved / pooled)
    clear = np.abs(moved) > np.sqrt(2 * np.log(x.shape[1] + 1) * pooled * (1 / len(yes) + 1 / len(no)))
    if clear.any() and not clear.all():
        yield _direction("shift of some coordinates", np.where(clear, moved / pooled, 0.0))
    yield _Statistic("likelihood", lambda r: _likelihood(r, means, spreads))
    if 1 < x.shape[1] <= _DENSE and len(x) > 4 * x.shape[1]:
        unit = np.sqrt(pooled)
        covariances = [np.cov(((part - part.mean(axis=0)) / unit).T) for part in (yes, no)]
        both = (covariances[0] + covariances[1]) / 2 + 1e-9 * np.eye(x.shape[1])
        yield _direction("shift, whitened", np.linalg.lstsq(both, moved / unit)[0] / unit)
        values, vectors = np.linalg.eigh(covariances[0] - covariances[1])
        axis = vectors[:, int(np.argmax(np.abs(values)))] / unit
        yield _Statistic("spread along a direction", lambda r: np.abs((r - means[1]) @ axis))
    yield from _atoms("the whole release", _hashes, x, present)


def _single(x: Floats, present: Bools) -> Iterator[_Statistic]:
    """Single numbers of a release, those of the coordinates that differ most among them."""
    no = x[~present]
    centre, unit = no.mean(axis=0), np.sqrt(_floored(no.var(axis=0)))
    top = _differing(x, present)
    yield _Statistic("norm", lambda r: np.linalg.norm((r - centre) / unit, axis=1))
    yield _Statistic("largest coordinate", lambda r: np.abs((r - centre) / unit).max(axis=1))
    yield _Statistic("zeros", lambda r: np.count_nonzero(r == 0, axis=1).astype(float))
    yield _Statistic(
        "equal coordinates", lambda r: (np.diff(np.sort(r[:, top], axis=1), axis=1) == 0).sum(axis=1) + 0.0
    )
    for j in (int(j) for j in top):
        yield _Statistic(f"coordinate {j}", lambda r, j=j: r[:, j])  # type: ignore[misc]
        yield _Statistic(f"distance of coordinate {j}", lambda r, j=j: np.abs(r[:, j] - centre[j]))  # type: ignore[misc]
        yield from _atoms(f"coordinate {j}", lambda r, j=j: r[:, j], x, present)  # type: ignore[misc]


def last_bits(x: Floats, present: Bools) -> Iterator[_Statistic]:
    """Statistics of the floats: float noise added to a float lands on a grid that gives the sum without noise away."""
    top = _differing(x, present)
    yield _Statistic("last bits", lambda r: _last_bits(r[:, top]).mean(axis=1))
    yield _Statistic("last bit of all", lambda r: _last_bits(r[:, top]).min(axis=1))
    for j in (int(j) for j in top):
        yield _Statistic(f"last bits of coordinate {j}", lambda r, j=j: _last_bits(r[:, j]))  # type: ignore[misc]


def _differing(x: Floats, present: Bools) -> npt.NDArray[np.intp]:
    """The coordinates whose means and spreads differ most."""
    yes, no = x[present], x[~present]
    spreads = _floored(yes.var(axis=0)), _floored(no.var(axis=0))
    differ = np.abs(yes.mean(axis=0) - no.mean(axis=0)) / np.sqrt(spreads[1]) + np.abs(np.log(spreads[0] / spreads[1]))
    return np.argsort(-differ, kind="stable")[:_COORDINATES]


def _direction(name: str, weights: Floats) -> _Statistic:
    weights = weights / (np.abs(weights).max() or 1.0)
    return _Statistic(name, lambda r: r @ weights)


def _likelihood(r: Floats, means: tuple[Floats, Floats], spreads: tuple[Floats, Floats]) -> Floats:
    """The log of the likelihood ratio of independent Gaussians."""
    total: Floats = ((r - means[1]) ** 2 / spreads[1] - (r - means[0]) ** 2 / spreads[0]).sum(axis=1)
    return total


def _floored(variances: Floats) -> Floats:
    """Replace zeros: a number that never varies counts as varying by next to nothing."""
    return np.asarray(np.maximum(variances, max(1e-24 * float(variances.max(initial=0.0)), 1e-200)))


def _atoms(name: str, of: _Score, x: Floats, present: Bools) -> Iterator[_Statistic]:
    """Values that come up again: how much more often with the record than without it."""
    values, where, counts = np.unique(of(x), return_inverse=True, return_counts=True)
    again = counts >= _OFTEN
    if not again.any():
        return
    yes = np.bincount(where.ravel(), weights=present, minlength=len(values))[again]
    values, counts = values[again], counts[again]
    odds = np.log(yes + 0.5) - np.log(counts - yes + 0.5)

    def score(r: Floats) -> Floats:
        asked = of(r)
        at = np.minimum(np.searchsorted(values, asked), len(values) - 1)
        return np.where(values[at] == asked, odds[at], 0.0)

    yield _Statistic(f"values of {name}", score)


def _hashes(r: Floats) -> Floats:
    """A number for each release, equal for equal ones; 52 bits, so that floats hold it."""
    odd = np.random.Generator(np.random.Philox(1)).integers(1, 2**63, r.shape[1], dtype=np.uint64) * 2 + 1
    bits: Uints = (r + 0.0).view(np.uint64)
    bits = (bits ^ (bits >> np.uint64(32))) * odd  # numbers with few bits have zeros at the end
    mixed = (bits ^ (bits >> np.uint64(29))).sum(axis=1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(mixed >> np.uint64(12), dtype=np.float64)


def _last_bits(r: Floats) -> Floats:
    """Return the power of two of the last bit that is set: the grid that a float lies on.

    >>> _last_bits(np.array([1.0, 0.75, 6.0, 0.0])).tolist()
    [0.0, -2.0, 1.0, 1024.0]
    """
    mantissa, exponent = np.frexp(r)
    whole = (mantissa * 2.0**53).astype(np.int64)
    last = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return np.where(r == 0, 1024.0, exponent - 53.0 + last)
