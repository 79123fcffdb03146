"""Trade-off curves: the possible chance of an event with a record, given its chance without the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from crescendo.core.arrays import Floats
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.event_kinds import fewer
from crescendo_dp.events import Counted, tally

_DELTAS = np.append(np.geomspace(1e-8, 0.03, 11), [0.07, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
_MOST_EVENTS = 24  # different ones whose curve is computed: each costs time at every delta


@dataclass(frozen=True)
class TradeOff:
    """The curve under the lines P(S) <= delta + e^epsilon Q(S), in both directions and for S and its complement.

    >>> import math
    >>> pure = TradeOff([math.log(3)], [0.0])
    >>> round(pure.least(0.75), 9), round(pure.least(0.3), 9)
    (0.25, 0.1)
    """

    epsilons: Sequence[float]
    deltas: Sequence[float]

    @cached_property
    def _lines(self) -> tuple[Floats, Floats]:
        """The lines of `least`, as offset + slope * right."""
        epsilons, deltas = np.asarray(self.epsilons, dtype=float), np.asarray(self.deltas, dtype=float)
        flat = np.exp(-epsilons), np.exp(np.minimum(epsilons, 700.0))
        return np.concatenate([-deltas * flat[0], 1 - deltas - flat[1]]), np.concatenate(flat)

    def least(self, right: float) -> float:
        """Return the least chance on one side of an event whose chance on the other side is ``right``."""
        offsets, slopes = self._lines
        return max(0.0, float((offsets + slopes * right).max()))

    @classmethod
    def of_events(cls, events: Counted) -> TradeOff:
        """Return a curve at most as private as these events, from bounds on their epsilon at some deltas.

        >>> from crescendo_dp.events import PoissonGaussian
        >>> curve = TradeOff.of_events([(PoissonGaussian(1.0, 1.0), 1)])
        >>> round(curve.least(0.5), 3)                           # of a shift by 1: Phi(-1) = 0.159
        0.156
        """
        return _curve(fewer(tally(events), _MOST_EVENTS))


@lru_cache(maxsize=256)
def _curve(events: Counted) -> TradeOff:
    return TradeOff([account(events, float(delta), state_error=False).epsilon for delta in _DELTAS], _DELTAS.tolist())
