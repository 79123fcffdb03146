"""Patience: how long a round waits for a client before the others go on, from how long rounds take.

A day is too long for rounds of a minute, and a minute too short for rounds of an hour. So the server measures the time from when
a client may finish a round until its update is accepted. A round waits for several times the median of these times, within the
operator's limits. One client cannot move a median, however slowly it sends. Of an even number of times the smaller of the two in
the middle counts, so that of two clients neither can extend the other's wait.
"""

import statistics
from collections import deque

from crescendo.core.terms import Terms

TIMES = 20  # a round waits this many times the median
FEWEST = 8  # updates to measure before the median counts
NEWEST = 256  # updates that the median covers


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
        self._may_finish: dict[int, float] = {}  # open round -> since when it may be finished
        self._k = self._next = 0
        self._last: dict[int, float] = {}  # client -> when its last update was accepted, or it came
        self._took = deque[float](maxlen=NEWEST)

    def due(self, k: int, now: float) -> None:
        """Note that round k is due: clients now have a model with which they may finish some later rounds."""
        for i in range(self._k, min(k, self._next)):
            del self._may_finish[i]
        self._k, first = k, max(k, self._next)
        furthest = min(self._terms.furthest(k), k + NEWEST) if k < self._terms.rounds else -1
        self._next = max(first, furthest + 1)
        self._may_finish.update(dict.fromkeys(range(first, self._next), now))

    def came(self, c: int, now: float) -> None:
        """Note that client c has joined: the time before does not count."""
        self._last[c] = now

    def accepted(self, i: int, c: int, now: float) -> None:
        """Measure an accepted update; late and repeated ones are not counted."""
        since = self._may_finish.get(i)
        if since is not None:
            self._took.append(now - max(since, self._last.get(c, since)))
        self._last[c] = now

    @property
    def seconds(self) -> float:
        """The seconds that a round waits for a client now."""
        if len(self._took) < FEWEST:
            return self._most
        return min(max(self._least, TIMES * statistics.median_low(self._took)), self._most)
