"""The paper's parameter selection [app:app]: from a request to q, m, T and sigma, with its theorems as corrected.

Case 1 takes the largest q with K <= K- and K <= K*; case 2 the largest with K <= k K+ and K <= K*, for some k >= 1. q gives m
(the first size is N q m^p), m and q give T, and gamma = m/T enters K-, K+ and K*, so one iterates. r0 is r0(sigma) or a
given one. The noise sought is the least sigma that its own bound allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from crescendo_dp.errors import UsageError
from crescendo_dp.paper.constants import Constants
from crescendo_dp.paper.theorems import Verdict, main_theorem, whole_lambda

_GROWTH = 1.02
_MOST_SIGMA = 1e4
_FACTORS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0)


@dataclass(frozen=True)
class Recipe:
    """N q (i+m)^p in ``rounds`` rounds with ``sigma``; ``factor`` is k of case 2, None in case 1."""

    q: float
    m: float
    p: float
    rounds: int
    sigma: float
    r0: float
    factor: float | None
    verdict: Verdict

    @property
    def aggregated_noise(self) -> float:
        return math.sqrt(self.rounds) * self.sigma

    @classmethod
    def least(
        cls,
        epsilon: float,
        delta: float,
        records: int,
        gradients: int,
        first_size: float,
        power: float = 1.0,
        r0: float | None = None,
    ) -> Recipe:
        """The least aggregated noise that the procedure finds, over cases 1 and 2 and, if none is given, r0(sigma) and r0 = 1/e.

        >>> found = Recipe.least(1, 5.5e-8, 10_000, 25_000, first_size=16, r0=1 / math.e)
        >>> found.factor, found.rounds, round(found.sigma, 2), round(found.m / found.rounds, 3)
        (None, 181, 8.2, 0.066)
        """
        request = _Request(epsilon, delta, records, gradients, first_size, power)
        shares = (None, 1 / math.e) if r0 is None else (r0,)
        tried = [_least(request, share, factor) for share in shares for factor in (None, *_FACTORS)]
        found = [recipe for recipe in tried if recipe is not None]
        if not found:
            raise UsageError(
                f"the paper's procedure finds no setting for {request.gradients:,} gradients of {request.records:,} records "
                f"from size {request.first_size:g}; plan with the tight method instead"
            )
        return min(found, key=lambda recipe: recipe.aggregated_noise)


@dataclass(frozen=True)
class _Request:
    """The quantities that the paper assumes to be known."""

    epsilon: float
    delta: float
    records: int
    gradients: int
    first_size: float
    power: float


def _least(request: _Request, r0: float | None, factor: float | None) -> Recipe | None:
    """The least sigma, to a thousandth, at which the procedure allows that sigma."""
    sigma = Constants.smallest_sigma() * 1.0001
    while sigma < _MOST_SIGMA and not _allowed(request, r0, factor, sigma):
        sigma *= _GROWTH
    if sigma >= _MOST_SIGMA:
        return None
    low, best = sigma / _GROWTH, _allowed(request, r0, factor, sigma)
    while sigma - low > 1e-3 * sigma:
        middle = (low + sigma) / 2
        found = _allowed(request, r0, factor, middle)
        low, sigma, best = (low, middle, found) if found else (middle, sigma, best)
    return best


def _allowed(request: _Request, r0: float | None, factor: float | None, sigma: float) -> Recipe | None:
    share = Constants.fixed_point(sigma, request.power) if r0 is None else r0
    if math.sqrt(whole_lambda(request.epsilon, request.delta)) > sigma or Constants(1, share, sigma).r == math.inf:
        return None  # no case allows less than the budget itself
    shape = _iterated(request, share, factor, sigma)
    if shape is None:
        return None
    q, m, rounds = shape
    verdict = main_theorem(
        request.epsilon,
        request.delta,
        sigma,
        records=request.records,
        gradients=request.gradients,
        q=q,
        m=m,
        p=request.power,
        rounds=rounds,
        r0=share,
    )
    return (
        Recipe(q, m, request.power, max(1, round(rounds)), sigma, share, factor, verdict) if verdict.applies else None
    )


def _iterated(request: _Request, r0: float, factor: float | None, sigma: float) -> tuple[float, float, float] | None:
    """q, m and the true T at the fixed point of gamma = m/T."""
    p, records, gradients = request.power, request.records, request.gradients
    if p == 0:
        return request.first_size / records, 0.0, gradients / request.first_size
    gamma, epochs = 0.0, gradients / records
    for _ in range(200):
        at = Constants(p, r0, sigma, gamma)
        constant = at.B if factor is None else factor * at.A
        by_case = (constant * request.epsilon ** ((1 + p) / (1 + 2 * p)) / epochs) ** (1 + 2 * p)
        q = min(by_case, (at.D / epochs) ** p) * (1 - 1e-9)
        m = (request.first_size / (records * q)) ** (1 / p)
        rounds = _true_rounds(q * records, m, p, gradients)
        if m > 100 * rounds:  # so far from growing that T may even be lost in rounding
            return None
        if abs(m / rounds - gamma) <= 1e-12:
            break
        gamma = m / rounds
    return q, m, rounds


def _true_rounds(scale: float, m: float, p: float, gradients: float) -> float:
    """T with the integral of scale x^p from m to m+T equal to K, close to the sum over rounds.

    The paper uses ((p+1) K / scale)^(1/(p+1)), an upper bound, 195 where this is 184 in Example 3.

    >>> round(_true_rounds(1.3216, 12.106, 1, 25_000), 1)
    182.8
    """
    return float(((p + 1) * gradients / scale + m ** (p + 1)) ** (1 / (p + 1)) - m)
