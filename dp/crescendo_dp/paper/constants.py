"""The constants of the paper's privacy theorems as functions of plain numbers. `theorems` lists the corrections.

Letters: q_i = q (i+m)^p the rates, sigma the noise, K gradients of a client with N records, T rounds, gamma >= m/T,
alpha = r0/sigma >= the largest rate.
"""

import math
from dataclasses import dataclass

from crescendo_dp.errors import UsageError

E = math.e
_ROOT = (math.sqrt(3) - 1) / 2


@dataclass(frozen=True)
class Constants:
    """The letters of Paper [thm-mainp] for a given r0; with r0 = r0(sigma) they are those of Paper [thmmain].

    >>> Constants(1, 1 / E, 8).B
    0.1368988621622339
    """

    p: float
    r0: float
    sigma: float
    gamma: float = 0.0

    @property
    def alpha(self) -> float:
        return self.r0 / self.sigma

    @property
    def u0(self) -> float:
        """u_0 = 2 sqrt(r0 sigma) / (sigma - r0).

        >>> Constants(1, 1 / E, 8).u0
        0.4495546831835495
        """
        return 2 * math.sqrt(self.r0 * self.sigma) / (self.sigma - self.r0) if self.sigma > self.r0 else math.inf

    @property
    def u1(self) -> float:
        """u_1 = 2e sqrt(r0 sigma) / ((sigma - r0) sigma).

        >>> Constants(1, 1 / E, 8).u1
        0.15275204077456322
        """
        if self.sigma <= self.r0:
            return math.inf
        return 2 * E * math.sqrt(self.r0 * self.sigma) / ((self.sigma - self.r0) * self.sigma)

    @property
    def r(self) -> float:
        """r = 8 r0 (1/(1-u0) + e^3/sigma^3 / (1-u1)) exp(3/sigma^2), the constant of the higher order term.

        >>> Constants(1, 1 / E, 8).r
        5.7460446671129635
        """
        low, high = self.u0, self.u1
        if low >= 1 or high >= 1:
            return math.inf
        tail = 1 / (1 - low) + 1 / (1 - high) * E**3 / self.sigma**3
        return self.r0 * 2**3 * tail * math.exp(3 / self.sigma**2)

    @staticmethod
    def main(p: float, gamma: float = 0.0) -> tuple[float, float]:
        """A and B of Paper [thmmain], which are those at r0(sigma) for any sigma.

        >>> Constants.main(1), round(Constants.main(1, gamma=0.1)[0] / Constants.main(1)[1], 4)
        ((0.5321797270231777, 0.5321797270231777), 1.5601)
        """
        power = (1 + p) / (1 + 2 * p)
        B = float(1 / (1 + p) * (_ROOT * (2 * p + 1)) ** power)
        return float(B * (1 + gamma) ** ((3 + 4 * p) * power)), B

    @property
    def B(self) -> float:
        p, gamma, power = self.p, self.gamma, (1 + self.p) / (1 + 2 * self.p)
        x = 2 * self.r * (p + 1) * (2 * p + 1) * (1 + gamma) ** (2 * p) / ((3 * p + 1) * (1 - self.alpha) ** 2) + 1
        return float(self.A * (2 * (1 + gamma) ** -(3 + 4 * p) / (x * x - 1)) ** power)

    @property
    def A(self) -> float:
        p, power = self.p, (1 + self.p) / (1 + 2 * self.p)
        inner = self.r * (2 * p + 1) ** 2 / (3 * p + 1) * (1 + self.gamma) ** (3 * (1 + 2 * p)) / (1 - self.alpha) ** 2
        return float((p + 1) ** (-p / (1 + 2 * p)) * inner**power)

    @property
    def D(self) -> float:
        """D = (r0/sigma)^((1+p)/p) / (p+1) (1+gamma)^-(1+p). The paper prints +(1+p), which allows rates above r0/sigma.

        >>> Constants(1, 1 / E, 8).D
        0.0010573069002860367
        """
        p = self.p
        return float(self.alpha ** ((1 + p) / p) / (p + 1) * (1 + self.gamma) ** -(1 + p))

    def K_minus(self, epsilon: float, q: float, records: float) -> float:
        """K- = B epsilon^((1+p)/(1+2p)) q^(-1/(1+2p)) N: up to here case 1."""
        return self._K(self.B, epsilon, q, records)

    def K_plus(self, epsilon: float, q: float, records: float) -> float:
        """K+, with A in place of B: where case 2 begins."""
        return self._K(self.A, epsilon, q, records)

    def _K(self, constant: float, epsilon: float, q: float, records: float) -> float:
        p = self.p
        return float(constant * epsilon ** ((1 + p) / (1 + 2 * p)) * q ** (-1 / (1 + 2 * p)) * records)

    def K_star(self, q: float, records: float) -> float:
        """K* = D q^(-1/p) N: up to here the last rate stays at or under r0/sigma.

        >>> round(Constants(1, 1 / E, 8).K_star(0.0004229227601144147, 10_000))
        25000
        """
        return float(self.D * q ** (-1 / self.p) * records)

    @property
    def case_one(self) -> float:
        """sigma >= sqrt(2 ln(1/delta)/epsilon) times this, (1+gamma)^(2+3p) / sqrt(1-alpha), while K <= K-."""
        return float((1 + self.gamma) ** (2 + 3 * self.p) / math.sqrt(1 - self.alpha))

    def case_two(self, k: float) -> float:
        """sigma >= sqrt(2 ln(1/delta)/epsilon) times this when K = k K+, k >= 1. At r0(sigma) it is 1.21 k^(..) times case 1."""
        p = self.p
        spread = 2 / (1 - self.alpha) ** 1.5 * math.sqrt(self.r * (p + 1) * (2 * p + 1) / (3 * p + 1))
        return float(k ** ((1 + 2 * p) / (2 + 2 * p)) * spread * (1 + self.gamma) ** (2 * (1 + 2 * p)))

    @property
    def least_r(self) -> float:
        """Case 2 needs r at least this; r0(sigma) gives exactly this at gamma = 0."""
        p = self.p
        least = _ROOT * (3 * p + 1) / ((p + 1) * (2 * p + 1)) * (1 - self.alpha) ** 2 / (1 + self.gamma) ** (2 * p)
        return float(least * (1 - 1e-9))

    @staticmethod
    def smallest_sigma() -> float:
        """The sigma from which the fixed point r0(sigma) is proved to exist: u1 < 1 at r0 = (sqrt(3)-1)/16.

        >>> round(Constants.smallest_sigma(), 5)
        1.13654
        """
        top = _ROOT / 8
        low, high = 1.0, 2.0
        while high - low > 1e-15:
            middle = (low + high) / 2
            low, high = (low, middle) if Constants(1, top, middle).u1 < 1 else (middle, high)
        return high

    @staticmethod
    def fixed_point(sigma: float, p: float = 1.0) -> float:
        """r0(sigma), the fixed point that makes K- and K+ meet: r(r0) = 0.366 (3p+1)/((p+1)(2p+1)) (1 - r0/sigma)^2.

        >>> round(Constants.fixed_point(3), 6), round(Constants.fixed_point(5), 6)
        (0.01099, 0.020335)
        """
        if sigma < Constants.smallest_sigma():
            raise UsageError(f"r0(sigma) exists from sigma = {Constants.smallest_sigma():.5f} on, got {sigma}")
        if p < 0:
            raise UsageError(f"the power p of the sizes must be 0 or more, got {p}")
        share, before = 0.0, -1.0
        for _ in range(10_000):
            if abs(share - before) <= 1e-17:
                break
            at = Constants(p, share, sigma)
            tail = 1 / (1 - at.u0) + 1 / (1 - at.u1) * E**3 / sigma**3
            top = _ROOT * (3 * p + 1) / ((p + 1) * (2 * p + 1)) * (1 - share / sigma) ** 2
            share, before = top / (8 * tail * math.exp(3 / sigma**2)), share
        return share
