"""Hold clock: how long the round that is due has waited for each client, across all its streams."""

from collections.abc import Mapping


class HoldClock:
    """For each of ``clients`` clients, the seconds that the due round has waited for it; call `update` repeatedly.

    >>> clock = HoldClock(2, now=0.0)
    >>> clock.due(0, now=5.0)
    >>> clock.update(10.0, {0: 8.0})                # client 0 alone is heard: it holds nobody up
    >>> clock.seconds(0), clock.seconds(1)
    (0.0, 5.0)
    >>> clock.update(20.0, {0: 18.0, 1: 15.0})
    >>> clock.seconds(0), clock.seconds(1)
    (10.0, 15.0)
    >>> clock.server_did_not_run(3600.0, most=10.0)
    >>> clock.seconds(0), clock.seconds(1)
    (20.0, 25.0)
    >>> clock.due(1, now=3601.0)
    >>> clock.seconds(0), clock.seconds(1)
    (0.0, 0.0)
    """

    def __init__(self, clients: int, now: float) -> None:
        self.round, self._updated, self._due = -1, now, now
        self._waited = [0.0] * clients

    def due(self, round: int, now: float) -> None:
        """Start all clocks at zero, because ``round`` is due from now on."""
        self.round, self._due = round, now
        self._waited = [0.0] * len(self._waited)

    def begin(self, c: int, now: float) -> None:
        """Start the clock of client c, which joins for the first time."""
        self._waited[c] = max(self._updated, self._due) - now  # the next update adds the whole interval

    def update(self, now: float, last_heard: Mapping[int, float]) -> None:
        """Count the time since the last update. ``last_heard`` is when each client was last heard, on the clock of ``now``."""
        since, self._updated = self._updated, now
        heard = [c for c, at in last_heard.items() if at > since]
        if heard:
            alone = heard[0] if len(heard) == 1 else None
            passed = now - max(since, self._due)
            self._waited = [waited + passed * (c != alone) for c, waited in enumerate(self._waited)]

    def server_did_not_run(self, now: float, most: float = 0.0) -> None:
        """Count at most ``most`` seconds since the last update, because the server did not run."""
        passed, self._updated = min(now - max(self._updated, self._due), most), now
        self._waited = [waited + passed for waited in self._waited]

    def seconds(self, c: int) -> float:
        """Return how long the due round has waited for client c, if it does."""
        return max(0.0, self._waited[c])
