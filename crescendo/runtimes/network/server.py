"""The federation's server on the network: grpc.aio around a `Hall`.

Every joined client has one stream: a reader, which puts messages in line (`Line`), and a writer (`Peer`). The line goes to the
hall in batches, in a thread, and then the peers are let know. A client that floods waits for its own messages; one that breaks
the protocol is told why and its stream is closed, and one that keeps doing so is let in again only after a while. What is held
for a peer is bounded: one unfinished vector, a few messages in line, of large ones one, and the newest broadcast.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from crescendo.core.spares import Spares
from crescendo.errors import PeerError
from crescendo.runtimes import wire_pb2 as pb
from crescendo.runtimes.network.conduct import Conduct
from crescendo.runtimes.network.door import BUSY, DOOR_OPTIONS, Porch, Questions
from crescendo.runtimes.network.hall import Hall, Incoming, Item, Message, Said
from crescendo.runtimes.network.line import Batch, Line
from crescendo.runtimes.network.link import parsed
from crescendo.runtimes.network.logs import Log, quiet
from crescendo.runtimes.network.peers import LARGE, Peer, Traffic, serialized
from crescendo.runtimes.network.relay import RelayDoor
from crescendo.runtimes.network.server_house import ServerHouse
from crescendo.runtimes.network.status import Desk
from crescendo.runtimes.network.voice import LAST_WORDS, converse
from crescendo.runtimes.network.watch import Manners, Watch
from crescendo.runtimes.wire import Assembly, Part
from crescendo.runtimes.wire_frames import heard
from crescendo.runtimes.wire_messages import (
    SERVICE,
    Goodbye,
    Hello,
    Pong,
    Refusal,
    UpdatePart,
    VoidRound,
    from_client,
    to_client,
)

Admit = Callable[[str, str, Any], None]


def everybody(name: str, token: str, context: Any) -> None:
    """On one machine nobody needs to prove who it is."""


class NetworkServer:
    """Serves one hall. `start`, then `finished` or `failed` come to pass; `stop` finishes the write in hand."""

    def __init__(self, hall: Hall, manners: Manners | None = None, admit: Admit = everybody, log: Log = quiet) -> None:
        self.hall, self.admit, self.log = hall, admit, log
        self.watch = Watch(self, manners or Manners())
        self.peers: dict[int, Peer] = {}
        self.heard_at: dict[int, float] = {}
        self._traffic: dict[int, Traffic] = {}
        self._desk = Desk(hall, self.peers, self.heard_at, self._traffic)
        self._spares = Spares(4)  # one for all streams: what each of many kept for itself would add up
        self.conduct: defaultdict[int, Conduct] = defaultdict(Conduct)
        self._porch, self._questions = Porch(len(hall.names)), Questions()
        self._arriving: set[int] = set()  # clients whose hello is in line
        self._told: set[int] = set()  # clients that have heard the end
        self.line = Line(hall, lambda: list(self.peers), self._on_taken, self._fail)
        self._watching: asyncio.Task[None] | None = None
        self._server: grpc.aio.Server | None = None
        self._relays: RelayDoor | None = None
        self.finished, self.all_told = asyncio.Event(), asyncio.Event()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def start(self, address: str, credentials: Any = None) -> int:
        """Listen; the port."""
        server = grpc.aio.server(options=DOOR_OPTIONS)
        handlers = {
            "Join": grpc.stream_stream_rpc_method_handler(
                self._join,
                request_deserializer=heard,
                response_serializer=serialized,
            ),
            "Status": grpc.stream_stream_rpc_method_handler(  # of one message each; a silent one stands on the porch too
                self._status,
                request_deserializer=parsed(pb.StatusRequest),
                response_serializer=pb.StatusReply.SerializeToString,
            ),
        }
        relays = self._relays = RelayDoor(ServerHouse(self), self.log, self._porch)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers), relays.handlers))
        secure = credentials is not None
        port = server.add_secure_port(address, credentials) if secure else server.add_insecure_port(address)
        self._server = server
        await server.start()
        self._watching = asyncio.create_task(self.watch.keep_looking())
        self._watching.add_done_callback(self._on_watch_end)
        if self.hall.finished:
            self.finished.set()
        return int(port)

    async def stop(self) -> None:
        """Finish the write in hand, and close every stream."""
        self._porch.close()
        self._questions.close()
        for peer in list(self.peers.values()):
            peer.close(Refusal("the server stops; come back later"))
        if self._relays is not None:
            await self._relays.close("the server stops; come back later", over=self.all_told.is_set())
        await self.line.close()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self.hall.log_void()
        if self._server is not None:
            await self._server.stop(LAST_WORDS)

    def _on_watch_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)

    # -- the line ------------------------------------------------------------------------------------------------------

    async def put(self, c: int, message: Message, make: Callable[[], Peer] | None = None) -> Item:
        """Put a message in line and wait until it is on disk or refused. ``make`` makes the stream of one that joins."""
        item = Item(c, message, make=make)
        await self.line.add(item)
        return item

    def _on_taken(self, batch: Batch, said: Said) -> None:
        for item, done in batch:
            if isinstance(item.message, Hello):
                self._arriving.discard(item.client)
            if done.cancelled():
                continue
            if item.taken and isinstance(item.message, Hello):
                item.peer = self._enter(item)  # now, or a broadcast of the next batch would pass it by
            done.set_result(None)
        self._let_know(said)

    def _let_know(self, said: Said) -> None:
        for c, settled in said.acks.items():
            if c in self.peers:
                self.peers[c].acknowledge(settled, said.epoch)
        for c, news in said.news.items():
            if c in self.peers:
                self.peers[c].tell(news)
        if said.k == self.hall.terms.rounds and not self.finished.is_set():
            self.log("finished", rounds=said.k, late=self.hall.durable.late)
            self.finished.set()
        self.look_who_knows()

    def untold(self) -> list[str]:
        """The clients that have joined and, as far as is known, have not heard the end: here, away or absent."""
        return [self.hall.names[c] for c in sorted(self.hall.durable.instances) if c not in self._told]

    def look_who_knows(self) -> None:
        """After the last round: has everybody who takes part heard of it?"""
        if self.finished.is_set() and not self.untold():
            self.all_told.set()

    # -- a stream ------------------------------------------------------------------------------------------------------

    async def _join(self, requests: Any, context: Any) -> None:
        answers: list[Any] = []
        try:
            raw = await self._porch.first_word(context)
            if raw is not None:
                answers = await self._serve(self._admitted(raw, context), context)
        except PeerError as error:
            self.log("refused", peer=context.peer(), reason=str(error))
            answers = [Refusal(str(error), final=True)]
        if answers:
            await self._porch.last_words(context, map(to_client, answers))

    def _admitted(self, raw: pb.ToServer, context: Any) -> Hello:
        hello = from_client(raw)
        if not isinstance(hello, Hello):
            raise PeerError("a stream begins with a hello; refused, check the client's version")
        self.admit(hello.name, hello.token, context)
        return hello

    async def _serve(self, hello: Hello, context: Any) -> list[Any]:
        """Until the stream ends. What is returned is to be said to one that was not let in."""
        c = self.hall.index(hello)
        if not hello.digest:
            declined = await self._questions.answer(hello.name, self.hall.terms_for(c), context)
            if declined is not None:
                self.log("declined", client=hello.name, reason=declined.reason)
            return []
        item = await self.let_in(c, hello)
        if item.peer is None:
            return item.answers
        await self._talk(item.peer, context)
        return []

    async def let_in(self, c: int, hello: Hello, make: Callable[[], Peer] | None = None) -> Item:
        """What becomes of a hello, whichever way it came: a stream, which ``make`` makes, or the answers."""
        if c in self._arriving:  # one hello of a name in line, however many streams it opens
            return Item(c, hello, [BUSY])
        if (why := self.conduct[c].may_join()) is not None:
            return Item(c, hello, [Refusal(why)])
        self._arriving.add(c)
        item = await self.put(c, hello, make)
        if item.costly:  # once in a while a server is an older copy; a client that says so again and again lies
            self.conduct[c].strikes.take(1)
        return item

    async def _talk(self, peer: Peer, context: Any) -> None:
        c = peer.client

        def broken(error: PeerError) -> Refusal:
            peer.conduct.strikes.take(1)
            self.log("refused", client=self.hall.names[c], reason=str(error))
            return Refusal(str(error))

        try:
            await converse(peer, context, self._read_all(peer, context), broken)
        finally:
            if self.peers.get(c) is peer:
                del self.peers[c]
                self.log("disconnected", client=self.hall.names[c])
            self.look_who_knows()

    def _enter(self, item: Item) -> Peer:
        """The newest stream of a client is the one that counts."""
        c = item.client
        older = self.peers.get(c)
        if older is not None:
            older.close(Refusal("this client has joined again from elsewhere; if these are two copies, stop one", True))
        peer = Peer(c, self.conduct[c]) if item.make is None else item.make()
        self.peers[c] = peer
        peer.traffic = self._traffic.setdefault(c, peer.traffic)
        self._told.discard(c)  # it was ended before it could note the end, and has to hear it again
        self.heard_at[c] = time.monotonic()
        for answer in item.answers:
            peer.say(answer)
        return peer

    async def _read_all(self, peer: Peer, context: Any) -> None:
        """Read until the client has nothing more to say. What breaks the protocol is raised."""
        hall, c = self.hall, peer.client
        assembly = Assembly(len(hall.durable.model), (hall.wire,), self._spares)
        while (raw := await context.read()) is not grpc.aio.EOF:
            peer.heard = self.heard_at[c] = time.monotonic()
            message = from_client(raw)
            if isinstance(message, UpdatePart):
                hall.check_about(message.federation, message.digest)
                await self._add_part(peer, assembly, message.vector)
            elif isinstance(message, VoidRound):
                hall.check_about(message.federation, message.digest)
                await self.pass_on(peer, message)
            elif isinstance(message, Goodbye):
                await self.part(c, message)
                return
            elif isinstance(message, Pong):
                await asyncio.sleep(peer.conduct.useless.take())
            else:
                raise PeerError("a client says hello twice on one stream; refused, check its version")

    async def _add_part(self, peer: Peer, assembly: Assembly, part: Part) -> None:
        """By itself, so that nothing holds the whole vector while the reader waits for the next."""
        data = assembly.add(part)
        if data is not None:
            peer.traffic.up += len(data)
            await self.pass_on(peer, Incoming(part.about, data), large=len(data) > LARGE)

    async def part(self, c: int, message: Goodbye) -> None:
        """A client wants to hear no more: it leaves for good, or the run is over for it."""
        if not message.finished:
            await self.put(c, message)
        self._told.add(c)

    async def pass_on(self, peer: Peer, message: Message, large: bool = False) -> None:
        """Put a message in line without waiting for it, as long as not too many of this client are waiting."""
        await peer.line.acquire()
        if large:  # one of them in line, while the next one comes in
            await peer.large.acquire()
        item = Item(peer.client, message)
        done = self.line.add(item)
        done.add_done_callback(lambda _: self._answer(peer, item))  # not a task: there are thousands a second
        if large:
            done.add_done_callback(lambda _: peer.large.release())

    def _answer(self, peer: Peer, item: Item) -> None:
        for answer in item.answers:
            if isinstance(answer, Refusal) and answer.final:
                peer.close(answer)
            else:
                peer.say(answer)
        if item.useless:
            peer.acknowledge(self.hall.durable.settled(peer.client), self.hall.durable.epoch)
        if item.useless or item.answers:  # nobody may ask for the same refusal without end
            asyncio.get_running_loop().call_later(peer.conduct.useless.take(), peer.line.release)
        else:
            peer.line.release()

    # -- for people ----------------------------------------------------------------------------------------------------

    async def _status(self, requests: Any, context: Any) -> None:
        request = await self._porch.first_word(context)
        if request is None:
            return
        try:
            self.admit("", request.token, context)
        except PeerError as error:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
        await self._porch.last_words(context, [pb.StatusReply(json=await self._desk.answer())])
