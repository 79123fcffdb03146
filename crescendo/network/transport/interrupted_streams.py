"""Interrupted streams: keeps the vectors that were on their way when a peer's stream broke, for its next stream to continue.

For each peer this keeps one vector that arrived in part, and the last broadcast written to the peer: only the peer knows how much
of that has arrived. A server finishes a broadcast that it has begun, over any number of streams, and sends the newest one after
it. If each stream began with the newest one, a line on which a model takes longer than a round would never carry one.

The store is limited in bytes and in time. It drops the peer whose stream broke first; that peer begins again with part 0.
"""

import asyncio
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.resumption import Held, Resumed, Unfinished, resumed

LONGEST_KEPT = 3600.0  # seconds
MOST_KEPT = 256 << 20  # bytes of all peers together, or four vectors if they are longer


class SentLast(NamedTuple):
    """A broadcast with its ``yours``: the receiver's rounds, or those of each client behind an aggregator."""

    broadcast: EncodedBroadcast
    yours: Any


class GoingOn(NamedTuple):
    """A broadcast that an earlier stream carried in part, and how to continue it."""

    last: SentLast
    how: Resumed


async def going_on(held: Held | None, possible: Iterable[SentLast]) -> GoingOn | None:
    """Return the broadcast of which the peer holds a part, and how to continue it; None if there is none."""
    if held is None or not held.length:
        return None
    for last in possible:
        how = await asyncio.to_thread(resumed, last.broadcast.data, held)
        if how.start:
            return GoingOn(last, how)
    return None


class Interrupted(NamedTuple):
    """The vectors of a broken stream: ``up`` has arrived in part, ``down`` was sent at least in part."""

    up: Unfinished | None = None
    down: SentLast | None = None


NOTHING = Interrupted()


class InterruptedStreams:
    """The vectors of the peers' broken streams, oldest first."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[float, Interrupted]] = {}
        self._sent = Counter[EncodedBroadcast]()  # one broadcast may be kept for many peers
        self.bytes = 0
        self._expiring: asyncio.TimerHandle | None = None

    def keep(self, peer: Hashable, what: Interrupted) -> None:
        """Keep the vectors of a peer's broken stream; they replace those of an earlier one."""
        self.take(peer)
        if what == NOTHING:
            return
        self._kept[peer] = asyncio.get_running_loop().time(), what
        self._count(what, 1)
        while self.bytes > max(MOST_KEPT, 4 * _length_of(what)):
            self.take(next(iter(self._kept)))
        self._expire()

    def take(self, peer: Hashable) -> Interrupted:
        """Return the vectors of the peer's last stream, and forget them here."""
        _, what = self._kept.pop(peer, (0.0, NOTHING))
        self._count(what, -1)
        return what

    def close(self) -> None:
        """Forget everything."""
        for peer in list(self._kept):
            self.take(peer)
        if self._expiring is not None:
            self._expiring.cancel()

    def _count(self, what: Interrupted, by: int) -> None:
        if what.up is not None:
            self.bytes += by * len(what.up.room)
        if what.down is not None:
            broadcast = what.down.broadcast
            before, after = self._sent[broadcast], self._sent[broadcast] + by
            self._sent[broadcast] = after
            if not before or not after:
                self.bytes += by * len(broadcast.data)
            if not after:
                del self._sent[broadcast]

    def _expire(self) -> None:
        """Forget vectors that are too old, and schedule the next check."""
        loop = asyncio.get_running_loop()
        if self._expiring is not None:
            self._expiring.cancel()
            self._expiring = None
        for peer, (since, _) in list(self._kept.items()):
            if loop.time() - since < LONGEST_KEPT:
                self._expiring = loop.call_at(since + LONGEST_KEPT, self._expire)
                return
            self.take(peer)


def _length_of(what: Interrupted) -> int:
    up = 0 if what.up is None else len(what.up.room)
    return max(up, 0 if what.down is None else len(what.down.broadcast.data))
