"""The server's journal: a list of records on disk that only grows, and that decides what happened.

`append` puts a record in line; `sync` writes the line and returns when the disk has it (group commit). `sync` is `take`, which
is quick, and `write`, which is not and may run in another thread while records are appended. Nobody may be told of a record
before that. A sync that fails leaves it open what is on disk, and the operating system may forget that it failed: the
journal is dead then (`JournalFailed`), the process has to end, and the next one reads what is there.

Records lie in *segments*, files named by the number of their first record. All but the last were complete and synced before
the next was made, so damage there is damage (`JournalDamaged`: refused). In the last one a crash may leave a torn end. Each
record says how many were synced when it was written: a record that does not add up and that a later one calls synced is
damage; if none does, it is the torn tail, and is cut off together with what follows (`Journal.cut` says how much).
"""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from crescendo.errors import CrescendoError, UsageError
from crescendo.storage.journal.segment_file import SegmentFile
from crescendo.storage.journal.segments import (
    HEAD,
    LONGEST,
    OPENING,
    JournalDamaged,
    Record,
    Scan,
    check_of,
    first_of,
    head,
    opening,
    read_records,
    segment_path,
    segments_of,
    unmade_of,
)

__all__ = ["Cut", "Journal", "JournalDamaged", "JournalFailed", "Record", "lock_folder", "read_records", "sync_folder"]

GROUP = 64  # records that are synced together, at the most; why not 20: docs/decisions.md
GROUP_BYTES = 4 << 20  # and their bytes: what comes first is not kept waiting for what is large
SEGMENT_BYTES = 256 << 20

Line = list[tuple[int, int, tuple[bytes | memoryview, ...]]]  # kind, length and body of each record


class JournalFailed(CrescendoError):
    """A write or sync failed, so what is on disk is not known: end the process; the next one reads what is there."""


class Cut(NamedTuple):
    """What was cut off a torn tail: from which record on, and how many bytes."""

    number: int
    bytes: int


class Journal:
    """The journal in ``folder``; begun if there is none. One process at a time: the caller locks the folder."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder, self._segment_bytes = folder, segment_bytes
        self.end = self.synced = 0  # how many records there are, and how many of them are on disk
        self.check = 0  # checksum of the last record
        self.written = 0  # bytes, since it was opened
        self._line: Line = []
        self._line_bytes = self._taken = 0
        self._marker = b""
        self._file: SegmentFile | None = None
        self.cut: Cut | None = None
        try:
            self._open_last()
        except BaseException:
            self.close()
            raise

    # -- what is there -------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Records that are not on disk yet."""
        return self.end - self.synced

    @property
    def full(self) -> bool:
        """The line is as long as it may be: sync."""
        return len(self._line) >= GROUP or self._line_bytes >= GROUP_BYTES

    def read(self, start: int = 0) -> Iterator[Record]:
        """The records on disk from number ``start`` on, one at a time; `JournalDamaged` where they do not add up."""
        for record in read_records(self.folder, start):
            if record.number >= self.synced:
                return
            yield record

    def check_before(self, number: int) -> int | None:
        """The checksum of the record before ``number``, if a segment begins there or it is the end; else None."""
        if number == self.synced:
            return self.check
        path = segment_path(self.folder, number)
        if not path.exists():
            return None
        with path.open("rb") as file:
            return Scan(path, file).check

    # -- growing -------------------------------------------------------------------------------------------------------

    def append(self, kind: int, *body: bytes | memoryview) -> int:
        """Put a record in line, given in pieces; its number. It is not on disk before `sync`."""
        self._alive()
        length = sum(len(piece) for piece in body)
        if length > LONGEST:
            raise UsageError(f"a record of {length} bytes is more than the journal takes ({LONGEST})")
        self._line.append((kind, length, body))
        self._line_bytes += HEAD.size + length
        self.end += 1
        return self.end - 1

    def sync(self) -> int:
        """Write the line and wait for the disk; how many records are on it."""
        return self.write(self.take())

    def take(self) -> Line:
        """The line, for `write`; a new one begins. What was taken must be written before the next is."""
        self._alive()
        line, self._line, self._line_bytes, self._taken = self._line, [], 0, self.end
        return line

    def write(self, line: Line) -> int:
        """Write what was taken and wait for the disk; how many records are on it."""
        file = self._alive()
        if self.synced + len(line) != self._taken:  # an interrupt came between: a record would be lost without a trace
            self.close()
            raise JournalFailed(f"records of the journal in {self.folder} were taken and not written; stopping")
        if not line:
            return self.synced
        try:
            size = sum(HEAD.size + length for _, length, _ in line)
            file.append(self._pieces(line), size)
            file.sync()
        except BaseException as error:  # an interrupt too: what is on disk is not known
            self.close()
            if not isinstance(error, OSError):
                raise
            raise _failed(self.folder, error) from error
        self.written += size
        self.synced += len(line)
        if file.size >= self._segment_bytes:
            self._next_segment()
        return self.synced

    def roll(self) -> None:
        """Sync, and go on in a new segment, which makes all that is there so far read-only history."""
        self.sync()
        if self._alive().size > OPENING.size:
            self._next_segment()

    def prune(self, number: int) -> None:
        """Remove the segments that only have records before ``number``. What they had cannot be replayed any more."""
        segments = segments_of(self.folder)
        for segment, following in itertools.pairwise(segments):
            if first_of(following) <= number:
                segment.unlink()
        sync_folder(self.folder)

    def close(self) -> None:
        """Let go of the file. What is in line and was never synced is forgotten."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _alive(self) -> SegmentFile:
        if self._file is None:
            raise JournalFailed(f"the journal in {self.folder} is closed, by itself if a write failed; open it again")
        return self._file

    def _pieces(self, line: Line) -> Iterator[bytes | memoryview]:
        """The bytes of records. They are made here, not when appended: each says how many are synced before it is written."""
        for number, (kind, length, body) in enumerate(line, self.synced):
            first = head(self._marker, length, kind, number, self.synced, check_of(body), self.check)
            self.check = int.from_bytes(first[-4:], "little")
            yield first
            yield from body

    def _next_segment(self) -> None:
        file = self._alive()
        try:
            file.close()
            self._file = None
            self._begin(self.synced, self.check)
        except OSError as error:
            self.close()
            raise _failed(self.folder, error) from error

    def _begin(self, number: int, check: int) -> None:
        """Make the segment that begins with record ``number``, and be sure that it is there."""
        self._marker = os.urandom(8)
        self._file = SegmentFile(segment_path(self.folder, number), 0, make=True)
        self._file.append([opening(self._marker, number, check)], OPENING.size)
        self._file.sync()
        sync_folder(self.folder)
        self.synced, self.check = number, check

    def _open_last(self) -> None:
        segments = segments_of(self.folder)
        for unmade in unmade_of(self.folder):
            unmade.unlink()
        if not segments:
            self._begin(0, 0)
            return
        last = segments[-1]
        _forget_cached(last)
        with last.open("rb") as file:
            scan = Scan(last, file)
            for _ in scan.records(keep_bodies=False):
                pass
            if scan.torn:
                scan.check_torn()
                self.cut = Cut(scan.number, scan.size - scan.at)
        self._marker, self.end, self.check = scan.marker, scan.number, scan.check
        self._file = SegmentFile(last, scan.at)
        if self.cut is not None:
            self._file.truncate()
        self._file.sync()  # what a killed process wrote may not be on disk yet, and will be told of from now on
        sync_folder(self.folder)
        self.synced = scan.number


def _failed(folder: Path, error: OSError) -> JournalFailed:
    return JournalFailed(f"the journal in {folder} could not be written ({error.strerror}); stopping, see to the disk")


def lock_folder(folder: Path) -> int:
    """Lock a folder for this process, and make it if it is missing. Closing what is returned, or the end, unlocks it."""
    try:
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for place in missing:
            sync_folder(place.parent)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"the folder {folder} cannot be written ({error.strerror}); choose another") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise UsageError(f"the folder {folder} is in use by another process; stop that one first") from error
    return lock


def sync_folder(folder: Path) -> None:
    """Be sure that the names in ``folder`` are on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _forget_cached(path: Path) -> None:
    """Read from the disk: after a failed sync memory may hold pages that never reached it."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
