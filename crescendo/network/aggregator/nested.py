"""What an aggregator does with what comes from aggregators below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crescendo.core.messages import Sum
from crescendo.core.vectors import decode
from crescendo.federation.agreement import Agreement
from crescendo.network.protocol.tree_messages import Below, NodeHello
from crescendo.network.protocol.wire_messages import Goodbye, Hello, VoidRound
from crescendo.network.server.aggregator_session import AggregatorSession
from crescendo.network.server.aggregator_stream import admit_aggregator
from crescendo.network.server.service import IncomingSum
from crescendo.network.transport.pending_streams import BUSY

if TYPE_CHECKING:
    from crescendo.network.aggregator.node import Node


class NestedAggregators:
    """A node behind its door for aggregators."""

    def __init__(self, node: Node, admit: Any) -> None:
        self._node, self._admit = node, admit

    @property
    def agreement(self) -> Agreement:
        return self._node.known[0]

    def admit(self, hello: NodeHello, context: Any) -> None:
        admit_aggregator(self._admit, hello, context)

    async def on_link(self, link: AggregatorSession, carries: tuple[int, ...]) -> None:
        _, core = self._node.known
        core.join(link, (), carries)

    async def on_hello(self, link: AggregatorSession, hello: Hello) -> None:
        if not self._node.downstream.ask(hello, link):
            link.above(hello.name, BUSY)

    async def on_below(self, link: AggregatorSession, name: str, message: VoidRound | Goodbye) -> None:
        await self._node.upstream.room()
        self._node.upstream.send(Below(name, message))

    async def on_gone(self, link: AggregatorSession, name: str) -> None:
        self._node.downstream.left_behind(link, name)

    async def on_sum(self, link: AggregatorSession, total: IncomingSum) -> None:
        agreed, core = self._node.known
        low, high = agreed.terms.block(min(total.pairs[0][0], agreed.terms.rounds), agreed.size)
        word = core.receive(link, Sum(total.pairs, decode(total.data, total.wire, high - low)))
        if word is not None:
            self._node.pass_down({link: word})
        self._node.kick()

    def on_heard(self, link: AggregatorSession, clients: tuple[int, ...]) -> None:
        self._node.heard.update(c for c in clients if self._node.downstream.behind.get(c) is link)

    def on_end(self, link: AggregatorSession) -> None:
        if self._node.core is not None:
            self._node.core.part(link)
            self._node.downstream.link_ended(link)
