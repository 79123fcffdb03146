"""The power fails at any step of the disk work, with groups that go past the cache among small ones.

A made-up disk keeps what was synced. Of what was written since, any sectors may be there or not, in any order, and the file may
have any length up to where it was written; the name of a new file may be lost. Every record that was told of is there again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crescendo import system
from crescendo.storage.journal import segment_file
from crescendo.storage.journal.journal import Journal
from crescendo.storage.journal.segment_file import BLOCK
from crescendo.storage.journal.segments import Segments

SECTOR = 512


class PowerCut(BaseException):
    """The machine is off."""


class Disk:
    """What is on disk of each file in a folder, what may be, and when the power fails."""

    def __init__(self, folder: Path, rng: random.Random, patch: pytest.MonkeyPatch) -> None:
        self._folder, self._rng = folder, rng
        self._synced: dict[int, bytes] = {}  # inode -> content
        self._open: dict[int, list[tuple[int, bytes]]] = {}  # inode -> what was written since: where, what
        self._names: set[str] = set()
        self.steps = 1 << 30
        self.direct = 0
        self._pwrite, self._fdatasync, self._ftruncate, self._fsync = os.pwrite, os.fdatasync, os.ftruncate, os.fsync
        patch.setattr(system, "pwrite", self._write)
        patch.setattr(system, "fdatasync", self._sync)
        patch.setattr(system, "ftruncate", self._truncate)
        patch.setattr(system, "fsync", self._sync_folder)

    def _write(self, file: int, data: Any, at: int) -> int:
        self.direct += at % BLOCK == len(data) % BLOCK == 0
        whole = bytes(data)
        if self._ends():  # some of it is on its way already
            self._open.setdefault(os.fstat(file).st_ino, []).append((at, whole[: self._rng.randint(0, len(whole))]))
            raise PowerCut
        self._open.setdefault(os.fstat(file).st_ino, []).append((at, whole))
        return self._pwrite(file, data, at)

    def _sync(self, file: int) -> None:
        if self._ends():
            raise PowerCut
        self._fdatasync(file)
        inode = os.fstat(file).st_ino
        self._synced[inode] = self._path(inode).read_bytes()
        self._open.pop(inode, None)

    def _truncate(self, file: int, size: int) -> None:
        if self._ends():
            raise PowerCut
        self._ftruncate(file, size)

    def _sync_folder(self, file: int) -> None:
        if self._ends():
            raise PowerCut
        self._fsync(file)
        self._names = {path.name for path in self._folder.iterdir()}

    def _ends(self) -> bool:
        self.steps -= 1
        return self.steps < 0

    def _path(self, inode: int) -> Path:
        return next(path for path in self._folder.iterdir() if path.stat().st_ino == inode)

    def restart(self) -> None:
        """The folder as it is found when the power is back."""
        for path in list(self._folder.iterdir()):
            if path.name not in self._names and self._rng.random() < 0.5:
                path.unlink()
                continue
            inode = path.stat().st_ino
            found, longest = bytearray(self._synced.get(inode, b"")), 0
            kept = self._rng.choice([0.0, 0.5, 0.95, 1.0])
            for at, data in self._open.get(inode, ()):
                longest = max(longest, at + len(data))
                low = at
                while low < at + len(data):
                    high = min(at + len(data), low - low % SECTOR + SECTOR)
                    if self._rng.random() < kept:
                        found.extend(bytes(max(0, high - len(found))))
                        found[low:high] = data[low - at : high - at]
                    low = high
            if longest > len(found) and self._rng.random() < 0.5:  # a hole at the end
                found.extend(bytes(self._rng.randint(0, longest - len(found))))
            path.write_bytes(found)
            self._synced[inode] = bytes(found)
        self._open.clear()
        self._names = {path.name for path in self._folder.iterdir()}


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(segment_file, "STAGE", 2 * BLOCK)
        patched.setattr(segment_file, "LARGE", 3000)
        yield patched


def group(rng: random.Random) -> list[bytes]:
    """Records that are synced together: small, or so large that they go past the cache."""
    length = rng.choice([40, 700, 5000, 20_000])
    return [rng.randbytes(rng.randint(0, length)) for _ in range(rng.randint(1, 4))]


@pytest.mark.parametrize("seed", range(8))
def test_every_record_that_was_told_of_outlives_power_cuts(
    seed: int, tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    disk = Disk(tmp_path, rng, patch)
    told: list[bytes] = []
    written: list[bytes] = []  # may be there or not
    for _ in range(40):
        disk.steps = rng.randint(0, 60)
        try:
            journal = Journal(tmp_path, segment_bytes=60_000)
            assert journal.end >= len(told)
            written = told = [record.body for record in journal.read()][: journal.end]
            while True:
                bodies = group(rng)
                written = told + bodies
                journal.write([(1, [memoryview(body)[: len(body) // 2], body[len(body) // 2 :]]) for body in bodies])
                told = written
        except PowerCut:
            disk.restart()
        disk.steps = 1 << 30
        if told:
            found = [record.body for record in Segments(tmp_path).records()]
            assert found[: len(told)] == told
            assert found == written[: len(found)]
    assert disk.direct > 20
