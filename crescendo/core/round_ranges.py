"""Ranges of rounds by client: an absence adds a single range, for any number of rounds.

One use is the set of void rounds: settled but never applied. (An update for a void round is not a duplicate. It is
dropped, since the client's rounds were acknowledged as settled, but both sides must learn of it.) The other use is
the set of settled rounds ahead of an open one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from crescendo.core.messages import Ranges


class RoundRanges:
    """A set of rounds for each client.

    >>> void = RoundRanges()
    >>> for first, stop in [(2, 5), (9, 10), (5, 7), (3, 4)]:
    ...     void.add(0, first, stop)
    >>> void.export(), void.of(0), void.has(6, 0), void.has(7, 0), void.has(6, 1)
    ([[0, 2, 7], [0, 9, 10]], ((2, 7), (9, 10)), True, False, False)
    >>> void.take_from(1, 0), void.take_from(2, 0), void.of(0)
    (1, 7, ((9, 10),))
    """

    def __init__(self) -> None:
        self._bounds: dict[int, list[int]] = {}  # client -> first, stop, first, stop, ...: ascending

    def add(self, c: int, first: int, stop: int) -> None:
        """Add the rounds ``first`` to ``stop`` - 1 of client c."""
        if first >= stop:
            return
        bounds = self._bounds.setdefault(c, [])
        low, high = bisect_left(bounds, first), bisect_right(bounds, stop)
        bounds[low:high] = [first] * (low % 2 == 0) + [stop] * (high % 2 == 0)  # an odd position is inside a range

    def has(self, i: int, c: int) -> bool:
        """Return True if round i of client c is in the set."""
        bounds = self._bounds.get(c)
        return bounds is not None and bisect_right(bounds, i) % 2 == 1

    def of(self, c: int) -> Ranges:
        """Return the ranges of client c."""
        bounds = self._bounds.get(c, [])
        return tuple(zip(bounds[::2], bounds[1::2], strict=True))

    def take_from(self, i: int, c: int) -> int:
        """Remove the first range of client c if it begins at round i; return its end, or i if there is none."""
        bounds = self._bounds.get(c)
        if bounds is None or bounds[0] != i:
            return i
        stop = bounds[1]
        del bounds[:2]
        if not bounds:
            del self._bounds[c]
        return stop

    def clients_with(self, i: int) -> Iterable[int]:
        """Yield the clients with round i in their set."""
        return (c for c, bounds in self._bounds.items() if bisect_right(bounds, i) % 2 == 1)

    def export(self) -> list[list[int]]:
        """Export all ranges as a list of [client, first, stop]."""
        return [[c, *pair] for c in sorted(self._bounds) for pair in self.of(c)]

    def restore(self, exported: list[list[int]]) -> None:
        """Restore exported ranges."""
        for c, first, stop in exported:
            self.add(int(c), int(first), int(stop))
