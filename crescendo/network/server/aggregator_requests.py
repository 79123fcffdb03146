"""What the federation's server does with what comes by way of aggregators."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from crescendo.errors import PeerError
from crescendo.federation.agreement import Agreement
from crescendo.network.protocol.tree_messages import NodeHello
from crescendo.network.protocol.wire_messages import Goodbye, Hello, Refusal, VoidRound
from crescendo.network.server.aggregator_session import AggregatorSession, RelayedSession
from crescendo.network.server.aggregator_stream import admit_aggregator
from crescendo.network.server.service import IncomingSum, Service


class ServerAggregators:
    """The federation's server behind the door: its clients are peers like all others, but reached through a link."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._service: Service = server.service

    @property
    def agreement(self) -> Agreement:
        return self._service.agreement

    def admit(self, hello: NodeHello, context: Any) -> None:
        admit_aggregator(self._server.admit, hello, context)

    async def on_link(self, link: AggregatorSession, carries: tuple[int, ...]) -> None:
        """What an aggregator carries is judged when it sends it."""

    async def on_hello(self, link: AggregatorSession, hello: Hello) -> None:
        server, service = self._server, self._service
        try:
            c = service.index(hello)
        except PeerError as error:
            link.above(hello.name, Refusal(str(error), final=True))
            return
        item = await server.let_in(c, hello, lambda: RelayedSession(c, hello.name, link, server.rate_limits[c]))
        if item.peer is None:
            for answer in item.answers:
                link.above(hello.name, answer)

    async def on_below(self, link: AggregatorSession, name: str, message: VoidRound | Goodbye) -> None:
        peer = self._peer(link, name)
        if isinstance(message, VoidRound):
            self._service.check_federation(message.federation, message.digest)
        elif peer is None:
            self._server.log("declined", client=name, reason=message.reason)
        if peer is not None and isinstance(message, VoidRound):
            await self._server.pass_on(peer, message)  # its neighbours do not wait for the disk with it
        elif peer is not None and isinstance(message, Goodbye):
            await self._server.part(peer.client, message)

    async def on_gone(self, link: AggregatorSession, name: str) -> None:
        peer = self._peer(link, name)
        if peer is not None:
            self._drop(peer)

    async def on_sum(self, link: AggregatorSession, total: IncomingSum) -> None:
        server, durable, now = self._server, self._service.durable, time.monotonic()
        item = await server.put(-1, total)
        for answer in item.answers:
            link.say(answer)
        for c in {c for _, c in total.pairs if c < len(self._service.names)}:
            link.acknowledge(c, durable.settled(c), durable.epoch)
            if c in link.peers:
                server.last_heard[c] = now
                link.peers[c].traffic.up += len(total.data) // len(total.pairs)
        if item.useless:
            await asyncio.sleep(link.useless.take())

    def on_heard(self, link: AggregatorSession, clients: tuple[int, ...]) -> None:
        now = time.monotonic()
        self._server.last_heard.update({c: now for c in clients if c in link.peers})

    def on_end(self, link: AggregatorSession) -> None:
        for peer in list(link.peers.values()):
            self._drop(peer)

    def _peer(self, link: AggregatorSession, name: str) -> RelayedSession | None:
        return next((peer for peer in link.peers.values() if peer.name == name), None)

    def _drop(self, peer: RelayedSession) -> None:
        server = self._server
        if server.peers.get(peer.client) is peer:
            del server.peers[peer.client]
            server.log("disconnected", client=peer.name)
        peer.close()
        server.look_who_knows()
