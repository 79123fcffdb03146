"""Where a run stands against the limit of stability, for the sum and for the mean of updates: public numbers in, sentences out.

In lock-step, along a direction of curvature h, the s slots of a client take it the share 1 - (1 - eta h)^s of the way to where
the direction's gradient is 0 (eta h s of the way if all gradients are taken at the round's start model), and a round moves the
global model by their sum times a, which is 1 for the sum of n clients' updates and 1/n for their mean::

    push(h)  =  a  sum_c ( 1 - (1 - eta h)^s_{i,c} )

Below 2 the distance shrinks. If every update is d rounds late, it shrinks below 2 sin(pi / (2 (2d + 1))). That second limit is a
heuristic: clients subtract their own updates again, so that a part of every model is not late. Up to eta h = 1 the push grows
with h, and here nothing is asked beyond: there a single step overshoots.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from crescendo.core.arrays import Floats, Ints
from crescendo.core.terms import Terms

_NUMBERS = 200_000  # shares that are looked at: of the rounds with the largest steps times sizes
_FEWEST_ROUNDS = 8
_HALVINGS = 50
_ROUNDING = 1 + 1e-9  # a push that reaches its limit by rounding alone is below it


class _Limit(NamedTuple):
    """With updates ``late`` rounds late, a ``curvature`` up to this is stable in every round; ``round`` sets the limit."""

    late: int
    curvature: float
    round: int


@dataclass(frozen=True)
class Stability:
    """Where a run stands: in lock-step, and with updates as late as the wait rule lets them be.

    ``smooth`` is L, which no direction's curvature passes, None where it is not known. ``frozen`` says that all gradients of a
    round are taken at its start model, as `minibatch` does.
    """

    terms: Terms
    smooth: float | None = None
    frozen: bool = False

    @staticmethod
    def below(d: int) -> float:
        """What the push must stay below when every update is d rounds late.

        >>> [round(Stability.below(d), 3) for d in range(3)]
        [2.0, 1.0, 0.618]
        """
        return 2 * math.sin(math.pi / (2 * (2 * d + 1)))

    @cached_property
    def limits(self) -> tuple[_Limit, ...]:
        """In lock-step first; with late updates second, if there can be any."""
        terms, last = self.terms, self.terms.rounds - 1
        late = max(terms.furthest(k) - k for k in self._rounds) if terms.ahead is None else terms.ahead
        return tuple(self._limit(d) for d in sorted({0, min(late, last)}))

    def notes(self) -> Iterator[str]:
        terms = self.terms
        what = f"{'mean' if terms.combine == 'mean' else 'sum'} of {terms.clients:,} clients' updates"
        for late, curvature, i in self.limits:
            rounds = "a round" if late == 1 else f"{late:,} rounds"
            when = f"with updates {rounds} late (a heuristic: own updates are not late)" if late else "in lock-step"
            yield (
                f"Stability of the {what}, {when}: directions of curvature up to {curvature:.3g} shrink in every round"
                f"{self._verdict(curvature)}; round {i:,} sets the limit."
            )

    def _verdict(self, curvature: float) -> str:
        if self.smooth is None:
            return ""
        if self.smooth <= curvature:
            return f", which are all (L = {self.smooth:.3g})"
        return f", steeper ones may grow (L = {self.smooth:.3g} is the steepest that one record can have)"

    @cached_property
    def _rounds(self) -> list[int]:
        """The rounds that are looked at: those with the largest steps times sizes, which is what the push depends on."""
        labels = self.terms.labels(0, self.terms.rounds)
        weight = np.diff(labels) * np.abs(self.terms.steps.at(labels[:-1]))
        most = max(_FEWEST_ROUNDS, _NUMBERS // self.terms.clients)
        rounds: list[int] = np.sort(np.argsort(-weight, kind="stable")[:most]).tolist()
        return rounds

    def _step(self, i: int) -> float:
        """The first step of round i, of the client whose label is lowest."""
        terms = self.terms
        by_slot = terms.steps.per == "slot"
        label = float((terms.slots_before(i) * terms.strides).min()) if by_slot else terms.before(i)
        return abs(float(terms.steps.at(label))) * terms.blocks

    def _limit(self, d: int) -> _Limit:
        """The least over rounds of the largest stable curvature, by bisection in x = eta h up to 1."""
        shares, steps = (
            np.stack([self.terms.shares(i) for i in self._rounds]),
            np.array(list(map(self._step, self._rounds))),
        )
        low, high, limit = np.zeros(len(steps)), np.ones(len(steps)), self.below(d) * _ROUNDING
        low[self._push(high, shares) <= limit] = 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            stable = self._push(middle, shares) <= limit
            low, high = np.where(stable, middle, low), np.where(stable, high, middle)
        with np.errstate(divide="ignore", over="ignore"):  # steps that are nothing limit nothing
            curvatures = low / steps
        place = int(curvatures.argmin())
        return _Limit(d, float(curvatures[place]), self._rounds[place])

    def _push(self, x: Floats, shares: Ints) -> Floats:
        """The push of rounds, a row of ``shares`` each, along directions with eta h = x, one for each round."""
        ways = x[:, None] * shares if self.frozen else 1.0 - (1.0 - x[:, None]) ** shares
        return np.asarray(self.terms.combined * ways.sum(axis=1))
