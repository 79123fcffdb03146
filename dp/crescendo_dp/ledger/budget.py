"""A data set's budget, and the one Renyi order that its ledger adds by."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from crescendo_dp.accounting import renyi
from crescendo_dp.arrays import Vector
from crescendo_dp.directed_rounding import down
from crescendo_dp.errors import UsageError
from crescendo_dp.events import Counted, Event, tally

_UP = 1 + 1e-9  # far more than the rounding of a Renyi divergence


@dataclass(frozen=True)
class Budget:
    """A limit on everything that is ever learned about one record of the data set.

    ``split`` is the part of delta that is set aside for counting by orders; with 0 there are only sums. An infinite
    epsilon protects no record and refuses nothing.
    """

    epsilon: float
    delta: float
    split: float = 0.5

    def __post_init__(self) -> None:
        if not self.epsilon > 0 or not 0 < self.delta < 1 or not 0 <= self.split < 1:
            raise UsageError(
                f"a budget needs epsilon above 0, delta between 0 and 1 and split in [0, 1), got {self.epsilon}, "
                f"{self.delta} and {self.split}"
            )


@dataclass(frozen=True)
class Orders:
    """The one Renyi order by which a ledger adds, and the part of delta that is set aside for it."""

    order: float
    delta: float

    def divergence(self, events: Iterable[Event | tuple[Event, int]]) -> float:
        """The events' divergence of this order, rounded up: that of the next order known, as divergences grow with the order."""
        found = renyi.divergences(tally(events))[self.order <= renyi.ORDERS]
        return float(found[0]) * _UP if len(found) else math.inf

    def toll(self) -> float:
        """Return the amount that turning a divergence into an epsilon adds, rounded up."""
        return float(_toll(np.array([self.order]), self.delta)[0])

    @classmethod
    def chosen(cls, budget: Budget, counted: Counted, delta: float) -> Orders | None:
        """The order by which most federations like this first one would fit, and the delta set aside; None if none can serve.

        >>> from crescendo_dp.events import PoissonGaussian
        >>> Orders.chosen(Budget(1.0, 1e-6), ((PoissonGaussian(0.01, 2.0), 100),), delta=1e-7)
        Orders(order=22.0, delta=5e-07)
        """
        aside = min(budget.delta * budget.split, down(budget.delta, delta))
        if aside <= 0 or budget.epsilon == math.inf:
            return None
        room = budget.epsilon - _toll(renyi.ORDERS, aside)
        divergence = renyi.divergences(counted)
        if not divergence.any():
            divergence = renyi.ORDERS  # nothing is sent: choose as for plain Gaussian noise, which goes with the order
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where((room > 0) & np.isfinite(divergence), divergence / room, math.inf)
        best = int(np.argmin(share))
        return cls(float(renyi.ORDERS[best]), aside) if share[best] < math.inf else None


def _toll(order: Vector, delta: float) -> Vector:
    """Canonne, Kamath, Steinke 2020, Proposition 12: a divergence of order a gives epsilon at delta when this is added to it::

    ln(1 - 1/a) - (ln delta + ln a) / (a - 1)
    """
    toll: Vector = np.log1p(-1 / order) - (math.log(delta) + np.log(order)) / (order - 1)
    return toll + 1e-9 * (1 + np.abs(toll))
