"""Bounds of the strongly convex theory after t gradients, for plots of a run."""

import math
from typing import Any

import numpy as np

from crescendo.errors import UsageError
from crescendo.schedules.delay import StronglyConvexDelay
from crescendo.schedules.parameters import FloatArray, real, whole

_LARGEST_LOG = 2000.0  # from here on sqrt(t) is more than any float


def upper_bound(t: Any, G: float, mu: float, m: int, m1: float, blocks: int = 1) -> Any:
    """Return the bound on E||w_t - w*||^2 from T0 on (`log_t0`), with G = 2 E||grad f(w*)||^2, the paper's N.

    Paper [thmsc], with the factor D (``blocks``) that Paper [app-rec] gives it when updates are masked::

        8 * 36^2 * D * G/mu^2 * t / ( t + 2 M1 + sqrt( ((m+1)^2/4 + t) / ln((m+1)^2/4 + t) ) - 1 )^2

    >>> f"{upper_bound(10**6, G=1, mu=0.1, m=6317, m1=720):.4f}"
    '1.0321'
    """
    labels = _labels(t)
    shift = labels + 2 * StronglyConvexDelay(m, m1)(labels) - 1
    factor = 8 * 36**2 * whole("blocks", blocks, least=1) * _moment(G) / real("mu", mu, above=0) ** 2
    bound = factor * labels / shift**2
    return bound if np.ndim(t) else float(bound[0])


def log_t0(L: float, mu: float, m: int, m1: float) -> float:
    """Return ln T0, where T0 is the least t for which the upper bound is proved; ln T0 is at least 146.

    Paper [tau1] and the sentence after it, for dense data (Delta = 1) and alpha = 36: the theorem's tau(t) is at most
    sqrt(t/ln t (1 - 1/ln t)), and the terms of higher order are at most the leading one from here on::

        T0 = exp( 2 sqrt(Delta) (1 + (L + mu) alpha / mu) )

    >>> log_t0(L=1, mu=1, m=6317, m1=72)
    146.0
    """
    L, mu = real("L", L, above=0), real("mu", mu, above=0)
    found, tau = 2 * (1 + (L + mu) * 36 / mu), StronglyConvexDelay(m, m1)
    while found < _LARGEST_LOG and not _within_growth(found, tau):  # a stated M1 may have any size
        found += 1.0
    return found


def _within_growth(log_t: float, tau: StronglyConvexDelay) -> bool:
    """Return True if tau(t) <= sqrt(t/ln t (1 - 1/ln t)), computed in logarithms, since t may exceed floats."""
    log_x = np.logaddexp(log_t, math.log(tau.m0))
    log_tau = np.logaddexp(math.log(tau.m1) if tau.m1 else -math.inf, (log_x - math.log(4 * log_x)) / 2)
    return bool(log_tau <= (log_t - math.log(log_t) + math.log1p(-1 / log_t)) / 2)


def lower_bound(t: Any, G: float, mu: float) -> Any:
    """Return the leading term of a worst case over problems: Paper [thmsc], G / (2 mu^2 t), G = 2 E||grad f(w*)||^2.

    For any step sizes, some strongly convex problem with this G and mu stays this far from w*. This is not a lower
    bound for a particular problem: runs come 4 to 12 times closer.

    >>> lower_bound(100, G=1, mu=0.5)
    0.02
    """
    bound = _moment(G) / (2 * real("mu", mu, above=0) ** 2 * _labels(t))
    return bound if np.ndim(t) else float(bound[0])


def _labels(t: Any) -> FloatArray:
    labels = np.atleast_1d(np.asarray(t))
    if labels.dtype.kind not in "iuf" or not bool(np.all(labels > 0)):
        raise UsageError(f"the bounds hold after t > 0 gradients, got {t!r}")
    return labels.astype(np.float64)


def _moment(G: float) -> float:
    return real("G", G, least=0)
