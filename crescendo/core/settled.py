"""Which rounds of each client are settled: applied, void, or without a share.

They are kept as "all below a number, plus those that overtook": little, however long the run, and what a broadcast tells each
client as ``yours``, so that it doubles as the acknowledgement.
"""

from typing import Any

import numpy as np

from crescendo.core.arrays import Bools
from crescendo.core.messages import Settled
from crescendo.core.terms import Terms


class SettledRounds:
    """The settled rounds of every client.

    >>> from crescendo.schedules.sizes import ConstantSizes
    >>> from crescendo.schedules.steps import ConstantSteps
    >>> rounds = SettledRounds(Terms(ConstantSizes(4), ConstantSteps(0.1), weights=(0.5, 0.5), rounds=3, ahead=1))
    >>> rounds.mark(1, 0)
    >>> rounds.of(0), rounds.has(0, 0), rounds.has(1, 0)
    (Settled(below=0, beyond=frozenset({1})), False, True)
    >>> rounds.mark(0, 0)
    >>> rounds.of(0)
    Settled(below=2, beyond=frozenset())
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self.below = np.zeros(terms.clients, dtype=np.int64)
        self._beyond: dict[int, set[int]] = {}

    def of(self, c: int) -> Settled:
        """Those of client c."""
        return Settled(int(self.below[c]), frozenset(self._beyond.get(c, ())))

    def has(self, i: int, c: int) -> bool:
        """Is round i of client c settled?"""
        return bool(i < self.below[c]) or i in self._beyond.get(c, ()) or not self._terms.share(i, c)

    def mark(self, i: int, c: int) -> None:
        """Round i of client c is settled from now on."""
        beyond, below = self._beyond.setdefault(c, set()), int(self.below[c])
        beyond.add(i)
        while below < self._terms.rounds and (below in beyond or not self._terms.share(below, c)):
            beyond.discard(below)
            below += 1
        self.below[c] = below
        if not beyond:
            del self._beyond[c]

    def count_open(self, k: int, present: Bools) -> int:
        """How many of the clients that are present round k still waits for."""
        waiting = present & (self.below <= k) & (self._terms.shares(k) > 0)
        overtook = sum(bool(waiting[c]) and k in rounds for c, rounds in self._beyond.items())
        return int(waiting.sum()) - overtook

    def export(self) -> dict[str, Any]:
        """All of it, as arrays and lists."""
        beyond = sorted([c, i] for c, rounds in self._beyond.items() for i in rounds)
        return {"below": self.below.copy(), "beyond": beyond}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what was exported."""
        self.below = np.array(state["below"], dtype=np.int64)
        for c, i in state["beyond"]:
            self._beyond.setdefault(int(c), set()).add(int(i))
