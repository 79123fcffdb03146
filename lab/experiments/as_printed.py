"""The paper's privacy formulas as printed, errors included: they serve to reproduce its examples, and nothing else.

`theorems` has the corrected forms. An epsilon or delta from this page is not a guarantee.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from crescendo_dp.paper.constants import Constants
from crescendo_dp.paper.theorems import needed_sigma


def D(p: float, r0: float, sigma: float, gamma: float = 0.0) -> float:
    """Return D with +(1+p) in the exponent of 1+gamma; it must be -(1+p).

    >>> round(D(1, 0.011, 3, gamma=0.1) / D(1, 0.011, 3), 6)
    1.21
    """
    return float((r0 / sigma) ** ((1 + p) / p) / (p + 1) * (1 + gamma) ** (1 + p))


def rounds(p: float, gradients: float, records: float, q: float) -> float:
    """Return ((p+1) K / (N q))^(1/(p+1)): an upper bound on T, which the examples use as T.

    >>> round(rounds(1, 25_000, 10_000, 1.3216327772100012e-4), 1)      # the true T is 183
    194.5
    """
    return float(((p + 1) * gradients / (records * q)) ** (1 / (p + 1)))


def budget(sigma: float, alpha: float, gamma: float, p: float = 1.0) -> float:
    """Return the largest sqrt(2 ln(1/delta) / epsilon) that case 1 allows to ``sigma``."""
    return float(sigma * math.sqrt(1 - alpha) / (1 + gamma) ** (2 + 3 * p))


def delta(budget: float, epsilon: float) -> float:
    """Return exp(-B^2 epsilon / 2), with B^2 any real number; it must be a whole one.

    >>> delta(1.9707559905883425, 2)
    0.020570872204539764
    """
    return math.exp(-(budget**2) * epsilon / 2)


@dataclass(frozen=True)
class GammaPass:
    """One pass of the iteration on gamma = m/T in case 1."""

    constant: float
    q: float
    m: float
    rounds: float

    @property
    def gamma(self) -> float:
        return self.m / self.rounds


def case_one_step(
    gamma: float, epsilon: float, *, records: float, gradients: float, first_size: float, sigma: float, r0: float
) -> GammaPass:
    """Return one pass: q from K = K- at p = 1, then m and T."""
    constant = Constants(1, r0, sigma, gamma).B * epsilon ** (2 / 3)
    q = (constant * records / gradients) ** 3
    return GammaPass(constant, q, first_size / (records * q), rounds(1, gradients, records, q))


def theorem_one(rates: Iterable[tuple[float, int]], sigma: float, delta: float, r0: float) -> float:
    """Return the least epsilon of [thm1] with a real lambda, found by bisection; lambda may even lie below 1.

    >>> round(theorem_one([(0.05, 80_000)], 2.0, 0.05, 0.1), 1)    # the truth is 39.5
    32.9
    """
    pairs = list(rates)
    low, high = 1e-9, sigma**2 * 2
    for _ in range(200):
        order = math.sqrt(low * high)
        low, high = (order, high) if sigma >= needed_sigma(pairs, sigma, delta, order, r0) else (low, order)
    return 2 * math.log(1 / delta) / low
