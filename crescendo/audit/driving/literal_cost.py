"""Least cost of releases: a lower bound on epsilon that shares no code with the accountant.

The loss of each round when a record is removed is rounded down to a grid, and mass beyond either end is left out. Both make delta
smaller at every epsilon, so the resulting epsilon is below the true one. The error of the FFT is allowed for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from crescendo.core.arrays import Floats
from crescendo_dp.events import Event, PoissonGaussian

_CELLS = 1 << 17
_LEAST_DELTA = 1e-10
_FFT = 1e-12
_KINDS = 24  # of rounds: more are taken together, at the least rate and the most noise of each group
_MOST_LOSS = 100.0
_REACH = 9.0  # deviations of the whole loss to either side

_Round = tuple[float, float]  # rate and sigma


def least_epsilon(events: Sequence[Event], delta: float) -> float:
    """A lower bound on the epsilon of all events together at delta; 0 where this cannot say.

    >>> one = PoissonGaussian(1.0, 1.0)
    >>> least_epsilon([], 1e-5), round(least_epsilon([one], 1e-5), 2), round(least_epsilon([one] * 4, 1e-5), 2)
    (0.0, 4.38, 10.0)
    """
    rounds = [(one.rate, one.sigma) for one in events if isinstance(one, PoissonGaussian) and one.rate > 0]
    if not rounds or not _LEAST_DELTA <= delta < 1 or not all(1e-3 < sigma < 1e6 for _, sigma in rounds):
        return 0.0
    counted = _grouped(Counter(rounds))
    moments = [(n, *_moments(*one)) for one, n in counted.items()]
    centre, spread = sum(n * mean for n, mean, _ in moments), math.sqrt(sum(n * var for n, _, var in moments))
    low, high = centre - _REACH * spread - 0.1, centre + _REACH * spread + 0.1
    if high > _MOST_LOSS:
        return 0.0
    step = (high - low) / _CELLS
    total = np.ones(_CELLS // 2 + 1, complex)
    for one, n in counted.items():
        total *= np.fft.rfft(_masses(*one, step, low, high)) ** n
    first = math.floor(low / step)
    masses = np.roll(np.fft.irfft(total, _CELLS), -(first % _CELLS))
    losses = np.arange(first, first + _CELLS, dtype=np.float64) * step
    return _crossing(masses, losses, delta * (1 + 1e-6) + _FFT)


def _grouped(counted: Counter[_Round]) -> Counter[_Round]:
    """Rounds of few kinds that cost no more."""
    if len(counted) <= _KINDS:
        return counted
    kinds, found = sorted(counted), Counter[_Round]()
    for part in np.array_split(np.arange(len(kinds)), _KINDS):
        group = [kinds[k] for k in part]
        found[min(rate for rate, _ in group), max(sigma for _, sigma in group)] += sum(counted[one] for one in group)
    return found


def _loss(x: Floats, rate: float, sigma: float) -> Floats:
    """ln of the density with the record over that without it, at x."""
    y = (2 * x - 1) / (2 * sigma * sigma)
    return y if rate == 1 else np.logaddexp(math.log1p(-rate), math.log(rate) + y)


def _moments(rate: float, sigma: float) -> tuple[float, float]:
    """The mean and the variance of one round's loss, with the record."""
    z = np.linspace(-9.0, 9.0, 1801)
    weight = np.exp(-z * z / 2)
    weight /= weight.sum()
    found = [0.0, 0.0]
    for part, middle in ((1 - rate, 0.0), (rate, 1.0)):
        loss = _loss(middle + sigma * z, rate, sigma)
        found = [found[0] + part * float(weight @ loss), found[1] + part * float(weight @ (loss * loss))]
    return found[0], max(0.0, found[1] - found[0] ** 2)


def _masses(rate: float, sigma: float, step: float, low: float, high: float) -> Floats:
    """The chance of each multiple of the step, around a circle: of losses from there up to the next."""
    from scipy.special import ndtr

    least = max(low, math.log1p(-rate) if rate < 1 else -math.inf)
    k = np.arange(math.floor(min(least, 0.0) / step), math.ceil(high / step) + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.exp(k * step) - (1 - rate)
        x = np.where(ratio > 0, sigma * sigma * np.log(np.maximum(ratio, 0.0) / rate) + 0.5, -np.inf)
    beyond = (1 - rate) * ndtr(-x / sigma) + rate * ndtr((1 - x) / sigma)
    laid = np.zeros(-(-len(k) // _CELLS) * _CELLS)
    laid[: len(k) - 1] = beyond[:-1] - beyond[1:]
    return np.asarray(np.roll(laid.reshape(-1, _CELLS).sum(axis=0), int(k[0]) % _CELLS))


def _crossing(masses: Floats, losses: Floats, delta: float) -> float:
    """The largest multiple at which more than delta is left."""
    there = losses > 0
    masses, losses = masses[there], losses[there]
    above, shrunk = np.cumsum(masses[::-1])[::-1], np.cumsum((masses * np.exp(-losses))[::-1])[::-1]
    left = np.append(above[1:] - np.exp(losses[:-1]) * shrunk[1:], 0.0)
    more = np.flatnonzero(left > delta)
    return float(losses[more[-1]]) if len(more) else 0.0
