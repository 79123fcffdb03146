"""What the strongly convex theory promises after t gradients, to draw beside a run."""

from typing import Any

import numpy as np

from crescendo.errors import UsageError
from crescendo.schedules.delay import StronglyConvexDelay
from crescendo.schedules.parameters import FloatArray, real


def upper_bound(t: Any, G: float, mu: float, m: int, m1: float) -> Any:
    """The bound on E||w_t - w*||^2 for t large enough, with G = 2 E||grad f(w*)||^2, which the paper calls N.

    Paper [thmsc]::

        8 * 36^2 * G/mu^2 * t / ( t + 2 M1 + sqrt( ((m+1)^2/4 + t) / ln((m+1)^2/4 + t) ) - 1 )^2

    >>> f"{upper_bound(10**6, G=1, mu=0.1, m=6317, m1=720):.4f}"
    '1.0321'
    """
    labels = _labels(t)
    shift = labels + 2 * StronglyConvexDelay(m, m1)(labels) - 1
    bound = 8 * 36**2 * _moment(G) / real("mu", mu, above=0) ** 2 * labels / shift**2
    return bound if np.ndim(t) else float(bound[0])


def lower_bound(t: Any, G: float, mu: float) -> Any:
    """What no step sizes can beat, leading term: Paper [thmsc] has G / (2 mu^2 t), with G = 2 E||grad f(w*)||^2.

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
