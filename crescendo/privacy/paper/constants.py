"""The constants of the paper's privacy theorems as functions of plain numbers. `theorems` says what is corrected and why.

Letters: q_i = q (i+m)^p the rates, sigma the noise, K gradients of a client with N records, T rounds, gamma >= m/T,
alpha = r0/sigma >= the largest rate.
"""

from __future__ import annotations

import math

from crescendo.errors import UsageError

E = math.e
_ROOT = (math.sqrt(3) - 1) / 2


def u0(r0: float, sigma: float) -> float:
    """u_0 = 2 sqrt(r0 sigma) / (sigma - r0).

    >>> u0(1 / E, 8)
    0.4495546831835495
    """
    return 2 * math.sqrt(r0 * sigma) / (sigma - r0) if sigma > r0 else math.inf


def u1(r0: float, sigma: float) -> float:
    """u_1 = 2e sqrt(r0 sigma) / ((sigma - r0) sigma).

    >>> u1(1 / E, 8)
    0.15275204077456322
    """
    return 2 * E * math.sqrt(r0 * sigma) / ((sigma - r0) * sigma) if sigma > r0 else math.inf


def r(r0: float, sigma: float) -> float:
    """r = 8 r0 (1/(1-u0) + e^3/sigma^3 / (1-u1)) exp(3/sigma^2), the constant of the higher order term.

    >>> r(1 / E, 8)
    5.7460446671129635
    """
    low, high = u0(r0, sigma), u1(r0, sigma)
    if low >= 1 or high >= 1:
        return math.inf
    return r0 * 2**3 * (1 / (1 - low) + 1 / (1 - high) * E**3 / sigma**3) * math.exp(3 / sigma**2)


def smallest_sigma() -> float:
    """The sigma from which the fixed point r0(sigma) is proved to exist: u1 < 1 at r0 = (sqrt(3)-1)/16.

    >>> round(smallest_sigma(), 5)
    1.13654
    """
    top = _ROOT / 8
    low, high = 1.0, 2.0
    while high - low > 1e-15:
        middle = (low + high) / 2
        low, high = (low, middle) if u1(top, middle) < 1 else (middle, high)
    return high


def r0(sigma: float, p: float = 1.0) -> float:
    """r0(sigma), the fixed point that makes K- and K+ meet: r(r0) = .366 (3p+1)/((p+1)(2p+1)) (1 - r0/sigma)^2.

    >>> round(r0(3), 6), round(r0(5), 6)
    (0.01099, 0.020335)
    """
    if sigma < smallest_sigma():
        raise UsageError(f"r0(sigma) exists from sigma = {smallest_sigma():.5f} on, got {sigma}")
    if p < 0:
        raise UsageError(f"the power p of the sizes must be 0 or more, got {p}")
    share, before = 0.0, -1.0
    for _ in range(10_000):
        if abs(share - before) <= 1e-17:
            break
        tail = 1 / (1 - u0(share, sigma)) + 1 / (1 - u1(share, sigma)) * E**3 / sigma**3
        top = _ROOT * (3 * p + 1) / ((p + 1) * (2 * p + 1)) * (1 - share / sigma) ** 2
        share, before = top / (8 * tail * math.exp(3 / sigma**2)), share
    return share


def B(p: float, r0: float | None = None, sigma: float = math.inf, gamma: float = 0.0) -> float:
    """B of Paper [thm-mainp] for a given r0; without one B of Paper [thmmain], which is B at r0(sigma).

    >>> B(1), B(1, 1 / E, 8)
    (0.5321797270231777, 0.1368988621622339)
    """
    power = (1 + p) / (1 + 2 * p)
    if r0 is None:
        return float(1 / (1 + p) * (_ROOT * (2 * p + 1)) ** power)
    x = 2 * r(r0, sigma) * (p + 1) * (2 * p + 1) * (1 + gamma) ** (2 * p) / ((3 * p + 1) * (1 - r0 / sigma) ** 2) + 1
    return float(A(p, r0, sigma, gamma) * (2 * (1 + gamma) ** -(3 + 4 * p) / (x * x - 1)) ** power)


def A(p: float, r0: float | None = None, sigma: float = math.inf, gamma: float = 0.0) -> float:
    """A of Paper [thm-mainp] for a given r0; without one A of Paper [thmmain].

    >>> A(1) == B(1), round(A(1, gamma=0.1) / B(1), 4)
    (True, 1.5601)
    """
    power = (1 + p) / (1 + 2 * p)
    if r0 is None:
        return float(B(p) * (1 + gamma) ** ((3 + 4 * p) * power))
    inner = r(r0, sigma) * (2 * p + 1) ** 2 / (3 * p + 1) * (1 + gamma) ** (3 * (1 + 2 * p)) / (1 - r0 / sigma) ** 2
    return float((p + 1) ** (-p / (1 + 2 * p)) * inner**power)


def D(p: float, r0: float, sigma: float, gamma: float = 0.0) -> float:
    """D = (r0/sigma)^((1+p)/p) / (p+1) (1+gamma)^-(1+p). The paper prints +(1+p), which allows rates above r0/sigma.

    >>> D(1, 1 / E, 8)
    0.0010573069002860367
    """
    return float((r0 / sigma) ** ((1 + p) / p) / (p + 1) * (1 + gamma) ** -(1 + p))


def K_minus(B: float, epsilon: float, q: float, p: float, records: float) -> float:
    """K- = B epsilon^((1+p)/(1+2p)) q^(-1/(1+2p)) N: up to here case 1. With A in place of B it is K+, where case 2 begins.

    >>> round(K_minus(B(1), 2, 1.0, 1, 1), 16)
    0.8447826585127415
    """
    return float(B * epsilon ** ((1 + p) / (1 + 2 * p)) * q ** (-1 / (1 + 2 * p)) * records)


K_plus = K_minus


def K_star(D: float, q: float, p: float, records: float) -> float:
    """K* = D q^(-1/p) N: up to here the last rate stays at or under r0/sigma.

    >>> round(K_star(D(1, 1 / E, 8), 0.0004229227601144147, 1, 10_000))
    25000
    """
    return float(D * q ** (-1 / p) * records)


def c(x: float, r: float, rho: float, rho_hat: float) -> float:
    """c(x) = min((sqrt(2 r rho x + 1) - 1) / (r rho x), 2 / (rho_hat x)) of Paper [thm1].

    >>> round(c(2.0, 1.0, 1.0, 1.0), 6), c(1e-300, 1.0, 1.0, 1.0)
    (0.618034, 1.0)
    """
    return min(2 / (math.sqrt(2 * r * rho * x + 1) + 1), 2 / (rho_hat * x))  # the first written so that nothing cancels


def case_one(p: float, alpha: float, gamma: float) -> float:
    """sigma >= sqrt(2 ln(1/delta)/epsilon) times this, (1+gamma)^(2+3p) / sqrt(1-alpha), while K <= K-."""
    return float((1 + gamma) ** (2 + 3 * p) / math.sqrt(1 - alpha))


def case_two(p: float, r0: float, sigma: float, gamma: float, k: float) -> float:
    """sigma >= sqrt(2 ln(1/delta)/epsilon) times this when K = k K+, k >= 1. At r0(sigma) it is 1.21 k^(..) times case 1."""
    spread = 2 / (1 - r0 / sigma) ** 1.5 * math.sqrt(r(r0, sigma) * (p + 1) * (2 * p + 1) / (3 * p + 1))
    return float(k ** ((1 + 2 * p) / (2 + 2 * p)) * spread * (1 + gamma) ** (2 * (1 + 2 * p)))


def least_r(p: float, alpha: float, gamma: float) -> float:
    """Case 2 needs r at least this; r0(sigma) gives exactly this at gamma = 0."""
    return float(_ROOT * (3 * p + 1) / ((p + 1) * (2 * p + 1)) * (1 - alpha) ** 2 / (1 + gamma) ** (2 * p) * (1 - 1e-9))
