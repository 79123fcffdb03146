"""The ledger's file: an append-only list of entries, some of them with the bytes that were sent.

The file is an SQLite database with one transaction per entry, on disk (``synchronous=FULL``) before `append` returns.
The write-ahead log needs one sync per release, 5 times as fast as a rollback journal; a clean close folds it into the
one file. The file is guarded against:

- *A kill at any instant.* An entry and its bytes are stored together or not at all.
- *Change.* Triggers refuse to change or remove an entry, to insert one out of sequence, or to swap bytes. Round and
  federation are unique among charges, even if the program has a bug.
- *Damage.* Each entry carries the hash of itself and of the entry before. Bytes are compared with the hash in their
  entry; damaged bytes count as gone, and the caller declares the round void.
- *Two processes.* ``FILE.lock`` is locked for as long as the ledger is open. A reader is allowed.
- *A kill in the middle of an upgrade.* Older tables are migrated in one transaction (`ledger_schema`).
- *An older copy* put in place of the file. ``FILE.lock`` notes the last entry; a ledger that ends before it is
  refused. A backup is marked in its own header, and cannot be charged until its owner confirms it.

After a failed write the content of the disk is unknown, so the file closes itself: open it again and read.
"""

import fcntl
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from crescendo import system
from crescendo.errors import DataError, UsageError
from crescendo.storage.ledger import ledger_schema
from crescendo.storage.ledger.head_note import note, read_note
from crescendo.storage.ledger.ledger_faults import LedgerDamaged, explained
from crescendo.whole_files import sync_folder, whole_file

_GO_ON = ".go-on"  # a file placed next to a backup by its owner, to put it into use
_START = hashlib.sha256(b"crescendo ledger").digest()


class LedgerEntry(NamedTuple):
    """One entry of the ledger. ``body`` is plain data; ``digest`` hashes it and every entry before."""

    seq: int
    kind: str
    body: dict[str, Any]
    digest: bytes


class LedgerFile:
    """The file at ``path``, created if missing and ``create`` is True; a new file has no entries."""

    def __init__(self, path: Path, *, create: bool = False, read_only: bool = False) -> None:
        self.path = path
        self._db: sqlite3.Connection | None = None
        self._lock: int | None = None
        if not path.exists() and not create:
            raise DataError(
                f"there is no ledger at {path}; a client has it in its state folder, as ledger.sqlite, or where its policy says"
                if read_only
                else f"there is no ledger at {path}; check the path, or give a budget to begin one"
            )
        if path.is_dir():
            raise DataError(f"{path} is a folder; name the ledger in it, such as {path / 'ledger.sqlite'}")
        try:
            locked = self._take_lock(read_only)
            with explained(path):
                self._db = self._connected(writable=locked, create=create, read_only=read_only)
                self.entries = list(self._verified())
            self._check_not_older()
            if not read_only:
                self._check_no_backup()
            if read_only:
                self._unlock()
        except BaseException:
            self.close()
            raise

    @property
    def is_closed(self) -> bool:
        return self._db is None

    @property
    def head(self) -> tuple[int, str]:
        """The number of entries, and the hash of them all."""
        return len(self.entries), (self.entries[-1].digest if self.entries else _START).hex()

    def append(self, kind: str, body: dict[str, Any], data: bytes | None = None) -> LedgerEntry:
        """Add an entry and its bytes in one transaction; both are on disk when this returns."""
        seq, text = len(self.entries), json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
        entry = LedgerEntry(seq, kind, json.loads(text), _digest(bytes.fromhex(self.head[1]), seq, kind, text))
        with self._writing() as db:
            db.execute("insert into entries values (?, ?, ?, ?)", (seq, kind, text, entry.digest))
            if data is not None:
                db.execute("insert into outbox values (?, ?)", (seq, data))
        self.entries.append(entry)
        self._note_head()
        return entry

    def bytes_of(self, seq: int, sha256: str) -> bytes | None:
        """Return the bytes of an entry, None if they were dropped or damaged."""
        rows = self._rows("select bytes from outbox where seq = ?", seq)
        data = rows[0][0] if rows else None
        return data if isinstance(data, bytes) and hashlib.sha256(data).hexdigest() == sha256 else None

    def kept(self) -> set[int]:
        """Return the entries that have bytes, intact or damaged."""
        rows = self._rows("select seq from outbox")
        return {entry.seq for entry in self.entries} if rows is None else {int(seq) for (seq,) in rows}

    def drop(self, seqs: Iterable[int]) -> None:
        """Delete the bytes of entries, which stay."""
        with self._writing() as db:
            db.executemany("delete from outbox where seq = ?", [(seq,) for seq in seqs])

    def close(self) -> None:
        """Close the file. Closing twice is harmless."""
        db, self._db = self._db, None
        try:
            if db is not None:
                db.close()
        finally:
            self._unlock()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        if self._db is None:
            raise UsageError(f"the ledger {self.path} is closed, by itself if a write failed; open it again")
        return self._db

    def _rows(self, query: str, *values: int) -> list[Any] | None:
        """Run a query; return None if it reads damaged pages, so that the caller checks each entry separately."""
        try:
            with explained(self.path):
                return self._open().execute(query, values).fetchall()
        except LedgerDamaged as error:
            if not error.pages:
                raise
            return None

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            system.close(lock)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        db = self._open()
        if self._lock is None:
            raise UsageError(f"the ledger {self.path} was opened to be read only; open it for writing")
        try:
            with explained(self.path):
                db.execute("begin immediate")
                yield db
                db.execute("commit")
        except BaseException:  # an interrupt too: the content of the disk is unknown
            self.close()
            raise

    def _take_lock(self, read_only: bool) -> bool:
        """Lock the file; return True if this process may write.

        A reader takes the lock only if the lock file exists and is free, to complete the work of a killed writer. It
        creates no lock file: its path may not be a ledger.
        """
        make = 0 if read_only else os.O_CREAT
        try:
            self._lock = system.open_file(_beside(self.path, ".lock"), os.O_RDWR | make | os.O_CLOEXEC, 0o600)
            system.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as error:
            held = self._lock is not None
            self._unlock()
            if read_only and self.path.exists():
                return False
            if held:
                raise UsageError(f"the ledger {self.path} is in use by another process; stop that one first") from error
            raise UsageError(
                f"the ledger {self.path} cannot be written ({error.strerror}); put it in a folder that can be written"
            ) from error

    def _connected(self, *, writable: bool, create: bool, read_only: bool) -> sqlite3.Connection:
        if writable and create and not self.path.exists():  # private; its log gets the same mode
            system.close(system.open_file(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        mode = "rw" if writable else "ro"
        still = (
            "" if writable or _beside(self.path, "-wal").exists() else "&immutable=1"
        )  # otherwise SQLite would create a log
        uri = f"{self.path.absolute().as_uri()}?mode={mode}{still}"
        db = sqlite3.connect(
            uri, uri=True, isolation_level=None, timeout=ledger_schema.LOCK_TIMEOUT, check_same_thread=False
        )
        self._db = db
        fresh = not db.execute("select count(*) from sqlite_master").fetchone()[0]
        if not fresh or not (writable and create):
            ledger_schema.check(db, self.path)
        if writable:
            self._prepare(db, fresh, read_only)
        return db

    def _prepare(self, db: sqlite3.Connection, fresh: bool, read_only: bool) -> None:
        if db.execute("pragma journal_mode = wal").fetchone()[0] != "wal":
            raise UsageError(
                f"the disk of {self.path} does not support a write-ahead log; put the ledger on a local disk"
            )
        db.execute("pragma synchronous = full")
        if fresh:
            ledger_schema.create(db)
            sync_folder(self.path.parent)
        elif not read_only:
            ledger_schema.migrate(db)

    def _verified(self) -> Iterator[LedgerEntry]:
        last = _START
        rows = self._open().execute("select seq, kind, body, digest from entries order by seq").fetchall()
        for expected, (seq, kind, body, digest) in enumerate(rows):
            last = _digest(last, expected, str(kind), str(body))
            if seq != expected or digest != last:
                raise LedgerDamaged(self.path, f"entry {expected} is not what was written")
            yield LedgerEntry(expected, kind, json.loads(body), last)

    def _note_head(self) -> None:
        """Note the head after the entry is on disk, so that the note never runs ahead; a lagging note guards less."""
        if self._lock is not None:
            with suppress(OSError):
                system.pwrite(self._lock, note(self.head), 0)

    def _check_not_older(self) -> None:
        """Refuse an older copy. Only the lock's holder checks: for a reader the note may be newer than the entries it read."""
        if self._lock is None:
            return
        noted = self.noted_head(self.path)
        if noted is not None and not self.reaches(*noted):
            raise DataError(
                f"the ledger {self.path} is an older or another copy: it has {len(self.entries)} entries where {noted[0]} were "
                f"written; put the newest copy back, or what was spent would be spent again"
            )

    def _check_no_backup(self) -> None:
        """Refuse to use a backup unless its owner has placed the consent file next to it; the consent counts once."""
        consent = _beside(self.path, _GO_ON)
        if self.is_backup and not consent.exists():
            raise DataError(
                f"the ledger {self.path} is a backup, and does not know what was charged after it was made; if that was nothing "
                f"and the original is gone for good, make an empty file {consent} and start again"
            )
        if (
            consent.exists()
        ):  # removed first, and also next to an ordinary ledger, so that it cannot apply to a later backup
            system.unlink(consent)
            sync_folder(self.path.parent)
        if self.is_backup:
            with explained(self.path):
                ledger_schema.mark_backup(self._open(), False)

    def reaches(self, count: int, digest: str) -> bool:
        """Return True if this ledger contains an earlier head."""
        return count <= len(self.entries) and (not count or self.entries[count - 1].digest.hex() == digest)

    @staticmethod
    def noted_head(path: Path) -> tuple[int, str] | None:
        """Return the head noted in ``FILE.lock``; None if there is none yet, or a power loss tore it."""
        return read_note(_beside(path, ".lock"))

    @property
    def is_backup(self) -> bool:
        """True if this file is a backup that has not been put into use."""
        with explained(self.path):
            return ledger_schema.is_backup(self._open())

    @classmethod
    def make_backup(cls, path: Path) -> None:
        """Mark a copy as a backup, so that it is not charged by mistake, and note its head in its lock file."""
        with explained(path), closing(sqlite3.connect(path)) as db:
            ledger_schema.mark_backup(db)
        with closing(cls(path, read_only=True)) as file, whole_file(_beside(path, ".lock"), ".draft") as out:
            out.write(note(file.head))


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _digest(before: bytes, seq: int, kind: str, body: str) -> bytes:
    return hashlib.sha256(before + f"{seq}\0{kind}\0{body}".encode()).digest()
