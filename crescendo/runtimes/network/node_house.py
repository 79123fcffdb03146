"""What an aggregator does with what comes from aggregators below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crescendo.core.messages import Sum
from crescendo.runtimes.network.door import BUSY
from crescendo.runtimes.network.hall import IncomingSum
from crescendo.runtimes.network.relay import admit_aggregator
from crescendo.runtimes.network.relayed import Link
from crescendo.runtimes.tree_messages import Below, NodeHello
from crescendo.runtimes.wire import decode
from crescendo.runtimes.wire_messages import Goodbye, Hello, VoidRound

if TYPE_CHECKING:
    from crescendo.runtimes.network.aggregator import Node


class NodeHouse:
    """A node behind its door for aggregators."""

    def __init__(self, node: Node, admit: Any) -> None:
        self._node, self._admit = node, admit

    @property
    def about(self) -> tuple[str, str, str, str, int]:
        work, _ = self._node.known
        return work.text, work.federation, work.digest, work.wire, work.size

    def admit(self, hello: NodeHello, context: Any) -> None:
        admit_aggregator(self._admit, hello, context)

    async def on_link(self, link: Link, carries: tuple[int, ...]) -> None:
        _, core = self._node.known
        core.join(link, (), carries)

    async def on_hello(self, link: Link, hello: Hello) -> None:
        if not self._node.guests.ask(hello, link):
            link.above(hello.name, BUSY)

    async def on_below(self, link: Link, name: str, message: VoidRound | Goodbye) -> None:
        await self._node.uplink.room()
        self._node.uplink.send(Below(name, message))

    async def on_gone(self, link: Link, name: str) -> None:
        self._node.guests.left_behind(link, name)

    async def on_sum(self, link: Link, total: IncomingSum) -> None:
        work, core = self._node.known
        low, high = work.terms.block(min(total.pairs[0][0], work.terms.rounds), work.size)
        word = core.receive(link, Sum(total.pairs, decode(total.data, total.wire, high - low)))
        if word is not None:
            self._node.pass_down({link: word})
        self._node.kick()

    def on_heard(self, link: Link, clients: tuple[int, ...]) -> None:
        self._node.heard.update(c for c in clients if self._node.guests.behind.get(c) is link)

    def on_end(self, link: Link) -> None:
        if self._node.core is not None:
            self._node.core.part(link)
            self._node.guests.link_ended(link)
