"""Confidence bounds: exact for counts, chi-squared for a scale."""

from __future__ import annotations

import math

import numpy as np

from crescendo.core.arrays import Array


def clopper_pearson(hits: int, runs: int, alpha: float) -> tuple[float, float]:
    """A lower and an upper bound on a probability, each wrong with probability at most ``alpha``.

    >>> low, high = clopper_pearson(0, 100, 0.05)
    >>> low, round(high, 4)                                # 1 - 0.05 ** (1 / 100)
    (0.0, 0.0295)
    """
    from scipy.stats import beta

    low = 0.0 if hits == 0 else float(beta.ppf(alpha, hits, runs - hits + 1))
    high = 1.0 if hits == runs else float(beta.ppf(1 - alpha, hits + 1, runs - hits))
    return low, high


def scale_bounds(values: Array, alpha: float) -> tuple[float, float]:
    """Bounds on the standard deviation of a Gaussian with mean 0, each wrong with probability at most ``alpha``."""
    from scipy.stats import chi2

    total, n = float(np.sum(np.square(values))), values.size
    return math.sqrt(total / chi2.ppf(1 - alpha, n)), math.sqrt(total / chi2.ppf(alpha, n))


def epsilon_of_rates(tpr_low: float, fpr_high: float, delta: float) -> float:
    """The least epsilon that allows such a test: P(hit | with) <= e^eps P(hit | without) + delta.

    >>> round(epsilon_of_rates(0.5, 0.01, 0.0), 3)
    3.912
    """
    return math.log((tpr_low - delta) / fpr_high) if tpr_low - delta > fpr_high > 0 else 0.0


def normal_tail(x: float) -> float:
    """The probability of a Gaussian number above ``x``."""
    from scipy.special import ndtr

    return float(ndtr(-x))


def normal_quantile(alpha: float) -> float:
    """How many standard deviations a Gaussian exceeds with probability ``alpha``."""
    from scipy.special import ndtri

    return -float(ndtri(alpha))
