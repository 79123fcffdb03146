"""Session: one joined client, at the server or at an aggregator: what is to be written to it, and how much it may ask."""

import asyncio
from dataclasses import dataclass
from typing import Any

from crescendo import system
from crescendo.core.messages import Settled
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.wire_messages import TO_CLIENT, Ack
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
        super().__init__(TO_CLIENT.encode)
        self.client, self.rate_limits = client, rate_limits or RateLimits()
        self.came, self.traffic = system.monotonic(), Traffic()
        self.in_flight, self.large_in_flight = asyncio.Semaphore(MAX_IN_FLIGHT_PER_CLIENT), asyncio.Semaphore(1)
        self._ack: tuple[Settled, int] | None = None
        self._broadcast: tuple[EncodedBroadcast, Settled] | None = None

    def acknowledge(self, settled: Settled, epoch: int) -> None:
        """These rounds of the client are on disk."""
        self._ack = settled, epoch
        self._wake.set()

    def publish(self, broadcast: EncodedBroadcast, yours: Settled) -> None:
        """A broadcast is due; ``yours`` are the client's rounds that are in it."""
        self._broadcast = broadcast, yours
        self._wake.set()

    async def _write_newest(self, context: Any) -> bool:
        ack = self._ack
        if ack is not None and not self._broadcast_says(ack):
            self._ack = None
            await context.write(TO_CLIENT.encode(Ack(*ack)))
            return True
        if self._broadcast is not None:
            broadcast, yours = self._broadcast
            self._ack = self._broadcast = None
            for message in broadcast.messages(yours):
                await context.write(message)
            self.traffic.down += len(broadcast.data)
            return True
        return False

    def _broadcast_says(self, ack: tuple[Settled, int]) -> bool:
        """Does the broadcast that is due say the same, and soon enough?"""
        if self._broadcast is None:
            return False
        broadcast, yours = self._broadcast
        return ack == (yours, broadcast.epoch) and len(broadcast.data) <= LARGE
