"""A simulated disk: files in a folder, and what a loss of power does to what was not synced.

Writes go to real files at once, as into the system's memory. What a sync has not confirmed yet is remembered: of each file the
writes since its last sync, of each folder the names that came, went or changed. A killed process loses nothing of that; a loss of
power loses a random part: of the writes a prefix stays, the last of them torn, and of a folder's changes a prefix.

The ledgers are SQLite's, which has its own way to the disk: a transaction counts as durable once it is committed, whole or not at
all. A process can be killed before and after one, not inside.
"""

from __future__ import annotations

import errno
import os
from collections import namedtuple
from collections.abc import Callable
from contextlib import suppress
from fcntl import flock as real_flock
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, Self

from crescendo.storage.journal.segments import OPENING
from tests.network.virtual.process import Killed, Process, current
from tests.network.virtual.threads import sleep

Usage = namedtuple("Usage", "total used free")
SIZE, PLENTY = 1e12, 5e11  # bytes of a disk, and those that are free


class _File:
    """What is known of one file, whatever its name is by now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.undo: list[
            tuple[int, bytes, int, int]
        ] = []  # of writes that are not synced: place, before, length, size before
        self.unsynced_from: int | None = None  # of a file that is written through Python: all from here on


class Disk:
    """The disk of one machine, whose files are all in ``folder``."""

    def __init__(self, folder: Path, rng: Random) -> None:
        self.folder, self._rng = folder, rng
        self._files: dict[Path, _File] = {}
        self._names: dict[Path, list[Callable[[], None]]] = {}  # by folder: how to undo each change that is not synced
        self.sync_takes = self.usual_sync = 0.0005, 0.02  # seconds
        self.is_full, self.fails = False, 0
        self.operations_left: int | None = None  # then the process is killed
        self.on_last: Callable[[], None] = lambda: None

    # -- what goes wrong ---------------------------------------------------------------------------------------------------

    def lose_power(self) -> None:
        """Keep what was synced, and of the rest whatever the disk had got to."""
        for file in list(self._files.values()):
            self._tear(file)
        for undos in self._names.values():
            for undo in reversed(undos[self._rng.randint(0, len(undos)) :]):
                with suppress(OSError):
                    undo()
        self.settle()

    @property
    def is_ill(self) -> bool:
        """Is it full or slow now?"""
        return self.is_full or self.sync_takes != self.usual_sync

    def settle(self) -> None:
        """What there is is what the disk has."""
        self._files.clear()
        self._names.clear()

    def _tear(self, file: _File) -> None:
        if not file.path.exists():
            return
        with file.path.open("r+b") as on_disk:
            if file.unsynced_from is not None:
                size = file.path.stat().st_size
                on_disk.truncate(self._rng.randint(min(file.unsynced_from, size), size))
            kept = self._rng.randint(0, len(file.undo))
            for number in range(len(file.undo) - 1, kept - 1, -1):
                place, before, length, size = file.undo[number]
                torn = self._rng.randint(0, length) if number == kept and length else 0
                on_disk.seek(place + torn)
                on_disk.write(before[torn:])
                on_disk.truncate(max(size, place + torn) if length else size)

    def step(self) -> Process:
        """One operation that changes the disk."""
        process = current()
        if self.operations_left is not None:
            self.operations_left -= 1
            if self.operations_left <= 0:
                self.operations_left = None
                self.on_last()
                raise Killed
        return process

    def _fail(self) -> None:
        if self.fails:
            self.fails -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def check(self) -> None:
        """Raise what is wrong with the disk, if something is."""
        self._fail()
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # -- what a process does -------------------------------------------------------------------------------------------------

    def open(self, path: str | Path, flags: int, mode: int = 0o777) -> int:
        path = Path(path)
        new = bool(flags & os.O_CREAT) and not path.exists()
        process = self.step() if new or flags & os.O_TRUNC else current()
        if self.is_full and new:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        number = os.open(path, flags, mode)
        if flags & os.O_DIRECTORY:
            file = _File(path)
        else:
            file = self._files.setdefault(path, _File(path))
            if flags & os.O_TRUNC:
                file.unsynced_from = 0
            if new and ".sqlite" not in path.name.removesuffix(".lock"):
                self._changed(path.parent, lambda: path.unlink())
        _OPEN[number] = self, file, process
        return number

    def close(self, number: int) -> None:
        current()
        _OPEN.pop(number, None)
        os.close(number)

    def write(self, number: int, data: Any, place: int) -> int:
        self.step()
        self._fail()
        file, length = _OPEN[number][1], len(data)
        if self.is_full:
            length //= 2
            if not length:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        size = os.fstat(number).st_size
        before = b""
        if place < size:
            with file.path.open("rb") as old:
                old.seek(place)
                before = old.read(length)
        file.undo.append((place, before, length, size))
        return os.pwrite(number, data[:length], place)

    def truncate(self, number: int, length: int) -> None:
        self.step()
        file, size = _OPEN[number][1], os.fstat(number).st_size
        with file.path.open("rb") as old:
            old.seek(length)
            file.undo.append((length, old.read(), 0, size))
        os.ftruncate(number, length)

    def sync(self, number: int) -> None:
        """Wait for the disk. Whatever was written before is safe then, and what is written meanwhile may be."""
        self.step()
        file = _OPEN[number][1]
        counted, names = len(file.undo), len(self._names.get(file.path, ()))
        low, high = self.sync_takes
        sleep(self._rng.uniform(low, high))
        if self.fails and not file.path.is_dir():
            self._tear(file)  # the system marks the pages clean, and forgets them: another sync would not help
            file.undo.clear()
        self._fail()
        if file.path.is_dir():
            del self._names.setdefault(file.path, [])[:names]
        else:
            del file.undo[:counted]
            file.unsynced_from = None
        if self.operations_left is not None:
            self.step()  # between the disk's word and whatever follows
        current()

    def replace(self, source: str | Path, target: str | Path) -> None:
        self.step()
        source, target = Path(source), Path(target)
        before = target.read_bytes() if target.exists() else None

        def undo() -> None:
            if target.exists():
                target.replace(source)
            if before is not None:
                target.write_bytes(before)

        source.replace(target)
        self._moved(source, target)
        self._changed(target.parent, undo)

    def unlink(self, path: str | Path) -> None:
        path = Path(path)
        current()
        content = path.read_bytes()  # FileNotFoundError if it is not there
        self.step()
        if path.name.startswith("journal-") and len(content) > OPENING.size:  # pruned: the checks at the end need it
            (self.folder / "archive").mkdir(exist_ok=True)
            (self.folder / "archive" / path.name).write_bytes(content)
        path.unlink()
        self._files.pop(path, None)
        self._changed(path.parent, lambda: _put_back(path, content))

    def usage(self) -> Usage:
        current()
        free = 0.0 if self.is_full else PLENTY
        return Usage(SIZE, SIZE - free, free)

    def _moved(self, source: Path, target: Path) -> None:
        file = self._files.pop(source, None)
        self._files.pop(target, None)
        if file is not None:
            file.path, self._files[target] = target, file

    def _changed(self, folder: Path, undo: Callable[[], None]) -> None:
        self._names.setdefault(folder, []).append(undo)

    def close_all(self, process: Process) -> None:
        """What the kernel does with the files of a process that is gone."""
        for number, (_, _, owner) in list(_OPEN.items()):
            if owner is process:
                del _OPEN[number]
                with suppress(OSError):
                    os.close(number)


_OPEN: dict[int, tuple[Disk, _File, Process]] = {}


def _put_back(path: Path, content: bytes) -> None:
    if not path.exists():
        path.write_bytes(content)


def _disk() -> Disk:
    return current().machine.disk


def open_file(path: Any, flags: int, mode: int = 0o777) -> int:
    return _disk().open(path, flags, mode)


def close(number: int) -> None:
    _disk().close(number)


def fdopen(number: int, mode: str) -> Any:
    return _Writer(number, _disk())


def pwrite(number: int, data: Any, place: int) -> int:
    return _disk().write(number, data, place)


def pread(number: int, length: int, place: int) -> bytes:
    current()
    return os.pread(number, length, place)


def sync(number: int) -> None:
    _disk().sync(number)


def ftruncate(number: int, length: int) -> None:
    _disk().truncate(number, length)


def replace(source: Any, target: Any) -> None:
    _disk().replace(source, target)


def unlink(path: Any) -> None:
    _disk().unlink(path)


def disk_usage(path: Any) -> Usage:
    return _disk().usage()


def flock(number: int, operation: int) -> None:
    current()
    real_flock(number, operation)


class _Writer:
    """A file that is written through Python, as `whole_file` does. Its bytes reach the disk when it is flushed."""

    def __init__(self, number: int, disk: Disk) -> None:
        self._number, self._disk, self._bytes = number, disk, BytesIO()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bytes, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def flush(self) -> None:
        self._disk.step()
        self._disk.check()
        os.pwrite(self._number, self._bytes.getvalue(), 0)

    def close(self) -> None:
        if not self._bytes.closed:
            try:
                self.flush()
            finally:
                self._bytes.close()
                self._disk.close(self._number)
