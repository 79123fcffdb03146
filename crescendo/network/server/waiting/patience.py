"""Patience: how long a round waits for a client before the others go on, from how long rounds take.

A day is too long for rounds of a minute, and a minute too short for rounds of an hour. So what clients need is measured, from
when nothing keeps a client from finishing a round to when its update is accepted, and a round waits for several times the median
of that, within the operator's limits. One client cannot move a median, however slowly it sends. Of an even number the smaller of
the two in the middle counts: of two clients, neither can stretch what the other waits.
"""

import statistics
from collections import deque

from crescendo.core.terms import Terms

TIMES = 20  # the median of what rounds took
FEWEST = 8  # updates that are measured before that counts
NEWEST = 256  # updates that it counts over


class Patience:
    """Seconds that a round waits for a client, from ``least`` to ``most``.

    >>> from crescendo.schedules.sizes import ConstantSizes
    >>> from crescendo.schedules.steps import ConstantSteps
    >>> terms = Terms(ConstantSizes(4), ConstantSteps(0.1), weights=(0.5, 0.5), rounds=100, ahead=0)
    >>> patience = Patience(terms, least=30.0, most=3600.0)
    >>> for i in range(8):
    ...     patience.due(i, now=100.0 * i)
    ...     patience.accepted(i, 0, now=100.0 * i + 4)
    ...     patience.accepted(i, 1, now=100.0 * i + 99)
    ...     print(f"{patience.seconds:g}", end=" ")
    3600 3600 3600 80 80 80 80 80
    """

    def __init__(self, terms: Terms, least: float, most: float) -> None:
        self._terms, self._least, self._most = terms, min(least, most), most
        self._may_finish: dict[int, float] = {}  # round -> since when it may be finished, for those that are not over
        self._k = self._next = 0
        self._last: dict[int, float] = {}  # client -> when its last update was accepted, or it came
        self._took = deque[float](maxlen=NEWEST)

    def due(self, k: int, now: float) -> None:
        """Round k is due: clients have heard a model that some later rounds may be finished with."""
        for i in range(self._k, min(k, self._next)):
            del self._may_finish[i]
        self._k, first = k, max(k, self._next)
        furthest = min(self._terms.furthest(k), k + NEWEST) if k < self._terms.rounds else -1
        self._next = max(first, furthest + 1)
        self._may_finish.update(dict.fromkeys(range(first, self._next), now))

    def came(self, c: int, now: float) -> None:
        """Client c has joined: what it did before is not counted."""
        self._last[c] = now

    def accepted(self, i: int, c: int, now: float) -> None:
        """An update was accepted; one that is late or was sent before says nothing about how long rounds take."""
        since = self._may_finish.get(i)
        if since is not None:
            self._took.append(now - max(since, self._last.get(c, since)))
        self._last[c] = now

    @property
    def seconds(self) -> float:
        """How long a round waits for a client now."""
        if len(self._took) < FEWEST:
            return self._most
        return min(max(self._least, TIMES * statistics.median_low(self._took)), self._most)
