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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from crescendo.core.messages import Sum, Word
from crescendo.core.setup import Terms
from crescendo.core.tree import Aggregator
from crescendo.errors import Refused
from crescendo.runtimes.network.door import DOOR_OPTIONS, Porch
from crescendo.runtimes.network.editions import Edition, News
from crescendo.runtimes.network.guests import Guests
from crescendo.runtimes.network.limits import Limits
from crescendo.runtimes.network.link import Cut, Patience, Place
from crescendo.runtimes.network.logs import Log, quiet
from crescendo.runtimes.network.node_house import NodeHouse
from crescendo.runtimes.network.relay import NotNow, RelayDoor
from crescendo.runtimes.network.relayed import Link
from crescendo.runtimes.network.server import Admit, everybody
from crescendo.runtimes.network.subtree import ClientDoor
from crescendo.runtimes.network.uplink import Uplink
from crescendo.runtimes.network.voice import LAST_WORDS
from crescendo.runtimes.tree_messages import Above, Acks, Alive, NodeWelcome, Over, SumRefusal
from crescendo.runtimes.wire_messages import Ping, Refusal, Welcome

IN_FLIGHT = 2  # sums that may wait for the server's word; what comes meanwhile goes into the next


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
    limits: Limits


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
        self._parent, self._build = parent, build
        self.work: Work | None = None
        self.core: Aggregator | None = None
        self.uplink, self.guests = Uplink(self, parent, patience or Patience()), Guests(self)
        self.heard: set[int] = set()  # clients that were heard of since the last ping
        self.k, self._over = 0, asyncio.Event()
        self.porch = Porch(0)  # of how many names is said by the terms
        self._clients = ClientDoor(self, admit, self.porch)
        self._relays = RelayDoor(NodeHouse(self, admit), log, self.porch)
        self.port = 0

    # -- its life ------------------------------------------------------------------------------------------------------

    async def run(self, address: str, stop: asyncio.Event, credentials: Any = None) -> bool:
        """True if the run is over. The server says when: it knows which clients have heard of the end, here and elsewhere."""
        server = grpc.aio.server(options=DOOR_OPTIONS)
        server.add_generic_rpc_handlers((self._clients.handlers, self._relays.handlers))
        secure = credentials is not None
        self.port = server.add_secure_port(address, credentials) if secure else server.add_insecure_port(address)
        await server.start()
        self.log("aggregating", port=self.port, parent=self._parent.address)
        talking, stopping, ending = (
            asyncio.create_task(run) for run in (self.uplink.keep(), stop.wait(), self._over.wait())
        )
        try:
            await asyncio.wait({talking, stopping, ending}, return_when=asyncio.FIRST_COMPLETED)
            if talking.done():
                talking.result()
            return self.is_over
        finally:
            self.porch.close()
            self._clients.close()
            if self.is_over:
                for link in self._relays.links:
                    link.say(Over())
            self.send_everybody_away("the aggregator stops; come back later")
            for task in (talking, stopping, ending):
                task.cancel()
            await asyncio.gather(talking, stopping, ending, return_exceptions=True)
            await server.stop(LAST_WORDS)
            self.log("stopped", k=self.k, finished=self.is_over)

    def send_everybody_away(self, why: str) -> None:
        self.guests.send_away(why)
        for link in list(self._relays.links):
            link.close(Refusal(why))

    @property
    def after_the_last_round(self) -> bool:
        return self.work is not None and self.k == self.work.terms.rounds

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def end(self) -> None:
        """Nothing more will come."""
        self._over.set()

    def agree(self, welcome: NodeWelcome) -> Aggregator:
        digest = hashlib.sha256(welcome.terms.encode()).hexdigest()
        if self.work is None or self.core is None:
            self.work = self._build(welcome.terms)
            self.porch.names = len(self.work.names)
            self.core = Aggregator(self.work.terms, self.work.size)
        elif digest != self.work.digest:
            raise Refused("the parent has other terms than before; nothing more is sent, ask its operator")
        return self.core

    @property
    def known(self) -> tuple[Work, Aggregator]:
        """What the subtree works under, while there is a way to the server."""
        if self.work is None or self.core is None or not self.uplink.is_up:
            raise NotNow("the aggregator has no way to the server now; come back")
        return self.work, self.core

    def kick(self) -> None:
        """Send what has come, if not too many sums wait for the server's word."""
        if self.core is not None and self.uplink.is_up:
            while len(self.core.unanswered()) < IN_FLIGHT and (total := self.core.pack()) is not None:
                self.uplink.send(total)

    # -- what the parent says --------------------------------------------------------------------------------------------

    def hear_model(self, word: Word, edition: Edition) -> None:
        """A whole broadcast has come."""
        _, core = self.known
        self.k = max(self.k, word.k)
        self.pass_down(core.hear(word), edition)
        self.kick()

    def hear(self, message: Any) -> None:
        """Anything else."""
        _, core = self.known
        match message:
            case Acks(yours, epoch):
                self.pass_down(core.hear(Word(yours, 0, epoch)))
            case Above(name, said) if isinstance(said, Welcome | Refusal):
                self.guests.answered(name, said)
            case SumRefusal(id, pairs, reason):
                self._blame(core.refused(id, pairs), pairs, reason)
            case Ping(number):
                for voice in (*self.guests.peers.values(), *self._relays.links):
                    voice.say(Ping(number))
                heard, self.heard = tuple(sorted(self.heard)), set()
                self.uplink.send(Alive(number, heard))
            case Over():
                self.end()
            case _:
                raise Cut("the parent spoke out of turn")
        self.kick()

    def pass_down(self, parts: Mapping[Any, Word], edition: Edition | None = None) -> None:
        for child, word in parts.items():
            for c, yours in word.yours.items():
                if isinstance(child, Link):
                    child.acknowledge(c, yours, word.epoch)
                    if edition is not None:
                        child.tell(c, News(edition, yours))
                elif c == child and c in self.guests.peers:
                    self.guests.peers[c].acknowledge(yours, word.epoch)
                    if edition is not None:
                        self.guests.peers[c].tell(News(edition, yours))

    def _blame(self, guilty: list[tuple[Any, Sum]], pairs: tuple[tuple[int, int], ...], reason: str) -> None:
        for child, content in guilty:
            shown = [[i, self.known[0].names[c]] for i, c in content.pairs[:20]]
            self.log("refused", pairs=shown, reason=reason)
            if isinstance(child, Link):
                child.say(SumRefusal(content.id, tuple(pair for pair in pairs if pair in content.pairs), reason))
            elif child in self.guests.peers:
                self.guests.peers[child].say(Refusal(reason, False, content.pairs[0][0]))
