"""One connected client as the server's loop sees it: what is to be said to it, and how much it may ask."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from crescendo.core.messages import Settled
from crescendo.network.protocol.wire_messages import Ack, to_client
from crescendo.network.server.encoded_broadcasts import News
from crescendo.network.transport.rate_limits import RateLimits
from crescendo.network.transport.stream_writer import StreamWriter

MAX_IN_FLIGHT_PER_CLIENT = 16  # messages of one client that may wait for the disk at once, of large ones only one
LARGE = 256 << 10


@dataclass(slots=True)
class Traffic:
    """Bytes of vectors from and to one client, over all its streams since the server was started."""

    up: int = 0
    down: int = 0


class Session(StreamWriter):
    """A stream that has joined. Of broadcasts and acknowledgements only the newest wait, however slowly the client reads."""

    def __init__(self, client: int, rate_limits: RateLimits | None = None) -> None:
        super().__init__()
        self.client, self.rate_limits = client, rate_limits or RateLimits()
        self.came = self.heard = time.monotonic()
        self.traffic = Traffic()
        self.in_flight, self.large_in_flight = asyncio.Semaphore(MAX_IN_FLIGHT_PER_CLIENT), asyncio.Semaphore(1)
        self._ack: tuple[Settled, int] | None = None
        self._news: News | None = None

    def acknowledge(self, settled: Settled, epoch: int) -> None:
        self._ack = settled, epoch
        self._wake.set()

    def tell(self, news: News) -> None:
        self._news = news
        self._wake.set()

    def _worded(self, message: Any) -> Any:
        return to_client(message)

    async def _write_news(self, context: Any) -> bool:
        ack, news = self._ack, self._news
        if ack is not None and not (news is not None and _acknowledges(news, ack)):
            self._ack = None
            await context.write(to_client(Ack(*ack)))
            return True
        if news is not None:
            self._ack = self._news = None
            for message in news.broadcast.messages(news.yours):
                await context.write(message)
            self.traffic.down += len(news.broadcast.data)
            return True
        return False


def _acknowledges(news: News, ack: tuple[Settled, int]) -> bool:
    """Does a broadcast say the same, and soon enough?"""
    return ack == (news.yours, news.broadcast.epoch) and len(news.broadcast.data) <= LARGE


def serialize(message: Any) -> bytes:
    """What a `Session` writes: messages, and bytes where many share them."""
    raw: bytes = message if isinstance(message, bytes) else message.SerializeToString()
    return raw
