"""Canaries as independent trials: a bound for runs in which no canary affects another's score."""

from __future__ import annotations

import math
from dataclasses import dataclass

from crescendo.audit.canaries.trade_off import TradeOff
from crescendo_dp.black_box.epsilon_bounds import clopper_pearson


@dataclass(frozen=True)
class Trials:
    """``hits`` of the canaries ``inside`` had a score above a cut fixed before the run, and ``others`` of those ``outside``."""

    inside: int
    hits: int
    outside: int
    others: int

    def denies(self, curve: TradeOff, level: float) -> bool:
        """Return True if these counts have a chance below ``level`` for independent canaries as private as ``curve``.

        >>> [Trials(500, 400, 500, others).denies(TradeOff([math.log(3)], [0.0]), 0.05) for others in (80, 150)]
        [True, False]
        """
        if not self.inside or not self.outside:
            return False
        hit = clopper_pearson(self.hits, self.inside, level / 2)[0]
        return curve.least(hit) > clopper_pearson(self.others, self.outside, level / 2)[1]

    def expected(self, factor: float) -> Trials:
        """Return the trials for ``factor`` times as many canaries, with counts one deviation worse."""
        hits, others = factor * self.hits, factor * self.others
        worse = max(0.0, hits - math.sqrt(hits)), others + math.sqrt(others)
        return Trials(*(round(count) for count in (factor * self.inside, worse[0], factor * self.outside, worse[1])))
