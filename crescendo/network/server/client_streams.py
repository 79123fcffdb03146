"""Client streams: one handler for the streams of clients, at the server and at an aggregator, which a client cannot tell apart.

A stream begins with a hello. A client that has not agreed to the terms yet gets them; one that has is admitted or refused by the
host. From then on the stream is read and written concurrently until either side ends it.
"""

import asyncio
from typing import Any, NamedTuple, Protocol

import grpc
import grpc.aio

from crescendo.core.buffer_pool import BufferPool
from crescendo.core.messages import Settled
from crescendo.core.vectors import Raw
from crescendo.errors import PeerError
from crescendo.federation.agreement import Agreement
from crescendo.logs import Log
from crescendo.network.protocol.framing import Framed
from crescendo.network.protocol.vector_parts import Assembly, Part
from crescendo.network.protocol.versions import PeerVersion
from crescendo.network.protocol.wire_messages import (
    SERVICE,
    TO_CLIENT,
    TO_SERVER,
    FromServer,
    Goodbye,
    Hello,
    Pong,
    Refusal,
    UpdatePart,
    VoidRound,
    Welcome,
)
from crescendo.network.server.admitted_streams import AdmittedStreams
from crescendo.network.server.session import Session
from crescendo.network.transport.connections import Connections
from crescendo.network.transport.interrupted_streams import Interrupted, InterruptedStreams
from crescendo.network.transport.pending_streams import PendingStreams, TermsRequests
from crescendo.network.transport.security.authenticator import Admit
from crescendo.network.transport.security.expiry import expiry_of


class _ClientHost(Protocol):
    """The side that clients join: the server, or an aggregator."""

    admit: Admit
    log: Log
    role: str  # its name in messages

    @property
    def version(self) -> PeerVersion:
        """The protocols that all nodes up to the server speak."""

    @property
    def agreement(self) -> Agreement:
        """The agreement; `TryLater` while it is not known, or there is no connection to the server."""

    @property
    def epoch(self) -> int: ...
    async def join(self, c: int, hello: Hello) -> Session | list[FromServer]:
        """Admit a client and return its session, or return the answers to a client that is refused."""

    async def on_declined(self, c: int, goodbye: Goodbye) -> None: ...
    async def on_update(self, session: Any, round: int, data: Raw) -> None: ...
    async def on_void(self, session: Any, message: VoidRound) -> None: ...
    async def on_goodbye(self, session: Any, goodbye: Goodbye) -> None: ...
    def on_heard(self, session: Any) -> None: ...
    def on_broken(self, session: Any, error: PeerError) -> Refusal:
        """Return the answer to a message that breaks the protocol; it ends the stream."""

    def on_end(self, session: Any) -> None: ...


def _serialize(message: Any) -> bytes:
    """Return the bytes of a message; those that many clients share are bytes already."""
    raw: bytes = message if isinstance(message, bytes) else message.SerializeToString()
    return raw


class _ClientStream(NamedTuple):
    """A stream that has joined: its session, and the assembly of its vectors."""

    session: Session
    assembly: Assembly

    def interrupt(self) -> Interrupted:
        """Return the vectors that the client's next stream may continue. This stream takes no more parts."""
        return Interrupted(self.assembly.hand_over(), self.session.sent)


class ClientStreams:
    """Serves the streams of the clients of one host."""

    def __init__(
        self, host: _ClientHost, pending: PendingStreams, connections: Connections, admitted: AdmittedStreams
    ) -> None:
        self._host, self._pending, self._connections, self._admitted_streams = host, pending, connections, admitted
        self._terms_requests = TermsRequests()
        self._buffers = BufferPool(4)  # one for all streams: one pool per stream would add up
        self._open: dict[int, _ClientStream] = {}  # the newest of each client
        self._interrupted = InterruptedStreams()

    def close(self) -> None:
        """End the streams that have not joined."""
        self._pending.close()
        self._terms_requests.close()
        self._interrupted.close()

    def handlers(self, **others: Any) -> Any:
        """Return the handlers to add to a gRPC server; ``others`` are methods of the same service."""
        join = grpc.stream_stream_rpc_method_handler(
            self._join, request_deserializer=Framed.parse, response_serializer=_serialize
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"Join": join, **others})

    async def _join(self, requests: Any, context: Any) -> None:
        await self._pending.serve(context, self._serve, TO_CLIENT.encode)

    def _admitted(self, raw: Any, context: Any) -> Hello:
        hello = TO_SERVER.decode(raw)
        if not isinstance(hello, Hello):
            raise PeerError("a stream begins with a hello; refused, check the client's version")
        self._host.admit(hello.name, hello.token, context)
        hello.check_version(
            self._host.version, self._host.role
        )  # after the admission: unknown peers must not learn this version
        return hello

    async def _serve(self, raw: Any, context: Any) -> list[FromServer]:
        """Serve a stream until it ends. Return the answers to a client that was refused."""
        hello = self._admitted(raw, context)
        with self._connections.known(context):
            return await self._serve_known(hello, context)

    async def _serve_known(self, hello: Hello, context: Any) -> list[FromServer]:
        host, agreement = self._host, self._host.agreement
        c = hello.client_in(agreement)
        if not hello.digest:
            terms = Welcome(agreement.text, agreement.federation, host.epoch, c, 0, Settled(0), host.version)
            declined = await self._terms_requests.answer(hello.name, terms, context)
            if declined is not None:
                self._pending.log("declined", hello.name, client=hello.name, reason=declined.reason)
                await host.on_declined(c, declined)
            return []
        session = await host.join(c, hello)
        if not isinstance(session, Session):
            return session
        opened, before = self._opened(session, agreement)
        try:
            held = None if before.up is None else await asyncio.to_thread(before.up.claim)
            await session.go_on(held, before.down)
            check, expires = lambda: host.admit(hello.name, hello.token, context), expiry_of(context)
            with self._admitted_streams.counted(check, session.close, hello.name, expires):
                reading = self._read_all(session, agreement, opened.assembly, context)
                await session.run(context, reading, lambda error: host.on_broken(session, error))
        finally:
            if self._open.get(c) is opened:
                del self._open[c]
                self._interrupted.keep(c, opened.interrupt())
            host.on_end(session)
        return []

    def _opened(self, session: Session, agreement: Agreement) -> tuple[_ClientStream, Interrupted]:
        """Return a client's new stream, and the vectors of its last one, which may still look alive after its line dropped."""
        older = self._open.get(session.client)
        before = self._interrupted.take(session.client) if older is None else older.interrupt()
        session.sent = before.down
        assembly = Assembly(agreement.size, (agreement.wire,), self._buffers, before.up)
        opened = self._open[session.client] = _ClientStream(session, assembly)
        return opened, before

    async def _read_all(self, session: Session, agreement: Agreement, assembly: Assembly, context: Any) -> None:
        """Read until the client ends the stream; raise PeerError if a message breaks the protocol."""
        host = self._host
        while (raw := await context.read()) is not grpc.aio.EOF:
            host.on_heard(session)
            message = TO_SERVER.decode(raw)
            if isinstance(message, UpdatePart | VoidRound):
                message.check_about(agreement)
            if isinstance(message, UpdatePart):
                await self._add_part(session, assembly, message.vector)
            elif isinstance(message, VoidRound):
                await host.on_void(session, message)
            elif isinstance(message, Goodbye):
                await host.on_goodbye(session, message)
                return
            elif isinstance(message, Pong):
                await asyncio.sleep(session.rate_limits.useless.take())
            else:
                raise PeerError("a client says hello twice on one stream; refused, check its version")

    async def _add_part(self, session: Session, assembly: Assembly, part: Part) -> None:
        """Add a part. This is a separate function, so that the reader does not hold the vector while it waits for the next."""
        data = assembly.add(part)
        if data is not None:
            await self._host.on_update(session, part.about, data)
