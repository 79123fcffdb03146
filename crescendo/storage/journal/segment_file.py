"""The journal segment being written: appends bytes, and writes large batches past the system's cache.

The cache is useless to a journal, which only a restart reads. At hundreds of megabytes a second it also costs more
than everything else: the system has to find memory for every page, copy into it and reclaim it. A direct write hands
our memory to the disk, but only in whole blocks from a block-aligned address. So a large batch of records goes
through a *stage*, a reusable block-aligned buffer; the bytes before the first whole block and after the last are
written normally. Where direct writes are not available (other systems, some file systems), everything is written
normally through the same stage, never copied twice.
"""

import errno
import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from crescendo import system

BLOCK = 4096  # bytes; a multiple of every disk's own block size
STAGE = 1 << 20  # bytes; with less the disk waits for us, with more we wait for it
LARGE = 1 << 20  # bytes in one batch from which on it goes past the cache

Piece = bytes | memoryview


class SegmentFile:
    """An append-only file that starts at ``size`` bytes, for one writer at a time. Only `sync` guarantees data on disk."""

    def __init__(self, path: Path, size: int, make: bool = False) -> None:
        flags = os.O_WRONLY | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if make else 0)
        self.size = size
        self._file = system.open_file(path, flags, 0o600)
        self._direct = _open_direct(path)
        self._stage: memoryview | None = None

    def truncate(self) -> None:
        """Discard the bytes beyond ``size``."""
        system.ftruncate(self._file, self.size)

    def append(self, pieces: Iterable[Piece], length: int) -> None:
        """Write ``pieces``, ``length`` bytes in all."""
        if length < LARGE:
            self._write(b"".join(pieces))
            return
        for chunk in self._staged(pieces, first=-self.size % BLOCK):
            whole = len(chunk) - len(chunk) % BLOCK
            self._write(chunk[:whole], direct=True)
            self._write(chunk[whole:])

    def sync(self) -> None:
        """Wait until the whole file is on disk."""
        system.fdatasync(self._file)

    def close(self) -> None:
        for file in (self._file, self._direct):
            if file is not None:
                with suppress(OSError):
                    system.close(file)

    def _staged(self, pieces: Iterable[Piece], first: int) -> Iterator[memoryview]:
        """Yield the bytes of ``pieces`` through the stage, a stageful at a time; the first chunk has ``first`` bytes."""
        stage = self._stage = self._stage or memoryview(mmap.mmap(-1, STAGE))  # page-aligned, so block-aligned
        room, used = first or STAGE, 0
        for piece in pieces:
            left = memoryview(piece)
            while left:
                taken = min(len(left), room - used)
                stage[used : used + taken] = left[:taken]
                left, used = left[taken:], used + taken
                if used == room:
                    yield stage[:used]
                    room, used = STAGE, 0
        yield stage[:used]

    def _write(self, data: Piece, direct: bool = False) -> None:
        left = memoryview(data)
        while left:
            written = self._write_some(left, direct)
            self.size, left = self.size + written, left[written:]
            direct = direct and written % BLOCK == 0  # a full disk may take less

    def _write_some(self, data: memoryview, direct: bool) -> int:
        if direct and self._direct is not None:
            try:
                return system.pwrite(self._direct, data, self.size)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                system.close(self._direct)  # this file system has other alignment rules
                self._direct = None
        return system.pwrite(self._file, data, self.size)


def _open_direct(path: Path) -> int | None:
    """Open the file for direct writes past the cache; None if the system has no direct writes."""
    with suppress(OSError, AttributeError):
        return system.open_file(path, os.O_WRONLY | os.O_CLOEXEC | os.O_DIRECT)
    return None
