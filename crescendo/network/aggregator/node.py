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
from collections.abc import Mapping
from typing import Any

import grpc
import grpc.aio

from crescendo.core.aggregator import Aggregator
from crescendo.core.messages import Sum, Word
from crescendo.errors import Refused, UsageError
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.logs import Log, quiet
from crescendo.network.aggregator.client_streams import ClientStreams
from crescendo.network.aggregator.downstream import Downstream
from crescendo.network.aggregator.nested import NestedAggregators
from crescendo.network.aggregator.upstream import Upstream
from crescendo.network.protocol.tree_messages import Above, Acks, Alive, NodeWelcome, Over, SumRefusal
from crescendo.network.protocol.wire_messages import Ping, Refusal, Welcome
from crescendo.network.server.aggregator_session import AggregatorSession
from crescendo.network.server.aggregator_stream import AggregatorStreams, TryLater
from crescendo.network.server.encoded_broadcasts import EncodedBroadcast, News
from crescendo.network.server.grpc_server import Admit, everybody
from crescendo.network.server.serve import Listening
from crescendo.network.transport.channels import Backoff, Endpoint, StreamBroken
from crescendo.network.transport.pending_streams import SERVER_OPTIONS, PendingStreams
from crescendo.network.transport.shutdown import ShutdownRequest, shutdown_on_signals
from crescendo.network.transport.stream_writer import LAST_WORDS

MAX_SUMS_IN_FLIGHT = 2  # sums that may wait for the server's word; what comes meanwhile goes into the next


class Node:
    """One aggregator. `run` until the run is over or ``stop`` is set; `Refused` if the parent refuses for good."""

    def __init__(
        self,
        name: str,
        parent: Endpoint,
        admit: Admit = everybody,
        backoff: Backoff | None = None,
        log: Log = quiet,
    ) -> None:
        self.name, self.log = name, log
        self._parent = parent
        self.agreement: Agreement | None = None
        self.core: Aggregator | None = None
        self.upstream, self.downstream = Upstream(self, parent, backoff or Backoff()), Downstream(self)
        self.heard: set[int] = set()  # clients that were heard of since the last ping
        self.k, self._over = 0, asyncio.Event()
        self.pending = PendingStreams(0)  # of how many names is said by the terms
        self._clients = ClientStreams(self, admit, self.pending)
        self._relays = AggregatorStreams(NestedAggregators(self, admit), log, self.pending)
        self.port = 0

    # -- its life ------------------------------------------------------------------------------------------------------

    async def run(self, address: str, stop: asyncio.Event, credentials: Any = None) -> bool:
        """True if the run is over. The server says when: it knows which clients have heard of the end, here and elsewhere."""
        server = grpc.aio.server(options=SERVER_OPTIONS)
        server.add_generic_rpc_handlers((self._clients.handlers, self._relays.handlers))
        secure = credentials is not None
        self.port = server.add_secure_port(address, credentials) if secure else server.add_insecure_port(address)
        await server.start()
        self.log("aggregating", port=self.port, parent=self._parent.address)
        talking, stopping, ending = (
            asyncio.create_task(run) for run in (self.upstream.keep(), stop.wait(), self._over.wait())
        )
        try:
            await asyncio.wait({talking, stopping, ending}, return_when=asyncio.FIRST_COMPLETED)
            if talking.done():
                talking.result()
            return self.is_over
        finally:
            self.pending.close()
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
        self.downstream.send_away(why)
        for link in list(self._relays.links):
            link.close(Refusal(why))

    @property
    def after_the_last_round(self) -> bool:
        return self.agreement is not None and self.k == self.agreement.terms.rounds

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def end(self) -> None:
        """Nothing more will come."""
        self._over.set()

    def agree(self, welcome: NodeWelcome) -> Aggregator:
        digest = hashlib.sha256(welcome.terms.encode()).hexdigest()
        if self.agreement is None or self.core is None:
            self.agreement = build_terms(welcome.terms)
            self.pending.names = len(self.agreement.names)
            self.core = Aggregator(self.agreement.terms, self.agreement.size)
        elif digest != self.agreement.digest:
            raise Refused("the parent has other terms than before; nothing more is sent, ask its operator")
        return self.core

    @property
    def known(self) -> tuple[Agreement, Aggregator]:
        """What the subtree works under, while there is a way to the server."""
        if self.agreement is None or self.core is None or not self.upstream.is_up:
            raise TryLater("the aggregator has no way to the server now; come back")
        return self.agreement, self.core

    def kick(self) -> None:
        """Send what has come, if not too many sums wait for the server's word."""
        if self.core is not None and self.upstream.is_up:
            while len(self.core.unanswered()) < MAX_SUMS_IN_FLIGHT and (total := self.core.pack()) is not None:
                self.upstream.send(total)

    # -- what the parent says --------------------------------------------------------------------------------------------

    def hear_model(self, word: Word, broadcast: EncodedBroadcast) -> None:
        """A whole broadcast has come."""
        _, core = self.known
        self.k = max(self.k, word.k)
        self.pass_down(core.hear(word), broadcast)
        self.kick()

    def hear(self, message: Any) -> None:
        """Anything else."""
        _, core = self.known
        match message:
            case Acks(yours, epoch):
                self.pass_down(core.hear(Word(yours, 0, epoch)))
            case Above(name, said) if isinstance(said, Welcome | Refusal):
                self.downstream.answered(name, said)
            case SumRefusal(id, pairs, reason):
                self._blame(core.refused(id, pairs), pairs, reason)
            case Ping(number):
                for writer in (*self.downstream.peers.values(), *self._relays.links):
                    writer.say(Ping(number))
                heard, self.heard = tuple(sorted(self.heard)), set()
                self.upstream.send(Alive(number, heard))
            case Over():
                self.end()
            case _:
                raise StreamBroken("the parent spoke out of turn")
        self.kick()

    def pass_down(self, parts: Mapping[Any, Word], broadcast: EncodedBroadcast | None = None) -> None:
        for child, word in parts.items():
            for c, yours in word.yours.items():
                if isinstance(child, AggregatorSession):
                    child.acknowledge(c, yours, word.epoch)
                    if broadcast is not None:
                        child.tell(c, News(broadcast, yours))
                elif c == child and c in self.downstream.peers:
                    self.downstream.peers[c].acknowledge(yours, word.epoch)
                    if broadcast is not None:
                        self.downstream.peers[c].tell(News(broadcast, yours))

    def _blame(self, guilty: list[tuple[Any, Sum]], pairs: tuple[tuple[int, int], ...], reason: str) -> None:
        for child, content in guilty:
            shown = [[i, self.known[0].names[c]] for i, c in content.pairs[:20]]
            self.log("refused", pairs=shown, reason=reason)
            if isinstance(child, AggregatorSession):
                child.say(SumRefusal(content.id, tuple(pair for pair in pairs if pair in content.pairs), reason))
            elif child in self.downstream.peers:
                self.downstream.peers[child].say(Refusal(reason, False, content.pairs[0][0]))


def aggregate(
    name: str, parent: Endpoint, listening: Listening, *, log: Log = quiet, backoff: Backoff | None = None
) -> bool:
    """Aggregate until the run is over (True) or a signal comes."""

    async def run(shutdown: ShutdownRequest) -> bool:
        node = Node(name, parent, listening.admit, backoff, log)
        try:
            return await node.run(listening.address, shutdown.event(), listening.credentials)
        except RuntimeError as error:
            raise UsageError(f"{listening.address} cannot be listened on ({error}); is the port in use?") from None

    with shutdown_on_signals() as shutdown:
        return asyncio.run(run(shutdown))
