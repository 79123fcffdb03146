"""Returns: clients that come back again and again without a round, and how long rounds go on waiting for them.

A client that is declared absent may come back, and rounds wait for it again. One that is declared absent a second time before an
update of it was accepted is on *probation*: it may come back, but rounds do not wait for it. It goes on with the round that it
has in hand, of which nothing becomes void, and its update counts as late. Then it joins again where the others are. So a client
that crashes as it joins costs the others one wait, or two, and one that is too slow still does its part.
"""

from collections import Counter

CHANCES = 2  # absences without an accepted update, after which a client is on probation


class Returns:
    """What each client has done since an update of it was accepted; forgotten when the server is started again.

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
        """Client c has joined."""
        self._joins[c] += 1

    def absent(self, c: int) -> None:
        """Client c, for which rounds waited, is absent from now on."""
        self._absences[c] += 1

    def accepted(self, c: int) -> bool:
        """An update of client c was accepted. True if that ends its probation; it then has one chance less than others."""
        if c not in self._joins and c not in self._absences:
            return False
        over = self.on_probation(c)
        self._joins.pop(c, None)
        self._absences.pop(c, None)
        if over:
            self._absences[c] = CHANCES - 1
        return over

    def joins(self, c: int) -> int:
        """How often client c has joined since an update of it was accepted."""
        return self._joins[c]

    def on_probation(self, c: int) -> bool:
        """Do rounds go on without client c, although it is here, until an update of it is accepted?"""
        return self._absences[c] >= CHANCES
