"""The segment of a journal that is being written: bytes go to its end, and what is large goes past the system's cache.

The cache is of no use to a journal, which only a restart reads, and at a rate of hundreds of megabytes a second it costs more
than all else: the system has to find memory for every page, copy into it and take it away again. A direct write hands the
memory to the disk as it is, but only whole blocks, from an address that is one too. So a large group of records goes through
a *stage*, a block-aligned piece of memory that is used again and again; what stands before the first whole block and after
the last is written in the ordinary way. Where direct writes are not to be had (other systems, some file systems), all is, by
the same stage: what is written is never held a second time.
"""

import errno
import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from crescendo import system

BLOCK = 4096  # bytes; every disk's own blocks divide this
STAGE = 1 << 20  # bytes; with less the disk waits for us, with more we wait for it
LARGE = 1 << 20  # bytes that are written together, from which on they go past the cache

Piece = bytes | memoryview


class SegmentFile:
    """A file that grows from ``size`` bytes on. Nothing is on disk before `sync`. One writer at a time."""

    def __init__(self, path: Path, size: int, make: bool = False) -> None:
        flags = os.O_WRONLY | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if make else 0)
        self.size = size
        self._file = system.open_file(path, flags, 0o600)
        self._direct = _open_direct(path)
        self._stage: memoryview | None = None

    def truncate(self) -> None:
        """Forget what lies beyond ``size``."""
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
        """Wait until all of it is on disk."""
        system.fdatasync(self._file)

    def close(self) -> None:
        for file in (self._file, self._direct):
            if file is not None:
                with suppress(OSError):
                    system.close(file)

    def _staged(self, pieces: Iterable[Piece], first: int) -> Iterator[memoryview]:
        """The bytes of ``pieces`` in the stage, as much as it holds at a time; ``first`` bytes for the first time."""
        stage = self._stage = self._stage or memoryview(mmap.mmap(-1, STAGE))  # a page's beginning is a block's
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
                system.close(self._direct)  # a file system with other rules than ours
                self._direct = None
        return system.pwrite(self._file, data, self.size)


def _open_direct(path: Path) -> int | None:
    """A second way to the file, past the cache; None where there is none."""
    with suppress(OSError, AttributeError):
        return system.open_file(path, os.O_WRONLY | os.O_CLOEXEC | os.O_DIRECT)
    return None
