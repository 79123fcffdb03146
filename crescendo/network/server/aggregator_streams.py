"""Aggregator streams: the parent's end of an aggregator's stream, which carries a whole subtree's clients over one connection.

`AggregatorStreams` reads the messages that come up and passes them to its host: the server, or an aggregator that has aggregators
below it. An `AggregatorSession` writes the messages that go down, to the aggregator itself and to the clients behind it.
"""

import asyncio
from typing import Any, NamedTuple, Protocol

import grpc
import grpc.aio
import numpy as np

from crescendo.core.messages import Pair, Settled
from crescendo.errors import PeerError
from crescendo.federation.agreement import Agreement
from crescendo.logs import Log
from crescendo.network.protocol import tree_pb2 as pb
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.resumption import SMALL_PART, Held, Resumed
from crescendo.network.protocol.tree_messages import (
    SERVICE,
    TO_NODE,
    TO_PARENT,
    Above,
    Acks,
    Alive,
    Below,
    NodeHello,
    NodeVersion,
    NodeWelcome,
    Over,
    SumPart,
    WordPart,
)
from crescendo.network.protocol.vector_parts import Assembly, Part
from crescendo.network.protocol.versions import PeerVersion, program_of
from crescendo.network.protocol.wire_messages import Ack, FromServer, Goodbye, Hello, Ping, Refusal, VoidRound
from crescendo.network.server.admitted_streams import AdmittedStreams
from crescendo.network.server.session import Session
from crescendo.network.transport.channels import parsed
from crescendo.network.transport.connections import Connections
from crescendo.network.transport.interrupted_streams import (
    GoingOn,
    Interrupted,
    InterruptedStreams,
    SentLast,
    going_on,
)
from crescendo.network.transport.pending_streams import PendingStreams, TryLater
from crescendo.network.transport.rate_limits import RateLimits
from crescendo.network.transport.security.authenticator import Admit, Authenticator
from crescendo.network.transport.security.expiry import expiry_of
from crescendo.network.transport.stream_writer import CLOSE_TIMEOUT, MAX_QUEUED, StreamWriter
from crescendo.storage.journal.journal_entries import Summed

SPARE_AGGREGATORS = 64  # streams of aggregators beyond one per client
TOGETHER = 0.5  # seconds for which the first model on a bad line waits for further clients


class AggregatorSession(StreamWriter):
    """The parent's session with one aggregator below."""

    def __init__(self, hello: NodeHello, most: int = MAX_QUEUED) -> None:
        super().__init__(TO_NODE.encode, most)
        self.name, self.rate_limits = hello.name, RateLimits()
        self.version = NodeVersion(hello.name, program_of(hello.version))
        self.below: tuple[NodeVersion, ...] = ()  # the aggregators behind it, as it reports them
        self._acks: dict[int, Ack] = {}
        self._broadcasts: dict[int, tuple[EncodedBroadcast, Settled]] = {}
        self.sent: SentLast | None = None  # the last broadcast written, if the next stream may have to continue it
        self._held = hello.held  # the part that the aggregator holds; None: it reports no bad line
        self._has_gathered = False
        self._begun: GoingOn | None = None
        self._writing: SentLast | None = None  # the broadcast whose parts are being written or continued
        self._late: dict[int, tuple[EncodedBroadcast, Settled]] = {}  # for clients that joined during the write
        self._pinged = -1
        self.sessions: dict[int, Session] = {}  # at the server: the sessions of the clients behind it

    def send_to(self, name: str, message: FromServer) -> None:
        """Send a message to one client. The aggregator itself answers pings, so it gets each ping once, not for each client."""
        if not isinstance(message, Ping):
            self.send(Above(name, message))
        elif message.number != self._pinged:
            self._pinged = message.number
            self.send(message)

    def acknowledge(self, client: int, settled: Settled, epoch: int) -> None:
        self._acks[client] = Ack(settled, epoch)
        self._wake.set()

    def publish(self, client: int, broadcast: EncodedBroadcast, yours: Settled) -> None:
        """Queue a broadcast for a client, unless the one being written to it is as new."""
        written = self._writing
        if written is not None and client in written.yours and _same(written.broadcast, broadcast):
            self._late[client] = broadcast, yours
        else:
            self._broadcasts[client] = broadcast, yours
        self._wake.set()

    async def go_on(self, sent: SentLast | None) -> None:
        """Continue the last broadcast if the aggregator holds a part of it, as soon as one of its receivers is back."""
        self._begun = await going_on(self._held, [] if sent is None else [sent])
        self._writing = None if self._begun is None else self._begun.last

    async def _write_newest(self, context: Any) -> bool:
        if self._acks:
            epoch = max(ack.epoch for ack in self._acks.values())
            yours = {c: ack for c, ack in self._acks.items() if ack.epoch == epoch}
            self._acks.clear()
            await context.write(TO_NODE.encode(Acks(yours)))
        elif self._held is not None and not self._has_gathered and (self._broadcasts or self._late):
            self._has_gathered = True
            await self._gather()
        elif self._begun is not None and (last := await self._going_on_with(self._begun.last)) is not None:
            how, self._begun = self._begun.how, None
            await self._write_model(context, last, how)
        elif self._broadcasts:
            self._begun = None
            await self._write_model(context, self._newest(), None if self._held is None else Resumed())
        else:
            return False
        return True

    async def _gather(self) -> None:
        """On a bad line, wait a moment for the other clients behind it: they join one by one, and one model can serve all."""
        await asyncio.sleep(TOGETHER)

    async def _going_on_with(self, last: SentLast) -> SentLast | None:
        """Return the interrupted broadcast with all its present receivers; None if there are none.

        A client that came back first may not have been among the receivers. If it is due the same bytes, it becomes one of them:
        otherwise each stream would start these bytes again for it.
        """
        others = [(c, due) for c, due in self._broadcasts.items() if c not in last.yours]
        same = {c: due for c, due in others if await asyncio.to_thread(_equal, due[0], last.broadcast)}
        if not same and not self._late and last.yours.keys().isdisjoint(self._broadcasts):
            return None
        for c, due in same.items():
            if self._broadcasts.get(c) is due:  # otherwise a newer one follows
                del self._broadcasts[c]
        return SentLast(last.broadcast, {**last.yours, **{c: yours for c, (_, yours) in same.items()}})

    def _newest(self) -> SentLast:
        """Take the next model due, with all clients that are due the same one."""
        model, _ = next(iter(self._broadcasts.values()))
        yours = {c: settled for c, (broadcast, settled) in self._broadcasts.items() if broadcast is model}
        for c in yours:
            del self._broadcasts[c]
        return SentLast(model, yours)

    async def _write_model(self, context: Any, last: SentLast, how: Resumed | None) -> None:
        model, yours = last
        self._writing, self.sent = last, last if len(model.data) > SMALL_PART else None
        parts = WordPart.split(model.k, model.epoch, yours, model.data, model.wire, how)
        # a client whose welcome was written before the last part is known to the aggregator when it passes the model on
        await self._write_parts(context, map(TO_NODE.encode, parts), self._late.clear)
        self._writing = None
        self._broadcasts.update(self._late)  # for clients whose welcome came after the last part
        self._late.clear()
        for c in yours.keys() & self.sessions.keys():
            self.sessions[c].traffic.down += (len(model.data) - (0 if how is None else how.start)) // len(yours)


def _same(one: EncodedBroadcast, other: EncodedBroadcast) -> bool:
    """True if both are of the same epoch and k: a client needs only one of them."""
    return (one.epoch, one.k) == (other.epoch, other.k)


def _equal(one: EncodedBroadcast, other: EncodedBroadcast) -> bool:
    """True if both have the same bytes; then a client's rounds in one of them are its rounds in the other."""
    if one is other or not _same(one, other):
        return one is other
    return np.array_equal(np.frombuffer(one.data, np.uint8), np.frombuffer(other.data, np.uint8))


class _OpenLink(NamedTuple):
    """The stream of an aggregator, and the assembly of its vectors."""

    link: AggregatorSession
    assembly: Assembly


class _AggregatorHost(Protocol):
    """The side that aggregators join: the server, or an aggregator."""

    admit: Admit
    log: Log
    role: str  # its name in messages

    @property
    def version(self) -> PeerVersion:
        """The protocols that all nodes up to the server speak."""

    @property
    def agreement(self) -> Agreement:
        """The agreement; `TryLater` while it is not known."""

    def new_link(self, hello: NodeHello, most: int) -> AggregatorSession: ...
    async def on_hello(self, link: Any, hello: Hello) -> None: ...
    async def on_below(self, link: Any, name: str, message: VoidRound | Goodbye) -> None: ...
    async def on_gone(self, link: Any, name: str) -> None: ...
    async def on_sum(self, link: Any, id: str, total: Summed) -> None: ...
    def on_alive(self, link: Any, clients: tuple[int, ...]) -> None: ...
    def on_link_end(self, link: Any) -> None: ...


class AggregatorStreams:
    """Serves the streams of the aggregators of one host."""

    def __init__(
        self, host: _AggregatorHost, pending: PendingStreams, connections: Connections, admitted: AdmittedStreams
    ) -> None:
        self._host, self._pending, self._connections, self._admitted_streams = host, pending, connections, admitted
        self.links: dict[AggregatorSession, None] = {}  # in order of arrival
        self._open: dict[str, _OpenLink] = {}  # the newest of each name
        self._interrupted = InterruptedStreams()
        self._streams: set[asyncio.Task[Any]] = set()

    def versions(self) -> tuple[NodeVersion, ...]:
        """Return name and version of all aggregators below, at any depth."""
        return tuple(node for link in self.links for node in (link.version, *link.below))

    def send_away(self, why: str, over: bool = False) -> None:
        """Close every stream, for good if the run is ``over``."""
        for link in list(self.links):
            if over:
                link.send(Over())
            link.close(Refusal(why))

    async def close(self, why: str, over: bool) -> None:
        """Send every aggregator away, and wait until its stream has ended."""
        self.send_away(why, over)
        self._interrupted.close()
        if self._streams:
            await asyncio.wait(self._streams, timeout=CLOSE_TIMEOUT)

    @property
    def handlers(self) -> Any:
        """The handlers to add to a gRPC server."""
        relay = grpc.stream_stream_rpc_method_handler(
            self._relay, request_deserializer=parsed(pb.Up), response_serializer=pb.Down.SerializeToString
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"Relay": relay})

    async def _relay(self, requests: Any, context: Any) -> None:
        stream = asyncio.current_task()
        assert stream is not None
        self._streams.add(stream)
        stream.add_done_callback(self._streams.discard)
        await self._pending.serve(context, self._serve, TO_NODE.encode)

    def _check(self, hello: NodeHello, context: Any) -> None:
        """Authenticate an aggregator, wherever clients are authenticated."""
        admit = self._host.admit
        (admit.aggregator if isinstance(admit, Authenticator) else admit)(hello.name, hello.token, context)

    def _admitted(self, hello: NodeHello, context: Any) -> Agreement:
        self._check(hello, context)
        self._host.version.speak_with(hello.version, f"the {self._host.role}", f'aggregator "{hello.name}"')
        agreement = self._host.agreement
        if hello.federation not in ("", agreement.federation) or hello.digest not in ("", agreement.digest):
            raise PeerError(
                f'this is federation "{agreement.federation}" under other terms than the aggregator has; refused'
            )
        if len(self.links) >= self._pending.names + SPARE_AGGREGATORS:
            raise TryLater("there is no room for another aggregator; come back later")
        return agreement

    async def _serve(self, raw: Any, context: Any) -> list[Refusal]:
        hello = TO_PARENT.decode(raw)
        if not isinstance(hello, NodeHello):
            return []
        agreement = self._admitted(hello, context)
        with self._connections.known(context):
            await self._serve_known(hello, agreement, context)
        return []

    async def _serve_known(self, hello: NodeHello, agreement: Agreement, context: Any) -> None:
        host, log = self._host, self._pending.log
        link = host.new_link(hello, MAX_QUEUED + 4 * self._pending.names)  # all clients may use it at once
        opened, left = self._opened(link, agreement)
        self.links[link] = None
        log("aggregator_joined", link.name, aggregator=link.name)

        def broken(error: PeerError) -> Refusal:
            log("refused", link.name, aggregator=link.name, reason=str(error))
            return Refusal(str(error))

        try:
            claim = None if left.up is None else await asyncio.to_thread(left.up.claim)
            await link.go_on(left.down)
            held = claim or (None if hello.held is None else Held())
            link.send(NodeWelcome(agreement.text, agreement.federation, host.version, held))
            check, expires = lambda: self._check(hello, context), expiry_of(context)
            with self._admitted_streams.counted(check, link.close, f"aggregator {hello.name}", expires):
                await link.run(context, self._read_all(link, agreement, opened.assembly, context), broken)
        finally:
            self.links.pop(link, None)
            if self._open.get(link.name) is opened:
                del self._open[link.name]
                self._interrupted.keep(link.name, Interrupted(opened.assembly.hand_over(), link.sent))
            host.on_link_end(link)
            log("aggregator_left", link.name, aggregator=link.name)

    def _opened(self, link: AggregatorSession, agreement: Agreement) -> tuple[_OpenLink, Interrupted]:
        """Return an aggregator's new stream, and the vectors of its last one.

        The last stream may still look alive, or belong to another aggregator of the same name: it keeps its vectors.
        """
        older = self._open.get(link.name)
        left = Interrupted(older.assembly.copy(), older.link.sent) if older else self._interrupted.take(link.name)
        link.sent = left.down
        wires = {agreement.wire if agreement.wire != "bfloat16" else "float32", "float64"}
        opened = self._open[link.name] = _OpenLink(link, Assembly(agreement.size, tuple(wires), kept=left.up))
        return opened, left

    async def _read_all(self, link: AggregatorSession, agreement: Agreement, assembly: Assembly, context: Any) -> None:
        pairs = tuple[Pair, ...]()
        while (raw := await context.read()) is not grpc.aio.EOF:
            match TO_PARENT.decode(raw):
                case SumPart(id, first_pairs, part):
                    part.check_about(agreement)
                    pairs = first_pairs or pairs
                    await self._add_part(link, assembly, id, part.vector, pairs)
                case Below(name, Hello() as hello) if hello.name == name:
                    await self._host.on_hello(link, hello)
                case Below(name, (VoidRound() | Goodbye()) as message):
                    await self._host.on_below(link, name, message)
                case Below(name, None):
                    await self._host.on_gone(link, name)
                case Alive(_, heard, nodes):
                    link.below = nodes
                    self._host.on_alive(link, heard)
                case _:
                    raise PeerError("an aggregator spoke out of turn; refused, check its version")

    async def _add_part(
        self, link: AggregatorSession, assembly: Assembly, id: str, part: Part, pairs: tuple[Pair, ...]
    ) -> None:
        """Add a part. This is a separate function, so that the reader does not hold the vector while it waits for the next."""
        data = assembly.add(part)
        if data is not None:
            await self._host.on_sum(link, id, Summed(pairs, part.wire, data))
