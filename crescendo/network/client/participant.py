"""A client's side of a networked federation, without sockets: its worker, its ledger, and what its two threads tell each other.

Two threads. The *loop* talks to the server and calls `welcomed`, `hear` and `acknowledged`; each only leaves a note and
returns at once, so that a broadcast is stored the moment it arrives, in the middle of a long round too. The *worker* runs
`work`: slots in pieces of a few milliseconds, in compiled code that lets the loop run beside it, and between two pieces it
takes up the notes. Of several broadcasts only the newest is kept.

The order of a release: the round's wire bytes are made; charge and bytes go to disk in one transaction (the ledger); then the
loop is told, and sends. A private round that fails before that is charged without bytes, in one transaction, and is void: that
it failed may be a record's doing, so it is never computed again.

A client that starts again goes on after the last round in *its own ledger*, whatever the server says, and sends again, byte for
byte, what the server lacks. It computes nothing before it has heard the newest model, since what was acknowledged is no longer
in its outbox. If a checkpoint of the round in hand was written (`checkpoints`), it goes on with the same records where that was
written, and it is the same round: it has no noise before it is released, and it is charged and released once. The checkpoint goes
after the transaction, so that a kill leaves one of a round that is over, which the next start removes.

No round is released between a hello and its welcome. The hello says which round was the last, and a server that did not wait
for this client makes void what lies between that round and the one that it names in the welcome. `introduce` therefore takes the
last round and holds releases, in one step; `welcomed` says where to go on and lets them go, in one step. The worker may compute
meanwhile, and a round that is full waits: it is released after the welcome, or was never charged and is void. Streams that break
before their welcome change nothing: their hello may have been read, so releases stay held until one is welcome. (A round that
failed is charged at once all the same: it has no bytes to lose, and is void whatever the welcome says.)

Without privacy it is the same ledger: a round then costs an infinite epsilon, which only an infinite budget allows.
"""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from crescendo import system
from crescendo.core.arrays import Vector
from crescendo.core.client import Client, Work
from crescendo.core.messages import Broadcast, Settled
from crescendo.core.vectors import decode, encode
from crescendo.errors import CrescendoError, PeerError, UsageError
from crescendo.federation.agreement import Agreement
from crescendo.logs import Log, quiet
from crescendo.network.client.checkpoints import Checkpoints, Exported
from crescendo.network.client.seen import Seen
from crescendo.network.transport.wording import named
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo.storage.ledger.outbox import Release
from crescendo.storage.round_checkpoint import RoundCheckpoint
from crescendo.worker import Worker
from crescendo_dp.events import Event

PIECE = 0.01  # seconds of work between two looks at the notes
MOST_FAILED = 3  # rounds in a row: then it is hardly a record, and the budget is better kept
FAILED = "the round is charged and void, and the client goes on; it is never computed again"


class Participant:
    """One client in one federation. Its ledger has signed the terms off."""

    def __init__(
        self,
        agreement: Agreement,
        me: int,
        worker: Worker,
        ledger: Ledger,
        seen: Seen | None = None,
        log: Log = quiet,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.agreement, self.me, self.name, self._plan = agreement, me, agreement.names[me], agreement.plan(me)
        self.seen = Seen(None) if seen is None else seen
        self._worker, self._ledger, self._log, self._checkpoints = worker, ledger, log, checkpoints
        self._wake = system.Condition()
        self._releasing = system.Lock()  # held while a round is charged, and while a hello takes the last round
        self._news: Broadcast | None = None
        self._acked: Settled | None = None
        self._start = 0
        self._heard = self._stopped = self._noted = self._held = False
        self._slots, self._failed = 64, 0
        self._open = {release.round for release in ledger.unacknowledged(agreement.federation)}
        self.final: Vector | None = None  # of the finished run, once everything of this client has arrived
        self.last = ledger.last_round(agreement.federation)
        if self.last >= 0:
            self._go_on()
        if checkpoints is not None:
            checkpoints.resume(self.round, self._resume)

    def _go_on(self) -> None:
        """Put the client where its ledger says it is. Any broadcast is newer than what it knows now, so epoch -1."""
        agreement, fresh = self.agreement, self._client.export()
        releases = self._ledger.unacknowledged(agreement.federation)
        sent = [decode(data, agreement.wire, agreement.numbers(i)) for i, data in releases if data is not None]
        state = {**fresh, "round": self.last + 1, "epoch": -1}
        state |= {"sent_rounds": [release.round for release in releases], "sent": sent}
        self._worker.client = Client.restore(agreement.terms, state)
        self._client.resume(self.last + 1)  # passes rounds without a share

    def _resume(self, found: RoundCheckpoint) -> None:
        """Put the client where a checkpoint of its next round says it was: at a slot of it, with what it had heard and sent."""
        terms, state = self.agreement.terms, found.client
        if int(state["me"]) != self.me or not 0 < int(state["h"]) <= terms.share(self.round, self.me):
            raise UsageError("it is at a slot that the round does not have")
        self._worker.resume(Client.restore(terms, dict(state)), found.made)

    def _in_hand(self) -> Exported | None:
        """The round in hand, for a checkpoint."""
        made = self._worker.export()
        return None if made is None else (self._client.export(), made)

    @property
    def _client(self) -> Client:
        client = self._worker.client
        assert isinstance(client, Client)  # a ledger and an outbox go with the core's own algorithm
        return client

    # -- for the loop --------------------------------------------------------------------------------------------------

    def check_alone(self, received: Settled, start: int | None = None) -> None:
        """Refuse to go on if the server has rounds of this client that its ledger lacks: an older copy, or one of two at work.

        Between the last round and ``start`` (else that of the welcome) the server has settled rounds because it did not wait for
        them, which shows nothing: of those the server, which knows the last round that it received, is the judge.
        """
        plan, first = self._plan, max(self.last + 1, self._start if start is None else start)
        ahead = min(received.end, len(plan))
        sent = [i for i in range(first, ahead) if i in received and plan[i] is not None]
        if sent:  # the ledger knows, if the worker has released something this instant
            self._ledger.check_not_behind(self.agreement.federation, sent)

    def to_send(self, received: Settled) -> tuple[list[Release], list[int]]:
        """What the server lacks: the outbox's bytes, and the rounds whose bytes are gone, to be declared void."""
        federation = self.agreement.federation
        lost = self._ledger.void(federation, received)
        return [one for one in self._ledger.unacknowledged(federation) if one.round not in received], lost

    def introduce(self) -> int:
        """The last round, for a hello. From now on nothing is released until a server has `welcomed` this client.

        It waits for a release that is being written.
        """
        with self._releasing:
            self._held = True
            return self.last

    def welcomed(self, start: int) -> None:
        """The server waits for nothing of this client before round ``start``: rounds between are void, not computed."""
        with self._noting():
            self._start, self._held = max(self._start, start), False

    def hear(self, broadcast: Broadcast) -> None:
        """Store a broadcast; the newest one is taken in between two pieces of work."""
        with self._noting():
            if self._news is None or (broadcast.epoch, broadcast.k) >= (self._news.epoch, self._news.k):
                self._news = broadcast

    def acknowledged(self, settled: Settled, epoch: int, k: int | None = None) -> None:
        """The server has these rounds on disk."""
        with self._noting():
            self._acked = settled
            self.seen.note(epoch, k, settled)

    def stop(self) -> None:
        """Finish the piece and the write in hand, and no more."""
        with self._noting():
            self._stopped = True

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Leave a note for the worker."""
        with self._wake:
            yield
            self._noted = True
            self._wake.notify()

    @property
    def round(self) -> int:
        return self._client.round

    # -- for the worker ------------------------------------------------------------------------------------------------

    def work(self, tell: Callable[[Release], None], ended: Callable[[], None] = lambda: None) -> None:
        """Work until stopped or until the run is over. ``tell`` gets each release, or void round, once it is on disk."""
        try:
            while (todo := self._next()) is not None:
                done = self._attempt(todo)
                if done is not None:
                    tell(done)
        except CrescendoError as error:
            error.args = (named(str(error), {self.me: self.name}),)
            raise
        ended()

    def _next(self) -> Work | None:
        """The next thing to do, once there is one; None when there is nothing more."""
        while True:
            self._take_up_notes()
            if self._stopped or self.final is not None:
                return None
            todo = self._todo() if self._heard else None
            if todo is not None:
                return todo
            with self._wake:
                while not self._noted:
                    self._wake.wait()

    def _todo(self) -> Work | None:
        """Slots to run, or none of a round that is full and may be released now."""
        if self._worker.round_is_full:
            return Work(self.round, self._client.h, 0) if self._may_release() else None
        todo = self._worker.next()
        return todo if isinstance(todo, Work) else None

    def _may_release(self) -> bool:
        """Whether the round in hand may be charged: no hello waits for its welcome, and the newest has not passed it by."""
        with self._wake:
            return not self._held and self._start <= self.round

    def _take_up_notes(self) -> None:
        """What the loop has left. It is only fetched under the lock: the loop never waits for work on a large model."""
        with self._wake:
            start, news, acked = self._start, self._news, self._acked
            self._news = self._acked = None
            self._noted = False
        client = self._client
        if start > client.round:
            self._log("rounds_void", first=client.round, next=start)
            self._worker.restart_round()
            client.resume(start)
            self._forget_checkpoint()
        if news is not None:
            try:
                self._worker.receive(news)
                self._heard = True
            except PeerError as error:
                self._log("refused_broadcast", k=news.k, reason=str(error))
        if acked is not None:
            self._ledger.acknowledge(self.agreement.federation, acked)
            self.seen.keep()
            self._open = {i for i in self._open if i not in acked}
        if client.k == self.agreement.terms.rounds and not self._open:
            self.final = client.export()["base"]

    def _attempt(self, todo: Work) -> Release | None:
        """A piece of a round, and the round's release if that was its last piece.

        Under privacy nothing that is raised here ends the client: it may have been raised because of a record.
        """
        try:
            if todo.slots:
                self._run(todo)
            done = self._release() if self._worker.round_is_full else None
        except BaseException as error:  # a user's own model may even call sys.exit
            event = self._plan[todo.round]
            if event is None or not event.sigma or self._ledger.is_closed:
                raise  # without privacy; or a write failed: that is the disk's doing, and nothing was sent
            return self._give_up(todo.round, event, error)
        if done is None and self._checkpoints is not None:
            self._checkpoints.write_if_due(self._in_hand)
        return done

    def _give_up(self, round: int, event: Event, error: BaseException) -> Release:
        """Charge the round as void and go on with the next. The log does not say what was raised: that may be about a record."""
        with self._releasing:
            self._ledger.charge_void(self.agreement.federation, round, event)
            self.last = round
            self._forget_checkpoint()
        self._client.give_up(round)
        self._worker.restart_round()
        self._failed += 1
        name, place = type(error).__name__, _place_of(error)
        self._log("round_failed", round=round, error=name, at=place, says=FAILED)
        if self._failed == MOST_FAILED:
            raise UsageError(
                f"{MOST_FAILED} rounds in a row failed on this machine, the last with {name} at {place}; they are charged and "
                f"void, so mend what fails before you start this client again"
            ) from error
        return Release(round)

    def _run(self, todo: Work) -> None:
        slots = min(todo.slots, self._slots)
        began = system.perf_counter()
        self._worker.run(slots)
        took = system.perf_counter() - began
        if took > PIECE:
            self._slots = max(1, slots // 2)
        elif took < PIECE / 2 and slots == self._slots:
            self._slots *= 2
        if self._checkpoints is not None:
            self._checkpoints.worked(took)

    def _forget_checkpoint(self) -> None:
        """The round in hand is over or void, and the ledger knows: nothing of it stays on disk but what is sent."""
        if self._checkpoints is not None:
            self._checkpoints.remove()

    def _release(self) -> Release | None:
        """The round's bytes, charged and on disk; only then may they be sent. None if they may not be charged now."""
        with self._releasing:
            if not self._may_release():
                return None
            agreement, update = self.agreement, self._worker.finish()
            event = self._plan[update.round]
            assert event is not None, "a round without a share has no update"
            data = self._ledger.release(agreement.federation, update.round, event, encode(update.delta, agreement.wire))
            self._open.add(update.round)
            self.last, self._failed = update.round, 0
            self._forget_checkpoint()
        return Release(update.round, data)


def _place_of(error: BaseException) -> str:
    """The file and line that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown"
