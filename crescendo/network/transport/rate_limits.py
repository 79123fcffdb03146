"""Per-client rate limits that survive reconnects."""

from functools import partial

from crescendo import system

# Each pair: how many at once, and how many more each second.
USELESS_BURST, USELESS_RATE = 1000.0, 50.0  # messages that change nothing
STRIKES, FORGIVEN = 20.0, 0.2  # broken messages of one client
JOINS, JOIN_RATE = 100.0, 1.0  # streams that join; each gets the whole model
REFUSALS, REFUSAL_RATE = 100.0, 10.0  # refused streams of one address
STATUSES, STATUS_RATE = 20.0, 4.0  # status requests of one address or party
LONGEST_WAIT = 4.0  # seconds that a status request may wait
MOST_KEYS = 1000  # addresses and parties that are remembered

STRUCK_OUT = "too many broken messages came under this name; come back later"
TOO_MUCH_STATUS = "too many status requests come from this address or party; ask again later, at most once a second"
TOO_OFTEN = "this client joins again and again; come back later, and if these are two copies, stop one"


class TokenBucket:
    """A budget that refills; `take` returns the seconds to wait."""

    def __init__(self, burst: float, rate: float) -> None:
        self._burst, self._rate, self._left, self._at = burst, rate, burst, system.monotonic()

    def take(self, amount: float = 1.0) -> float:
        now = system.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate) - amount
        self._at = now
        return max(0.0, -self._left / self._rate)


class TokenBuckets:
    """A token bucket for each address or party. Beyond `MOST_KEYS` the least recently used one is forgotten."""

    def __init__(self, burst: float, rate: float) -> None:
        self._new, self._buckets = partial(TokenBucket, burst, rate), dict[str, TokenBucket]()

    def take(self, key: str, amount: float = 1.0) -> float:
        """Take from the bucket of ``key``; return the seconds to wait."""
        bucket = self._buckets[key] = self._buckets.pop(key) if key in self._buckets else self._new()
        if len(self._buckets) > MOST_KEYS:
            del self._buckets[next(iter(self._buckets))]
        return bucket.take(amount)


class StatusLimits:
    """Limits on the status requests of each address and each party."""

    def __init__(self) -> None:
        self._buckets = TokenBuckets(STATUSES, STATUS_RATE)

    def wait(self, *askers: str) -> float | None:
        """Return the seconds to wait, or None if that is too long. A request that gets None uses nothing up."""
        if max(self._buckets.take(one, 0) for one in askers) > LONGEST_WAIT:
            return None
        return max(self._buckets.take(one) for one in askers)


class RateLimits:
    """The rate limits of one client."""

    def __init__(self) -> None:
        self.useless = TokenBucket(USELESS_BURST, USELESS_RATE)
        self.strikes = TokenBucket(STRIKES, FORGIVEN)
        self._joins = TokenBucket(JOINS, JOIN_RATE)

    @property
    def struck_out(self) -> bool:
        """True if the client sent too many broken messages and has to come back later."""
        return self.strikes.take(0) > 0

    def may_join(self) -> str | None:
        """Count a join and return None, or return why the client may not join now. A refused attempt uses nothing up."""
        if self.struck_out:
            return STRUCK_OUT
        if self._joins.take(0) > 0:
            return TOO_OFTEN
        self._joins.take()
        return None
