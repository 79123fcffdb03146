"""Which rounds of each client are settled: applied, void, or without a share.

They are kept as "all below a number, plus ranges that overtook": little, however long the run, and what a broadcast tells each
client as ``yours``, so that it doubles as the acknowledgement.
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
        """Those of client c."""
        return Settled(int(self.below[c]), self._beyond.of(c))

    def has(self, i: int, c: int) -> bool:
        """Is round i of client c settled?"""
        return bool(i < self.below[c]) or self._beyond.has(i, c) or not self._terms.share(i, c)

    def mark(self, i: int, c: int) -> None:
        """Round i of client c is settled from now on."""
        self.mark_all(i, i + 1, c)

    def mark_all(self, first: int, stop: int, c: int) -> None:
        """The rounds ``first`` to ``stop`` - 1 of client c are settled from now on."""
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
        """How many of the clients that are present round k still waits for."""
        waiting = present & (self.below <= k) & (self._terms.shares(k) > 0)
        overtook = sum(bool(waiting[c]) for c in self._beyond.clients_with(k))
        return int(waiting.sum()) - overtook

    def copy(self) -> SettledRounds:
        """The settled rounds as they are now."""
        made = SettledRounds(self._terms)
        made.restore(self.export())
        return made

    def export(self) -> dict[str, Any]:
        """All of it, as arrays and lists."""
        return {"below": self.below.copy(), "overtook": self._beyond.export()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what was exported; a state of an earlier version names each round that overtook."""
        self.below = np.array(state["below"], dtype=np.int64)
        self._beyond.restore(state["overtook"] if "overtook" in state else [[c, i, i + 1] for c, i in state["beyond"]])
