"""Channels: gRPC options for both sides, the listening server, and the calls that a client makes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from crescendo.core.vectors import Raw
from crescendo.errors import PeerError, UsageError
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.codec import TERMS, Codec
from crescendo.network.protocol.resumption import PART
from crescendo.network.protocol.tree_messages import MANY, RELAY, TO_NODE, TO_PARENT, NodeHello
from crescendo.network.protocol.vector_parts import Assembly, Part
from crescendo.network.protocol.wire_messages import SERVICE, TO_CLIENT, TO_SERVER, Hello
from crescendo.network.transport.error_translation import reason_of

LARGEST_MESSAGE = max(PART, 4 * TERMS) + (64 << 10)
LARGEST_SENT_UP = PART + 16 * MANY + (64 << 10)  # any peer, known or not, can put one into the server's memory
MAX_STREAMS = 1000  # per connection; a client has one, a proxy in between may have many
JOIN, STATUS = f"/{SERVICE}/Join", f"/{SERVICE}/Status"

# With these settings a side notices within 30 s that the other end has vanished.
OPTIONS: list[tuple[str, Any]] = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.max_send_message_length", -1),
]
CLIENT_OPTIONS = [*OPTIONS, ("grpc.max_receive_message_length", LARGEST_MESSAGE)]
SERVER_OPTIONS = [
    *OPTIONS,
    ("grpc.max_receive_message_length", LARGEST_SENT_UP),
    ("grpc.so_reuseport", 0),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    ("grpc.server_handshake_timeout_ms", 10_000),  # until it speaks HTTP/2, and TLS before that
    ("grpc.max_connection_idle_ms", 30_000),  # without a stream; clients and aggregators have one all the time
]


def parsed(kind: Any) -> Callable[[bytes], Any]:
    """Return a parser that turns invalid bytes into an empty message, which the codec refuses and the rate limits count."""

    def parse(raw: bytes) -> Any:
        try:
            return kind.FromString(raw)
        except DecodeError:
            return kind()

    return parse


class StreamBroken(Exception):
    """The stream broke; try again. ``turned_away``: the server has sent the client away for now, with a reason."""

    def __init__(self, reason: str, turned_away: bool = False) -> None:
        super().__init__(reason)
        self.turned_away = turned_away


class OutgoingStream:
    """The stream of a client or aggregator to ``who``, a server or parent. It sends ``up`` messages and receives ``down``."""

    def __init__(self, call: Any, up: Codec, down: Codec, who: str) -> None:
        self._call, self._up, self._down, self._who = call, up, down, who

    async def write(self, message: Any) -> None:
        await self._call.write(self._up.encode(message))

    async def read(self) -> Any:
        """Return the next message; `StreamBroken` if the stream has ended or the message is invalid."""
        raw = await self._call.read()
        if raw is grpc.aio.EOF:
            raise StreamBroken(await self._call.details() or f"the {self._who} closed the stream")
        try:
            return self._down.decode(raw)
        except PeerError as error:
            raise StreamBroken(str(error)) from None

    async def write_all(self, get: Callable[[], Awaitable[Any]], encode: Callable[[Any], Iterable[Any]]) -> None:
        """Write messages from ``get``, each as the parts that ``encode`` returns, until the stream breaks."""
        try:
            while True:
                for part in encode(await get()):
                    await self._call.write(part)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            self._call.cancel()  # wakes the reader, which raises the reason

    async def decline(self, message: Any) -> None:
        """Send a last message, and wait until the other side has read it."""
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self.write(message)
            await self._call.done_writing()
            await self._call.read()


def added(assembly: Assembly, part: Part) -> Raw | None:
    """Add a part and return the vector if it is complete. An invalid part breaks the stream; the next stream starts over."""
    try:
        return assembly.add(part)
    except PeerError as error:
        raise StreamBroken(str(error)) from None


@dataclass(frozen=True)
class Endpoint:
    """The address of a server, and the credentials to connect with. Without ``look`` the connection is not encrypted.

    ``look`` makes the credentials for each connection, because keys are renewed and some credentials depend on the certificate
    that the server shows. It raises OSError if the server cannot be reached; any other error is final. ``show`` returns the
    current token.
    """

    address: str
    look: Callable[[], Any] | None = None
    show: Callable[[], str] = str

    @property
    def token(self) -> str:
        return self.show()

    def why(self, error: BaseException) -> str:
        """Return the reason why the server cannot be reached, as far as this side can see it."""
        return reason_of(error, in_the_clear=self.look is None)

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[grpc.aio.Channel]:
        """Open a new connection. A shared one would add gRPC's own back-off to ours."""
        options = [*CLIENT_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
        try:
            credentials = None if self.look is None else await asyncio.to_thread(self.look)
        except OSError as error:
            raise StreamBroken(f"it shows no certificate: {reason_of(error)}") from None
        if credentials is None:
            channel = grpc.aio.insecure_channel(self.address, options=options)
        else:
            channel = grpc.aio.secure_channel(self.address, credentials, options=options)
        try:
            yield channel
        finally:
            await channel.close()

    @asynccontextmanager
    async def stream(self, hello: Hello | NodeHello) -> AsyncIterator[OutgoingStream]:
        """Open a connection and on it the stream of a client or aggregator, and send the hello."""
        is_client = isinstance(hello, Hello)
        up, down = (TO_SERVER, TO_CLIENT) if is_client else (TO_PARENT, TO_NODE)
        async with self.channel() as channel:
            call = channel.stream_stream(
                JOIN if is_client else RELAY,
                request_serializer=up.whole.SerializeToString,
                response_deserializer=down.whole.FromString,
            )()
            stream = OutgoingStream(call, up, down, "server" if is_client else "parent")
            try:
                await stream.write(hello)
                yield stream
            finally:
                call.cancel()

    async def status(self, timeout: float) -> str:
        """Return the server's status as JSON."""
        async with self.channel() as channel:
            ask = channel.unary_unary(
                STATUS,
                request_serializer=pb.StatusRequest.SerializeToString,
                response_deserializer=pb.StatusReply.FromString,
            )
            reply = await ask(pb.StatusRequest(token=self.token), timeout=timeout)
            return str(reply.json)


async def listen(
    handlers: Iterable[Any], address: str, credentials: Any = None, connections: int = 1024
) -> tuple[grpc.aio.Server, int]:
    """Start a server and return it with its port. It closes connections beyond ``connections`` at once."""
    server = grpc.aio.server(options=[*SERVER_OPTIONS, ("grpc.max_allowed_incoming_connections", connections)])
    server.add_generic_rpc_handlers(tuple(handlers))
    secure = credentials is not None
    try:
        port = server.add_secure_port(address, credentials) if secure else server.add_insecure_port(address)
    except RuntimeError as error:
        raise UsageError(f"{address} cannot be listened on ({error}); is the port in use?") from None
    await server.start()
    return server, int(port)
