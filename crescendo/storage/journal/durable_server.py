"""A server that forgets nothing it has said: the core's server over a journal.

`submit` checks an entry, applies it in memory and keeps its bytes; `commit` writes them and only then publishes: what
`broadcast`, `settled`, `k`, `epoch` and `model` say is what was published, never what is only in memory. An entry that is refused
(`PeerError`) leaves no trace. So a runtime's loop is: submit the messages that have come; commit; send what `Published` says.
`JournalFailed` means: end the process.

A folder holds the journal, snapshots and a lock. Opening it again replays the journal from the newest sound snapshot: the same
entries in the same order, so the same state bit for bit. `replay` adds the model up from the first entry on, by itself.

Opened from an older state (a tail that had to be cut, a folder put back from a backup) the server may lack what it once said.
It sees the first when it opens, the second from what a client has seen (`witness`); either begins a new epoch, in which clients
accept a smaller k and send again what is missing.

Any thread may call. While one commits, others go on reading and submitting: the disk and the arithmetic run side by side.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from crescendo import system
from crescendo.core.arrays import Bools, Floats, Vector
from crescendo.core.messages import Broadcast, Settled, Word
from crescendo.core.settled import SettledRounds
from crescendo.core.terms import Terms
from crescendo.errors import CrescendoError, DataError, Refused, UsageError
from crescendo.storage.journal.journal import SEGMENT_BYTES, Journal, lock_folder
from crescendo.storage.journal.journal_entries import (
    Absent,
    Back,
    Entry,
    NewEpoch,
    Opened,
    Received,
    Registered,
    Summed,
    Voided,
    from_bytes,
    to_bytes,
)
from crescendo.storage.journal.segments import JournalDamaged
from crescendo.storage.journal.server_state import ServerState
from crescendo.storage.journal.snapshots import KEPT, Snapshot
from crescendo.whole_files import sync_folder

SNAPSHOT_BYTES = 64 << 20  # of journal between snapshots, or 16 times the model's if that is more
SNAPSHOT_ENTRIES = 50_000


class Published(NamedTuple):
    """What a commit made public: whether a broadcast is due to all, and the settled rounds of each client whose set changed."""

    due: bool
    acks: dict[int, Settled]


class _News(NamedTuple):
    """The state as it is in memory, to be published once it is on disk: a word to the clients of which something changed, how
    many updates were late, who is present, and what a client that comes now starts the round from, if that is not the newest."""

    word: Word
    late: int
    present: Bools
    start: tuple[Floats, SettledRounds] | None


class DurableServer:
    """The federation in ``folder``: begun there with ``model`` if it is empty, else resumed.

    ``terms`` is the canonical text that was agreed on, ``make`` builds `Terms` from it; a folder of other terms is refused.
    ``present`` are the clients that rounds wait for from the start (all, if not given). With ``prune`` each snapshot removes the
    journal before the last but one: the folder stays small, and cannot be replayed from its first entry.
    """

    def __init__(
        self,
        folder: str | Path,
        terms: str,
        make: Callable[[str], Terms],
        model: Vector | None = None,
        present: Iterable[int] | None = None,
        *,
        prune: bool = False,
        snapshot_bytes: int | None = None,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.folder, self.notes = Path(folder), list[str]()
        self._terms, self._prune = terms, prune
        self.digest = hashlib.sha256(terms.encode()).hexdigest()  # of the canonical text
        # Taken in this order: one commit at a time; the state and the records; what is published.
        self._commits, self._guard, self._publishing = system.RLock(), system.RLock(), system.Lock()
        self.model: Floats = np.zeros(0)
        self._start: tuple[Floats, SettledRounds] | None = None
        self.k = self.epoch = self.late = 0  # late: updates applied after their round was complete without them
        self.present: Bools = np.zeros(0, dtype=np.bool_)  # whom rounds wait for
        self._records: list[tuple[int, list[bytes | memoryview]]] = []  # submitted since the last commit
        self._changed: set[int] = set()  # clients of which something was submitted since the last commit
        self._settled: dict[int, Settled] = {}
        self._snapshot_at = self._snapshot_written = 0  # of the newest: entries, bytes of this process
        self._since = 0  # bytes of journal after it that were there already
        self._lock: int | None = lock_folder(self.folder)
        self._journal: Journal | None = None
        try:
            Snapshot.refuse_newer(self.folder)
            self._journal = Journal(self.folder, segment_bytes)
            agreed = make(terms)
            if self._journal.end == 0:
                if model is None or Snapshot.paths(self.folder):
                    raise DataError(f"there is no journal in {self.folder} to resume; check the folder")
                everybody = range(agreed.clients) if present is None else present
                first = Opened(terms, self.digest, model, tuple(everybody))
                self._state = ServerState.opened(first, agreed)
                self._journal.write([to_bytes(first)])
            else:
                self._state = self._resume(agreed)
            Snapshot.remove_drafts(self.folder)
            self.snapshot_bytes = snapshot_bytes or max(SNAPSHOT_BYTES, 16 * self._state.server.model.nbytes)
            self._settled.update(self._state.server.word(range(agreed.clients), model=False).yours)
            self._publish(self._news())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder. What was not committed is forgotten; the server has not acknowledged it."""
        with self._commits, self._guard:
            if self._journal is not None:
                self._journal.close()
            lock, self._lock = self._lock, None
            if lock is not None:
                system.close(lock)

    # -- entries in ----------------------------------------------------------------------------------------------------

    def submit(self, entry: Entry, delta: Vector | None = None) -> bool:
        """Apply an entry in memory and keep it for the next commit; `PeerError` if it is refused. False if it changes nothing.

        ``delta`` spares decoding the entry's bytes once more.
        """
        with self._guard:
            journal, state = self._open(), self._state
            journal.check_alive()
            if isinstance(entry, Received | Summed):
                round = entry.round if isinstance(entry, Received) else entry.pairs[0][0] if entry.pairs else 0
                if entry.low != (low := state.low(round)):
                    entry = replace(entry, low=low)
            record, taken = to_bytes(entry), False
            try:
                taken = state.apply(entry, delta)
                if taken:
                    self._records.append(record)
                    self._note_changed(entry)
            except BaseException as error:
                if taken or not isinstance(error, CrescendoError):
                    journal.close()  # memory may be ahead of the journal: nothing more may be said
                raise
            return taken

    def refuse_beyond(self, largest: float) -> None:
        """From now on refuse an update that would give the model a larger number. What the journal holds already stays."""
        with self._guard:
            self._state.server.largest = largest

    def witness(self, client: int, epoch: int, k: int, acknowledged: Settled, last: int | None = None) -> bool:
        """A client says what it has seen. True if that is more than is here, so that a new epoch begins; commit then.

        ``last`` is its last round, if it says so: a client of which that cannot be is not believed.
        """
        with self._guard:
            after = self._state.epoch_after(client, epoch, k, acknowledged)
            if after is not None:
                if last is not None:
                    self._state.server.check_last(client, last, new_epoch=True)
                self.submit(NewEpoch(after, f"client {client} has seen k={k} in epoch {epoch}"))
            return after is not None

    def check_last(self, client: int, last: int) -> None:
        """Refuse what a client says of its last round if it cannot be."""
        with self._guard:
            self._state.server.check_last(client, last)

    @property
    def pending(self) -> int:
        """Entries that wait for a commit."""
        self._open()
        return len(self._records)

    def commit(self) -> Published:
        """Wait until all that was submitted before is on disk, and publish it."""
        with self._commits:
            with self._closing_on_error() as journal:
                with self._guard:
                    records, self._records, news = self._records, [], self._news()
                journal.write(records)
            published = self._publish(news)
            self._snapshot_if_due()
            return published

    # -- what is published ---------------------------------------------------------------------------------------------

    def broadcast(self, client: int) -> Broadcast:
        """What to tell a client now."""
        return self.word([client]).to(client)

    def word(self, clients: Iterable[int], model: bool = True) -> Word:
        """What to tell these clients now; without the model, only what is settled. With d = 0 the model is v_k, until the end."""
        with self._publishing:
            if model and self._start is not None:
                started, rounds = self._start
                return Word({c: rounds.of(c) for c in clients}, self.k, self.epoch, started)
            yours = {c: self._settled[c] for c in clients}
            return Word(yours, self.k, self.epoch, self.model if model else None)

    def settled(self, client: int) -> Settled:
        """The rounds of a client of which nothing more will come: the acknowledgement."""
        return self._settled[client]

    def is_void(self, round: int, client: int) -> bool:
        """Is this round settled, and was it never applied?"""
        with self._guard:
            return self._state.server.is_void(round, client)

    def start_of(self, client: int) -> int:
        """The round that a client has to go on with, once its `Back` is committed."""
        return max(self.k, self.last(client) + 1)

    def last(self, client: int) -> int:
        """The last round that a client is known to have sent, -1 for none."""
        return self._state.server.last(client)

    @property
    def finished(self) -> bool:
        """Every round of the run is complete."""
        return self.k == self._state.terms.rounds

    @property
    def instances(self) -> dict[int, str]:
        """Who is registered: client -> instance."""
        return dict(self._state.instances)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def snapshot(self, prune: bool | None = None) -> None:
        """Commit, and make a snapshot, so that the next start is quick; OSError if the disk does not take it.

        ``prune``, else what the server was opened with, removes the journal before the last but one sound snapshot.
        """
        with self._commits, self._guard:
            journal = self._open()
            self._write_records()
            journal.roll()
            Snapshot(journal.end, journal.check, {**self._state.export(), "terms": self._terms}).write(self.folder)
            self._count_from_here()
            self._remove_old(journal, self._prune if prune is None else prune)

    def snapshot_if_possible(self) -> None:
        """`snapshot`; a disk that does not take it is noted, as it would only have been a shortcut."""
        try:
            self.snapshot()
        except OSError as error:  # try again after as much more
            self.notes.append(f"a snapshot could not be written ({error.strerror}); see to the disk")
            self._count_from_here()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _open(self) -> Journal:
        if self._journal is None or self._lock is None:
            raise UsageError(f"the federation in {self.folder} is closed; open it again")
        return self._journal

    def _resume(self, terms: Terms) -> ServerState:
        journal, state = self._open(), None
        snapshot, ahead = self._newest_snapshot()
        if snapshot is not None:
            self._check_digest(str(snapshot.state["digest"]))
            state, self._snapshot_at = ServerState.restore(terms, snapshot.state), snapshot.number
        for record in journal.read(self._snapshot_at):
            self._since += len(record.body)
            entry = from_bytes(record.kind, record.body)
            if state is not None:
                state.apply(entry)
            elif isinstance(entry, Opened):
                self._check_digest(entry.digest)
                state = ServerState.opened(entry, terms)
            else:
                raise DataError(f"the journal in {self.folder} does not begin with its terms; put a sound copy back")
        assert state is not None  # the journal has at least one entry
        if journal.cut is not None:
            self.notes.append(f"a torn tail of {journal.cut.bytes} bytes was cut off before entry {journal.cut.number}")
        if ahead:
            self.notes.append("segments of the journal are gone that were there when a snapshot was made")
            journal.roll()  # a snapshot at the journal's end goes with a segment that begins there
        if journal.cut is not None or ahead:
            self._state = state
            self.submit(NewEpoch(state.server.epoch + 1, "the journal ends before something that was there"))
            self._write_records()
        return state

    @contextmanager
    def _closing_on_error(self) -> Iterator[Journal]:
        """After an error, or an interrupt, memory may be ahead of the journal: nothing more may be said."""
        journal = self._open()
        try:
            yield journal
        except BaseException:
            journal.close()
            raise

    def _write_records(self) -> None:
        """What was submitted goes to disk; the next commit publishes it."""
        with self._closing_on_error() as journal:
            records, self._records = self._records, []
            journal.write(records)

    def _newest_snapshot(self) -> tuple[Snapshot | None, bool]:
        """The newest one that is sound and of this journal, and whether the journal ends before something that was there."""
        journal, ahead, useless = self._open(), False, list[Path]()
        for path in Snapshot.paths(self.folder):
            snapshot = Snapshot.read(path)
            ahead = ahead or (snapshot is not None and not journal.reaches(snapshot.number))
            if snapshot is not None and snapshot.check == journal.check_before(snapshot.number):
                break
            useless.append(path)
        else:
            snapshot = None
            journal.check_whole()
        for path in useless:  # only now: if the server could not do without them, all stays as it was found
            self.notes.append(f"{path.name} is damaged or not of this journal; removed, the journal is read instead")
            system.unlink(path)
        return snapshot, ahead

    def _remove_old(self, journal: Journal, prune: bool) -> None:
        """Remove what the newest sound snapshots make superfluous. While there are fewer than two, nothing goes."""
        paths, sound = Snapshot.paths(self.folder), list[Path]()
        for path in paths:
            if len(sound) < KEPT and self._is_sound(path, journal):
                sound.append(path)
        if len(sound) < KEPT:
            return
        for old in [path for path in paths if path < sound[-1]]:
            system.unlink(old)
        sync_folder(self.folder)
        if prune:
            journal.prune(Snapshot.number_in(sound[-1]))

    def _is_sound(self, path: Path, journal: Journal) -> bool:
        try:
            snapshot = Snapshot.read(path, arrays=False)
            sound = snapshot is not None and snapshot.check == journal.check_before(snapshot.number)
        except JournalDamaged:
            sound = False
        if not sound:
            self.notes.append(f"{path.name} is damaged or not of this journal; what it would replace is kept")
        return sound

    def _check_digest(self, digest: str) -> None:
        if digest != self.digest:
            raise Refused(
                f"the federation in {self.folder} was begun with other terms ({digest[:12]}, now {self.digest[:12]}); "
                f"terms are agreed on once: take the old ones, or begin a new federation in another folder"
            )

    def _note_changed(self, entry: Entry) -> None:
        match entry:
            case Summed(pairs):
                self._changed.update(c for _, c in pairs)
            case Received() | Voided() | Absent() | Back() | Registered():
                self._changed.add(entry.client)

    def _news(self) -> _News:
        server, changed, self._changed = self._state.server, self._changed, set()
        return _News(server.word(changed), server.late, server.present, server.start)

    def _publish(self, news: _News) -> Published:
        with self._publishing:
            word, self.late, self.present, self._start = news
            due = (self.k, self.epoch) != (word.k, word.epoch)
            self.model, self.k, self.epoch = np.asarray(word.model, np.float64), word.k, word.epoch
            acks = {c: settled for c, settled in word.yours.items() if settled != self._settled[c]}
            self._settled.update(acks)
            return Published(due, acks)

    def _snapshot_if_due(self) -> None:
        journal = self._open()
        written = self._since + journal.written - self._snapshot_written
        if written >= self.snapshot_bytes or journal.end - self._snapshot_at >= SNAPSHOT_ENTRIES:
            self.snapshot_if_possible()

    def _count_from_here(self) -> None:
        journal = self._open()
        self._snapshot_at, self._snapshot_written, self._since = journal.end, journal.written, 0
