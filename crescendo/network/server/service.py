"""Service: the server's side of a networked federation, without sockets. It applies each message to the durable server.

Messages arrive in batches. `Service.process` applies and commits a batch, in a separate thread. It returns the messages that the
server may send now that the batch is on disk: answers, acknowledgements and the broadcast that is due. The server sends nothing
of a batch before that, and only `process` changes the durable server.

A message that the core refuses changes nothing. If it was an update, its pair becomes void, permanently, and both sides log it,
so a round never waits for an update that will not be taken. The same pair with other bytes is an alarm: two instances use one
name, or a peer forges. An update of a round that was already declared void is dropped, and both sides log that too. Only a
repetition of an applied message is dropped silently.
"""

import asyncio
import itertools
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from crescendo import system
from crescendo.core.arrays import Vector
from crescendo.core.buffer_pool import BufferPool
from crescendo.core.messages import ConflictingUpdate, DuplicateUpdate, RefusedSum, Settled, Word
from crescendo.core.vectors import Raw, decode, encoded, largest
from crescendo.errors import PeerError, UsageError
from crescendo.federation.agreement import Agreement
from crescendo.logs import Log, quiet
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.tree_messages import SumRefusal
from crescendo.network.protocol.versions import OURS, program_of
from crescendo.network.protocol.wire_messages import FromServer, Goodbye, Hello, Refusal, VoidRound, Welcome
from crescendo.network.server.session import MakeSession, Session
from crescendo.network.server.waiting.returns import Returns
from crescendo.network.transport.wording import named, ranges
from crescendo.privacy.mechanisms.norm_limits import length_of
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.journal_entries import Absent, Back, Left, Received, Registered, Summed, Voided
from crescendo.storage.journal.server_state import OtherInstance
from crescendo.storage.upkeep.disk_room import DiskRoom, Room

NO_ROOM = Refusal("the server's disk is nearly full, so it takes nothing new until there is room; come back later")
MOST_GAPS = 1024  # between the settled rounds of one client
MOST_VOIDED = (
    100  # rounds of one client that become void at once: each gets an answer, and the queue of answers is short
)
NEVER_CAME = f"it did not come, and later rounds of this client did, with more than {MOST_GAPS} gaps between them"

Message = Hello | Received | Summed | VoidRound | Goodbye | Absent


@dataclass(eq=False, slots=True)
class Submission:
    """A message of a client (-1: of an aggregator) on its way to the journal, and its outcome."""

    client: int
    message: Message
    sum_id: str = ""
    answers: list[FromServer | SumRefusal] = field(default_factory=list)
    taken: bool = False
    useless: bool = False  # it changed nothing
    costly: bool = False  # it made the server begin a new epoch
    done: asyncio.Future[None] | None = None  # set when it is on disk or refused
    make: MakeSession | None = None  # makes the session of a client that joins
    session: Session | None = None  # the session, once the client has joined

    @property
    def size(self) -> int:
        """Bytes of its vector."""
        return len(self.message.data) if isinstance(self.message, Received | Summed) else 0


class Committed(NamedTuple):
    """The messages that the server may send after a commit: ``acks``, and the ``broadcast``, if due, to the ``receivers``.

    The clients in ``off_probation`` must join again; from then on rounds wait for them.
    """

    acks: Mapping[int, Settled]
    epoch: int
    broadcast: EncodedBroadcast | None
    receivers: Mapping[int, Settled]
    off_probation: Sequence[int] = ()


class Service:
    """The durable server and the rules for what peers may ask of it."""

    version = OURS  # sent to its peers

    def __init__(
        self, durable: DurableServer, agreement: Agreement, log: Log = quiet, disk: DiskRoom | None = None
    ) -> None:
        self.durable, self.agreement, self._log = durable, agreement, log
        self._disk, self._room, self._measuring = disk, Room.ENOUGH, system.Lock()
        self._names = dict(enumerate(agreement.names))
        self._void: dict[int, list[int]] = {}  # declared void by their clients, to be logged together
        self._broadcast: EncodedBroadcast | None = None  # the newest, unless the model has moved since
        self._buffers = BufferPool()
        self._beyond_bound = False
        self.returns, self._off_probation = Returns(), list[int]()
        self._logged: set[tuple[str, int, int]] = set()  # events of pairs logged since the start
        self._log_notes()
        durable.refuse_beyond(largest(agreement.wire) / 2)  # a model that the wire cannot carry could not be sent

    def process(self, batch: Sequence[Submission], connected: Sequence[int]) -> Committed:
        """Apply the messages and commit. The answers are put into the submissions."""
        self.measure_disk()
        for submission in batch:
            if self.turns_away and isinstance(submission.message, Hello | Received | Summed | VoidRound):
                submission.answers.append(NO_ROOM)
                continue
            try:
                self._apply(submission)
                submission.taken = True
            except PeerError as error:
                self._refuse(submission, error)
        self._close_gaps(batch)
        published = self.durable.commit()
        self._log_notes()
        self.log_void(but={one.client for one in batch if isinstance(one.message, VoidRound)})
        joined = [(one, one.message) for one in batch if one.taken and isinstance(one.message, Hello)]
        for submission, hello in joined:
            submission.answers.append(self._welcome(submission.client, hello))
        receivers = {*(one.client for one, _ in joined), *(connected if published.due else ())}
        word = self.durable.word(receivers)
        over, self._off_probation = self._off_probation, []
        return Committed(published.acks, word.epoch, self._encoded(word) if receivers else None, word.yours, over)

    def log_void(self, but: Container[int] = ()) -> None:
        """Log the rounds that clients declared void, except those of clients that may declare more."""
        for c in [c for c in self._void if c not in but]:
            rounds = self._void.pop(c)
            found = ranges(rounds)
            self._log("void", client=self._names[c], rounds=found, count=len(rounds), reason="their bytes are gone")

    @property
    def turns_away(self) -> bool:
        """True if the disk is full: the server takes no message that the journal must keep, and clients come back later.

        After the last round there are no new messages, and clients must be admitted to receive the end.
        """
        return self._room is Room.NONE and not self.durable.finished

    def measure_disk(self) -> None:
        """Measure the free disk space, and log a change of its state. Any thread may call this."""
        if self._disk is None:
            return
        with self._measuring:
            before, self._room = self._room, self._disk.measured()
            if self._room is before:
                return
            facts = {"free": str(self._disk.usage), "folder": str(self.durable.folder)}
            facts["reserve"] = f"{self._disk.reserve / 1e6:,.0f} MB"
            if self._room is Room.NONE:
                self._log("disk_full", **facts)
            elif before is Room.NONE:
                self._log("disk_room", **facts)
            elif self._room is Room.LITTLE:
                self._log("disk_low", **facts)

    def waits_for(self, c: int) -> bool:
        """True if the round that is due waits for this client."""
        k, terms = self.durable.k, self.agreement.terms
        here = k < terms.rounds and self.durable.present[c] and terms.share(k, c) > 0
        return bool(here and k not in self.durable.settled(c))

    def status(self) -> dict[str, Any]:
        """Return the state of the federation as a whole; quick enough for a call every second."""
        agreement, durable = self.agreement, self.durable
        return {
            "federation": agreement.federation,
            "terms": agreement.digest,
            "k": durable.k,
            "rounds": agreement.terms.rounds,
            "epoch": durable.epoch,
            "finished": durable.finished,
            "late": durable.late,
            "mechanism": agreement.mechanism,
            "delta": agreement.delta,
            "disk": None if self._disk is None else self._room.name.lower(),
            "disk_free": None if self._disk is None else round(self._disk.usage.free / self._disk.usage.total, 4),
            "disk_free_bytes": None if self._disk is None else int(self._disk.usage.free),
            "disk_reserve_bytes": None if self._disk is None else int(self._disk.reserve),
        }

    # -- one message ---------------------------------------------------------------------------------------------------

    def _apply(self, submission: Submission) -> None:
        c, message = submission.client, submission.message
        match message:
            case Received():
                self._update(message)
                self._accepted(message.client)
            case Summed():
                self._sum(message)
                for client in {client for _, client in message.pairs}:
                    self._accepted(client)
            case Hello():
                submission.costly = self._join(c, message)
            case VoidRound(round):
                if self.durable.submit(Voided(round, c, "its bytes are gone")):
                    self._void.setdefault(c, []).append(round)
                else:
                    submission.useless = True
            case Absent():
                if self.durable.submit(message):
                    self.returns.absent(c)
                    self._log("absent", client=self._names[c])
            case Goodbye(reason):
                self.durable.submit(Left(c))
                self._log("left", client=self._names[c], reason=reason)

    def _log_notes(self) -> None:
        """Log what the durable server has noticed about its files, at its start or since."""
        while self.durable.notes:
            self._log("journal", note=self.durable.notes.pop(0))

    def _update(self, update: Received) -> None:
        numbers = self._numbers(update.round)
        delta = decode(update.data, update.wire, numbers, finite=False)  # the core checks the resulting model
        self.agreement.limits.check(update.round, update.client, delta)
        try:
            self.durable.submit(update, delta)
            self._broadcast = None
        except DuplicateUpdate:  # a duplicate is dropped, but one with numbers that are not finite is refused
            decode(update.data, update.wire, numbers)
            raise

    def _sum(self, total: Summed) -> None:
        if any(c not in self._names for _, c in total.pairs):
            raise RefusedSum("a sum has updates of clients that are not part of this federation; refused")
        delta = decode(total.data, total.wire, self._numbers(total.pairs[0][0]))
        limits, rounds, length = self.agreement.limits, self.agreement.terms.rounds, length_of(delta)
        longest = sum(limits.longest(i, c) for i, c in total.pairs if i < rounds)
        if length > longest:
            raise RefusedSum(
                f"a sum of {len(total.pairs)} updates has length {length:.4g}, and under the terms a sound one is not longer "
                f"than {longest:.4g}; refused"
            )
        self.durable.submit(total, delta)
        self._broadcast = None

    def _numbers(self, round: int) -> int:
        """Return the length of an update of that round."""
        terms = self.agreement.terms
        if not 0 <= round < terms.rounds:
            raise PeerError(f"there is no round {round} in a run of {terms.rounds} rounds; dropped, check the terms")
        return self.agreement.numbers(round)

    def _accepted(self, c: int) -> None:
        if self.returns.accepted(c):
            self._off_probation.append(c)
            self._log("off_probation", client=self._names[c])

    def _join(self, c: int, hello: Hello) -> bool:
        """Register the instance, check by the rounds it has seen if this server is an older copy, and count it as present.

        A client on probation stays absent. Return True if a new epoch begins.
        """
        self.durable.submit(Registered(c, hello.instance))
        begun = self.durable.witness(c, hello.epoch, hello.k, hello.acknowledged, hello.last)
        if begun:
            self._log("new_epoch", client=self._names[c], k=hello.k, epoch=hello.epoch)
        self.returns.joined(c)
        if self._is_held_off(c):
            self.durable.check_last(c, hello.last)
        else:
            self.durable.submit(Back(c, hello.last))
        return begun

    def _is_held_off(self, c: int) -> bool:
        """True if client c is on probation; after the last round no client is."""
        return self.returns.on_probation(c) and not self.durable.finished and not self.durable.present[c]

    def _welcome(self, c: int, hello: Hello) -> Welcome:
        durable, agreement = self.durable, self.agreement
        start, first = durable.start_of(c), durable.last(c) + 1
        if self._is_held_off(c):  # it continues its current round
            start = next(durable.settled(c).gaps(hello.last + 1, agreement.terms.rounds), (agreement.terms.rounds,))[0]
            self._log("on_probation", client=self._names[c], start=start, joins=self.returns.joins(c))
        elif durable.is_void(first, c):  # it was absent
            self._log("rounds_void", client=self._names[c], first=first, next=start)
        version = program_of(hello.version)
        self._log("joined", client=self._names[c], start=start, epoch=durable.epoch, k=durable.k, version=version)
        return Welcome(agreement.text, agreement.federation, durable.epoch, c, start, durable.settled(c), self.version)

    # -- refusals ------------------------------------------------------------------------------------------------------

    def _refuse(self, submission: Submission, error: PeerError) -> None:
        c, message = submission.client, submission.message
        if isinstance(error, DuplicateUpdate):
            submission.useless = True
            self._answer_void(submission, error)
            return
        if isinstance(message, Summed):
            self._refuse_sum(submission, message, error)
            return
        reason = named(str(error), self._names)
        round = message.round if isinstance(message, Received | VoidRound) else None
        alarm = isinstance(error, ConflictingUpdate | OtherInstance)
        if alarm or round is None or self._is_news("refused", c, round):
            self._log("alarm" if alarm else "refused", client=self._names[c], round=round, reason=reason)
        if isinstance(message, Received) and not alarm:
            self._make_void(message.round, c, reason)
        if not isinstance(message, Absent):
            final = alarm or isinstance(message, Hello)
            submission.answers.append(Refusal(reason, final, None if final else round))

    def _answer_void(self, submission: Submission, error: DuplicateUpdate) -> None:
        """Log updates of rounds that were void before they arrived, and inform the sender, which may have charged them."""
        reason = "the round was declared void before its update came; dropped, and never applied"
        for i, c in error.void:
            if self._is_news("void_update", c, i):
                self._log("void_update", client=self._names[c], round=i, reason=reason)
        if error.void and isinstance(submission.message, Summed):
            submission.answers.append(SumRefusal(submission.sum_id, error.void, reason))
        elif error.void:
            submission.answers.append(Refusal(reason, False, error.void[0][0]))

    def _is_news(self, event: str, c: int, round: int) -> bool:
        """True if the log lacks this event of this pair, so that a client that repeats it fills one line only. All rounds
        beyond the run count as one."""
        pair = event, c, min(round, self.agreement.terms.rounds)
        if pair in self._logged:
            return False
        self._logged.add(pair)
        return True

    def _refuse_sum(self, submission: Submission, total: Summed, error: PeerError) -> None:
        """Refuse a sum. Pairs at fault become void, as for an update; if none is known, the aggregator has to find them."""
        alarm, reason = isinstance(error, ConflictingUpdate), named(str(error), self._names)
        shown = [[i, self._names.get(c, c)] for i, c in total.pairs[:20]]
        self._log("alarm" if alarm else "refused", pairs=shown, reason=reason)
        pairs = error.pairs if isinstance(error, RefusedSum) else ()
        if len(total.pairs) == 1:
            pairs = total.pairs
        for i, c in pairs if not alarm else ():
            self._make_void(i, c, reason)
        submission.answers.append(SumRefusal(submission.sum_id, pairs, reason))

    def _close_gaps(self, batch: Sequence[Submission]) -> None:
        """Void the oldest open rounds of clients with more gaps than a sound client leaves.

        Each gap makes every acknowledgement longer. A client sends missing updates before new ones, and an aggregator takes at
        most `HELD_PER_CHILD` of its rounds before it has passed on the first, so a sound client leaves fewer gaps.
        """
        for one in batch:
            if isinstance(one.message, Received) and one.taken:
                one.answers += [Refusal(NEVER_CAME, False, i) for i in self._close_gap(one.client)]
            elif isinstance(one.message, Summed) and one.taken:
                for c in {c for _, c in one.message.pairs}:
                    self._close_gap(c)

    def _close_gap(self, c: int) -> list[int]:
        settled = self.durable.settled(c)
        if len(settled.beyond) <= MOST_GAPS:
            return []
        gaps = settled.gaps(settled.below, settled.beyond[-MOST_GAPS - 1][0])
        open_rounds = (i for first, stop in gaps for i in range(first, stop))
        void = [i for i in itertools.islice(open_rounds, MOST_VOIDED) if self._make_void(i, c, NEVER_CAME)]
        if void:
            self._log("void", client=self._names[c], rounds=ranges(void), count=len(void), reason=NEVER_CAME)
        return void

    def _make_void(self, round: int, c: int, reason: str) -> bool:
        with suppress(PeerError):  # this pair cannot be void, so no round waits for it
            return self.durable.submit(Voided(round, c, reason))
        return False

    # -- broadcasts ----------------------------------------------------------------------------------------------------

    def _encoded(self, word: Word) -> EncodedBroadcast:
        made = self._broadcast
        if made is None or (made.k, made.epoch) != (word.k, word.epoch):
            assert word.model is not None
            made = EncodedBroadcast(word.k, word.epoch, self._on_the_wire(word.model), self.agreement.wire)
            self._log_model_length(word.model)
        self._broadcast = made
        return made

    def _log_model_length(self, model: Vector) -> None:
        """Log once when the model passes the certificate's bound: private clients shorten it and go on silently."""
        made = self.agreement.certificate
        if made is None or self._beyond_bound == (beyond := (length := length_of(model)) > made.model_bound):
            return
        self._beyond_bound = beyond
        where = "beyond the bound: the run may be diverging, and clients begin at models shortened to it"
        words = f"the model has length {length:.4g}, {where if beyond else 'again within the bound'} of {made.model_bound:g}"
        self._log("long_model" if beyond else "model_in_bounds", k=self.durable.k, reason=words)

    def _on_the_wire(self, model: Vector) -> Raw:
        wire = self.agreement.wire
        try:
            return encoded(model, wire, self._buffers)
        except UsageError:  # only a journal of an older version can hold more; that run is lost, but the server goes on
            most = largest(wire)
            return encoded(np.clip(model, -most, most), wire)
