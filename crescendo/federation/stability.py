"""Stability of a run, for the sum and for the mean of updates, as notes computed from public numbers.

Take a direction of curvature h, in lock-step. The s slots of a client cover the share 1 - (1 - eta h)^s of the way to
the point where the direction's gradient is 0 (eta h s if all gradients are taken at the round's start model). A round
moves the global model by the sum of these shares times a; a is 1 for the sum of n clients' updates and 1/n for their
mean::

    push(h)  =  a  sum_c ( 1 - (1 - eta h)^s_{i,c} )

If the push is below 2, the distance shrinks. If every update is d rounds late, the limit is 2 sin(pi / (2 (2d + 1))).
This second limit is a heuristic: clients apply their own updates at once, so part of every model is not late. The
push grows with h up to eta h = 1. Larger values are not considered: there a single step overshoots.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from crescendo.core.arrays import Floats, Ints
from crescendo.core.terms import Terms

_NUMBERS = 200_000  # shares to examine, of the rounds with the largest steps times sizes
_FEWEST_ROUNDS = 8
_HALVINGS = 50
_ROUNDING = 1 + 1e-9  # tolerance for a push that reaches its limit only by rounding


class _Limit(NamedTuple):
    """The largest ``curvature`` stable in every round with updates ``late`` rounds late; ``round`` is the tightest one."""

    late: int
    curvature: float
    round: int


@dataclass(frozen=True)
class Stability:
    """Stability limits of a run, in lock-step and with updates as late as the wait rule allows.

    ``smooth`` is L, the bound on every direction's curvature, or None if unknown. ``frozen`` is True if all gradients
    of a round are taken at its start model, as under `minibatch`.
    """

    terms: Terms
    smooth: float | None = None
    frozen: bool = False

    @staticmethod
    def below(d: int) -> float:
        """Return the limit on the push when every update is d rounds late.

        >>> [round(Stability.below(d), 3) for d in range(3)]
        [2.0, 1.0, 0.618]
        """
        return 2 * math.sin(math.pi / (2 * (2 * d + 1)))

    @cached_property
    def limits(self) -> tuple[_Limit, ...]:
        """The limit in lock-step, then, if updates can be late, the limit with the latest ones."""
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
                f"Stability of the {what}, {when}: every round contracts for curvature up to {curvature:.3g}"
                f"{self._verdict(curvature)}; round {i:,} sets the limit."
            )

    def _verdict(self, curvature: float) -> str:
        if self.smooth is None:
            return ""
        if self.smooth <= curvature:
            return f", and this problem's is at most {self.smooth:.3g} (L)"
        return f", steeper directions may grow (one record can have up to L = {self.smooth:.3g})"

    @cached_property
    def _rounds(self) -> list[int]:
        """The rounds to examine: those with the largest steps times sizes, on which the push depends."""
        labels = self.terms.labels(0, self.terms.rounds)
        weight = np.diff(labels) * np.abs(self.terms.steps.at(labels[:-1]))
        most = max(_FEWEST_ROUNDS, _NUMBERS // self.terms.clients)
        rounds: list[int] = np.sort(np.argsort(-weight, kind="stable")[:most]).tolist()
        return rounds

    def _step(self, i: int) -> float:
        """Return the first step of round i, of the client with the lowest label."""
        terms = self.terms
        by_slot = terms.steps.per == "slot"
        label = float((terms.slots_before(i) * terms.strides).min()) if by_slot else terms.before(i)
        return abs(float(terms.steps.at(label))) * terms.blocks

    def _limit(self, d: int) -> _Limit:
        """Return the least, over rounds, of the largest stable curvature, by bisection in x = eta h up to 1."""
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
        with np.errstate(divide="ignore", over="ignore"):  # zero steps set no limit
            curvatures = low / steps
        place = int(curvatures.argmin())
        return _Limit(d, float(curvatures[place]), self._rounds[place])

    def _push(self, x: Floats, shares: Ints) -> Floats:
        """Return the push of each round, one row of ``shares`` per round, along a direction with eta h = x."""
        ways = x[:, None] * shares if self.frozen else 1.0 - (1.0 - x[:, None]) ** shares
        return np.asarray(self.terms.combined * ways.sum(axis=1))
