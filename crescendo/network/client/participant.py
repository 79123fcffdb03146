"""Participant: a client's side of a networked federation, without sockets. It connects the worker, the ledger and two threads.

The *loop* thread talks to the server and calls `welcomed`, `hear` and `acknowledged`. Each of these only leaves a note and
returns at once, so a broadcast is stored the moment it arrives, even in the middle of a long round. The *worker* thread runs
`work`: slots in pieces of a few milliseconds, in compiled code that lets the loop run at the same time. Between two pieces it
reads the notes. Of several broadcasts only the newest is kept.

A release has three steps: the worker makes the round's wire bytes; the ledger writes charge and bytes to disk in one transaction;
then the loop sends them. A private round that fails before that is charged without bytes, in one transaction, and is void. It is
never computed again, because a record may have caused the failure.

After a restart a client continues after the last round in *its own ledger*, whatever the server says, and resends, byte for byte,
the updates that the server lacks. It computes nothing before it has received the newest model, because acknowledged updates are
no longer in its outbox. If there is a checkpoint of the current round (`checkpoints`), the client continues from it with the same
records. This is the same round: it gets its noise only at the release, and is charged and released once. The checkpoint is
removed after the transaction. A kill in between leaves the checkpoint of a finished round, which the next start removes.

No round is released between a hello and its welcome. The hello names the client's last round. A server that did not wait for
this client makes the rounds between that one and the one in its welcome void. Therefore `introduce` reads the last round and
holds releases, in one step; `welcomed` sets the next round and allows releases, in one step. The worker may compute meanwhile. A
full round waits, and after the welcome it is released, or it is void and was never charged. A stream that breaks before its
welcome changes nothing: the server may have read the hello, so releases stay held until the next welcome. (A failed round is
charged at once: it has no bytes to lose, and is void whatever the welcome says.)

A run without privacy uses the same ledger: a round then costs an infinite epsilon, which only an infinite budget allows.
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

PIECE = 0.01  # seconds of work between two checks of the notes
MOST_FAILED = 3  # failed rounds in a row; the cause is then hardly a record, and the client stops to save its budget
FAILED = "the round is charged and void, and the client goes on; it is never computed again"


class Participant:
    """One client in one federation. Its ledger has signed the terms."""

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
        self.final: Vector | None = None  # of the finished run, once all updates of this client have arrived
        self.last = ledger.last_round(agreement.federation)
        if self.last >= 0:
            self._go_on()
        if checkpoints is not None:
            checkpoints.resume(self.round, self._resume)

    def _go_on(self) -> None:
        """Set the client's state from its ledger. Epoch -1 makes any broadcast newer than this state."""
        agreement, fresh = self.agreement, self._client.export()
        releases = self._ledger.unacknowledged(agreement.federation)
        sent = [decode(data, agreement.wire, agreement.numbers(i)) for i, data in releases if data is not None]
        state = {**fresh, "round": self.last + 1, "epoch": -1}
        state |= {"sent_rounds": [release.round for release in releases], "sent": sent}
        self._worker.client = Client.restore(agreement.terms, state)
        self._client.resume(self.last + 1)  # passes rounds without a share

    def _resume(self, found: RoundCheckpoint) -> None:
        """Set the client's state from a checkpoint of its next round: its slot, the model it had, and the updates it had sent."""
        terms, state = self.agreement.terms, found.client
        if int(state["me"]) != self.me or not 0 < int(state["h"]) <= terms.share(self.round, self.me):
            raise UsageError("it is at a slot that the round does not have")
        self._worker.resume(Client.restore(terms, dict(state)), found.made)

    def _in_hand(self) -> Exported | None:
        """Return the state of the current round, for a checkpoint."""
        made = self._worker.export()
        return None if made is None else (self._client.export(), made)

    @property
    def _client(self) -> Client:
        client = self._worker.client
        assert isinstance(client, Client)  # a ledger and an outbox go with the core's own algorithm
        return client

    # -- for the loop --------------------------------------------------------------------------------------------------

    def check_alone(self, received: Settled, start: int | None = None) -> None:
        """Refuse to go on if the server has rounds that this ledger lacks: the ledger is an old copy, or another copy is in use.

        The check begins at ``start``, by default that of the last welcome. Earlier rounds after the ledger's last one prove
        nothing, because the server settles rounds that it does not wait for. It knows the last round that it received, and
        checks those itself.
        """
        plan, first = self._plan, max(self.last + 1, self._start if start is None else start)
        ahead = min(received.end, len(plan))
        sent = [i for i in range(first, ahead) if i in received and plan[i] is not None]
        if sent:  # the ledger also knows a round that the worker has released just now
            self._ledger.check_not_behind(self.agreement.federation, sent)

    def to_send(self, received: Settled) -> tuple[list[Release], list[int]]:
        """Return the updates that the server lacks, and the rounds whose bytes are lost, which must be declared void."""
        federation = self.agreement.federation
        lost = self._ledger.void(federation, received)
        return [one for one in self._ledger.unacknowledged(federation) if one.round not in received], lost

    def introduce(self) -> int:
        """Return the last round, for a hello, and hold all releases until a server has `welcomed` this client.

        This waits for a release that is being written.
        """
        with self._releasing:
            self._held = True
            return self.last

    def welcomed(self, start: int) -> None:
        """Continue at round ``start`` and allow releases. The server expects no earlier rounds; they are void, not computed."""
        with self._noting():
            self._start, self._held = max(self._start, start), False

    def hear(self, broadcast: Broadcast) -> None:
        """Store a broadcast; the worker takes up the newest one between two pieces of work."""
        with self._noting():
            if self._news is None or (broadcast.epoch, broadcast.k) >= (self._news.epoch, self._news.k):
                self._news = broadcast

    def acknowledged(self, settled: Settled, epoch: int, k: int | None = None) -> None:
        """Note that the server has these rounds on disk."""
        with self._noting():
            self._acked = settled
            self.seen.note(epoch, k, settled)

    def stop(self) -> None:
        """Stop after the current piece of work and the current write."""
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
        """Work until stopped or until the run is over. Pass each release or void round to ``tell`` once it is on disk."""
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
        """Wait for the next work and return it; None if the client is stopped or the run is over."""
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
        """Return the slots to run, or a `Work` of 0 slots for a full round that may be released now."""
        if self._worker.round_is_full:
            return Work(self.round, self._client.h, 0) if self._may_release() else None
        todo = self._worker.next()
        return todo if isinstance(todo, Work) else None

    def _may_release(self) -> bool:
        """True if the current round may be charged: no hello waits for its welcome, and the last welcome did not skip it."""
        with self._wake:
            return not self._held and self._start <= self.round

    def _take_up_notes(self) -> None:
        """Handle the notes of the loop. The lock covers only fetching them: the loop never waits for work on a large model."""
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
        """Run a piece of a round; return the round's release if this was its last piece.

        Under privacy no error in a round ends the client, because a record may have caused it.
        """
        try:
            if todo.slots:
                self._run(todo)
            done = self._release() if self._worker.round_is_full else None
        except BaseException as error:  # a user's model may even call sys.exit
            event = self._plan[todo.round]
            if event is None or not event.sigma or self._ledger.is_closed:
                raise  # without privacy, or because a write failed: no record caused that, and nothing was sent
            return self._give_up(todo.round, event, error)
        if done is None and self._checkpoints is not None:
            self._checkpoints.write_if_due(self._in_hand)
        return done

    def _give_up(self, round: int, event: Event, error: BaseException) -> Release:
        """Charge the round as void and go on with the next. The error's text stays out of the log: it may quote a record."""
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
        """Remove the checkpoint of a round that the ledger has charged or that is void."""
        if self._checkpoints is not None:
            self._checkpoints.remove()

    def _release(self) -> Release | None:
        """Charge the round and write its bytes to disk; only then may they be sent. Return None if it may not be charged now."""
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
    """Return the file and line that raised the error."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown"
