"""A client that says whatever a test wants it to say, one message at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc.aio
import numpy as np

from crescendo.core.messages import Settled
from crescendo.core.vectors import encode
from crescendo.federation.agreement import Agreement
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.wire_messages import TO_CLIENT, TO_SERVER, Ack, BroadcastPart, FromClient, UpdatePart
from crescendo.network.transport.channels import JOIN

SOON = 60.0  # seconds that a test waits for what should happen at once


def opened(channel: grpc.aio.Channel) -> Any:
    """A client's stream on a connection, before its hello."""
    return channel.stream_stream(
        JOIN, request_serializer=pb.ToServer.SerializeToString, response_deserializer=pb.ToClient.FromString
    )()


class ScriptedClient:
    """One stream to the server. Several tasks may speak at once: gRPC takes one write on a call at a time, so they queue."""

    def __init__(self, call: Any, agreed: Agreement) -> None:
        self.call, self.agreed = call, agreed
        self._writing = asyncio.Lock()

    async def say(self, message: FromClient) -> None:
        async with self._writing:
            await self.call.write(TO_SERVER.encode(message))

    async def send(self, round: int, delta: Any, wire: str | None = None) -> None:
        agreed = self.agreed
        data = delta if isinstance(delta, bytes) else encode(np.asarray(delta), agreed.wire)
        async with self._writing:
            for part in UpdatePart.split(round, data, wire or agreed.wire, agreed.federation, agreed.digest):
                await self.call.write(TO_SERVER.encode(part))

    async def hear(self) -> Any:
        """The next message, None at the end of the stream."""
        raw = await asyncio.wait_for(self.call.read(), SOON)
        return None if raw is grpc.aio.EOF else TO_CLIENT.decode(raw)

    async def hear_until(self, kind: Any, true: Any = lambda message: True) -> Any:
        while True:
            message = await self.hear()
            assert message is not None, f"the stream ended before a {kind}"
            if isinstance(message, kind) and true(message):
                return message

    async def closed(self) -> None:
        """Until the server closes the stream; what it had said before may still come."""
        while await self.hear() is not None:
            pass

    async def acknowledged(self, wanted: Settled | None = None) -> Settled:
        """Until these rounds, else any, are on the server's disk: an acknowledgement says so, or a broadcast in its stead."""
        while True:
            yours = (await self.hear_until(Ack | BroadcastPart)).yours
            if yours is not None and (yours == wanted if wanted is not None else yours != Settled(0)):
                found: Settled = yours
                return found

    async def k(self, k: int) -> BroadcastPart:
        found: BroadcastPart = await self.hear_until(BroadcastPart, lambda message: message.vector.about >= k)
        return found
