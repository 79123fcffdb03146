"""Downstream session: a client that has joined at an aggregator, and the updates and void rounds that it sends.

The aggregator refuses updates that the server would refuse, because the server cannot recognise them inside a sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crescendo.core.messages import Update
from crescendo.core.vectors import Raw, decode
from crescendo.errors import PeerError
from crescendo.network.protocol.tree_messages import Below
from crescendo.network.protocol.wire_messages import Hello, Refusal, VoidRound
from crescendo.network.server.session import Session
from crescendo.network.transport.rate_limits import RateLimits
from crescendo.privacy.mechanisms.norm_limits import TooLong

if TYPE_CHECKING:
    from crescendo.network.aggregator.node import Node


class DownstreamSession(Session):
    """One client below ``node``, with the k it has seen and its last round, as in its hello."""

    def __init__(self, node: Node, client: int, rate_limits: RateLimits, hello: Hello, epoch: int) -> None:
        super().__init__(client, rate_limits, hello)
        self._node, self._k, self._last, self._epoch = node, hello.k, hello.last, epoch
        self._voids: set[int] = set()  # rounds that it declared void on this stream

    def take(self, round: int, data: Raw) -> bool:
        """Take a complete update; return True if it is new."""
        agreement, core = self._node.known
        if (reason := self._impossible(round)) is not None:
            raise PeerError(reason)
        update = Update(round, self.client, decode(data, agreement.wire, agreement.numbers(round)))
        if self._too_long(update):
            return False
        held = core.waiting
        word = core.receive(self.client, update)
        if word is not None:
            self.acknowledge(word.yours[self.client], word.epoch)
        is_new = core.waiting > held
        self._node.send_sums()
        return is_new

    def void(self, message: VoidRound) -> bool:
        """Handle a round that the client declares void; return True if this is new and went up. The server decides."""
        agreement, core = self._node.known
        c, i = self.client, message.round
        if i in core.settled(c):
            self.acknowledge(core.settled(c), core.epoch)
        elif (reason := self._impossible(i)) is not None:
            self.send(Refusal(reason, False, i))
        elif i not in self._voids:
            self._voids.add(i)
            self._node.upstream.send(Below(agreement.names[c], message))
            return True
        return False

    def _too_long(self, update: Update) -> bool:
        """Refuse an update that is too long, as the server would: declare the pair void, and send the client a refusal."""
        (agreement, _), i = self._node.known, update.round
        try:
            agreement.limits.check(i, update.client, update.delta)
            return False
        except TooLong as error:
            self._node.log("refused", client=agreement.names[update.client], round=i, reason=str(error))
            self.void(VoidRound(i, agreement.federation, agreement.digest))
            self.send(Refusal(str(error), False, i))
            return True

    def _impossible(self, i: int) -> str | None:
        """Return why this client cannot have a round, as far as this node knows; None if it can."""
        agreement, core = self._node.known
        terms, name, k = agreement.terms, agreement.names[self.client], max(self._node.k, self._k)
        if not 0 <= i < terms.rounds or not terms.share(i, self.client):
            return f'client "{name}" has no share in a round {i} of this run; check its terms'
        forgetful = (
            max(core.epoch, self._epoch) > 0
        )  # a server that lost rounds trusts the clients' counts, and so does this node
        if not forgetful and i > max(terms.furthest(min(k, terms.rounds)), self._last):
            return f'client "{name}" speaks of round {i}, which no client can have finished at k={k}; check its terms'
        return None
