"""Which rounds of each client were declared void: settled, and never applied.

An update that comes for one of them is no duplicate. It is dropped all the same, since the client was told that nothing more will
come of the round, but both sides have to hear of it.
"""

from bisect import bisect_left, bisect_right


class VoidRounds:
    """Ranges of void rounds, by client: an absence adds one, however many rounds it spans.

    >>> void = VoidRounds()
    >>> for first, stop in [(2, 5), (9, 10), (5, 7), (3, 4)]:
    ...     void.add(0, first, stop)
    >>> void.export(), void.has(6, 0), void.has(7, 0), void.has(6, 1)
    ([[0, 2, 7], [0, 9, 10]], True, False, False)
    """

    def __init__(self) -> None:
        self._bounds: dict[int, list[int]] = {}  # client -> first, stop, first, stop, ...: ascending

    def add(self, c: int, first: int, stop: int) -> None:
        """The rounds ``first`` to ``stop`` - 1 of client c are void."""
        if first >= stop:
            return
        bounds = self._bounds.setdefault(c, [])
        low, high = bisect_left(bounds, first), bisect_right(bounds, stop)
        bounds[low:high] = [first] * (low % 2 == 0) + [stop] * (high % 2 == 0)  # an odd place is inside of a range

    def has(self, i: int, c: int) -> bool:
        """Was round i of client c declared void?"""
        return bisect_right(self._bounds.get(c, []), i) % 2 == 1

    def export(self) -> list[list[int]]:
        """All of it, as a list of client, first and stop."""
        pairs = (
            (c, bounds[at : at + 2]) for c, bounds in sorted(self._bounds.items()) for at in range(0, len(bounds), 2)
        )
        return [[c, *pair] for c, pair in pairs]

    def restore(self, exported: list[list[int]]) -> None:
        """Go on from what was exported."""
        for c, first, stop in exported:
            self.add(int(c), int(first), int(stop))
