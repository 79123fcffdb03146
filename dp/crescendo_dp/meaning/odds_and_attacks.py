"""Meaning of an epsilon: how far releases move a belief, and how well the best attack does.

An attacker who sees the releases, and knows all records but one, believes with some odds that this one is there. *Odds*:
(epsilon, delta) multiplies or divides them by at most e^epsilon, but for a slack of delta in every probability. An *even guess*,
of odds 1, is then right with a probability of at most (e^epsilon + delta) / (1 + e^epsilon): with a false and b true positives it
is right with (1 - a + b) / 2, which is largest where the two bounds on b below meet, at a = (1 - delta) / (1 + e^epsilon).

*Attacks*: a test that accuses absent records with probability a (false positives) finds present ones with probability at most

    min( e^eps a + delta,  1 - e^-eps (1 - delta - a) )                                   (Kairouz, Oh, Viswanath 2015)

for each pair (eps, delta) that holds. The releases of a run have a whole curve of such pairs, each an upper bound of the
accountant; the least over the curve is shown. More pairs make it tighter; it is never below the truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import Counted
from crescendo_dp.meaning.mu_and_rho import OtherNotions

FALSE_POSITIVES = 0.01  # the rate at which an attack is told of
_DELTAS = tuple(
    10.0 ** (-step / 2) for step in range(1, 9)
)  # 0.32 down to 1e-4: where a test with few false alarms is decided
_MOST_EPSILON = 700.0  # e^eps is a float up to here


@dataclass(frozen=True)
class Meaning:
    """``epsilon`` at ``delta`` in words, with every pair (eps, delta) that is known to hold of the same releases.

    ``notions`` states the same releases in Gaussian DP and zCDP, where that is known.

    >>> from crescendo_dp.events import PoissonGaussian
    >>> found = Meaning.of(((PoissonGaussian(0.01, 2.0), 100),), 0.3269, 1e-6)
    >>> round(found.odds, 2), round(found.even_guess, 3), 0.01 < found.found(0.01) < found.odds * 0.01
    (1.39, 0.581, True)
    """

    epsilon: float
    delta: float
    curve: tuple[tuple[float, float], ...]
    notions: OtherNotions | None = None

    @classmethod
    def of(cls, events: Counted, epsilon: float, delta: float, failure: float = 0.0) -> Self:
        """Of releases that cost ``epsilon`` at ``delta``, which has the chance ``failure`` of rare events in it."""
        pairs = [(account(events, larger, state_error=False).epsilon, larger) for larger in _DELTAS if larger > delta]
        curve = ((epsilon, delta), *((eps, min(1.0, at + failure)) for eps, at in pairs))
        return cls(epsilon, delta, curve, OtherNotions.of(events, delta, failure))

    @property
    def odds(self) -> float:
        """The factor by which odds change at most."""
        return math.exp(self.epsilon) if self.epsilon <= _MOST_EPSILON else math.inf

    @property
    def even_guess(self) -> float:
        """The probability, at most, that an even guess is right once the releases are seen.

        >>> round(Meaning(0.0, 0.5, ((0.0, 0.5),)).even_guess, 6), Meaning(math.inf, 0.1, ((math.inf, 0.1),)).even_guess
        (0.75, 1.0)
        """
        return min(1.0, (1 - (1 - self.delta) / (1 + self.odds)) * (1 + 1e-12))

    def found(self, accused: float) -> float:
        """The share of present records that the best attack finds, at most, if it accuses the share ``accused`` of absent ones.

        >>> round(Meaning(0.0, 0.0, ((0.0, 0.0),)).found(0.2), 9), Meaning(math.inf, 0.1, ((math.inf, 0.1),)).found(0.2)
        (0.2, 1.0)
        """
        least = min(_most_found(eps, delta, accused) for eps, delta in self.curve)
        return min(1.0, max(accused, least * (1 + 1e-12)))  # rounding must not show less than is true

    def drawn(self, points: Sequence[float]) -> list[float]:
        """The curve of attacks at these rates of false positives."""
        return [self.found(accused) for accused in points]

    def sentences(self) -> list[str]:
        """For people, each without a full stop.

        >>> print(Meaning(0.33, 1e-6, ((0.33, 1e-6),)).sentences()[1])
        the best attack that wrongly accuses 1% of absent records finds at most 1.4% of the present ones
        """
        if self.epsilon == math.inf:
            return ["nothing is hidden: what this client sends may show whether a given record is among its data"]
        shown = 1.005 <= self.odds < 1e6  # below, it would be shown as 1
        factor = f"{_plain(self.odds)} (e^{self.epsilon:.4g})" if shown else f"e^{self.epsilon:.4g}"
        return [
            f"seeing everything this client sends changes the odds that a given record is among its data by a factor of at "
            f"most {factor}, up to a slack of {self.delta:g} in every probability, and {self._guess()}",
            f"the best attack that wrongly accuses {FALSE_POSITIVES:.0%} of absent records finds at most "
            f"{percent(self.found(FALSE_POSITIVES))} of the present ones",
            *([] if self.notions is None else [self.notions.sentence()]),
        ]

    def _guess(self) -> str:
        sure = percent(self.even_guess)
        if sure == "100%":
            return "lets an even guess become next to certain: this epsilon promises very little"
        return f"makes an even guess right at most {sure} of the time"

    def to_json(self) -> dict[str, Any]:
        return {
            "odds": None if self.odds == math.inf else self.odds,
            "even_guess": self.even_guess,
            "false_positives": FALSE_POSITIVES,
            "true_positives": self.found(FALSE_POSITIVES),
            **({} if self.notions is None else self.notions.to_json()),
            "sentences": self.sentences(),
        }


def _most_found(eps: float, delta: float, accused: float) -> float:
    if eps > _MOST_EPSILON:
        return 1.0
    return min(math.exp(eps) * accused + delta, 1 - math.exp(-eps) * max(0.0, 1 - delta - accused))


def _plain(value: float) -> str:
    """Three figures, rounded up, so that no bound is understated.

    >>> _plain(7.3522), _plain(2.0), _plain(999.5), _plain(1234.5)
    ('7.36', '2', '1,000', '1,235')
    """
    unit = 10.0 ** min(0, math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / unit * (1 - 1e-12)) * unit:,.{3 if value < 100 else 7}g}"


def percent(share: float) -> str:
    """Round up, so that no bound is understated, but never a share below 1 to 100%.

    >>> percent(0.58176), percent(0.99996), percent(1.0), percent(0.0139)
    ('58.2%', '99.996%', '100%', '1.4%')
    """
    for digits in (1, 3, 6):
        shown = math.ceil(share * 100 * 10**digits - 1e-9) / 10**digits
        if shown < 100:
            return f"{shown:.{digits}f}%"
    return "100%"
