"""Node: an aggregator on the network. Clients and aggregators join it as they would join the server, and it speaks for them.

The node passes clients' messages about themselves (hello, void rounds, goodbye) up unchanged, and the server answers. Updates
go into the core's `Aggregator`, which packs them into sums. The node sends a few sums at a time, so that updates that arrive
meanwhile are added up. When the stream to the parent breaks, the node closes every stream below, because each client has to
report to the server again which rounds it has sent; the node keeps its updates and resends them. It stores nothing on disk. A
node that dies loses no update, because clients resend those that the server lacks.
"""

import asyncio
import hashlib
from typing import Any

from crescendo.core.aggregator import Aggregator
from crescendo.core.messages import Word
from crescendo.errors import PeerError, Refused
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.logs import Log, quiet
from crescendo.network.aggregator.downstream import Downstream
from crescendo.network.aggregator.upstream import Upstream
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.tree_messages import Above, Acks, Alive, NodeWelcome, Over, SumRefusal
from crescendo.network.protocol.versions import OLD, OURS, PeerVersion
from crescendo.network.protocol.wire_messages import Ping, Refusal, Welcome
from crescendo.network.server.serve import Listening
from crescendo.network.transport.background import background
from crescendo.network.transport.channels import Endpoint, StreamBroken, listen
from crescendo.network.transport.descriptors import raise_limit
from crescendo.network.transport.pending_streams import TryLater
from crescendo.network.transport.retry import Backoff
from crescendo.network.transport.security.authenticator import Admit, everybody
from crescendo.network.transport.shutdown import ShutdownRequest
from crescendo.network.transport.stream_writer import CLOSE_TIMEOUT

MAX_SUMS_IN_FLIGHT = (
    2  # sums that may wait for the server's acknowledgement; updates that arrive meanwhile go into the next
)


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
        self.version = (
            OURS  # after the parent's answer: the server's version, with the protocols spoken all the way to it
        )
        self.upstream = Upstream(self, parent, backoff or Backoff())
        self.downstream = Downstream(self, admit)
        self.k, self.port = 0, 0
        self.over = asyncio.Event()  # the parent sends nothing more

    async def run(self, address: str, stop: asyncio.Event, credentials: Any = None) -> bool:
        """Run the node; return True if the run is over. The server decides when: it knows which clients have received the end."""
        connections = self.downstream.connections
        server, self.port = await listen(self.downstream.handlers, address, credentials, connections.most)
        watch = connections.watch(self.port)
        self.log("aggregating", port=self.port, parent=self._parent.address)
        try:
            watches = watch, self.downstream.admitted.watch()
            async with background(self.upstream.keep(), stop.wait(), self.over.wait(), *watches) as tasks:
                try:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    if tasks[0].done():
                        tasks[0].result()
                    return self.over.is_set()
                finally:  # before the stream to the parent ends, which would send the peers away with another reason
                    self.downstream.close("the aggregator stops; come back later", over=self.over.is_set())
        finally:
            await server.stop(CLOSE_TIMEOUT)
            self.log("stopped", k=self.k, finished=self.over.is_set())

    @property
    def after_the_last_round(self) -> bool:
        return self.agreement is not None and self.k == self.agreement.terms.rounds

    def agree(self, welcome: NodeWelcome) -> Aggregator:
        self._agree_on_version(welcome.version)
        digest = hashlib.sha256(welcome.terms.encode()).hexdigest()
        if self.agreement is None or self.core is None:
            self.agreement = build_terms(welcome.terms)
            self.downstream.pending.names = len(self.agreement.names)
            self.core = Aggregator(self.agreement.terms, self.agreement.size)
        elif digest != self.agreement.digest:
            raise Refused("the parent has other terms than before; nothing more is sent, ask its operator")
        return self.core

    def _agree_on_version(self, version: PeerVersion | None) -> None:
        try:
            OURS.speak_with(version, "this aggregator", "the parent")
        except PeerError as error:
            raise Refused(str(error)) from None
        self.version = (version or OLD).narrowed(OURS)

    @property
    def known(self) -> tuple[Agreement, Aggregator]:
        """The agreement and the core's aggregator; `TryLater` while there is no connection to the server."""
        if self.agreement is None or self.core is None or not self.upstream.is_up:
            raise TryLater("the aggregator has no way to the server now; come back")
        return self.agreement, self.core

    def send_sums(self) -> None:
        """Send sums of the updates that have arrived, unless too many sums wait for the server."""
        if self.core is not None and self.upstream.is_up:
            while len(self.core.unanswered()) < MAX_SUMS_IN_FLIGHT and (total := self.core.pack()) is not None:
                self.upstream.send(total)

    # -- messages of the parent ------------------------------------------------------------------------------------------

    def on_broadcast(self, word: Word, broadcast: EncodedBroadcast) -> None:
        """Take a complete broadcast and pass it down."""
        _, core = self.known
        self.k = max(self.k, word.k)
        self.downstream.pass_down(core.hear(word), broadcast)
        self.send_sums()

    def on_message(self, message: Any) -> None:
        """Handle any other message of the parent."""
        _, core = self.known
        match message:
            case Acks(yours):
                epoch = max((ack.epoch for ack in yours.values()), default=0)
                self.downstream.pass_down(core.hear(Word({c: ack.yours for c, ack in yours.items()}, 0, epoch)))
            case Above(name, said) if isinstance(said, Welcome | Refusal):
                self.downstream.answered(name, said)
            case SumRefusal(id, pairs, reason):
                for child, content in core.refused(id, pairs):
                    self.downstream.refuse(child, content, pairs, reason)
            case Ping(number):
                self.upstream.send(Alive(number, self.downstream.ping(number), self.downstream.nodes()))
            case Over():
                self.over.set()
            case _:
                raise StreamBroken("the parent spoke out of turn")
        self.send_sums()


def aggregate(
    name: str, parent: Endpoint, listening: Listening, *, log: Log = quiet, backoff: Backoff | None = None
) -> bool:
    """Aggregate until the run is over (True) or a signal comes."""

    async def run(shutdown: ShutdownRequest) -> bool:
        node = Node(name, parent, listening.admit, backoff, log)
        return await node.run(listening.address, shutdown.event(), listening.credentials)

    raise_limit()
    with ShutdownRequest.on_signals() as shutdown:
        return asyncio.run(run(shutdown))
