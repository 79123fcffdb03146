"""Renyi divergence of the Poisson-sampled Gaussian at many orders at once: cheap enough for a search, and additive for a ledger.

For integer order a, with add/remove neighbours (Mironov, Talwar, Zhang 2019)::

    (a - 1) D_a  =  ln sum_i C(a, i) (1-q)^(a-i) q^i e^((i^2-i)/(2 sigma^2))

The weights sum to 1 and the terms i = 0, 1 have exponent 0, so it is ln(1 + S) where S sums the weights times
(e^x - 1) over i >= 2: all positive, nothing cancels however small q is. (a - 1) D_a is convex in a and 0 at a = 1, so
straight lines between whole orders bound the orders between, which costs up to 5% against computing them. The direction
computed (remove) is the larger of the two. dp-accounting has the same sum in a Python loop, 10 to 30 times slower, and stops at
order 1024, too low for a small epsilon; a test holds the two together.
"""

import math
from functools import lru_cache

import numpy as np

from crescendo_dp.arrays import Ints, Vector
from crescendo_dp.events import Counted, PoissonGaussian

_WHOLE = np.unique(np.concatenate([np.arange(1, 49), np.round(48 * 1.15 ** np.arange(1, 33)).astype(int)]))
_FINE = np.concatenate([np.arange(1.1, 11, 0.1), np.arange(11.5, 33, 0.5)])
_MOST_SIGMA = 1e100  # far above it, squares overflow

ORDERS: Vector = np.unique(np.concatenate([_WHOLE[1:], np.round(_FINE, 6)]))
"""The orders kept by a ledger: the divergences of two sets of releases add up order by order."""
ORDERS.flags.writeable = False


@lru_cache(maxsize=8)
def _terms(sigma: float) -> tuple[Vector, Vector, Vector, Ints] | None:
    """For every whole order a >= 2, laid end to end: i = 2..a, ln C(a, i) (e^x - 1), a - i; and where each order begins.

    None where so little noise overflows.
    """
    from scipy.special import gammaln

    orders = _WHOLE[1:]
    i = np.concatenate([np.arange(2, a + 1) for a in orders]).astype(float)
    a = np.repeat(orders, orders - 1).astype(float)
    log_binomial = gammaln(a + 1) - gammaln(i + 1) - gammaln(a - i + 1)
    with np.errstate(over="ignore", divide="ignore"):
        x = (i * i - i) / (2 * sigma * sigma)
        log_excess = np.where(x > 1, x + np.log1p(-np.exp(-np.maximum(x, 1))), np.log(np.expm1(np.minimum(x, 1))))
    starts = np.concatenate([[0], np.cumsum(orders - 1)[:-1]])
    return (i, log_binomial + log_excess, a - i, starts) if np.isfinite(log_excess).all() else None


@lru_cache(maxsize=4096)
def _log_moments(rate: float, sigma: float) -> Vector:
    """(a - 1) D_a at the whole orders 1, 2, ..., infinite without noise."""
    whole, sigma = _WHOLE.astype(float), min(sigma, _MOST_SIGMA)  # more noise costs no more
    if rate == 0:
        return np.zeros_like(whole)
    laid = _terms(sigma) if sigma * sigma > 0 else None
    if laid is None:
        return np.where(whole > 1, math.inf, 0.0)
    if rate == 1:
        return np.asarray(whole * (whole - 1) / (2 * sigma * sigma))
    i, log_term, rest, starts = laid
    terms = log_term + i * math.log(rate) + rest * math.log1p(-rate)
    peaks = np.maximum.reduceat(terms, starts)
    sums = np.add.reduceat(np.exp(terms - np.repeat(peaks, _WHOLE[1:] - 1)), starts)
    return np.concatenate([[0.0], np.logaddexp(0.0, peaks + np.log(sums))])


def divergences(events: Counted) -> Vector:
    """The Renyi divergence of all events together at each of ORDERS; they add.

    >>> from crescendo_dp.events import PoissonGaussian
    >>> float(divergences(((PoissonGaussian(1.0, 2.0), 4),))[list(ORDERS).index(2)])   # 4 a / (2 sigma^2)
    1.0
    """
    total = np.zeros(len(_WHOLE))
    for event, count in events:
        gaussian = isinstance(event, PoissonGaussian)
        moments = _log_moments(event.rate, event.sigma) if gaussian else event.log_moments(_WHOLE.astype(float))
        total = total + count * moments
    with np.errstate(invalid="ignore"):  # inf - inf between two infinite orders
        everything = np.interp(ORDERS, _WHOLE, total)
    divergence: Vector = np.where(np.isnan(everything), math.inf, everything) / (ORDERS - 1)
    return divergence


def epsilon_of(divergence: Vector, delta: float) -> tuple[float, float]:
    """The least epsilon over ORDERS, and the order that gives it (Canonne, Kamath, Steinke 2020, Proposition 12).

    >>> from crescendo_dp.events import PoissonGaussian
    >>> epsilon, order = epsilon_of(divergences(((PoissonGaussian(0.01, 1.0), 1000),)), 1e-5)
    >>> round(epsilon, 2), order
    (2.11, 8.0)
    """
    if not divergence.any():
        return 0.0, math.inf
    found = divergence + np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    best = int(np.argmin(found))
    return max(0.0, float(found[best])), float(ORDERS[best])
