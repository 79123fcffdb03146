"""What is said to an aggregator: to itself, and through it to the clients behind it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crescendo.core.messages import Settled
from crescendo.network.protocol.tree_messages import Above, Acks, to_node, word_parts
from crescendo.network.protocol.wire_messages import FromServer, Ping, Refusal
from crescendo.network.server.encoded_broadcasts import News
from crescendo.network.server.session import Session
from crescendo.network.transport.rate_limits import USELESS_BURST, USELESS_RATE, RateLimits, TokenBucket
from crescendo.network.transport.stream_writer import MAX_QUEUED, StreamWriter


class AggregatorSession(StreamWriter):
    """One aggregator below, as its parent's loop sees it."""

    def __init__(self, name: str, most: int = MAX_QUEUED) -> None:
        super().__init__(most)
        self.name = name
        self.peers: dict[int, RelayedSession] = {}  # at the server: the clients behind it
        self.useless = TokenBucket(USELESS_BURST, USELESS_RATE)
        self._acks: dict[int, tuple[Settled, int]] = {}
        self._news: dict[int, News] = {}
        self._pinged = -1

    def above(self, name: str, message: FromServer) -> None:
        """For one client; what the aggregator itself is asked is asked once, not for each client."""
        if not isinstance(message, Ping):
            self.say(Above(name, message))
        elif message.number != self._pinged:
            self._pinged = message.number
            self.say(message)

    def acknowledge(self, client: int, settled: Settled, epoch: int) -> None:
        self._acks[client] = settled, epoch
        self._wake.set()

    def tell(self, client: int, news: News) -> None:
        self._news[client] = news
        self._wake.set()

    def _worded(self, message: Any) -> Any:
        return to_node(message)

    async def _write_news(self, context: Any) -> bool:
        if self._acks:
            epoch = max(epoch for _, epoch in self._acks.values())
            yours = {c: settled for c, (settled, of) in self._acks.items() if of == epoch}
            self._acks.clear()
            await context.write(to_node(Acks(yours, epoch)))
            return True
        if self._news:
            await self._write_model(context)
            return True
        return False

    async def _write_model(self, context: Any) -> None:
        """The model goes out once for all clients that are to hear the same."""
        broadcast = next(iter(self._news.values())).broadcast
        yours = {c: news.yours for c, news in self._news.items() if news.broadcast is broadcast}
        for c in yours:
            del self._news[c]
        for part in word_parts(broadcast.k, broadcast.epoch, yours, broadcast.data, broadcast.wire):
            await context.write(part)
        for c in yours:
            if c in self.peers:
                self.peers[c].traffic.down += len(broadcast.data) // len(yours)


class RelayedSession(Session):
    """A client that has joined by way of an aggregator: what is said to it goes through that one's link."""

    def __init__(self, client: int, name: str, link: AggregatorSession, rate_limits: RateLimits) -> None:
        super().__init__(client, rate_limits)
        self.name, self.link = name, link
        link.peers[client] = self

    def say(self, message: FromServer) -> None:
        self.link.above(self.name, message)

    def acknowledge(self, settled: Settled, epoch: int) -> None:
        self.link.acknowledge(self.client, settled, epoch)

    def tell(self, news: News) -> None:
        self.link.tell(self.client, news)

    def close(self, refusal: Refusal | None = None) -> None:
        if refusal is not None:  # not final: by the time it arrives the client may have come anew by the same way
            self.say(replace(refusal, final=False))
        self.closed.set()
        if self.link.peers.get(self.client) is self:
            del self.link.peers[self.client]
