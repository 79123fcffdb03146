"""The parent's end of an aggregator's stream: a whole subtree's clients over one connection.

`Link` is what is said to the subtree; of broadcasts and acknowledgements only the newest wait. `RelayDoor` reads what comes up
and hands it to its `House`: the server (`ServerHouse`), or an aggregator that has aggregators below it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

import grpc
import grpc.aio

from crescendo.core.messages import Pair, Settled
from crescendo.errors import PeerError
from crescendo.runtimes import tree_pb2 as pb
from crescendo.runtimes.network.conduct import USELESS_BURST, USELESS_RATE, Bucket, Conduct
from crescendo.runtimes.network.door import Porch
from crescendo.runtimes.network.editions import News
from crescendo.runtimes.network.hall import IncomingSum
from crescendo.runtimes.network.link import parsed
from crescendo.runtimes.network.logs import Log
from crescendo.runtimes.network.peers import MOST_WORDS, Peer
from crescendo.runtimes.security import Doorkeeper
from crescendo.runtimes.tree_messages import (
    SERVICE,
    Above,
    Acks,
    Alive,
    Below,
    FromParent,
    NodeHello,
    NodeWelcome,
    SumPart,
    from_node,
    to_node,
    word_parts,
)
from crescendo.runtimes.wire import Assembly
from crescendo.runtimes.wire_messages import FromServer, Goodbye, Hello, Ping, Refusal, VoidRound

SPARE_LINKS = 64  # streams of aggregators beyond one for each client


class NotNow(PeerError):
    """Nothing is wrong with the request; it should be made again later."""


class Link:
    """One aggregator below, as its parent's loop sees it."""

    def __init__(self, name: str, most: int = MOST_WORDS) -> None:
        self.name = name
        self.closed, self._bell = asyncio.Event(), asyncio.Event()
        self.peers: dict[int, RelayedPeer] = {}  # at the server: the clients behind it
        self.useless = Bucket(USELESS_BURST, USELESS_RATE)
        self._most = most
        self._words: deque[FromParent] = deque()
        self._acks: dict[int, tuple[Settled, int]] = {}
        self._news: dict[int, News] = {}
        self._pinged = -1

    def say(self, message: FromParent) -> None:
        """As to a client: few of these ever wait, or the aggregator does not read."""
        if len(self._words) >= self._most:
            self.closed.set()
        else:
            self._words.append(message)
        self._bell.set()

    def above(self, name: str, message: FromServer) -> None:
        """For one client; what the aggregator itself is asked is asked once, not for each client."""
        if not isinstance(message, Ping):
            self.say(Above(name, message))
        elif message.number != self._pinged:
            self._pinged = message.number
            self.say(message)

    def acknowledge(self, client: int, settled: Settled, epoch: int) -> None:
        self._acks[client] = settled, epoch
        self._bell.set()

    def tell(self, client: int, news: News) -> None:
        self._news[client] = news
        self._bell.set()

    def close(self, refusal: Refusal | None = None) -> None:
        if refusal is not None:
            self.say(refusal)
        self.closed.set()
        self._bell.set()

    async def write_all(self, context: Any) -> None:
        """Write what there is to say until the stream is closed."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            while await self._write_one(context):
                pass
            if self.closed.is_set():
                return

    async def _write_one(self, context: Any) -> bool:
        if self._words:
            await context.write(to_node(self._words.popleft()))
            return True
        if self.closed.is_set():
            return False
        if self._acks:
            epoch = max(epoch for _, epoch in self._acks.values())
            yours = {c: settled for c, (settled, of) in self._acks.items() if of == epoch}
            self._acks.clear()
            await context.write(to_node(Acks(yours, epoch)))
            return True
        if self._news:
            await self._write_news(context)
            return True
        return False

    async def _write_news(self, context: Any) -> None:
        """The model goes out once for all clients that are to hear the same."""
        edition = next(iter(self._news.values())).edition
        yours = {c: news.yours for c, news in self._news.items() if news.edition is edition}
        for c in yours:
            del self._news[c]
        for part in word_parts(edition.k, edition.epoch, yours, edition.data, edition.wire):
            await context.write(part)
        for c in yours:
            if c in self.peers:
                self.peers[c].told_k = edition.k
                self.peers[c].traffic.down += len(edition.data) // len(yours)


class RelayedPeer(Peer):
    """A client that has joined by way of an aggregator: what is said to it goes through that one's link."""

    def __init__(self, client: int, name: str, link: Link, conduct: Conduct) -> None:
        super().__init__(client, conduct)
        self.name, self.link = name, link
        link.peers[client] = self

    def say(self, message: FromServer) -> None:
        self.link.above(self.name, message)

    def acknowledge(self, settled: Settled, epoch: int) -> None:
        self.link.acknowledge(self.client, settled, epoch)

    def tell(self, news: News) -> None:
        self.link.tell(self.client, news)

    def close(self, refusal: Refusal | None = None) -> None:
        if refusal is not None:  # not final: by the time it arrives the client may have come anew by the same way
            self.say(replace(refusal, final=False))
        self.closed.set()
        if self.link.peers.get(self.client) is self:
            del self.link.peers[self.client]


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

    async def close(self, why: str) -> None:
        """Send every aggregator away, and wait until it is gone."""
        for link in list(self.links):
            link.close(Refusal(why))
        if self._streams:
            await asyncio.wait(self._streams, timeout=5.0)

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
        tasks = [
            asyncio.create_task(run)
            for run in (self._read_all(link, context), link.write_all(context), link.closed.wait())
        ]
        reading, writing = tasks[:2]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if reading.done() and isinstance(error := reading.exception(), PeerError):
                self._log("refused", aggregator=link.name, reason=str(error))
                link.close(Refusal(str(error)))
            link.close()
            with suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(asyncio.shield(writing), 2.0)
        finally:
            self.links.discard(link)
            self._house.on_end(link)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
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
                    data = assembly.add(message.vector)
                    if data is not None:
                        await self._house.on_sum(link, IncomingSum(message.id, pairs, message.vector.wire, data))
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


class ServerHouse:
    """The federation's server behind the door: its clients are peers like all others, but reached through a link."""

    def __init__(self, server: Any) -> None:
        self._server, self._hall = server, server.hall

    @property
    def about(self) -> tuple[str, str, str, str, int]:
        hall = self._hall
        return hall.text, hall.federation, hall.digest, hall.wire, len(hall.durable.model)

    def admit(self, hello: NodeHello, context: Any) -> None:
        admit_aggregator(self._server._admit, hello, context)

    async def on_link(self, link: Link, carries: tuple[int, ...]) -> None:
        """What an aggregator carries is judged when it sends it."""

    async def on_hello(self, link: Link, hello: Hello) -> None:
        server, hall = self._server, self._hall
        try:
            c = hall.index(hello)
        except PeerError as error:
            link.above(hello.name, Refusal(str(error), final=True))
            return
        item = await server.let_in(c, hello, lambda: RelayedPeer(c, hello.name, link, server.conduct[c]))
        if item.peer is None:
            for answer in item.answers:
                link.above(hello.name, answer)

    async def on_below(self, link: Link, name: str, message: VoidRound | Goodbye) -> None:
        peer = self._peer(link, name)
        if isinstance(message, VoidRound):
            self._hall.check_about(message.federation, message.digest)
        elif peer is None:
            self._server._log("declined", client=name, reason=message.reason)
        if peer is not None and isinstance(message, VoidRound):
            await self._server.pass_on(peer, message)  # its neighbours do not wait for the disk with it
        elif peer is not None:
            await self._server._put(peer.client, message)

    async def on_gone(self, link: Link, name: str) -> None:
        peer = self._peer(link, name)
        if peer is not None:
            self._drop(peer)

    async def on_sum(self, link: Link, total: IncomingSum) -> None:
        server, durable, now = self._server, self._hall.durable, time.monotonic()
        item = await server._put(-1, total)
        for answer in item.answers:
            link.say(answer)
        for c in {c for _, c in total.pairs if c < len(self._hall.names)}:
            link.acknowledge(c, durable.settled(c), durable.epoch)
            if c in link.peers:
                server._heard[c] = now
                link.peers[c].traffic.up += len(total.data) // len(total.pairs)
        if item.useless:
            await asyncio.sleep(link.useless.take())

    def on_heard(self, link: Link, clients: tuple[int, ...]) -> None:
        now = time.monotonic()
        self._server._heard.update({c: now for c in clients if c in link.peers})

    def on_end(self, link: Link) -> None:
        for peer in list(link.peers.values()):
            self._drop(peer)

    def _peer(self, link: Link, name: str) -> RelayedPeer | None:
        return next((peer for peer in link.peers.values() if peer.name == name), None)

    def _drop(self, peer: RelayedPeer) -> None:
        server = self._server
        if peer.told_k == self._hall.terms.rounds:
            server._told.add(peer.client)
        if server.peers.get(peer.client) is peer:
            del server.peers[peer.client]
            server._log("disconnected", client=peer.name)
        peer.close()
        server._look_who_knows()


def admit_aggregator(admit: Any, hello: NodeHello, context: Any) -> None:
    """An aggregator has to prove that it is one, wherever clients have to prove who they are."""
    if isinstance(admit, Doorkeeper):
        admit.aggregator(hello.name, hello.token, context)
    else:
        admit(hello.name, hello.token, context)
