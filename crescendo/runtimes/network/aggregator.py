"""An aggregator on the network: clients (and aggregators) join it as they would the server, and it speaks for all of them.

What clients say about themselves (hello, void rounds, goodbye) is passed up as it is, and the server answers. Their updates
go into the core's `Aggregator`; what it packs is sent up as sums, a few at a time, so that what comes meanwhile is added up. When
the way up breaks, every stream below is closed, for each client has to tell the server anew what it has sent; the updates that
are held are kept and sent again. Nothing is on disk: a node that dies loses nothing, since clients send again what the server
lacks.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import grpc
import grpc.aio

from crescendo.core.messages import Sum, Update, Word
from crescendo.core.setup import Terms
from crescendo.core.tree import Aggregator
from crescendo.errors import PeerError, Refused
from crescendo.runtimes import tree_pb2 as pb
from crescendo.runtimes.network.client import Cut
from crescendo.runtimes.network.conduct import Conduct
from crescendo.runtimes.network.door import BUSY, DOOR_OPTIONS, Porch
from crescendo.runtimes.network.editions import Edition, News
from crescendo.runtimes.network.hall import IncomingSum
from crescendo.runtimes.network.link import Patience, Place, channel_to
from crescendo.runtimes.network.logs import Log, quiet
from crescendo.runtimes.network.peers import Peer
from crescendo.runtimes.network.relay import NotNow, RelayDoor, admit_aggregator
from crescendo.runtimes.network.relayed import Link
from crescendo.runtimes.network.server import Admit, everybody
from crescendo.runtimes.network.subtree import ClientDoor
from crescendo.runtimes.tree_messages import (
    RELAY,
    Above,
    Acks,
    Alive,
    Below,
    FromNode,
    NodeHello,
    NodeWelcome,
    SumRefusal,
    WordPart,
    from_parent,
    sum_parts,
    to_parent,
)
from crescendo.runtimes.wire import Assembly, Raw, decode, encode
from crescendo.runtimes.wire_messages import Goodbye, Hello, Ping, Refusal, VoidRound, Welcome

IN_FLIGHT = 2  # sums that may wait for the server's word; what comes meanwhile goes into the next
ANSWER = 60.0  # seconds in which the server has to answer a hello
MOST_UP = 256  # messages that wait for the parent to read them; then clients wait, or are told to come back


@dataclass(frozen=True, eq=False)
class Work:
    """What the subtree works under, as far as an aggregator needs it."""

    terms: Terms
    text: str
    federation: str
    digest: str
    names: tuple[str, ...]
    wire: str
    size: int


@dataclass(eq=False)
class Asked:
    """A hello that waits for the server's answer, and who waits for it: a stream, an aggregator below, or nobody any more."""

    hello: Hello
    who: asyncio.Future[Guest | Refusal] | Link | None


class Guest(Peer):
    """A client that has joined at an aggregator, and what it said about itself: the k it has seen and its last round."""

    def __init__(self, client: int, conduct: Conduct, hello: Hello) -> None:
        super().__init__(client, conduct)
        self.k, self.last = hello.k, hello.last
        self.voids: set[int] = set()  # rounds that it declared void, on this stream


class Outgoing:
    """What waits to go up on one stream."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[FromNode | Sum] = asyncio.Queue()
        self._room = asyncio.Event()
        self._room.set()

    def put(self, message: FromNode | Sum) -> None:
        self._queue.put_nowait(message)
        if self.full:
            self._room.clear()

    async def get(self) -> FromNode | Sum:
        message = await self._queue.get()
        if not self.full:
            self._room.set()
        return message

    @property
    def full(self) -> bool:
        return self._queue.qsize() >= MOST_UP

    async def room(self) -> None:
        """Wait until the parent has read enough."""
        await self._room.wait()


class Node:
    """One aggregator. `run` until the run is over or ``stop`` is set; `Refused` if the parent refuses for good."""

    def __init__(
        self,
        name: str,
        parent: Place,
        build: Callable[[str], Work],
        admit: Admit = everybody,
        patience: Patience | None = None,
        log: Log = quiet,
    ) -> None:
        self.name, self.log = name, log
        self._parent, self._build, self._admit, self._patience = parent, build, admit, patience or Patience()
        self.work: Work | None = None
        self.peers: dict[int, Guest] = {}
        self._core: Aggregator | None = None
        self._outgoing: Outgoing | None = None  # of the stream that is up
        self._asked: dict[str, Asked] = {}  # one of a name: however often it comes, one hello is on its way
        self.conduct: defaultdict[int, Conduct] = defaultdict(Conduct)
        self._behind: dict[int, Link] = {}  # clients that are behind an aggregator below
        self._heard: set[int] = set()
        self._k, self._over = 0, asyncio.Event()
        self._porch = Porch(0)  # of how many names is said by the terms
        self.port = 0

    # -- its life ------------------------------------------------------------------------------------------------------

    async def run(self, address: str, stop: asyncio.Event, credentials: Any = None) -> bool:
        """True if the run is over and everybody below has heard of it."""
        server = grpc.aio.server(options=DOOR_OPTIONS)
        self._relays = RelayDoor(self, self.log, self._porch)
        server.add_generic_rpc_handlers((ClientDoor(self, self._admit, self._porch).handlers, self._relays.handlers))
        secure = credentials is not None
        self.port = server.add_secure_port(address, credentials) if secure else server.add_insecure_port(address)
        await server.start()
        self.log("aggregating", port=self.port, parent=self._parent.address)
        talking, stopping, ending = (
            asyncio.create_task(run) for run in (self._keep_talking(), stop.wait(), self._over.wait())
        )
        try:
            await asyncio.wait({talking, stopping, ending}, return_when=asyncio.FIRST_COMPLETED)
            if talking.done():
                talking.result()
            return self._over.is_set()
        finally:
            self._send_everybody_away("the aggregator stops; come back later")
            for task in (talking, stopping, ending):
                task.cancel()
            await asyncio.gather(talking, stopping, ending, return_exceptions=True)
            await server.stop(1.0)
            self.log("stopped", k=self._k, finished=self._over.is_set())

    async def _keep_talking(self) -> None:
        waits = self._patience.waits()
        while True:
            try:
                await self._one_stream()
            except (Cut, grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
                if self._outgoing is not None:
                    waits = self._patience.waits()
                wait = next(waits)
                self.log("disconnected", parent=self._parent.address, reason=str(error)[:300], again_in=round(wait, 2))
            finally:
                self._outgoing = None
                self._send_everybody_away("the way to the server is interrupted; come back")
            await asyncio.sleep(wait)

    def _send_everybody_away(self, why: str) -> None:
        for peer in list(self.peers.values()):
            peer.close(Refusal(why))
        for link in list(self._relays.links):
            link.close(Refusal(why))
        for asked in self._asked.values():
            if isinstance(asked.who, asyncio.Future) and not asked.who.done():
                asked.who.set_result(Refusal(why))
        self._asked.clear()

    # -- the way up ----------------------------------------------------------------------------------------------------

    async def _one_stream(self) -> None:
        async with channel_to(self._parent) as channel:
            call = channel.stream_stream(
                RELAY, request_serializer=pb.Up.SerializeToString, response_deserializer=pb.Down.FromString
            )()
            work, core = self.work, self._core
            about = ("", "") if work is None else (work.federation, work.digest)
            carries = () if core is None else tuple(sorted(core.carries))
            await call.write(to_parent(NodeHello(self.name, *about, carries, self._parent.token)))
            writing: asyncio.Task[None] | None = None
            try:
                welcome = await self._read(call)
                if not isinstance(welcome, NodeWelcome):
                    raise Cut("the parent spoke out of turn")
                core = self._agree(welcome)
                self._outgoing = Outgoing()
                for total in core.unanswered():
                    self._outgoing.put(total)
                self.log("joined", parent=self._parent.address, federation=welcome.federation)
                writing = asyncio.create_task(self._write_all(call, self._outgoing))
                await self._read_all(call)
            finally:
                if writing is not None:
                    writing.cancel()
                    await asyncio.gather(writing, return_exceptions=True)
                call.cancel()

    def _agree(self, welcome: NodeWelcome) -> Aggregator:
        digest = hashlib.sha256(welcome.terms.encode()).hexdigest()
        if self.work is None or self._core is None:
            self.work = self._build(welcome.terms)
            self._porch.names = len(self.work.names)
            self._core = Aggregator(self.work.terms, self.work.size)
        elif digest != self.work.digest:
            raise Refused("the parent has other terms than before; nothing more is sent, ask its operator")
        return self._core

    async def _read(self, call: Any) -> Any:
        raw = await call.read()
        if raw is grpc.aio.EOF:
            raise Cut(await call.details() or "the parent closed the stream")
        try:
            message = from_parent(raw)
        except PeerError as error:
            raise Cut(str(error)) from None
        if isinstance(message, Refusal):
            if message.final:
                raise Refused(f"the parent refuses: {message.reason}")
            raise Cut(message.reason)
        return message

    async def _read_all(self, call: Any) -> None:
        work, core = self._known
        assembly, word = Assembly(work.size, (work.wire,)), Word({}, 0)
        while True:
            match await self._read(call):
                case WordPart(yours, epoch, vector):
                    if yours is not None:
                        word = Word(yours, vector.about, epoch)
                    data = assembly.add(vector)
                    if data is not None:
                        self._k = max(self._k, word.k)
                        model = decode(data, work.wire, work.size)
                        edition = Edition(word.k, word.epoch, data, work.wire)
                        self._pass_down(core.hear(replace(word, model=model)), edition)
                case Acks(yours, epoch):
                    self._pass_down(core.hear(Word(yours, 0, epoch)))
                case Above(name, message) if isinstance(message, Welcome | Refusal):
                    self._answered(name, message)
                case SumRefusal(id, pairs, reason):
                    self._blame(core.refused(id, pairs), pairs, reason)
                case Ping(number):
                    for peer in self.peers.values():
                        peer.say(Ping(number))
                    for link in self._relays.links:
                        link.say(Ping(number))
                    heard, self._heard = tuple(sorted(self._heard)), set()
                    self.send(Alive(number, heard))
                case _:
                    raise Cut("the parent spoke out of turn")
            self.kick()

    async def _write_all(self, call: Any, outgoing: Outgoing) -> None:
        work, _ = self._known
        try:
            while True:
                message = await outgoing.get()
                if not isinstance(message, Sum):
                    await call.write(to_parent(message))
                    continue
                wire = message.delta.dtype.name
                data = encode(message.delta, wire)
                for part in sum_parts(message.id, message.pairs, data, wire, work.federation, work.digest):
                    await call.write(part)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            call.cancel()  # wakes the reader, which says why

    def send(self, message: FromNode) -> None:
        """Say something to the parent; if the way up is down nobody waits for it."""
        if self._outgoing is not None:
            self._outgoing.put(message)

    async def room(self) -> None:
        """Wait until there is room for more of what clients say."""
        if self._outgoing is not None:
            await self._outgoing.room()

    def kick(self) -> None:
        """Send what has come, if not too many sums wait for the server's word."""
        if self._outgoing is None:
            return
        _, core = self._known
        while len(core.unanswered()) < IN_FLIGHT and (total := core.pack()) is not None:
            self._outgoing.put(total)

    @property
    def up(self) -> bool:
        """Is there a way to the server?"""
        return self._outgoing is not None

    @property
    def _known(self) -> tuple[Work, Aggregator]:
        if self.work is None or self._core is None or self._outgoing is None:
            raise NotNow("the aggregator has no way to the server now; come back")
        return self.work, self._core

    # -- the way down --------------------------------------------------------------------------------------------------

    def _pass_down(self, parts: Mapping[Any, Word], edition: Edition | None = None) -> None:
        for child, word in parts.items():
            for c, yours in word.yours.items():
                if isinstance(child, Link):
                    child.acknowledge(c, yours, word.epoch)
                    if edition is not None:
                        child.tell(c, News(edition, yours))
                elif c == child and c in self.peers:
                    self.peers[c].acknowledge(yours, word.epoch)
                    if edition is not None:
                        self.peers[c].tell(News(edition, yours))

    def _answered(self, name: str, message: Welcome | Refusal) -> None:
        work, core = self._known
        asked = self._asked.pop(name, None)
        who = None if asked is None else asked.who
        c = work.names.index(name) if name in work.names else -1
        link = who if isinstance(who, Link) else self._behind.get(c)
        if asked is not None and isinstance(who, asyncio.Future):
            if isinstance(message, Refusal):
                who.set_result(message)
            else:  # now, or a broadcast that follows at once would pass it by
                who.set_result(self._enter(message, asked.hello))
        elif isinstance(message, Welcome) and who is None and c not in self.peers:
            self.send(Below(name))  # nobody waits for it any more
        elif link is not None:
            if isinstance(message, Welcome):
                self._behind[c] = link
                core.join(link, [c])
            link.above(name, message)
        elif c in self.peers and isinstance(message, Refusal):
            peer = self.peers[c]
            peer.close(message) if message.final or message.round is None else peer.say(message)

    def _blame(self, guilty: list[tuple[Any, Sum]], pairs: tuple[tuple[int, int], ...], reason: str) -> None:
        for child, content in guilty:
            self.log("refused", pairs=[list(pair) for pair in content.pairs[:20]], reason=reason)
            if isinstance(child, Link):
                child.say(SumRefusal(content.id, tuple(pair for pair in pairs if pair in content.pairs), reason))
            elif child in self.peers:
                self.peers[child].say(Refusal(reason, False, content.pairs[0][0]))

    # -- clients -------------------------------------------------------------------------------------------------------

    async def introduce(self, hello: Hello) -> Guest | Refusal:
        """Ask the server about a client that has come here: its place, if it is let in. Call `left` in the end."""
        answer: asyncio.Future[Guest | Refusal] = asyncio.get_running_loop().create_future()
        if not self._ask(replace(hello, token=""), answer):
            return BUSY
        asked = self._asked[hello.name]
        try:
            await asyncio.wait({answer}, timeout=ANSWER)
            return answer.result() if answer.done() else Refusal("the server does not answer; come back later")
        except asyncio.CancelledError:
            if answer.done() and isinstance(peer := answer.result(), Peer):
                self.left(peer)
            raise
        finally:
            asked.who = None

    def _ask(self, hello: Hello, who: asyncio.Future[Guest | Refusal] | Link) -> bool:
        """Pass a hello up, unless one of the same name is on its way or too much else is."""
        work, _ = self._known
        if hello.name in self._asked or self._outgoing is None or self._outgoing.full:
            return False
        self._vacate(hello.name, work)
        self._asked[hello.name] = Asked(hello, who)
        self.send(Below(hello.name, hello))
        return True

    def _vacate(self, name: str, work: Work) -> None:
        """A client comes anew: the server has to hear first that its older stream has ended."""
        c = work.names.index(name) if name in work.names else -1
        older, link = self.peers.pop(c, None), self._behind.pop(c, None)
        if older is not None:
            older.close(Refusal("this client has joined again from elsewhere; if these are two copies, stop one", True))
        if older is not None or link is not None:
            self.send(Below(name))

    def _enter(self, welcome: Welcome, hello: Hello) -> Guest:
        """A client was let in by the server."""
        work, core = self._known
        c = welcome.client
        peer = Guest(c, self.conduct[c], hello)
        self.peers[c] = peer
        self._behind.pop(c, None)
        core.join(c, [c])
        peer.say(welcome)
        self.log("joined", client=work.names[c], start=welcome.start)
        return peer

    def heard(self, c: int) -> None:
        self._heard.add(c)

    def take(self, peer: Guest, round: int, data: Raw) -> bool:
        """A whole update of a client has come: True if it is new."""
        work, core = self._known
        if (reason := self._impossible(peer, round)) is not None:
            raise PeerError(reason)
        low, high = work.terms.block(round, work.size)
        held = core.waiting
        word = core.receive(peer.client, Update(round, peer.client, decode(data, work.wire, high - low)))
        if word is not None:
            peer.acknowledge(word.yours[peer.client], word.epoch)
        is_new = core.waiting > held
        self.kick()
        return is_new

    def void(self, peer: Guest, message: VoidRound) -> bool:
        """A client says that a round's bytes are gone: True if that is news, which goes up. The server has the last word."""
        _, core = self._known
        c, i = peer.client, message.round
        if i in core.settled(c):
            peer.acknowledge(core.settled(c), core.epoch)
        elif (reason := self._impossible(peer, i)) is not None:
            peer.say(Refusal(reason, False, i))
        elif i not in peer.voids:
            peer.voids.add(i)
            self.send(Below(self._known[0].names[c], message))
            return True
        return False

    def _impossible(self, peer: Guest, i: int) -> str | None:
        """Why a round cannot be this client's, by what is known here; None if it can be."""
        work, _ = self._known
        terms, name, k = work.terms, work.names[peer.client], max(self._k, peer.k)
        if not 0 <= i < terms.rounds or not terms.share(i, peer.client):
            return f'client "{name}" has no share in a round {i} of this run; check its terms'
        if i > max(terms.furthest(min(k, terms.rounds)), peer.last):
            return f'client "{name}" speaks of round {i}, which nobody can have finished at k={k}; check its terms'
        return None

    def left(self, peer: Peer) -> None:
        """A client's stream has ended."""
        c = peer.client
        if self.peers.get(c) is peer and self.work is not None and self._core is not None:
            del self.peers[c]
            self._core.part(c)
            self.send(Below(self.work.names[c]))
            self.log("disconnected", client=self.work.names[c])
        self._look_whether_over()

    def _look_whether_over(self) -> None:
        done = self.work is not None and self._k == self.work.terms.rounds
        if done and not self.peers and not self._relays.links:
            asyncio.get_running_loop().call_later(0.5, self._over.set)  # the last words go up first

    # -- aggregators below ---------------------------------------------------------------------------------------------

    @property
    def about(self) -> tuple[str, str, str, str, int]:
        work, _ = self._known
        return work.text, work.federation, work.digest, work.wire, work.size

    def admit(self, hello: NodeHello, context: Any) -> None:
        admit_aggregator(self._admit, hello, context)

    async def on_link(self, link: Link, carries: tuple[int, ...]) -> None:
        _, core = self._known
        core.join(link, (), carries)

    async def on_hello(self, link: Link, hello: Hello) -> None:
        if not self._ask(hello, link):
            link.above(hello.name, BUSY)

    async def on_below(self, link: Link, name: str, message: VoidRound | Goodbye) -> None:
        await self.room()
        self.send(Below(name, message))

    async def on_gone(self, link: Link, name: str) -> None:
        work, _ = self._known
        c = work.names.index(name) if name in work.names else -1
        if self._behind.get(c) is link:
            del self._behind[c]
            self.send(Below(name))

    async def on_sum(self, link: Link, total: IncomingSum) -> None:
        work, core = self._known
        low, high = work.terms.block(min(total.pairs[0][0], work.terms.rounds), work.size)
        content = Sum(total.pairs, decode(total.data, total.wire, high - low))
        word = core.receive(link, content)
        if word is not None:
            self._pass_down({link: word})
        self.kick()

    def on_heard(self, link: Link, clients: tuple[int, ...]) -> None:
        self._heard.update(c for c in clients if self._behind.get(c) is link)

    def on_end(self, link: Link) -> None:
        if self.work is None or self._core is None:
            return
        self._core.part(link)
        for asked in self._asked.values():
            if asked.who is link:
                asked.who = None
        for c in [c for c, behind in self._behind.items() if behind is link]:
            del self._behind[c]
            self.send(Below(self.work.names[c]))
        self._look_whether_over()
