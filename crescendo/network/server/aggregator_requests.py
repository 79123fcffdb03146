"""What the federation's server does with what comes by way of aggregators."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from crescendo.errors import PeerError
from crescendo.network.protocol.tree_messages import NodeHello
from crescendo.network.protocol.wire_messages import Goodbye, Hello, Refusal, VoidRound
from crescendo.network.server.aggregator_session import Link, RelayedPeer
from crescendo.network.server.aggregator_stream import admit_aggregator
from crescendo.network.server.service import IncomingSum


class ServerHouse:
    """The federation's server behind the door: its clients are peers like all others, but reached through a link."""

    def __init__(self, server: Any) -> None:
        self._server, self._hall = server, server.hall

    @property
    def about(self) -> tuple[str, str, str, str, int]:
        hall = self._hall
        return hall.text, hall.federation, hall.digest, hall.wire, len(hall.durable.model)

    def admit(self, hello: NodeHello, context: Any) -> None:
        admit_aggregator(self._server.admit, hello, context)

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
            self._server.log("declined", client=name, reason=message.reason)
        if peer is not None and isinstance(message, VoidRound):
            await self._server.pass_on(peer, message)  # its neighbours do not wait for the disk with it
        elif peer is not None and isinstance(message, Goodbye):
            await self._server.part(peer.client, message)

    async def on_gone(self, link: Link, name: str) -> None:
        peer = self._peer(link, name)
        if peer is not None:
            self._drop(peer)

    async def on_sum(self, link: Link, total: IncomingSum) -> None:
        server, durable, now = self._server, self._hall.durable, time.monotonic()
        item = await server.put(-1, total)
        for answer in item.answers:
            link.say(answer)
        for c in {c for _, c in total.pairs if c < len(self._hall.names)}:
            link.acknowledge(c, durable.settled(c), durable.epoch)
            if c in link.peers:
                server.heard_at[c] = now
                link.peers[c].traffic.up += len(total.data) // len(total.pairs)
        if item.useless:
            await asyncio.sleep(link.useless.take())

    def on_heard(self, link: Link, clients: tuple[int, ...]) -> None:
        now = time.monotonic()
        self._server.heard_at.update({c: now for c in clients if c in link.peers})

    def on_end(self, link: Link) -> None:
        for peer in list(link.peers.values()):
            self._drop(peer)

    def _peer(self, link: Link, name: str) -> RelayedPeer | None:
        return next((peer for peer in link.peers.values() if peer.name == name), None)

    def _drop(self, peer: RelayedPeer) -> None:
        server = self._server
        if server.peers.get(peer.client) is peer:
            del server.peers[peer.client]
            server.log("disconnected", client=peer.name)
        peer.close()
        server.look_who_knows()
