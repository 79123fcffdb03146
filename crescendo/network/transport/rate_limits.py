"""Per-client rate limits that survive reconnects."""

from functools import partial

from crescendo import system

USELESS_BURST, USELESS_RATE = 1000.0, 50.0  # messages that change nothing: at once, and each second
STRIKES, FORGIVEN = 20.0, 0.2  # broken messages of one client: at once, and each second
JOINS, JOIN_RATE = 100.0, 1.0  # streams that join: at once, and each second; each is sent the whole model
REFUSALS, REFUSAL_RATE = 100.0, 10.0  # streams of one address that are refused: at once, and each second
STATUSES, STATUS_RATE = 20.0, 4.0  # status requests of one address, or party: at once, and each second
LONGEST_WAIT = 4.0  # seconds that a status request waits for its turn
MOST_KEYS = 1000  # addresses and parties that are remembered

STRUCK_OUT = "too many broken messages came under this name; come back later"
TOO_MUCH_STATUS = "the status is asked for too often from there; ask again later, once a second at most"
TOO_OFTEN = "this client joins again and again; come back later, and if these are two copies, stop one"


class TokenBucket:
    """A budget that refills; `take` returns the seconds to wait for what was taken."""

    def __init__(self, burst: float, rate: float) -> None:
        self._burst, self._rate, self._left, self._at = burst, rate, burst, system.monotonic()

    def take(self, amount: float = 1.0) -> float:
        now = system.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate) - amount
        self._at = now
        return max(0.0, -self._left / self._rate)


class TokenBuckets:
    """A token bucket for each address or party. The one that was least lately asked is forgotten when there are many."""

    def __init__(self, burst: float, rate: float) -> None:
        self._new, self._buckets = partial(TokenBucket, burst, rate), dict[str, TokenBucket]()

    def take(self, key: str, amount: float = 1.0) -> float:
        """What the bucket of ``key`` says."""
        bucket = self._buckets[key] = self._buckets.pop(key) if key in self._buckets else self._new()
        if len(self._buckets) > MOST_KEYS:
            del self._buckets[next(iter(self._buckets))]
        return bucket.take(amount)


class StatusLimits:
    """How long a status request has to wait: what its address and its party may ask for."""

    def __init__(self) -> None:
        self._buckets = TokenBuckets(STATUSES, STATUS_RATE)

    def wait(self, *askers: str) -> float | None:
        """The seconds to wait; None if that would be too long. Asking again does not make it worse."""
        if max(self._buckets.take(one, 0) for one in askers) > LONGEST_WAIT:
            return None
        return max(self._buckets.take(one) for one in askers)


class RateLimits:
    """What one client may do before it has to wait."""

    def __init__(self) -> None:
        self.useless = TokenBucket(USELESS_BURST, USELESS_RATE)
        self.strikes = TokenBucket(STRIKES, FORGIVEN)
        self._joins = TokenBucket(JOINS, JOIN_RATE)

    @property
    def struck_out(self) -> bool:
        """So much was broken that this client may come back later only."""
        return self.strikes.take(0) > 0

    def may_join(self) -> str | None:
        """Why this client may not join just now; None if it may, and does. Asking again does not make it worse."""
        if self.struck_out:
            return STRUCK_OUT
        if self._joins.take(0) > 0:
            return TOO_OFTEN
        self._joins.take()
        return None
