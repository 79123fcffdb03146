"""Aggregator requests: the server's handlers for messages that come through aggregators.

The clients behind an aggregator have sessions like all others; these write through the aggregator's stream.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from crescendo import system
from crescendo.core.messages import Settled
from crescendo.errors import PeerError
from crescendo.federation.agreement import Agreement
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.tree_messages import NodeHello
from crescendo.network.protocol.wire_messages import FromServer, Goodbye, Hello, Refusal, VoidRound
from crescendo.network.server.aggregator_streams import AggregatorSession
from crescendo.network.server.service import NO_ROOM
from crescendo.network.server.session import Session
from crescendo.network.transport.pending_streams import TryLater
from crescendo.network.transport.rate_limits import RateLimits
from crescendo.storage.journal.journal_entries import Summed

if TYPE_CHECKING:
    from crescendo.network.server.grpc_server import NetworkServer


class _RelayedSession(Session):
    """A client that has joined through an aggregator."""

    def __init__(self, client: int, rate_limits: RateLimits, hello: Hello, link: AggregatorSession) -> None:
        super().__init__(client, rate_limits, hello)
        self.name, self.link = hello.name, link
        link.sessions[client] = self

    def send(self, message: FromServer) -> None:
        self.link.send_to(self.name, message)

    def acknowledge(self, settled: Settled, epoch: int) -> None:
        self.link.acknowledge(self.client, settled, epoch)

    def publish(self, broadcast: EncodedBroadcast, yours: Settled) -> None:
        if not self.has(broadcast):
            self.link.publish(self.client, broadcast, yours)

    def close(self, refusal: Refusal | None = None) -> None:
        if (
            refusal is not None
        ):  # not final: by the time it arrives the client may have joined again through the same aggregator
            self.send(replace(refusal, final=False))
        self.closed.set()
        if self.link.sessions.get(self.client) is self:
            del self.link.sessions[self.client]


class AggregatorRequests:
    """The server as the host of aggregators."""

    def __init__(self, server: NetworkServer) -> None:
        self._server, self.admit, self.log = server, server.admit, server.log
        self.role, self.version = server.role, server.version

    @property
    def agreement(self) -> Agreement:
        return self._server.agreement

    def new_link(self, hello: NodeHello, most: int) -> AggregatorSession:
        """Admit an aggregator unless the disk is full. The updates that it carries are checked when it sends them."""
        self._server.service.measure_disk()  # if all clients come through aggregators, no other request may measure it
        if self._server.service.turns_away:
            raise TryLater(NO_ROOM.reason)
        return AggregatorSession(hello, most)

    async def on_hello(self, link: AggregatorSession, hello: Hello) -> None:
        try:
            hello.check_version(self.version, self.role)
            c = hello.client_in(self.agreement)
        except PeerError as error:
            link.send_to(hello.name, Refusal(str(error), final=True))
            return
        answers = await self._server.let_in(c, hello, lambda limits: _RelayedSession(c, limits, hello, link))
        for answer in answers if isinstance(answers, list) else ():
            link.send_to(hello.name, answer)

    async def on_below(self, link: AggregatorSession, name: str, message: VoidRound | Goodbye) -> None:
        session = link.sessions.get(self.agreement.indices.get(name, -1))
        if isinstance(message, VoidRound):
            message.check_about(self.agreement)
            if session is not None:
                await self._server.on_void(session, message)  # queued: others behind the aggregator need not wait
        elif session is not None:
            await self._server.on_goodbye(session, message)
        else:
            self.log("declined", client=name, reason=message.reason)

    async def on_gone(self, link: AggregatorSession, name: str) -> None:
        session = link.sessions.get(self.agreement.indices.get(name, -1))
        if session is not None:
            self._drop(session)

    async def on_sum(self, link: AggregatorSession, id: str, total: Summed) -> None:
        server, durable, now = self._server, self._server.service.durable, system.monotonic()
        submission = await server.put(-1, total, sum_id=id)
        for answer in submission.answers:
            link.send(answer)
        for c in {c for _, c in total.pairs if c < len(self.agreement.names)}:
            link.acknowledge(c, durable.settled(c), durable.epoch)
            if c in link.sessions:
                server.last_heard[c] = now
                link.sessions[c].traffic.up += len(total.data) // len(total.pairs)
        if submission.useless:
            await asyncio.sleep(link.rate_limits.useless.take())

    def on_alive(self, link: AggregatorSession, clients: tuple[int, ...]) -> None:
        now = system.monotonic()
        self._server.last_heard.update({c: now for c in clients if c in link.sessions})

    def on_link_end(self, link: AggregatorSession) -> None:
        for session in list(link.sessions.values()):
            self._drop(session)

    def _drop(self, session: Session) -> None:
        self._server.on_end(session)
        session.close()
