"""Returns: clients that come back repeatedly without finishing a round, and the decision to stop waiting for them.

A client that is declared absent may come back, and rounds wait for it again. One that is declared absent a second time without an
accepted update in between is on *probation*: it may come back, but rounds do not wait for it. It continues its current round,
which does not become void, and its update counts as late. Then it joins again at the round of the others. So a client that
crashes as it joins costs the others one or two waits, and one that is too slow still does its part.
"""

from collections import Counter

CHANCES = 2  # absences without an accepted update, after which a client is on probation


class Returns:
    """Each client's joins and absences since its last accepted update; a restart of the server forgets them.

    >>> returns = Returns()
    >>> for _ in range(2):
    ...     returns.joined(0)
    ...     returns.absent(0)
    >>> returns.joined(0)
    >>> returns.joins(0), returns.on_probation(0), returns.on_probation(1)
    (3, True, False)
    >>> returns.accepted(0), returns.joins(0), returns.on_probation(0), returns.accepted(0)
    (True, 0, False, False)
    """

    def __init__(self) -> None:
        self._joins, self._absences = Counter[int](), Counter[int]()

    def joined(self, c: int) -> None:
        """Note that client c has joined."""
        self._joins[c] += 1

    def absent(self, c: int) -> None:
        """Note that client c, for which rounds waited, is now absent."""
        self._absences[c] += 1

    def accepted(self, c: int) -> bool:
        """Note an accepted update of client c. Return True if it ends the client's probation, which leaves it one chance less."""
        if c not in self._joins and c not in self._absences:
            return False
        over = self.on_probation(c)
        self._joins.pop(c, None)
        self._absences.pop(c, None)
        if over:
            self._absences[c] = CHANCES - 1
        return over

    def joins(self, c: int) -> int:
        """Return how often client c has joined since its last accepted update."""
        return self._joins[c]

    def on_probation(self, c: int) -> bool:
        """True if rounds go on without client c, even if it is connected, until its next accepted update."""
        return self._absences[c] >= CHANCES
