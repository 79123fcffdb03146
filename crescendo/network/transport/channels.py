"""How both sides reach each other: channels, their options, and how long to wait before trying again."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from crescendo.errors import UsageError
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.vector_parts import PART
from crescendo.network.protocol.wire_messages import SERVICE, TERMS
from crescendo.network.transport.error_translation import reason_of

LARGEST_MESSAGE = max(PART, 4 * TERMS) + (64 << 10)
MAX_STREAMS = 1000  # of one connection; a client has one, a proxy in between may have many
JOIN, STATUS = f"/{SERVICE}/Join", f"/{SERVICE}/Status"

# A connection whose other end vanished is noticed after 30 s at most. Proxies and keepalive agree on these.
OPTIONS: list[tuple[str, Any]] = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
]
SERVER_OPTIONS = [*OPTIONS, ("grpc.so_reuseport", 0), ("grpc.max_concurrent_streams", MAX_STREAMS)]


def parsed(kind: Any) -> Callable[[bytes], Any]:
    """A parser that takes bytes which are no message for an empty one, so that they are refused in a sentence and counted."""

    def parse(raw: bytes) -> Any:
        try:
            return kind.FromString(raw)
        except DecodeError:
            return kind()

    return parse


class StreamBroken(Exception):
    """The stream broke, or the server asked to come back later; try again."""


class TurnedAway(StreamBroken):
    """Whoever answers has no use for this stream now, and says why; one may come back."""


class Unreachable(UsageError):
    """The server was not reached for as long as one was told to try."""


class Unrecoverable(Unreachable):
    """What answers is not the server that was meant, or nothing that we can speak to: to try again would not help."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"the server at {address} cannot be spoken to: {why}")


@dataclass(frozen=True)
class Endpoint:
    """Where the server is and how to speak to it. Without credentials the bytes are not encrypted.

    ``look`` makes the credentials when a connection is about to be made, if they depend on what the server shows: OSError if it
    is not there, and whatever else it raises is final.
    """

    address: str
    credentials: Any = None
    token: str = ""
    look: Callable[[], Any] | None = None


async def listen(handlers: Iterable[Any], address: str, credentials: Any = None) -> tuple[grpc.aio.Server, int]:
    """A server that has begun to listen, and its port."""
    server = grpc.aio.server(options=SERVER_OPTIONS)
    server.add_generic_rpc_handlers(tuple(handlers))
    secure = credentials is not None
    port = server.add_secure_port(address, credentials) if secure else server.add_insecure_port(address)
    await server.start()
    return server, int(port)


@asynccontextmanager
async def channel_to(endpoint: Endpoint) -> AsyncIterator[grpc.aio.Channel]:
    """A new connection: gRPC's own waiting between attempts would add to ours."""
    options = [*OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
    try:
        credentials = endpoint.credentials if endpoint.look is None else await asyncio.to_thread(endpoint.look)
    except OSError as error:
        raise StreamBroken(f"it shows no certificate: {reason_of(error)}") from None
    if credentials is None:
        channel = grpc.aio.insecure_channel(endpoint.address, options=options)
    else:
        channel = grpc.aio.secure_channel(endpoint.address, credentials, options=options)
    try:
        yield channel
    finally:
        await channel.close()


def join_on(channel: grpc.aio.Channel) -> Any:
    """Open the stream."""
    return channel.stream_stream(
        JOIN, request_serializer=pb.ToServer.SerializeToString, response_deserializer=pb.ToClient.FromString
    )()


async def status_of(endpoint: Endpoint, timeout: float) -> str:
    """What the server says about itself, as JSON."""
    async with channel_to(endpoint) as channel:
        ask = channel.unary_unary(
            STATUS,
            request_serializer=pb.StatusRequest.SerializeToString,
            response_deserializer=pb.StatusReply.FromString,
        )
        reply = await ask(pb.StatusRequest(token=endpoint.token), timeout=timeout)
        return str(reply.json)


@dataclass(frozen=True)
class Backoff:
    """Seconds before the next attempt: doubled each time from ``first`` up to ``most``, and spread by half.

    After ``give_up`` seconds without the server comes one last attempt. Servers come back after days, so nobody gives up unasked.
    """

    first: float = 0.2
    most: float = 10.0
    give_up: float = math.inf

    def __post_init__(self) -> None:
        if not self.give_up >= 0:
            raise UsageError(f"--give-up-after must be a number of seconds from 0 on, got {self.give_up:g}")

    def waits(self) -> Iterator[float]:
        wait = self.first
        while True:
            yield wait * random.uniform(0.5, 1.5)
            wait = min(self.most, 2 * wait)


class Attempts:
    """Attempts to reach the server, counted from when it was last there."""

    def __init__(self, backoff: Backoff, address: str) -> None:
        self._backoff, self.address = backoff, address
        self.reached()

    def reached(self) -> None:
        """The server was there just now."""
        self._waits, self._since = self._backoff.waits(), time.monotonic()

    @property
    def without(self) -> float:
        """Seconds without the server."""
        return time.monotonic() - self._since

    def failed(self, why: str) -> float:
        """An attempt has failed: how long to wait before the next; `Unreachable` if there is to be none."""
        left = self._backoff.give_up - self.without
        if left <= 0:
            raise Unreachable(
                f"gave up after {self.without:.0f} s without the server at {self.address} ({why}); what is done is kept, so "
                f"the same command goes on"
            )
        return min(next(self._waits), left)
