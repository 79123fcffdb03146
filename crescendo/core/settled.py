"""Settled rounds of every client: applied, void, or without a share.

They are stored as all rounds below a number plus later ranges, which stays small in long runs. A broadcast sends each
client its set as ``yours``, which is also the acknowledgement.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crescendo.core.arrays import Bools
from crescendo.core.messages import Settled
from crescendo.core.round_ranges import RoundRanges
from crescendo.core.terms import Terms


class SettledRounds:
    """The settled rounds of every client.

    >>> from crescendo.schedules.sizes import ConstantSizes
    >>> from crescendo.schedules.steps import ConstantSteps
    >>> rounds = SettledRounds(Terms(ConstantSizes(4), ConstantSteps(0.1), weights=(0.5, 0.5), rounds=9, ahead=1))
    >>> rounds.mark(1, 0)
    >>> rounds.mark_all(4, 8, 0)
    >>> rounds.of(0), rounds.has(0, 0), rounds.has(1, 0)
    (Settled(below=0, beyond=((1, 2), (4, 8))), False, True)
    >>> rounds.mark(0, 0)
    >>> rounds.of(0)
    Settled(below=2, beyond=((4, 8),))
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self.below = np.zeros(terms.clients, dtype=np.int64)
        self._beyond = RoundRanges()

    def of(self, c: int) -> Settled:
        """Return the settled rounds of client c."""
        return Settled(int(self.below[c]), self._beyond.of(c))

    def has(self, i: int, c: int) -> bool:
        """Return True if round i of client c is settled."""
        return bool(i < self.below[c]) or self._beyond.has(i, c) or not self._terms.share(i, c)

    def mark(self, i: int, c: int) -> None:
        """Mark round i of client c as settled."""
        self.mark_all(i, i + 1, c)

    def mark_all(self, first: int, stop: int, c: int) -> None:
        """Mark the rounds ``first`` to ``stop`` - 1 of client c as settled."""
        below, rounds = int(self.below[c]), self._terms.rounds
        if first == below == stop - 1:
            below = stop
        else:
            self._beyond.add(c, max(first, below), stop)
        while True:
            after = self._beyond.take_from(below, c)
            if after == below < rounds and not self._terms.share(below, c):
                after += 1
            if after == below:
                break
            below = after
        self.below[c] = below

    def count_open(self, k: int, present: Bools) -> int:
        """Return the number of present clients that round k still waits for."""
        waiting = present & (self.below <= k) & (self._terms.shares(k) > 0)
        overtook = sum(bool(waiting[c]) for c in self._beyond.clients_with(k))
        return int(waiting.sum()) - overtook

    def copy(self) -> SettledRounds:
        """Return a copy of the current settled rounds."""
        made = SettledRounds(self._terms)
        made.restore(self.export())
        return made

    def export(self) -> dict[str, Any]:
        """Export the settled rounds as arrays and lists."""
        return {"below": self.below.copy(), "overtook": self._beyond.export()}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore exported rounds; an earlier version's state lists each later round separately."""
        self.below = np.array(state["below"], dtype=np.int64)
        self._beyond.restore(state["overtook"] if "overtook" in state else [[c, i, i + 1] for c, i in state["beyond"]])
