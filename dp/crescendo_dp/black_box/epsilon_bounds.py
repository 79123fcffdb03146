"""Bounds from samples, exact for any number of runs: on a rate, on a scale, and from counts on epsilon."""

from __future__ import annotations

import bisect
import math
from functools import lru_cache
from typing import Any

import numpy as np

from crescendo_dp.arrays import Array

_FOR_DELTA = 0.1  # of what may go wrong, for the runs that delta lets be told apart


def clopper_pearson(hits: int, runs: int, alpha: float) -> tuple[float, float]:
    """A lower and an upper bound on a probability, each wrong with probability at most ``alpha``.

    >>> low, high = clopper_pearson(0, 100, 0.05)
    >>> low, round(high, 4)                                # 1 - 0.05 ** (1 / 100)
    (0.0, 0.0295)
    """
    from scipy.special import betaincinv

    low = 0.0 if hits == 0 else float(betaincinv(hits, runs - hits + 1, alpha))
    high = 1.0 if hits == runs else float(betaincinv(hits + 1, runs - hits, 1 - alpha))
    return low, high


def scale_bounds(values: Array, alpha: float) -> tuple[float, float]:
    """Bounds on the standard deviation of a Gaussian with mean 0, each wrong with probability at most ``alpha``."""
    from scipy.stats import chi2

    total, n = float(np.sum(np.square(values))), values.size
    return math.sqrt(total / chi2.ppf(1 - alpha, n)), math.sqrt(total / chi2.ppf(alpha, n))


@lru_cache(maxsize=256)
def spared(runs: int, alpha: float, delta: float) -> int:
    """Hits that delta alone may make in so many runs; more of them with probability ``FOR_DELTA * alpha`` at most."""
    if delta == 0:
        return 0
    from scipy.special import bdtrc

    return bisect.bisect_left(range(runs), True, key=lambda hits: bdtrc(hits, runs, delta / 2) <= _FOR_DELTA * alpha)


def epsilon_bound(hits: Any, others: Any, runs: int, alpha: float, delta: float) -> Any:
    """A lower bound on epsilon at ``delta``, wrong with probability ``alpha`` at most; arrays of counts give arrays.

    Each of the ``runs`` tossed a fair coin for the data set, and the release of ``hits`` of them lay in a set S, chosen before,
    where the coin had shown the side that S points to; ``others`` lay in S on the other side. If the mechanism is
    (epsilon, delta) private, P(S) <= e^epsilon Q(S) + delta. At most `spared` hits are delta's. Of the rest, given how many
    there are, each is a hit with probability e^epsilon / (1 + e^epsilon) at most: Clopper and Pearson bound that share.

    >>> round(epsilon_bound(500, 0, 1000, 0.001, 0.0), 3)        # a perfect attack shows what its runs can show
    4.275
    >>> epsilon_bound(300, 300, 1000, 0.001, 0.0)
    0.0
    """
    from scipy.special import betaincinv

    hits, others = np.asarray(hits, dtype=float), np.asarray(others, dtype=float)
    left = hits - spared(runs, alpha, delta)
    level = alpha if delta == 0 else (1 - _FOR_DELTA) * alpha
    with np.errstate(all="ignore"):
        share = np.where(left > 0, betaincinv(np.maximum(left, 1e-9), others + 1, level), 0.0)
        bound = np.where(share > 0.5, np.log(share) - np.log1p(-share), 0.0)
    return bound if bound.ndim else float(bound)


def gaussian_bound(hits: int, present: int, others: int, absent: int, alpha: float, delta: float) -> float:
    """The same if releases with and without the record are Gaussians that differ by a shift alone.

    Then one threshold bounds the shift, in standard deviations, and the shift gives epsilon at every delta.

    >>> round(gaussian_bound(8413, 10_000, 5000, 10_000, 0.001, 1e-5), 2)    # a shift of 1 costs 4.38
    3.92
    """
    from scipy.special import ndtri

    low, high = clopper_pearson(hits, present, alpha / 2)[0], clopper_pearson(others, absent, alpha / 2)[1]
    shift = float(ndtri(low) - ndtri(high))
    return _epsilon_of_shift(shift, delta) if shift > 0 else 0.0


def _epsilon_of_shift(shift: float, delta: float) -> float:
    """The epsilon of a Gaussian mechanism, from below: Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) = delta.

    >>> round(_epsilon_of_shift(1.0, 1e-5), 3)
    4.377
    """
    from scipy.special import log_ndtr

    def too_low(epsilon: float) -> bool:
        a, b = log_ndtr(shift / 2 - epsilon / shift), epsilon + log_ndtr(-shift / 2 - epsilon / shift)
        return bool(a + math.log(-math.expm1(min(b - a, -1e-300))) > math.log(delta))

    low, high = 0.0, 1.0
    while too_low(high):
        low, high = high, 2 * high
        if high > 1e9:
            return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if too_low(middle) else (low, middle)
    return low
