"""The parent's end of an aggregator's stream: a whole subtree's clients over one connection.

`AggregatorStreams` reads what comes up and hands it to its `AggregatorHandler`: the server, or an aggregator that has
aggregators below it. `AggregatorSession` writes what goes down.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import grpc
import grpc.aio

from crescendo.core.messages import Pair
from crescendo.errors import PeerError
from crescendo.federation.agreement import Agreement
from crescendo.logs import Log
from crescendo.network.protocol import tree_pb2 as pb
from crescendo.network.protocol.tree_messages import (
    SERVICE,
    Alive,
    Below,
    NodeHello,
    NodeWelcome,
    Over,
    SumPart,
    from_node,
    to_node,
)
from crescendo.network.protocol.vector_parts import Assembly
from crescendo.network.protocol.wire_messages import Goodbye, Hello, Refusal, VoidRound
from crescendo.network.server.aggregator_session import AggregatorSession
from crescendo.network.server.service import IncomingSum
from crescendo.network.transport.channels import parsed
from crescendo.network.transport.pending_streams import PendingStreams
from crescendo.network.transport.security import Authenticator
from crescendo.network.transport.stream_writer import LAST_WORDS, MAX_QUEUED, run_stream

SPARE_AGGREGATORS = 64  # streams of aggregators beyond one for each client


class TryLater(PeerError):
    """Nothing is wrong with the request; it should be made again later."""


class AggregatorHandler(Protocol):
    """What stands behind the door."""

    @property
    def agreement(self) -> Agreement:
        """Terms, federation, digest, wire, length of the model."""

    def admit(self, hello: NodeHello, context: Any) -> None: ...
    async def on_link(self, link: AggregatorSession, carries: tuple[int, ...]) -> None: ...
    async def on_hello(self, link: AggregatorSession, hello: Hello) -> None: ...
    async def on_below(self, link: AggregatorSession, name: str, message: VoidRound | Goodbye) -> None: ...
    async def on_gone(self, link: AggregatorSession, name: str) -> None: ...
    async def on_sum(self, link: AggregatorSession, total: IncomingSum) -> None: ...
    def on_heard(self, link: AggregatorSession, clients: tuple[int, ...]) -> None: ...
    def on_end(self, link: AggregatorSession) -> None: ...


class AggregatorStreams:
    """Serves the streams of aggregators."""

    def __init__(self, house: AggregatorHandler, log: Log, pending: PendingStreams) -> None:
        self._handler, self._log, self._pending = house, log, pending
        self.links: set[AggregatorSession] = set()
        self._streams: set[asyncio.Task[Any]] = set()

    async def close(self, why: str, over: bool) -> None:
        """Send every aggregator away, for good if the run is over, and wait until it is gone."""
        for link in list(self.links):
            if over:
                link.say(Over())
            link.close(Refusal(why))
        if self._streams:
            await asyncio.wait(self._streams, timeout=LAST_WORDS)

    @property
    def handlers(self) -> Any:
        """To be added to a gRPC server."""
        relay = grpc.stream_stream_rpc_method_handler(
            self._relay, request_deserializer=parsed(pb.Up), response_serializer=pb.Down.SerializeToString
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"Relay": relay})

    async def _relay(self, requests: Any, context: Any) -> None:
        stream = asyncio.current_task()
        assert stream is not None
        self._streams.add(stream)
        stream.add_done_callback(self._streams.discard)
        try:
            raw = await self._pending.first_message(context)
            hello = None if raw is None else from_node(raw)
            if isinstance(hello, NodeHello):
                await self._serve(hello, context)
        except PeerError as error:
            self._log("refused", peer=context.peer(), reason=str(error))
            refusal = Refusal(str(error), final=not isinstance(error, TryLater))
            await self._pending.send_last(context, [to_node(refusal)])

    async def _serve(self, hello: NodeHello, context: Any) -> None:
        self._handler.admit(hello, context)
        agreed = self._handler.agreement
        if hello.federation not in ("", agreed.federation) or hello.digest not in ("", agreed.digest):
            raise PeerError(
                f'this is federation "{agreed.federation}" under other terms than the aggregator has; refused'
            )
        if len(self.links) >= self._pending.names + SPARE_AGGREGATORS:
            raise TryLater("there is no room for another aggregator; come back later")
        link = AggregatorSession(hello.name, MAX_QUEUED + 4 * self._pending.names)  # all clients may come by it at once
        link.say(NodeWelcome(agreed.text, agreed.federation))
        await self._handler.on_link(link, hello.carries)
        self.links.add(link)
        self._log("aggregator_joined", aggregator=link.name)

        def broken(error: PeerError) -> Refusal:
            self._log("refused", aggregator=link.name, reason=str(error))
            return Refusal(str(error))

        try:
            await run_stream(link, context, self._read_all(link, context), broken)
        finally:
            self.links.discard(link)
            self._handler.on_end(link)
            self._log("aggregator_left", aggregator=link.name)

    async def _read_all(self, link: AggregatorSession, context: Any) -> None:
        agreed = self._handler.agreement
        assembly = Assembly(agreed.size, tuple({agreed.wire if agreed.wire != "bfloat16" else "float32", "float64"}))
        pairs: tuple[Pair, ...] = ()
        while (raw := await context.read()) is not grpc.aio.EOF:
            message = from_node(raw)
            match message:
                case SumPart():
                    if (message.federation, message.digest) != (agreed.federation, agreed.digest):
                        raise PeerError("a sum is about another federation or other terms; refused")
                    pairs = pairs if message.pairs is None else message.pairs
                    await self._add_part(link, assembly, message, pairs)
                case Below(name, Hello() as hello) if hello.name == name:
                    await self._handler.on_hello(link, hello)
                case Below(name, (VoidRound() | Goodbye()) as said):
                    await self._handler.on_below(link, name, said)
                case Below(name, None):
                    await self._handler.on_gone(link, name)
                case Alive(_, heard):
                    self._handler.on_heard(link, heard)
                case _:
                    raise PeerError("an aggregator spoke out of turn; refused, check its version")

    async def _add_part(
        self, link: AggregatorSession, assembly: Assembly, message: SumPart, pairs: tuple[Pair, ...]
    ) -> None:
        """By itself, so that nothing holds the whole vector while the reader waits for the next."""
        data = assembly.add(message.vector)
        if data is not None:
            await self._handler.on_sum(link, IncomingSum(message.id, pairs, message.vector.wire, data))


def admit_aggregator(admit: Any, hello: NodeHello, context: Any) -> None:
    """An aggregator has to prove that it is one, wherever clients have to prove who they are."""
    if isinstance(admit, Authenticator):
        admit.aggregator(hello.name, hello.token, context)
    else:
        admit(hello.name, hello.token, context)
