"""Downstream: the clients and aggregators below an aggregator, and the sessions of those that have joined.

The aggregator passes clients' messages about themselves up, and the server answers. It answers impossible or repeated messages
itself, because all clients share the stream to the parent, and no client should fill it with nonsense.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crescendo.core.aggregator import TooMany
from crescendo.core.messages import ConflictingUpdate, Pair, Sum, Word
from crescendo.core.vectors import Raw, decode
from crescendo.errors import PeerError
from crescendo.federation.agreement import Agreement
from crescendo.network.aggregator.downstream_session import DownstreamSession
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.tree_messages import Below, NodeHello, NodeVersion, SumRefusal
from crescendo.network.protocol.versions import PeerVersion
from crescendo.network.protocol.wire_messages import FromServer, Goodbye, Hello, Ping, Refusal, VoidRound, Welcome
from crescendo.network.server.admitted_streams import AdmittedStreams
from crescendo.network.server.aggregator_streams import AggregatorSession, AggregatorStreams
from crescendo.network.server.client_streams import ClientStreams
from crescendo.network.server.health import health_handlers
from crescendo.network.server.session import Session
from crescendo.network.transport.connections import Connections
from crescendo.network.transport.pending_streams import BUSY, PendingStreams
from crescendo.network.transport.rate_limits import RateLimits
from crescendo.network.transport.security.authenticator import Admit
from crescendo.network.transport.wording import named
from crescendo.storage.journal.journal_entries import Summed

if TYPE_CHECKING:
    from crescendo.network.aggregator.node import Node

ANSWER_TIMEOUT = 60.0  # seconds in which the server has to answer a hello


@dataclass(eq=False)
class _PendingHello:
    """A hello that waits for the server's answer. ``waiting`` is the stream or aggregator that sent it, None after its end."""

    hello: Hello
    waiting: asyncio.Future[DownstreamSession | Refusal] | AggregatorSession | None


class Downstream:
    """The host for the streams of all clients and aggregators below a node."""

    epoch = 0  # in a welcome that only shows the terms
    role = "aggregator"

    def __init__(self, node: Node, admit: Admit) -> None:
        self._node, self._upstream, self.admit, self.log = node, node.upstream, admit, node.log
        self.sessions: dict[int, DownstreamSession] = {}
        self.behind: dict[int, AggregatorSession] = {}  # clients that are behind an aggregator below
        self.rate_limits: defaultdict[int, RateLimits] = defaultdict(RateLimits)
        self._hellos: dict[str, _PendingHello] = {}  # by name: only one hello of a name is on its way
        self._heard: set[int] = set()  # clients heard since the last ping
        self.pending = PendingStreams(0, node.log)  # `Node.agree` sets the number of names from the terms
        self.connections = Connections(self.pending)
        self.admitted = AdmittedStreams(admit, node.log)
        self._clients = ClientStreams(self, self.pending, self.connections, self.admitted)
        self._aggregators = AggregatorStreams(self, self.pending, self.connections, self.admitted)

    @property
    def handlers(self) -> tuple[Any, ...]:
        """The handlers to add to a gRPC server."""
        health = health_handlers(self.pending, lambda: self._upstream.is_up)
        return self._clients.handlers(), self._aggregators.handlers, health

    @property
    def agreement(self) -> Agreement:
        return self._node.known[0]

    @property
    def version(self) -> PeerVersion:
        return self._node.version

    def nodes(self) -> tuple[NodeVersion, ...]:
        """Return name and version of all aggregators below."""
        return self._aggregators.versions()

    def close(self, why: str, over: bool) -> None:
        """End every stream, for good if the run is ``over``."""
        self._clients.close()
        self.send_away(why, over)

    def send_away(self, why: str, over: bool = False) -> None:
        """Close the streams of all peers that have joined or wait for the server's answer; they come back unless ``over``."""
        for session in list(self.sessions.values()):
            session.close(Refusal(why))
        for pending in self._hellos.values():
            if isinstance(pending.waiting, asyncio.Future) and not pending.waiting.done():
                pending.waiting.set_result(Refusal(why))
        self._hellos.clear()
        self._aggregators.send_away(why, over)

    # -- messages of the parent ----------------------------------------------------------------------------------------

    def ping(self, number: int) -> tuple[int, ...]:
        """Ping every session below; return the clients heard since the last ping."""
        for writer in (*self.sessions.values(), *self._aggregators.links):
            writer.send(Ping(number))
        heard, self._heard = tuple(sorted(self._heard)), set()
        return heard

    def pass_down(self, words: Mapping[Any, Word], broadcast: EncodedBroadcast | None = None) -> None:
        """Pass the server's acknowledgements to each child and, if there is one, the ``broadcast``."""
        for child, word in words.items():
            for c, yours in word.yours.items():
                if isinstance(child, AggregatorSession):
                    child.acknowledge(c, yours, word.epoch)
                    if broadcast is not None:
                        child.publish(c, broadcast, yours)
                elif c == child and c in self.sessions:
                    self.sessions[c].acknowledge(yours, word.epoch)
                    if broadcast is not None:
                        self.sessions[c].publish(broadcast, yours)

    def refuse(self, child: Any, content: Sum, pairs: tuple[Pair, ...], reason: str) -> None:
        """Pass on the server's refusal of a child's update or sum, because of ``pairs``."""
        shown = [[i, self.agreement.names[c]] for i, c in content.pairs[:20]]
        self.log("refused", pairs=shown, reason=reason)
        if isinstance(child, AggregatorSession):
            child.send(SumRefusal(content.id, tuple(pair for pair in pairs if pair in content.pairs), reason))
        elif child in self.sessions:
            self.sessions[child].send(Refusal(reason, False, content.pairs[0][0]))

    def answered(self, name: str, message: Welcome | Refusal) -> None:
        """Handle the server's answer to a client's hello, or its refusal of another message of the client."""
        agreement, core = self._node.known
        if isinstance(message, Welcome):
            message = replace(message, version=self.version)  # the protocols that this side speaks too
        pending, c = self._hellos.pop(name, None), agreement.indices.get(name, -1)
        waiting = None if pending is None else pending.waiting
        link = waiting if isinstance(waiting, AggregatorSession) else self.behind.get(c)
        if pending is not None and isinstance(waiting, asyncio.Future):
            # enter now, or the client would miss a broadcast that follows at once
            waiting.set_result(message if isinstance(message, Refusal) else self._enter(message, pending.hello))
        elif isinstance(message, Welcome) and waiting is None and c not in self.sessions:
            self._upstream.send(Below(name))  # the stream that waited for it has ended
        elif link is not None:
            if isinstance(message, Welcome):
                self.behind[c] = link
                core.join(link, [c])
            link.send_to(name, message)
        elif c in self.sessions and isinstance(message, Refusal):
            session = self.sessions[c]
            session.close(message) if message.final or message.round is None else session.send(message)

    # -- clients come and go -------------------------------------------------------------------------------------------

    async def join(self, c: int, hello: Hello) -> Session | list[FromServer]:
        limits = self.rate_limits[c]
        if (why := limits.may_join()) is not None:
            return [Refusal(why)]
        answer = await self._introduce(hello)
        if isinstance(answer, Session):
            return answer
        if answer.final:
            limits.strikes.take(1)
        return [answer]

    async def _introduce(self, hello: Hello) -> DownstreamSession | Refusal:
        """Ask the server to admit a client; return its session, or the refusal."""
        answer: asyncio.Future[DownstreamSession | Refusal] = asyncio.get_running_loop().create_future()
        if not self._ask(replace(hello, token=""), answer):
            return BUSY
        pending = self._hellos[hello.name]
        try:
            await asyncio.wait({answer}, timeout=ANSWER_TIMEOUT)
            return answer.result() if answer.done() else Refusal("the server does not answer; come back later")
        except asyncio.CancelledError:
            if answer.done() and isinstance(session := answer.result(), Session):
                self.on_end(session)
            raise
        finally:
            pending.waiting = None

    def _ask(self, hello: Hello, waiting: asyncio.Future[DownstreamSession | Refusal] | AggregatorSession) -> bool:
        """Pass a hello up, unless one of the same name is on its way or the queue to the parent is full."""
        agreement, _ = self._node.known
        if hello.name in self._hellos or not self._upstream.is_free:
            return False
        self._vacate(hello.name, agreement.indices.get(hello.name, -1))
        self._hellos[hello.name] = _PendingHello(hello, waiting)
        passed = None if hello.version is None else hello.version.narrowed(self.version)
        self._upstream.send(
            Below(hello.name, replace(hello, version=passed, held=None))
        )  # `held` concerns the stream to this node
        return True

    def _vacate(self, name: str, c: int) -> None:
        """End the older stream of a client that comes again, and report its end to the server before the new hello."""
        older, link = self.sessions.pop(c, None), self.behind.pop(c, None)
        if older is not None:
            older.close(Refusal("this client has joined again from elsewhere; if these are two copies, stop one", True))
        if older is not None or link is not None:
            self._upstream.send(Below(name))

    def _enter(self, welcome: Welcome, hello: Hello) -> DownstreamSession:
        """Make the session of a client that the server has admitted."""
        agreement, core = self._node.known
        c = welcome.client
        session = self.sessions[c] = DownstreamSession(self._node, c, self.rate_limits[c], hello, welcome.epoch)
        self.behind.pop(c, None)
        core.join(c, [c])
        session.send(welcome)
        self.log("joined", client=agreement.names[c], start=welcome.start)
        return session

    async def on_declined(self, c: int, goodbye: Goodbye) -> None:
        await asyncio.sleep(self.rate_limits[c].useless.take())
        await self._upstream.room()
        self._upstream.send(Below(self.agreement.names[c], goodbye))

    async def on_goodbye(self, session: DownstreamSession, goodbye: Goodbye) -> None:
        self._upstream.send(Below(self.agreement.names[session.client], goodbye))

    def on_heard(self, session: DownstreamSession) -> None:
        self._heard.add(session.client)

    def on_broken(self, session: DownstreamSession, error: PeerError) -> Refusal:
        if not isinstance(error, TooMany):  # a slow server can cause this one
            session.rate_limits.strikes.take(1)
        agreement, alarm = self._node.agreement, isinstance(error, ConflictingUpdate)
        names = dict(enumerate(agreement.names if agreement is not None else ()))
        reason = named(str(error), names)
        self.log("alarm" if alarm else "refused", client=names.get(session.client), reason=reason)
        return Refusal(reason, alarm)

    def on_end(self, session: Session) -> None:
        c, agreement, core = session.client, self._node.agreement, self._node.core
        if self.sessions.get(c) is session and agreement is not None and core is not None:
            del self.sessions[c]
            core.part(c)
            self._upstream.send(Below(agreement.names[c]))
            self.log("disconnected", client=agreement.names[c])

    # -- updates of clients --------------------------------------------------------------------------------------------

    async def on_update(self, session: DownstreamSession, round: int, data: Raw) -> None:
        if not session.take(round, data):
            await asyncio.sleep(session.rate_limits.useless.take())

    async def on_void(self, session: DownstreamSession, message: VoidRound) -> None:
        if not session.void(message):
            await asyncio.sleep(session.rate_limits.useless.take())
        await self._upstream.room()

    # -- aggregators below ---------------------------------------------------------------------------------------------

    def new_link(self, hello: NodeHello, most: int) -> AggregatorSession:
        link, (_, core) = AggregatorSession(hello, most), self._node.known
        core.join(link, (), hello.carries)
        return link

    async def on_hello(self, link: AggregatorSession, hello: Hello) -> None:
        try:
            hello.check_version(self.version, self.role)
        except PeerError as error:
            link.send_to(hello.name, Refusal(str(error), final=True))
            return
        if not self._ask(hello, link):
            link.send_to(hello.name, BUSY)

    async def on_below(self, link: AggregatorSession, name: str, message: VoidRound | Goodbye) -> None:
        await self._upstream.room()
        self._upstream.send(Below(name, message))

    async def on_gone(self, link: AggregatorSession, name: str) -> None:
        c = self.agreement.indices.get(name, -1)
        if self.behind.get(c) is link:
            del self.behind[c]
            self._upstream.send(Below(name))

    async def on_sum(self, link: AggregatorSession, id: str, total: Summed) -> None:
        agreement, core = self._node.known
        numbers = agreement.numbers(min(total.pairs[0][0], agreement.terms.rounds))
        word = core.receive(link, Sum(total.pairs, decode(total.data, total.wire, numbers)))
        if word is not None:
            self.pass_down({link: word})
        self._node.send_sums()

    def on_alive(self, link: AggregatorSession, clients: tuple[int, ...]) -> None:
        self._heard.update(c for c in clients if self.behind.get(c) is link)

    def on_link_end(self, link: AggregatorSession) -> None:
        """Handle the end of an aggregator's stream: every client behind it has left too."""
        agreement, core = self._node.agreement, self._node.core
        if agreement is None or core is None:
            return
        core.part(link)
        for pending in self._hellos.values():
            if pending.waiting is link:
                pending.waiting = None
        for c in [c for c, behind in self.behind.items() if behind is link]:
            del self.behind[c]
            self._upstream.send(Below(agreement.names[c]))
