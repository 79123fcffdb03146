"""Session: one joined client at the server or at an aggregator, with the messages to write to it and its rate limits."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from crescendo import system
from crescendo.core.messages import Settled
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.resumption import SMALL_PART, Held, Resumed
from crescendo.network.protocol.wire_messages import TO_CLIENT, Ack, Hello, Welcome
from crescendo.network.transport.interrupted_streams import GoingOn, SentLast, going_on
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
    """A stream that has joined. Only the newest broadcast and acknowledgement wait, however slowly the client reads.

    ``hello`` shows the broadcasts that the client already has: the newest, which then need not be sent again, or a part of one.
    """

    def __init__(self, client: int, rate_limits: RateLimits | None = None, hello: Hello | None = None) -> None:
        super().__init__(self._encoded)
        self.client, self.rate_limits = client, rate_limits or RateLimits()
        self.came, self.traffic = system.monotonic(), Traffic()
        self.in_flight, self.large_in_flight = asyncio.Semaphore(MAX_IN_FLIGHT_PER_CLIENT), asyncio.Semaphore(1)
        self.sent: SentLast | None = None  # the last broadcast written, if the next stream may have to continue it
        self._ack: tuple[Settled, int] | None = None
        self._broadcast: tuple[EncodedBroadcast, Settled] | None = None
        self._in_memory = (hello.epoch, hello.k) if hello is not None and hello.in_memory else None
        self._held = None if hello is None else hello.held  # by the client; None: it reports no bad line
        self._received: Held | None = None  # the part of the client's update that this side holds
        self._begun: GoingOn | None = None

    def acknowledge(self, settled: Settled, epoch: int) -> None:
        """Queue an acknowledgement: these rounds of the client are on disk."""
        self._ack = settled, epoch
        self._wake.set()

    def publish(self, broadcast: EncodedBroadcast, yours: Settled) -> None:
        """Queue a broadcast, unless the client has it; ``yours`` are the client's rounds that are in it."""
        if not self.has(broadcast):
            self._broadcast = broadcast, yours
            self._wake.set()

    def has(self, broadcast: EncodedBroadcast) -> bool:
        """True if the client has this broadcast, or another of the same epoch and k, which will do."""
        return self._in_memory == (broadcast.epoch, broadcast.k)

    async def go_on(self, received: Held | None, sent: SentLast | None) -> None:
        """Continue where the client's last stream broke, before anything is written on this one.

        ``received`` is the update that arrived in part, ``sent`` the last broadcast written. If the client holds a part of that,
        it is finished first, and the newest follows. So every stream makes progress, however fast rounds complete.
        """
        self._received, self.sent = received, sent
        due = None if self._broadcast is None else SentLast(*self._broadcast)
        epoch = None if due is None else due.broadcast.epoch
        possible = [last for last in (sent, due) if last is not None and epoch in (None, last.broadcast.epoch)]
        self._begun = await going_on(self._held, [last for last in possible if not self._is_old(last.broadcast)])
        if self._begun is not None:
            self._expect(self._begun[0].broadcast)

    def _is_old(self, broadcast: EncodedBroadcast) -> bool:
        return self._in_memory is not None and (broadcast.epoch, broadcast.k) <= self._in_memory

    def _expect(self, broadcast: EncodedBroadcast) -> None:
        """Note that the client will have this broadcast, and drop the same one from the queue."""
        self._in_memory = broadcast.epoch, broadcast.k
        if self._broadcast is not None and self.has(self._broadcast[0]):
            self._broadcast = None

    def _encoded(self, message: Any) -> Any:
        if isinstance(message, Welcome):
            bad_line = None if self._held is None else Held()
            message = replace(message, held=self._received or bad_line)
        return TO_CLIENT.encode(message)

    async def _write_newest(self, context: Any) -> bool:
        ack = self._ack
        if ack is not None and not self._broadcast_says(ack):
            self._ack = None
            await context.write(TO_CLIENT.encode(Ack(*ack)))
            return True
        if self._begun is not None:
            (last, how), self._begun = self._begun, None
            await self._write_broadcast(context, last, how)
            return True
        if self._broadcast is not None:
            last = SentLast(*self._broadcast)
            self._ack = self._broadcast = None
            await self._write_broadcast(context, last, None if self._held is None else Resumed())
            return True
        return False

    async def _write_broadcast(self, context: Any, last: SentLast, how: Resumed | None) -> None:
        broadcast, yours = last
        self.sent = last if len(broadcast.data) > SMALL_PART else None
        await self._write_parts(context, broadcast.messages(yours, how))
        self.traffic.down += len(broadcast.data) - (0 if how is None else how.start)

    def _broadcast_says(self, ack: tuple[Settled, int]) -> bool:
        """True if the queued broadcast carries the same acknowledgement and is short enough not to delay it."""
        if self._broadcast is None:
            return False
        broadcast, yours = self._broadcast
        return ack == (yours, broadcast.epoch) and len(broadcast.data) <= LARGE


MakeSession = Callable[[RateLimits], Session]
