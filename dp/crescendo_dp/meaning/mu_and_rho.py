"""The same releases in two other notions of privacy: mu of Gaussian DP, and rho of zero-concentrated DP.

*Gaussian DP* (Dong, Roth, Su 2022). Releases are mu-GDP with a slack if no attack detects a record better than it separates
N(mu, 1) from N(0, 1), up to the slack in every probability: with found(a) the most present records that an attack finds when it
accuses the share a of absent ones, and Phi the normal distribution function,

    found(a)  <=  Phi(Phi^-1(a) + mu) + slack      for every a between 0 and 1.

Without a slack the answer is known: mu = sqrt(sum of 1 / sigma^2). It is enough, as a sampled release reveals no more than one
of all records, and no smaller one is: far out in the tail the loss of a sampled Gaussian is that of the plain one less ln(1/q),
so that deltas fall off as e^(-eps^2 / 2 mu^2) with this mu, whatever the rate q > 0. Sampling makes attacks weak where they can
be weighed, not at probabilities of 1e-100. So a tenth of delta is left out, and mu covers the rest of the curve.

*How mu is found, rounded up.* Each pair (eps, delta) of the accountant is a line above found: found(a) <= e^eps a + delta. The
least of the lines is a concave polygon, and the Gaussian curve is concave too, so along each straight piece the curve less the
polygon is least at one of its two ends. It is enough to look at the corners of the polygon; each asks for
mu >= Phi^-1(found - slack) - Phi^-1(a). Both directions, adding and removing a record, are looked at for eps >= 0. That is all:
the curve of one is the other's, mirrored.

*zCDP* (Bun, Steinke 2016). Releases are rho-zCDP if their Renyi divergence of every order a > 1 is at most rho a. The least
such rho is the sum of 1 / (2 sigma^2), whatever the rates: a sampled release has no more divergence than one of all records, and
at least a / (2 sigma^2) - ln(1/q) a / (a - 1), whose share of a goes to 1 / (2 sigma^2) as a grows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from crescendo_dp.accounting import renyi, saddle_point, tilted_fft
from crescendo_dp.accounting.epsilon import apart, cache, enough
from crescendo_dp.arrays import Vector
from crescendo_dp.directed_rounding import down, sum_up
from crescendo_dp.event_kinds import fewer
from crescendo_dp.events import Counted, PoissonGaussian

Pair = tuple[float, float]

SHARE = 0.1  # the part of delta that mu leaves out, where that makes it smaller
_WORTH = 1.001  # a mu that is smaller by less is stated without a slack
_CUT = 1e-5  # the share of the slack that cut tails may take
_MOST_EPSILON = 600.0  # e^eps is a float up to here, and so are products with it
_LEAST_SLACK = 1e-280  # of a round
_MOST_ROUNDS, _LEAST_SIGMA = 10**9, 0.05  # between which losses are composed
_MOST_KINDS = 128  # of rounds that are composed; of more, fewer that cost no less
_FAR = 14.0  # ln of what an FFT's error may be multiplied by
_FINER = 16  # times that the grid of an added record may be finer
_APART = 0.005  # between the pairs of a curve, as a share of epsilon
_UP = 1 + 1e-9


@dataclass(frozen=True)
class OtherNotions:
    """``mu`` of Gaussian DP, with the part of delta it needs, and ``rho`` of zCDP, with the chance of rare events in ``failure``.

    >>> plain = OtherNotions.of(((PoissonGaussian(1.0, 2.0), 4),), 1e-6)
    >>> round(plain.mu, 6), plain.mu_delta, round(plain.rho, 6)
    (1.0, 0.0, 0.5)
    >>> sampled = OtherNotions.of(((PoissonGaussian(0.01, 2.0), 400),), 1e-6)
    >>> round(sampled.mu, 3), sampled.mu_delta, round(sampled.rho, 6)
    (0.112, 1e-07, 50.0)
    """

    mu: float
    mu_delta: float
    rho: float
    failure: float = 0.0

    @classmethod
    def of(cls, events: Counted, delta: float, failure: float = 0.0) -> Self | None:
        """Of releases that are accounted at ``delta``, which has the chance ``failure`` in it; None where too little is known."""
        if not all(isinstance(event, PoissonGaussian) for event, _ in events):
            return None
        rho = _rho(events)
        whole = math.sqrt(2 * rho) * _UP
        slack = SHARE * down(delta, failure)
        if whole == 0 or whole == math.inf or all(event.rate in (0.0, 1.0) for event, _ in events):
            return cls(whole, failure, rho, failure)
        mu = _mu(fewer(events, _MOST_KINDS), slack)
        if mu * _WORTH >= whole:
            return cls(whole, failure, rho, failure)
        return cls(mu, sum_up([failure, slack]), rho, failure)

    def sentence(self) -> str:
        """For people, without a full stop.

        >>> OtherNotions(0.49291, 1e-7, 50.0).sentence()
        'in other notions: mu = 0.493 of Gaussian DP, up to a slack of 1e-07 in every probability, and rho = 50 of zCDP'
        """
        slack = f", up to a slack of {_shown(self.mu_delta)} in every probability" if self.mu_delta > 0 else ""
        rare = f" (at delta {_shown(self.failure)}, for rare events)" if self.failure > 0 else ""
        mu = f"mu = {_shown(self.mu)} of Gaussian DP{slack}"
        return f"in other notions: {mu}, and rho = {_shown(self.rho)} of zCDP{rare}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with None for infinite numbers."""
        mu, rho = (None if value == math.inf else value for value in (self.mu, self.rho))
        return {"gdp": {"mu": mu, "delta": self.mu_delta}, "zcdp": {"rho": rho, "delta": self.failure}}


def _shown(value: float) -> str:
    """Three figures, rounded up.

    >>> _shown(0.49291), _shown(2.0), _shown(1234.5), _shown(math.inf)
    ('0.493', '2', '1.24e+03', 'infinite')
    """
    if not 0 < value < math.inf:
        return "infinite" if value else "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.3g}"


def _rho(events: Counted) -> float:
    sent = [(enough(event).sigma ** 2, count) for event, count in events if event.rate > 0]
    if any(square == 0 for square, _ in sent):
        return math.inf
    return sum_up([count / square / 2 * (1 + 1e-12) for square, count in sent])


@lru_cache(maxsize=16)  # a run's report, folder and last lines ask for the same
def _mu(events: Counted, slack: float) -> float:
    """The least mu that the accountant's curves need with a slack, rounded up; infinite where they do not reach it."""
    sent = tuple((enough(event), count) for event, count in events if event.rate > 0)
    rounds = sum(count for _, count in sent)
    if slack / rounds < _LEAST_SLACK or rounds > _MOST_ROUNDS or min(event.sigma for event, _ in sent) < _LEAST_SIGMA:
        return math.inf
    if renyi.epsilon_of(renyi.divergences(sent), slack)[0] > _MOST_EPSILON:
        return math.inf
    if apart(sent) <= slack:
        return 0.0
    cut = max(1e-300, _CUT * slack / rounds)
    removed, interval = _composed(sent, "remove", slack, cut, 0.0)
    mu = _needed(removed, slack)
    if mu == math.inf:
        return mu
    added, _ = _composed(
        sent, "add", slack, cut, interval
    )  # its losses are smaller: the same grid is nearly always enough
    if (more := _needed(added, slack)) > mu:
        added, _ = _composed(sent, "add", slack, cut, interval / _FINER)
        more = min(more, _needed(added, slack))
    return max(mu, more)


def _composed(
    events: Counted, direction: saddle_point.Direction, slack: float, cut: float, finest: float
) -> tuple[list[Pair], float]:
    """Pairs from eps = 0 to where delta is below the slack, and the interval of the grid they were found on.

    An FFT is exact near the delta that its tilt aims at. Where the bulk of the loss is far from there, further tilts help.
    """
    moments = saddle_point.Moments(events, direction, cut)
    aims = [moments.aim(0.9 * slack)]
    if moments.log(aims[0].tilt) > _FAR:
        aims += [moments.aim(slack**part) for part in (0.6, 0.3)]
    interval = max(min(aim.interval for aim in aims), finest, moments.finest_power, saddle_point.coarsest(*aims))
    losses = [(cache.losses(event, interval, cut), count) for event, count in events]
    pairs: list[Pair] = []
    for aim in aims:
        found = tilted_fft.Composed.of(losses, direction, replace(aim, interval=interval)).deltas(aim.guess)
        pairs += _thinned(found.first, found.values, found.interval)
    return pairs, interval


def _thinned(first: int, deltas: Vector, interval: float) -> Iterator[Pair]:
    """Some of the pairs, in even steps of epsilon at first, and in equal ratios later."""
    lowest = max(first, 0)
    if first > 0:  # delta(0) <= 1 - e^-y (1 - delta(y))
        yield 0.0, 1 - math.exp(-first * interval) * (1 - float(deltas[0])) * (1 - 1e-12)
    beyond = np.flatnonzero(deltas[lowest - first :] == 0)
    last = first + len(deltas) - 1 if not len(beyond) else lowest + int(beyond[0])
    k = lowest
    most = max(interval, (last - lowest) * interval)
    while k <= last:
        yield k * interval, float(deltas[k - first])
        k += max(1, int(max(_APART * k, 0.002 * most / interval)))


def _needed(pairs: Iterable[Pair], slack: float) -> float:
    """The least mu whose curve and slack lie above the polygon of the pairs' lines, rounded up."""
    from scipy.special import ndtri

    lines = _lowest_hull(pairs)
    if not lines or lines[-1][1] > slack:
        return math.inf
    if lines[0][0] > 0:
        raise AssertionError("a curve begins at epsilon = 0")
    most = 0.0
    for (eps, delta), (later, smaller) in itertools.pairwise(lines):
        corner = (delta - smaller) / (math.exp(eps) * math.expm1(later - eps))
        centre = (1 - smaller) / (1 + math.exp(later))  # beyond it the mirrored curve is the lower one
        accused = min(corner, centre)
        found = math.exp(later) * accused * _UP + smaller
        over = (found - slack) + 1e-12 * (found + slack)
        if over > 0 and accused > 0:
            most = max(most, float(ndtri(min(over, 1.0)) - ndtri(accused / _UP)))
    return most * _UP + 1e-9


def _lowest_hull(pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs whose lines make corners: a lower hull of delta over e^eps."""
    best: dict[float, float] = {}
    for eps, delta in pairs:
        if eps <= _MOST_EPSILON:
            best[eps] = min(delta, best.get(eps, 1.0))
    hull: list[Pair] = []
    for eps, delta in sorted(best.items()):
        if hull and delta >= hull[-1][1]:
            continue
        while len(hull) > 1 and _above(hull[-2], hull[-1], (eps, delta)):
            hull.pop()
        hull.append((eps, delta))
    return hull


def _above(left: Pair, middle: Pair, right: Pair) -> bool:
    """Does the middle lie on or above the chord from left to right?"""
    part = math.expm1(middle[0] - left[0]) / math.expm1(right[0] - left[0])
    return middle[1] >= left[1] + (right[1] - left[1]) * part
