"""The parent's end of an aggregator's stream: a whole subtree's clients over one connection.

`RelayDoor` reads what comes up and hands it to its `House`: the server, or an aggregator that has aggregators below it. What goes
down is the `Link`'s.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import grpc
import grpc.aio

from crescendo.core.messages import Pair
from crescendo.errors import PeerError
from crescendo.runtimes import tree_pb2 as pb
from crescendo.runtimes.network.door import Porch
from crescendo.runtimes.network.hall import IncomingSum
from crescendo.runtimes.network.link import parsed
from crescendo.runtimes.network.logs import Log
from crescendo.runtimes.network.relayed import Link
from crescendo.runtimes.network.voice import LAST_WORDS, MOST_WORDS, converse
from crescendo.runtimes.security import Doorkeeper
from crescendo.runtimes.tree_messages import (
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
from crescendo.runtimes.wire import Assembly
from crescendo.runtimes.wire_messages import Goodbye, Hello, Refusal, VoidRound

SPARE_LINKS = 64  # streams of aggregators beyond one for each client


class NotNow(PeerError):
    """Nothing is wrong with the request; it should be made again later."""


class House(Protocol):
    """What stands behind the door."""

    @property
    def about(self) -> tuple[str, str, str, str, int]:
        """Terms, federation, digest, wire, length of the model."""

    def admit(self, hello: NodeHello, context: Any) -> None: ...
    async def on_link(self, link: Link, carries: tuple[int, ...]) -> None: ...
    async def on_hello(self, link: Link, hello: Hello) -> None: ...
    async def on_below(self, link: Link, name: str, message: VoidRound | Goodbye) -> None: ...
    async def on_gone(self, link: Link, name: str) -> None: ...
    async def on_sum(self, link: Link, total: IncomingSum) -> None: ...
    def on_heard(self, link: Link, clients: tuple[int, ...]) -> None: ...
    def on_end(self, link: Link) -> None: ...


class RelayDoor:
    """Serves the streams of aggregators."""

    def __init__(self, house: House, log: Log, porch: Porch) -> None:
        self._house, self._log, self._porch = house, log, porch
        self.links: set[Link] = set()
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
            raw = await self._porch.first_word(context)
            hello = None if raw is None else from_node(raw)
            if isinstance(hello, NodeHello):
                await self._serve(hello, context)
        except PeerError as error:
            self._log("refused", peer=context.peer(), reason=str(error))
            refusal = Refusal(str(error), final=not isinstance(error, NotNow))
            await self._porch.last_words(context, [to_node(refusal)])

    async def _serve(self, hello: NodeHello, context: Any) -> None:
        self._house.admit(hello, context)
        terms, federation, digest, *_ = self._house.about
        if hello.federation not in ("", federation) or hello.digest not in ("", digest):
            raise PeerError(f'this is federation "{federation}" under other terms than the aggregator has; refused')
        if len(self.links) >= self._porch.names + SPARE_LINKS:
            raise NotNow("there is no room for another aggregator; come back later")
        link = Link(hello.name, MOST_WORDS + 4 * self._porch.names)  # all clients may come by it at once
        link.say(NodeWelcome(terms, federation))
        await self._house.on_link(link, hello.carries)
        self.links.add(link)
        self._log("aggregator_joined", aggregator=link.name)

        def broken(error: PeerError) -> Refusal:
            self._log("refused", aggregator=link.name, reason=str(error))
            return Refusal(str(error))

        try:
            await converse(link, context, self._read_all(link, context), broken)
        finally:
            self.links.discard(link)
            self._house.on_end(link)
            self._log("aggregator_left", aggregator=link.name)

    async def _read_all(self, link: Link, context: Any) -> None:
        _, federation, digest, wire, size = self._house.about
        assembly = Assembly(size, tuple({wire if wire != "bfloat16" else "float32", "float64"}))
        pairs: tuple[Pair, ...] = ()
        while (raw := await context.read()) is not grpc.aio.EOF:
            message = from_node(raw)
            match message:
                case SumPart():
                    if (message.federation, message.digest) != (federation, digest):
                        raise PeerError("a sum is about another federation or other terms; refused")
                    pairs = pairs if message.pairs is None else message.pairs
                    await self._add_part(link, assembly, message, pairs)
                case Below(name, Hello() as hello) if hello.name == name:
                    await self._house.on_hello(link, hello)
                case Below(name, (VoidRound() | Goodbye()) as said):
                    await self._house.on_below(link, name, said)
                case Below(name, None):
                    await self._house.on_gone(link, name)
                case Alive(_, heard):
                    self._house.on_heard(link, heard)
                case _:
                    raise PeerError("an aggregator spoke out of turn; refused, check its version")

    async def _add_part(self, link: Link, assembly: Assembly, message: SumPart, pairs: tuple[Pair, ...]) -> None:
        """By itself, so that nothing holds the whole vector while the reader waits for the next."""
        data = assembly.add(message.vector)
        if data is not None:
            await self._house.on_sum(link, IncomingSum(message.id, pairs, message.vector.wire, data))


def admit_aggregator(admit: Any, hello: NodeHello, context: Any) -> None:
    """An aggregator has to prove that it is one, wherever clients have to prove who they are."""
    if isinstance(admit, Doorkeeper):
        admit.aggregator(hello.name, hello.token, context)
    else:
        admit(hello.name, hello.token, context)
