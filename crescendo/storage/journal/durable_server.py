"""Durable server: the core's server over a journal, which never loses anything it has published.

`submit` checks an entry, applies it in memory and keeps its bytes. `commit` writes the bytes and only then publishes:
`broadcast`, `settled`, `k`, `epoch` and `model` give the published state, never state that is only in memory. A
refused entry (`PeerError`) leaves no trace. So a runtime's loop is: submit the messages that have come; commit; send
the content of `Published`. On `JournalFailed` the process must end.

A folder holds the journal, snapshots and a lock. To open it again is to replay the journal from the newest sound
snapshot: the same entries in the same order, so the same state bit for bit. `replay` independently adds the model up
from the first entry.

A server opened from an older state (a torn tail that was cut, a folder restored from a backup) may lack entries that
it once published. It detects the first case when it opens, the second from the state that a client has seen
(`witness`). Either begins a new epoch, in which clients accept a smaller k and resend the missing updates.

Any thread may call. While one commits, others can read and submit: the disk and the arithmetic run in parallel.
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

SNAPSHOT_BYTES = 64 << 20  # of journal between snapshots, or 16 times the model if that is larger
SNAPSHOT_ENTRIES = 50_000


class Published(NamedTuple):
    """The effect of a commit: ``due`` if all clients need a broadcast, and the settled rounds of each client that changed."""

    due: bool
    acks: dict[int, Settled]


class _News(NamedTuple):
    """The state in memory, to be published once it is on disk.

    It has the word for each changed client, the count of late updates, the clients present, and the start model for a
    client that joins now, if that is not the newest model.
    """

    word: Word
    late: int
    present: Bools
    start: tuple[Floats, SettledRounds] | None


class DurableServer:
    """The federation in ``folder``: resumed, or begun with ``model`` if the folder is empty.

    ``terms`` is the agreed canonical text, and ``make`` builds `Terms` from it; a folder with other terms is refused.
    ``present`` are the clients that rounds wait for from the start (default: all). With ``prune`` each snapshot
    removes the journal before the last but one: the folder stays small, but cannot be replayed from its first entry.
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
        # Lock order: one commit at a time; the state and the records; the published state.
        self._commits, self._guard, self._publishing = system.RLock(), system.RLock(), system.Lock()
        self.model: Floats = np.zeros(0)
        self._start: tuple[Floats, SettledRounds] | None = None
        self.k = self.epoch = self.late = 0  # late: updates applied after their round had completed without them
        self.present: Bools = np.zeros(0, dtype=np.bool_)  # the clients that rounds wait for
        self._records: list[tuple[int, list[bytes | memoryview]]] = []  # submitted since the last commit
        self._changed: set[int] = set()  # clients with entries since the last commit
        self._settled: dict[int, Settled] = {}
        self._snapshot_at = self._snapshot_written = 0  # of the newest snapshot: entries, bytes written by this process
        self._since = 0  # bytes of journal after it that existed at opening
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
        """Release the folder. Uncommitted entries are lost; the server has not acknowledged them."""
        with self._commits, self._guard:
            if self._journal is not None:
                self._journal.close()
            lock, self._lock = self._lock, None
            if lock is not None:
                system.close(lock)

    # -- entries in ----------------------------------------------------------------------------------------------------

    def submit(self, entry: Entry, delta: Vector | None = None) -> bool:
        """Apply an entry in memory and keep it for the next commit; return False if it changes nothing.

        Raise `PeerError` if the entry is refused. ``delta`` saves decoding the entry's bytes again.
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
                    journal.close()  # memory may be ahead of the journal: publish nothing more
                raise
            return taken

    def refuse_beyond(self, largest: float) -> None:
        """Refuse, from now on, an update that would push a number of the model beyond ``largest``; keep past updates."""
        with self._guard:
            self._state.server.largest = largest

    def witness(self, client: int, epoch: int, k: int, acknowledged: Settled, last: int | None = None) -> bool:
        """Compare the state that a client has seen with ours; begin a new epoch and return True if the client is ahead.

        Commit after True. ``last`` is the client's own last round, if it sent one; an impossible one is refused.
        """
        with self._guard:
            after = self._state.epoch_after(client, epoch, k, acknowledged)
            if after is not None:
                if last is not None:
                    self._state.server.check_last(client, last, new_epoch=True)
                self.submit(NewEpoch(after, f"client {client} has seen k={k} in epoch {epoch}"))
            return after is not None

    def check_last(self, client: int, last: int) -> None:
        """Refuse an impossible last round from a client."""
        with self._guard:
            self._state.server.check_last(client, last)

    @property
    def pending(self) -> int:
        """The number of entries waiting for a commit."""
        self._open()
        return len(self._records)

    def commit(self) -> Published:
        """Wait until every submitted entry is on disk, and publish the state."""
        with self._commits:
            with self._closing_on_error() as journal:
                with self._guard:
                    records, self._records, news = self._records, [], self._news()
                journal.write(records)
            published = self._publish(news)
            self._snapshot_if_due()
            return published

    # -- published state ---------------------------------------------------------------------------------------------

    def broadcast(self, client: int) -> Broadcast:
        """Return the current broadcast for a client."""
        return self.word([client]).to(client)

    def word(self, clients: Iterable[int], model: bool = True) -> Word:
        """Return the current word for these clients; without the model, only settled rounds. With d = 0 the model is v_k."""
        with self._publishing:
            if model and self._start is not None:
                started, rounds = self._start
                return Word({c: rounds.of(c) for c in clients}, self.k, self.epoch, started)
            yours = {c: self._settled[c] for c in clients}
            return Word(yours, self.k, self.epoch, self.model if model else None)

    def settled(self, client: int) -> Settled:
        """Return the settled rounds of a client, its acknowledgement: no more updates are expected for them."""
        return self._settled[client]

    def is_void(self, round: int, client: int) -> bool:
        """Return True if this round is settled but was never applied."""
        with self._guard:
            return self._state.server.is_void(round, client)

    def start_of(self, client: int) -> int:
        """Return the round at which a client must resume once its `Back` is committed."""
        return max(self.k, self.last(client) + 1)

    def last(self, client: int) -> int:
        """Return the last round known to be sent by a client, -1 if there is none."""
        return self._state.server.last(client)

    @property
    def finished(self) -> bool:
        """True once every round of the run is complete."""
        return self.k == self._state.terms.rounds

    @property
    def instances(self) -> dict[int, str]:
        """The registered instance of each client."""
        return dict(self._state.instances)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def snapshot(self, prune: bool | None = None) -> None:
        """Commit and write a snapshot, so that the next start is quick; raise OSError if the disk refuses it.

        With ``prune`` (default: the server's own setting), remove the journal before the last but one sound snapshot.
        """
        with self._commits, self._guard:
            journal = self._open()
            self._write_records()
            journal.roll()
            Snapshot(journal.end, journal.check, {**self._state.export(), "terms": self._terms}).write(self.folder)
            self._count_from_here()
            self._remove_old(journal, self._prune if prune is None else prune)

    def snapshot_if_possible(self) -> None:
        """Try a `snapshot`; on failure only add a note, since a snapshot is just a shortcut."""
        try:
            self.snapshot()
        except OSError as error:  # try again after the same amount of journal
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
        """Close the journal on an error or interrupt: memory may be ahead of it, so nothing more may be published."""
        journal = self._open()
        try:
            yield journal
        except BaseException:
            journal.close()
            raise

    def _write_records(self) -> None:
        """Write the submitted entries to disk; the next commit publishes them."""
        with self._closing_on_error() as journal:
            records, self._records = self._records, []
            journal.write(records)

    def _newest_snapshot(self) -> tuple[Snapshot | None, bool]:
        """Return the newest sound snapshot of this journal, and True if the journal ends before one of the snapshots."""
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
        for path in useless:  # only now: if the server needed them, the folder stays unchanged
            self.notes.append(f"{path.name} is damaged or not of this journal; removed, the journal is read instead")
            system.unlink(path)
        return snapshot, ahead

    def _remove_old(self, journal: Journal, prune: bool) -> None:
        """Remove files that the two newest sound snapshots make superfluous; with fewer than two, remove nothing."""
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
