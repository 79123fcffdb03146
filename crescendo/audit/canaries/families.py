"""Families of trade-off curves from strong privacy to weak, and the bound from guesses in each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from crescendo.audit.canaries.guesses import Guesses, last_denied
from crescendo.audit.canaries.trade_off import TradeOff
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import Counted

_OCTAVES = (-7.0, 3.0)  # less noise, as powers of two: from 128 times the certified noise to an eighth of it
_STEPS, ROUGH = 9, 6  # halvings of that range: the noise is found to 2%, or to 12%
_MOST_EPSILON = 50.0


class Denying(Protocol):
    """Observed counts of canaries."""

    def denies(self, curve: TradeOff, level: float) -> bool:
        """Return True if the counts have a chance below ``level`` in every run that is as private as ``curve``."""


@dataclass(frozen=True)
class LessNoise:
    """The certified events with their noise multiplied: the curve of a run that is as certified except for its noise."""

    events: Counted
    delta: float

    def bound(self, seen: Denying, level: float, steps: int = _STEPS) -> float:
        """Return a lower bound on epsilon at ``delta``, wrong with probability at most ``level`` if the run is of this family."""
        denied = last_denied(lambda octaves: seen.denies(self._curve(octaves), level), *_OCTAVES, steps)
        if denied is None:
            return 0.0
        spent = account(self._events(denied), self.delta)
        return max(0.0, spent.epsilon - spent.error)

    @property
    def certified(self) -> TradeOff:
        """The curve with the certified noise."""
        return self._curve(0.0)

    def _events(self, octaves: float) -> Counted:
        return tuple((replace(event, sigma=event.sigma * 2.0**-octaves), count) for event, count in self.events)

    def _curve(self, octaves: float) -> TradeOff:
        return TradeOff.of_events(self._events(octaves))


def any_mechanism(guesses: Guesses, level: float, delta: float) -> float:
    """Return a lower bound on epsilon at ``delta``, wrong with probability at most ``level``, for any mechanism.

    >>> round(any_mechanism(Guesses(1000, 100, 95), 0.05, 1e-5), 2)
    2.16
    """

    def denied(epsilon: float) -> bool:
        return guesses.denies(TradeOff([epsilon], [delta]), level)

    return last_denied(denied, 0.0, _MOST_EPSILON, 16) or 0.0
