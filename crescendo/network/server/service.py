"""The server's side of a networked federation, without sockets: what each message does to the durable server, and who is told.

Messages come in batches. `Service.take` applies a batch and commits it, in a thread of its own, and returns what may be said once
it is on disk: an answer to each message, the acknowledgements, and the broadcasts that are due. Nothing of a batch is said
before, and nobody but `take` touches the durable server.

A message that the core refuses changes nothing. If it was an update, its pair becomes void, for good, and both sides log it: a
round never waits for an update that will not be taken. The same pair with other bytes is an alarm: two instances use one name,
or somebody forges.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crescendo.core.arrays import Vector
from crescendo.core.buffer_pool import BufferPool
from crescendo.core.messages import Pair, Settled
from crescendo.core.server import ConflictingUpdate, DuplicateUpdate, RefusedSum
from crescendo.core.vectors import Raw, decode, encoded, largest
from crescendo.errors import PeerError, UsageError
from crescendo.federation.agreement import Agreement
from crescendo.logs import Log, quiet
from crescendo.network.protocol.tree_messages import SumRefusal
from crescendo.network.protocol.wire_messages import Goodbye, Hello, Refusal, VoidRound, Welcome
from crescendo.network.server.encoded_broadcasts import EncodedBroadcast, News
from crescendo.network.transport.wording import named, ranges
from crescendo.privacy.mechanisms.norm_limits import length_of
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.journal_entries import Absent, Back, Left, Received, Registered, Summed, Voided
from crescendo.storage.journal.server_state import OtherInstance


@dataclass(frozen=True, slots=True, eq=False)
class Incoming:
    """A whole update, put together from its parts."""

    round: int
    data: Raw


@dataclass(frozen=True, slots=True, eq=False)
class IncomingSum:
    """A whole sum of updates from an aggregator, put together from its parts."""

    id: str
    pairs: tuple[Pair, ...]
    wire: str
    data: Raw


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing was heard of the client for too long."""


Message = Hello | Incoming | IncomingSum | VoidRound | Goodbye | Silence


@dataclass(eq=False, slots=True)
class Submission:
    """A message of a client (-1: of an aggregator), and what becomes of it: the answers to it, and whether it was taken."""

    client: int
    message: Message
    answers: list[Any] = field(default_factory=list)
    taken: bool = False
    useless: bool = False  # it changed nothing
    costly: bool = False  # it made the server begin a new epoch
    peer: Any = None  # the stream of a client that has joined
    make: Any = None  # makes it, for a client that comes by way of an aggregator

    @property
    def size(self) -> int:
        """Bytes of its vector."""
        return len(self.message.data) if isinstance(self.message, Incoming | IncomingSum) else 0


@dataclass(frozen=True, slots=True, eq=False)
class Committed:
    """What may be said after a commit."""

    acks: dict[int, Settled]
    news: dict[int, News]
    epoch: int
    k: int


class Service:
    """The durable server and the rules for what peers may ask of it."""

    def __init__(self, durable: DurableServer, agreement: Agreement, log: Log = quiet) -> None:
        self.durable, self.agreement, self._log = durable, agreement, log
        self.terms, self.names, self.wire, self.limits = (
            agreement.terms,
            agreement.names,
            agreement.wire,
            agreement.limits,
        )
        self._federation, self._digest = agreement.federation, agreement.digest
        self._index, self._named = {name: c for c, name in enumerate(self.names)}, dict(enumerate(self.names))
        self._void: dict[int, list[int]] = {}  # declared void by their clients and not yet logged: a line for many
        self._broadcast: EncodedBroadcast | None = None  # the newest, unless the model has moved since
        self._buffers = BufferPool()
        self._long = False
        self._log_notes()
        durable.refuse_beyond(largest(self.wire) / 2)  # a model that the wire cannot carry could be told to nobody

    # -- before anything is journaled ----------------------------------------------------------------------------------

    def index(self, hello: Hello) -> int:
        """Which client this is, or PeerError for one that is not part of this federation."""
        c = self._index.get(hello.name)
        if c is None:
            raise PeerError(
                f'"{hello.name}" is not among the clients of this federation; join as one of those it names'
            )
        if hello.federation and hello.federation != self._federation:
            raise PeerError(f'this is federation "{self._federation}", not "{hello.federation}"; check the address')
        if hello.digest and hello.digest != self._digest:
            raise PeerError(
                f'"{hello.name}" signed off other terms of federation "{self._federation}" than the server has; a changed '
                f"federation needs an id of its own"
            )
        return c

    def terms_for(self, c: int) -> Welcome:
        """The answer to a client that asks for the terms and has not joined."""
        return Welcome(self.agreement.text, self._federation, self.durable.epoch, c, 0, Settled(0))

    def check_federation(self, federation: str, digest: str) -> None:
        """Every message says what it is about."""
        if federation != self._federation or digest != self._digest:
            raise PeerError(f'a message is about another federation or other terms than "{self._federation}"; dropped')

    # -- a batch -------------------------------------------------------------------------------------------------------

    def take(self, batch: Sequence[Submission], connected: Sequence[int]) -> Committed:
        """Apply the messages and commit. What is returned may be said; the answers stand in the items."""
        for item in batch:
            try:
                self._one(item)
                item.taken = True
            except PeerError as error:
                self._refuse(item, error)
        published = self.durable.commit()
        self._log_notes()
        self.log_void(but={item.client for item in batch if isinstance(item.message, VoidRound)})
        joined = [item for item in batch if item.taken and isinstance(item.message, Hello)]
        for item in joined:
            item.answers.append(self._welcome(item.client))
        newcomers = {item.client for item in joined}
        told = {*connected, *newcomers} if published.due else newcomers
        news = self._news(told) if told else {}
        return Committed(dict(published.acks), news, self.durable.epoch, self.durable.k)

    def _one(self, item: Submission) -> None:
        c, message = item.client, item.message
        match message:
            case Incoming(round, data):
                self._update(c, round, data)
            case IncomingSum():
                self._sum(message)
            case Hello():
                item.costly = self._join(c, message)
            case VoidRound(round):
                if self.durable.submit(Voided(round, c, "its bytes are gone")):
                    self._void.setdefault(c, []).append(round)
                else:
                    item.useless = True
            case Silence():
                self.durable.submit(Absent(c))
                self._log("absent", client=self.names[c])
            case Goodbye(reason):
                self.durable.submit(Left(c))
                self._log("left", client=self.names[c], reason=reason)

    def _log_notes(self) -> None:
        """What the durable server has noticed about its files, at its start or since."""
        while self.durable.notes:
            self._log("journal", note=self.durable.notes.pop(0))

    def log_void(self, but: Container[int] = ()) -> None:
        """Say which rounds were declared void, except of those clients that may be in the middle of it."""
        for c in [c for c in self._void if c not in but]:
            rounds = self._void.pop(c)
            found = ranges(rounds)
            self._log("void", client=self.names[c], rounds=found, count=len(rounds), reason="their bytes are gone")

    def _update(self, c: int, round: int, data: Raw) -> None:
        low, high = self._block(round)
        delta = decode(data, self.wire, high - low, finite=False)  # the core looks at what it comes to
        self.limits.check(round, c, delta)
        try:
            self.durable.submit(Received(round, c, self.wire, data, low), delta)
            self._broadcast = None
        except DuplicateUpdate:  # nothing comes of a repeat, but one whose numbers are none is told so
            decode(data, self.wire, high - low)
            raise

    def _sum(self, total: IncomingSum) -> None:
        if any(c >= len(self.names) for _, c in total.pairs):
            raise RefusedSum("a sum has updates of clients that are not part of this federation; refused")
        low, high = self._block(total.pairs[0][0])
        delta = decode(total.data, total.wire, high - low)
        length = length_of(delta)
        longest = sum(self.limits.longest(i, c) for i, c in total.pairs if i < self.terms.rounds)
        if length > longest:
            raise RefusedSum(
                f"a sum of {len(total.pairs)} updates has length {length:.4g}, and under the terms a sound one is not longer "
                f"than {longest:.4g}; refused"
            )
        self.durable.submit(Summed(total.pairs, total.wire, total.data, low), delta)
        self._broadcast = None

    def _block(self, round: int) -> tuple[int, int]:
        if not 0 <= round < self.terms.rounds:
            raise PeerError(
                f"there is no round {round} in a run of {self.terms.rounds} rounds; dropped, check the terms"
            )
        return self.terms.block(round, len(self.durable.model))

    def _join(self, c: int, hello: Hello) -> bool:
        """Register the instance, learn from what it has seen whether this server is an older copy, and count it as here.

        True if a new epoch begins.
        """
        self.durable.submit(Registered(c, hello.instance))
        begun = self.durable.witness(c, hello.epoch, hello.k, hello.acknowledged, hello.last)
        if begun:
            self._log("new_epoch", client=self.names[c], k=hello.k, epoch=hello.epoch)
        self.durable.submit(Back(c, hello.last))
        return begun

    def _welcome(self, c: int) -> Welcome:
        durable = self.durable
        start = durable.start_of(c)
        self._log("joined", client=self.names[c], start=start, epoch=durable.epoch, k=durable.k)
        return Welcome(self.agreement.text, self._federation, durable.epoch, c, start, durable.settled(c))

    def _refuse(self, item: Submission, error: PeerError) -> None:
        c, message = item.client, item.message
        if isinstance(error, DuplicateUpdate):
            item.useless = True
            return
        if isinstance(message, IncomingSum):
            self._refuse_sum(item, message, error)
            return
        name, reason = self.names[c], named(str(error), self._named)
        round = message.round if isinstance(message, Incoming | VoidRound) else None
        alarm = isinstance(error, ConflictingUpdate | OtherInstance)
        self._log("alarm" if alarm else "refused", client=name, round=round, reason=reason)
        if isinstance(message, Incoming) and not alarm:
            with suppress(PeerError):  # a pair that cannot even be void: nobody waits for it
                self.durable.submit(Voided(message.round, c, reason))
        if isinstance(message, Silence):
            return
        final = alarm or isinstance(message, Hello)
        item.answers.append(Refusal(reason, final, None if final else round))

    def _refuse_sum(self, item: Submission, total: IncomingSum, error: PeerError) -> None:
        """Pairs at fault are final, as for an update; if nobody knows whose fault it is, the aggregator finds out."""
        alarm, reason = isinstance(error, ConflictingUpdate), named(str(error), self._named)
        shown = [[i, self._named.get(c, c)] for i, c in total.pairs[:20]]
        self._log("alarm" if alarm else "refused", pairs=shown, reason=reason)
        pairs = error.pairs if isinstance(error, RefusedSum) else ()
        if len(total.pairs) == 1:
            pairs = total.pairs
        for i, c in pairs if not alarm else ():
            with suppress(PeerError):  # a pair that cannot even be void: nobody waits for it
                self.durable.submit(Voided(i, c, reason))
        item.answers.append(SumRefusal(total.id, pairs, reason))

    # -- what goes out -------------------------------------------------------------------------------------------------

    def _news(self, told: set[int]) -> dict[int, News]:
        durable, broadcast = self.durable, self._broadcast
        if broadcast is None or (broadcast.k, broadcast.epoch) != (durable.k, durable.epoch):
            broadcast = self._broadcast = EncodedBroadcast(
                durable.k, durable.epoch, self._on_the_wire(durable.model), self.wire
            )
            self._look_how_long(durable.model)
        return {c: News(broadcast, durable.settled(c)) for c in told}

    def _look_how_long(self, model: Vector) -> None:
        """Private clients begin no round beyond their certificate's bound and go on without a word; so it is said here, once."""
        made = self.limits.certificate
        if made is None or self._long == (long := (length := length_of(model)) > made.model_bound):
            return
        self._long = long
        beyond = "beyond the bound: the run may be diverging, and clients begin at models shortened to it"
        words = (
            f"the model has length {length:.4g}, {beyond if long else 'again within the bound'} of {made.model_bound:g}"
        )
        self._log("long_model" if long else "model_in_bounds", k=self.durable.k, reason=words)

    def _on_the_wire(self, model: Vector) -> Raw:
        try:
            return encoded(model, self.wire, self._buffers)
        except UsageError:  # only a journal of an older version can hold more; such a run is lost, the server is not
            most = largest(self.wire)
            return encoded(np.clip(model, -most, most), self.wire)

    def waits_for(self, c: int) -> bool:
        """Does the round that is due wait for this client?"""
        k = self.durable.k
        here = k < self.terms.rounds and self.durable.present[c] and self.terms.share(k, c) > 0
        return bool(here and k not in self.durable.settled(c))

    @property
    def finished(self) -> bool:
        return self.durable.k == self.terms.rounds
