"""The paper's theorems for arbitrary rates: they cover rates q (i+m)^p, so a curve of that form is laid over the rates."""

import math
from dataclasses import dataclass

import numpy as np

from crescendo_dp.events import Counted, tally
from crescendo_dp.paper.theorems import Verdict, main_theorem, theorem_one

_POWERS = tuple(j / 20 for j in range(2, 61))
_MOST_ORDERS = 500


@dataclass(frozen=True)
class _Envelope:
    """q (i+m)^p, on or above every rate when rounds are put in the order of their rates, which changes no cost."""

    q: float
    m: float
    p: float
    rounds: int

    @property
    def top(self) -> float:
        """Its largest rate."""
        return float(self.q * (self.rounds - 1 + self.m) ** self.p)

    @property
    def total(self) -> float:
        """The sum of its rates."""
        return float(np.sum(self.q * (np.arange(self.rounds) + self.m) ** self.p))


def _envelope(events: Counted) -> _Envelope:
    """The curve over the rates with the least sum of squares, which the theorems' bounds grow with.

    >>> from crescendo_dp.events import PoissonGaussian
    >>> curve = _envelope(tally(PoissonGaussian(1e-4 * (i + 12), 8.0) for i in range(180)))
    >>> round(curve.q, 9), round(curve.m, 6), curve.p
    (0.0001, 12.0, 1.0)
    """
    rates, counts = np.array([event.rate for event, _ in events]), np.array([count for _, count in events])
    rounds, starts = int(counts.sum()), np.cumsum(counts) - counts
    top = rates[-1] * (1 + 1e-12)
    best, least = _Envelope(float(top), 0.0, 0.0, rounds), rounds * top**2
    for p in _POWERS if len(rates) > 1 else ():
        roots = rates ** (1 / p)
        slope = (roots[-1] - roots[0]) / starts[-1]
        if not slope > 0:
            continue
        m = float(np.max(roots - slope * starts) / slope)
        q = float(slope**p) * (1 + 1e-12)
        squares = float(np.sum((q * (np.arange(rounds) + m) ** p) ** 2))
        if squares < least * (1 - 1e-9):
            best, least = _Envelope(q, m, p, rounds), squares
    return best


def by_theorems(events: Counted, records: int, delta: float) -> tuple[Verdict, ...]:
    """Paper [thm1], and Paper [thmmain] or Paper [thm-mainp], whichever proves less: the least epsilon at ``delta``."""
    events = tally((event, count) for event, count in events if event.rate > 0)
    if not events:
        return ()
    sigma = min(event.sigma for event, _ in events)  # more noise costs no more
    first = theorem_one([(event.rate, count) for event, count in events], sigma, delta)
    return first, _main(events, records, sigma, delta)


def _main(events: Counted, records: int, sigma: float, delta: float) -> Verdict:
    """The best whole lambda: the theorem proves epsilon = 2 ln(1/delta) / lambda, and asks sigma^2 >= lambda at least."""
    curve = _envelope(events)

    def verdict(order: int, r0: float | None) -> Verdict:
        return main_theorem(
            -2 * math.log(delta) / order,
            delta,
            sigma,
            records=records,
            gradients=records * curve.total,
            q=curve.q,
            m=curve.m,
            p=curve.p,
            rounds=curve.rounds,
            r0=r0,
        )

    most = max(1, int(min(sigma**2, 1e9)))
    orders = sorted(
        {int(x) for x in np.geomspace(1, most, _MOST_ORDERS)} if most > _MOST_ORDERS else range(1, most + 1)
    )
    least = min(curve.top * sigma, 1 / math.e)
    shares = (None, *np.geomspace(least, 1 / math.e, 12).tolist())
    for order in reversed(orders):
        for r0 in shares:
            found = verdict(order, r0)
            if found.applies:
                return found
    return max((verdict(1, r0) for r0 in shares), key=_held)


def _held(verdict: Verdict) -> int:
    """How far it came."""
    return [*(condition.holds for condition in verdict.conditions), False].index(False)
