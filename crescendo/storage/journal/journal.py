"""The server's journal: an append-only list of records on disk, the authoritative history of a federation.

`write` appends a batch of records and returns once they are on disk (group commit); the caller forms the batches. The
server acknowledges a record only after that. After a failed sync the content of the disk is unknown, and the
operating system may forget the failure. The journal is then dead (`JournalFailed`): the process must end, and the
next one reads the disk.

Records lie in *segments*, files named by the number of their first record. Every segment but the last was complete
and synced before the next was made, so an error in it is damage (`JournalDamaged`: refused). In the last one a crash
may leave a torn end. Each record holds the number of records synced when it was written. An invalid record is damage
if a later record counts it as synced. Otherwise it is the torn tail, and is cut off together with everything after it
(`Journal.cut` has the size).
"""

import fcntl
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from crescendo import system
from crescendo.errors import CrescendoError, UsageError
from crescendo.storage.formats import JOURNAL
from crescendo.storage.journal.segment_file import SegmentFile
from crescendo.storage.journal.segments import (
    HEAD,
    LONGEST,
    OPENING,
    JournalDamaged,
    Record,
    Scan,
    Segments,
    check_of,
    sealed,
)
from crescendo.whole_files import forget_cached, make_folder, sync_folder

SEGMENT_BYTES = 256 << 20

Batch = Sequence[tuple[int, Sequence[bytes | memoryview]]]  # kind and body, in pieces, of each record


class JournalFailed(CrescendoError):
    """A write or sync failed, so the content of the disk is unknown: end the process; the next one reads the disk."""


class _Cut(NamedTuple):
    """The torn tail that was cut off: its first record, and its size."""

    number: int
    bytes: int


class Journal:
    """The journal in ``folder``, begun if missing. One process at a time: the caller locks the folder."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder, self._segment_bytes, self._segments = folder, segment_bytes, Segments(folder)
        self.end = 0  # number of records
        self.check = 0  # checksum of the last record
        self.written = 0  # bytes since opening
        self._marker = b""
        self._file: SegmentFile | None = None
        self.cut: _Cut | None = None
        try:
            self._open_last()
        except BaseException:
            self.close()
            raise

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, start: int = 0) -> Iterator[Record]:
        """Yield the records on disk from number ``start`` on; raise `JournalDamaged` at an invalid one."""
        for record in self._segments.records(start):
            if record.number >= self.end:
                return
            yield record

    def check_before(self, number: int) -> int | None:
        """Return the checksum of the record before ``number`` if a segment begins or the journal ends there, otherwise None."""
        if number == self.end:
            return self.check
        path = self._segments.path(number)
        if not path.exists():
            return None
        with path.open("rb") as file:
            return Scan(path, file).check

    def reaches(self, number: int) -> bool:
        """Return True if the journal still reaches record ``number``, where a segment began before a snapshot was made."""
        return number < self.end or self._segments.path(number).exists()

    def check_whole(self) -> None:
        """Refuse a journal whose beginning was pruned: it is useless without a snapshot."""
        first = Segments.first_in(self._segments.paths()[0])
        if first > 0:
            raise JournalDamaged(
                f"the journal in {self.folder} was pruned before record {first} and no snapshot in it is sound; put a backup "
                f"back, nothing of this one is used"
            )

    # -- growing -------------------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> None:
        """Write records and wait until they are on disk."""
        file, lengths = self.check_alive(), [sum(map(len, body)) for _, body in batch]
        if max(lengths, default=0) > LONGEST:
            raise UsageError(f"a record of {max(lengths)} bytes is more than the journal takes ({LONGEST})")
        if not batch:
            return
        try:
            size = HEAD.size * len(batch) + sum(lengths)
            file.append(self._pieces(batch, lengths), size)
            file.sync()
        except BaseException as error:  # an interrupt too: the content of the disk is unknown
            self.close()
            if not isinstance(error, OSError):
                raise
            raise _failed(self.folder, error) from error
        self.written += size
        self.end += len(batch)
        if file.size >= self._segment_bytes:
            self._next_segment()

    def roll(self) -> None:
        """Start a new segment, which makes all earlier records read-only history."""
        if self.check_alive().size > OPENING.size:
            self._next_segment()

    def prune(self, number: int) -> None:
        """Remove the segments with only records before ``number``, which can then no longer be replayed.

        The oldest goes first, and each removal is synced before the next one, so an interruption leaves no gap.
        """
        for segment, following in itertools.pairwise(self._segments.paths()):
            if Segments.first_in(following) <= number:
                system.unlink(segment)
                sync_folder(self.folder)

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    # -- inside --------------------------------------------------------------------------------------------------------

    def check_alive(self) -> SegmentFile:
        """Refuse to go on after a failure."""
        if self._file is None:
            raise JournalFailed(f"the journal in {self.folder} is closed, by itself if a write failed; open it again")
        return self._file

    def _pieces(self, batch: Batch, lengths: Sequence[int]) -> Iterator[bytes | memoryview]:
        """Yield the bytes of records; each holds the number of records synced before it."""
        for number, ((kind, body), length) in enumerate(zip(batch, lengths, strict=True), self.end):
            first = sealed(HEAD, self._marker, length, kind, number, self.end, check_of(body), self.check)
            self.check = int.from_bytes(first[-4:], "little")
            yield first
            yield from body

    def _next_segment(self) -> None:
        file = self.check_alive()
        try:
            file.close()
            self._file = None
            self._begin(self.end, self.check)
        except OSError as error:
            self.close()
            raise _failed(self.folder, error) from error

    def _begin(self, number: int, check: int) -> None:
        """Create the segment that begins with record ``number``, and sync it and its folder."""
        self._marker = system.urandom(8)
        self._file = SegmentFile(self._segments.path(number), 0, make=True)
        self._file.append([sealed(OPENING, JOURNAL.opening, self._marker, number, check)], OPENING.size)
        self._file.sync()
        sync_folder(self.folder)
        self.check = check

    def _open_last(self) -> None:
        segments = self._segments.paths()
        for unmade in self._segments.unmade():
            system.unlink(unmade)
        if not segments:
            self._begin(0, 0)
            return
        last = segments[-1]
        forget_cached(last)
        with last.open("rb") as file:
            scan = Scan(last, file)
            for _ in scan.records(keep_bodies=False):
                pass
            if scan.torn:
                scan.check_torn()
                self.cut = _Cut(scan.number, scan.size - scan.at)
        self._marker, self.end, self.check = scan.marker, scan.number, scan.check
        self._file = SegmentFile(last, scan.at)
        if self.cut is not None:
            self._file.truncate()
        self._file.sync()  # a killed process's records may not be on disk yet, and are acknowledged from now on
        sync_folder(self.folder)


def _failed(folder: Path, error: OSError) -> JournalFailed:
    return JournalFailed(f"the journal in {folder} could not be written ({error.strerror}); stopping, see to the disk")


def lock_folder(folder: Path) -> int:
    """Lock a folder for this process, creating it if missing. Closing the returned handle, or exiting, unlocks it."""
    try:
        make_folder(folder)
        lock = system.open_file(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"the folder {folder} cannot be written ({error.strerror}); choose another") from error
    try:
        system.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        system.close(lock)
        raise UsageError(f"the folder {folder} is in use by another process; stop that one first") from error
    return lock
