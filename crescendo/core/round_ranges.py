"""Ranges of rounds, by client: an absence adds one, however many rounds it spans.

They hold the rounds that were declared void: settled, and never applied. (An update that comes for one of them is no duplicate.
It is dropped all the same, since the client was told that nothing more will come of the round, but both sides have to hear of
it.) And they hold the settled rounds that overtook others.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from crescendo.core.messages import Ranges


class RoundRanges:
    """Sets of rounds, one for each client.

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
        """The rounds ``first`` to ``stop`` - 1 of client c are in it."""
        if first >= stop:
            return
        bounds = self._bounds.setdefault(c, [])
        low, high = bisect_left(bounds, first), bisect_right(bounds, stop)
        bounds[low:high] = [first] * (low % 2 == 0) + [stop] * (high % 2 == 0)  # an odd place is inside of a range

    def has(self, i: int, c: int) -> bool:
        """Is round i of client c in it?"""
        bounds = self._bounds.get(c)
        return bounds is not None and bisect_right(bounds, i) % 2 == 1

    def of(self, c: int) -> Ranges:
        """The ranges of client c."""
        bounds = self._bounds.get(c, [])
        return tuple(zip(bounds[::2], bounds[1::2], strict=True))

    def take_from(self, i: int, c: int) -> int:
        """Take out the first range of client c if it begins at round i. The round after it, else i."""
        bounds = self._bounds.get(c)
        if bounds is None or bounds[0] != i:
            return i
        stop = bounds[1]
        del bounds[:2]
        if not bounds:
            del self._bounds[c]
        return stop

    def clients_with(self, i: int) -> Iterable[int]:
        """The clients of which it has round i."""
        return (c for c, bounds in self._bounds.items() if bisect_right(bounds, i) % 2 == 1)

    def export(self) -> list[list[int]]:
        """All of it, as a list of client, first and stop."""
        return [[c, *pair] for c in sorted(self._bounds) for pair in self.of(c)]

    def restore(self, exported: list[list[int]]) -> None:
        """Go on from what was exported."""
        for c, first, stop in exported:
            self.add(int(c), int(first), int(stop))
