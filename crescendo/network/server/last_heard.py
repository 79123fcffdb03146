"""How long each client has been silent, as far as silence says anything about a client, and how long a round has waited.

A round is held up only for those who are here. While nobody at all is heard (the server's own network is down, its machine was
asleep, or nobody has come yet) nobody is held up, and silence says nothing about one client more than about another: that time
does not count. Else a cut that outlasts everybody's patience would make all clients absent, and the first to be back would go on,
perhaps to the end, alone. Nor does time count in which the server itself did not run (its process was stopped, its machine
overloaded): what clients said meanwhile has arrived, and is not read yet.
"""

from __future__ import annotations

from collections.abc import Mapping


class Waiting:
    """How long the round that is due has waited for a client that is here and does not send.

    >>> waiting = Waiting(now=0.0)
    >>> waiting.look(10.0, k=3)
    >>> waiting.seconds(came=5.0), waiting.seconds(came=0.0)
    (0.0, 0.0)
    >>> waiting.look(30.0, k=3)
    >>> waiting.seconds(came=5.0), waiting.seconds(came=25.0)
    (20.0, 5.0)
    """

    def __init__(self, now: float) -> None:
        self._k, self._since, self._now = -1, now, now

    def look(self, now: float, k: int) -> None:
        """Round ``k`` is due now."""
        self._now = now
        if k != self._k:
            self._k, self._since = k, now

    def seconds(self, came: float) -> float:
        """For a client that came at that time."""
        return self._now - max(self._since, came)


class Attendance:
    """Seconds of silence of ``clients`` clients; `look` again and again, at any intervals.

    >>> here = Attendance(2, now=0.0)
    >>> here.look(10.0, {})                   # nobody has come: nothing is counted
    >>> here.look(20.0, {0: 18.0})            # the first sign of life of client 0
    >>> here.silent(0), here.silent(1)
    (2.0, 2.0)
    >>> here.look(30.0, {0: 29.0})
    >>> here.silent(0), here.silent(1)
    (1.0, 12.0)
    >>> here.did_not_run(100.0)
    >>> here.look(110.0, {0: 101.0})
    >>> here.silent(0), here.silent(1)
    (9.0, 21.0)
    """

    def __init__(self, clients: int, now: float) -> None:
        self._silent, self._looked, self._anybody = [0.0] * clients, now, False

    def look(self, now: float, heard: Mapping[int, float]) -> None:
        """``heard`` is when each client was last heard, by the clock that ``now`` is of."""
        since, self._looked = self._looked, now
        signs = {c: at for c, at in heard.items() if at > since}
        if signs:
            begin = since if self._anybody else min(signs.values())
            self._silent = [
                now - signs[c] if c in signs else silent + now - begin for c, silent in enumerate(self._silent)
            ]
        self._anybody = bool(signs)

    def did_not_run(self, now: float) -> None:
        """The server was held up until now: the time since the last look does not count."""
        self._looked, self._anybody = now, False

    def silent(self, c: int) -> float:
        """How long client c was silent while others were heard."""
        return self._silent[c]
