"""The paper's privacy theorems as functions of plain numbers, corrected: a comparison for the tight accountant.

Letters: q_i = q (i+m)^p the rates, sigma the noise, K gradients of a client with N records, T rounds, gamma >= m/T,
alpha = r0/sigma >= the largest rate. The corrections, made here and nowhere else in the code
(the experiment that reproduces the paper's examples keeps the uncorrected forms):

- Paper [lemthree] fails for sigma < 1, so sigma >= 1 is required.
- Paper [thm1] uses a real lambda where its proof needs a positive integer. Here lambda is a whole number, and the theorem gives
  delta = exp(-lambda epsilon / 2). Paper [thmmain] and Paper [thm-mainp] inherit this.
- K* has (1+gamma)^-(1+p), not (1+gamma)^(1+p); gamma is m over the true number of rounds, not over its upper bound.

A theorem whose conditions fail does not apply; the verdict gives the reason, with both sides.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from crescendo_dp.accounting.epsilon import check_delta
from crescendo_dp.paper.constants import Constants, E


@dataclass(frozen=True)
class _Condition:
    """``left relation right``, with a name for the left side, and for the right side where it is more than a number."""

    name: str
    left: float
    relation: str
    right: float
    bound: str = ""

    @property
    def holds(self) -> bool:
        return {"<=": self.left <= self.right, "<": self.left < self.right, ">=": self.left >= self.right}[
            self.relation
        ]

    def __str__(self) -> str:
        bound = f"{self.bound} = " if self.bound else ""
        return f"needs {self.name} {self.relation} {bound}{self.right:.6g}, has {self.left:.6g}"


@dataclass(frozen=True)
class Verdict:
    """The verdict of a theorem: (epsilon, delta) if it applies, else epsilon None. ``why`` is one sentence."""

    theorem: str
    epsilon: float | None
    delta: float
    conditions: tuple[_Condition, ...]
    why: str

    @property
    def applies(self) -> bool:
        return self.epsilon is not None


def moment(rate: float, sigma: float, order: int) -> Verdict:
    """Paper [lemthree]: a bound on the ``order``-th log moment alpha(lambda) of one round, in place of an epsilon.

    >>> round(moment(0.01, 4.0, 8).epsilon, 6), moment(0.01, 0.9, 1).why
    (0.000589, 'does not apply: needs sigma >= 1, has 0.9')
    """
    share = rate * sigma
    reach = sigma**2 * math.log(1 / share) if share > 0 else math.inf
    at, scale = Constants(1, share, sigma), math.sqrt(order) / sigma  # U(lambda) = u sqrt(lambda) / sigma
    conditions = (
        _Condition("sigma", sigma, ">=", 1),
        _Condition("lambda", float(order), ">=", 1),
        _Condition("r0 = q sigma", share, "<", 1),
        _Condition("lambda", order, "<=", reach, "sigma^2 ln(1/(q sigma))"),
        _Condition("U0(lambda)", at.u0 * scale, "<", 1),
        _Condition("U1(lambda)", at.u1 * scale, "<", 1),
    )
    bound = None
    if all(condition.holds for condition in conditions):
        tail = 1 / (1 - conditions[4].left) + E**3 / sigma**3 / (1 - conditions[5].left)
        higher = 2**3 * tail * math.exp(3 / sigma**2) * rate**3 * order**2 * (order + 1) / ((1 - rate) ** 2 * sigma**3)
        bound = rate**2 * order * (order + 1) / ((1 - rate) * sigma**2) + higher
    return _verdict("lemthree", bound, math.nan, conditions)


def theorem_one(rates: Iterable[tuple[float, int]], sigma: float, delta: float, r0: float | None = None) -> Verdict:
    """Paper [thm1]: the least epsilon it proves for rounds with these (rate, count), all with noise ``sigma``.

    With epsilon = c1 T S1^2, it asks sigma >= 2 sqrt(S2 T ln(1/delta)) / (sqrt(c(c1)) epsilon). In each whole lambda,
    epsilon = 2 ln(1/delta) / lambda; the largest lambda that satisfies it is the best. r0 defaults to the least, sigma max q.

    >>> round(theorem_one([(0.0016, 1563)], 5.78, 5.5e-8).epsilon, 9)
    1.013086827
    """
    check_delta(delta)
    pairs = [(rate, count) for rate, count in rates if rate > 0 and count > 0]
    if not pairs:
        return Verdict("thm1", 0.0, delta, (), "nothing was released")
    top = max(rate for rate, _ in pairs)
    share = top * sigma if r0 is None else r0
    at = Constants(1, share, sigma)
    conditions = [
        _Condition("sigma", sigma, ">=", 1),
        _Condition("the largest rate", top, "<=", share / sigma * (1 + 1e-12) if sigma else 0.0, "r0/sigma"),
        _Condition("r0", share, "<=", 1 / E),
        _Condition("u0", at.u0, "<", 1),
        _Condition("u1", at.u1, "<", 1),
    ]
    best = None
    if all(condition.holds for condition in conditions):
        wholes = np.arange(1.0, min(sigma**2, 1e6) + 1e-9)
        meets = [float(x) for x in wholes if sigma >= needed_sigma(pairs, sigma, delta, float(x), share)]
        best = 2 * -math.log(delta) / meets[-1] if meets else None
        if best is None:
            needed = needed_sigma(pairs, sigma, delta, 1.0, share)
            conditions.append(_Condition("sigma", sigma, ">=", needed, "the bound at lambda 1"))
    return _verdict("thm1", best, delta, tuple(conditions))


def needed_sigma(rates: list[tuple[float, int]], sigma: float, delta: float, order: float, r0: float) -> float:
    """The right side of Paper [thm1] where epsilon = 2 ln(1/delta) / lambda, lambda = ``order``."""
    rounds = sum(count for _, count in rates)
    s1, s2, s3 = (sum(n * q**j / (1 - q) ** (j - 1) for q, n in rates) / rounds for j in (1, 2, 3))
    epsilon = 2 * -math.log(delta) / order
    c0 = _c(epsilon / (rounds * s1**2), Constants(1, r0, sigma).r, s1 * s3 / s2**2, s1**2 / s2)
    return 2 / math.sqrt(c0) * math.sqrt(s2 * rounds * -math.log(delta)) / epsilon


def _c(x: float, r: float, rho: float, rho_hat: float) -> float:
    """c(x) = min((sqrt(2 r rho x + 1) - 1) / (r rho x), 2 / (rho_hat x)) of Paper [thm1].

    >>> round(_c(2.0, 1.0, 1.0, 1.0), 6), _c(1e-300, 1.0, 1.0, 1.0)
    (0.618034, 1.0)
    """
    return min(2 / (math.sqrt(2 * r * rho * x + 1) + 1), 2 / (rho_hat * x))  # the first written so that nothing cancels


def whole_lambda(epsilon: float, delta: float) -> int:
    """The least whole lambda with exp(-lambda epsilon / 2) <= delta.

    >>> whole_lambda(1, 5.5e-8)
    34
    """
    return max(1, math.ceil(2 * -math.log(delta) / epsilon * (1 - 1e-12)))


def main_theorem(
    epsilon: float,
    delta: float,
    sigma: float,
    *,
    records: float,
    gradients: float,
    q: float,
    m: float,
    p: float,
    rounds: float,
    r0: float | None = None,
) -> Verdict:
    """Paper [thmmain] with r0(sigma), or Paper [thm-mainp] with a given r0: is this (epsilon, delta)?

    >>> example = dict(records=10_000, gradients=25_000, q=1.2e-4, m=16 / 1.2, p=1, rounds=192)
    >>> main_theorem(1, 5.5e-8, 9.0, r0=1 / E, **example).applies, main_theorem(1, 5.5e-8, 9.0, **example).why
    (True, 'does not apply: needs K <= K* = 291.579, has 25000')
    """
    check_delta(delta)
    name = "thmmain" if r0 is None else "thm-mainp"
    conditions = [_Condition("sigma", sigma, ">=", Constants.smallest_sigma() if r0 is None else 1.0)]
    if not conditions[0].holds:
        return _verdict(name, None, delta, tuple(conditions))
    share = Constants.fixed_point(sigma, p) if r0 is None else r0
    at = Constants(p, share, sigma, m / rounds)
    conditions += [
        _Condition("r0", share, "<=", 1 / E),
        _Condition("u0", at.u0, "<", 1),
        _Condition("u1", at.u1, "<", 1),
    ]
    if not all(condition.holds for condition in conditions):
        return _verdict(name, None, delta, tuple(conditions))
    if p > 0:
        conditions.append(_Condition("K", gradients, "<=", at.K_star(q, records), "K*"))
    else:
        conditions.append(_Condition("the rate", q, "<=", at.alpha, "r0/sigma"))
    budget = math.sqrt(whole_lambda(epsilon, delta))
    low = at.K_minus(epsilon, q, records)
    high = at.K_plus(epsilon, q, records)
    if gradients < high:
        conditions.append(_Condition("K", gradients, "<=", low, "K-"))
        conditions.append(_Condition("sigma", sigma, ">=", budget * at.case_one, "the bound of case 1"))
    else:
        conditions.append(_Condition("r", at.r, ">=", at.least_r, "the bound of case 2"))
        factor = at.case_two(gradients / high)
        conditions.append(_Condition("sigma", sigma, ">=", budget * factor, "the bound of case 2"))
    met = all(condition.holds for condition in conditions)
    return _verdict(name, epsilon if met else None, delta, tuple(conditions))


def _verdict(theorem: str, value: float | None, delta: float, conditions: tuple[_Condition, ...]) -> Verdict:
    failed = next((condition for condition in conditions if not condition.holds), None)
    why = "applies" if value is not None else f"does not apply: {failed}"
    return Verdict(theorem, value, delta, conditions, why)
