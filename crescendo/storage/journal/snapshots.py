"""Snapshots of a server's state: shortcuts through its journal, which decides. Losing one costs time, nothing else.

A snapshot is a file of plain data and raw arrays with its checksum in front. It is written beside, synced, read back from the
disk and compared with the state, and only then takes its name: whatever has the name of a snapshot was sound once. It names the
record of the journal that comes next and the checksum of the one before, so that it is never taken for another history's.
"""

import errno
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from crescendo import system
from crescendo.storage.formats import SNAPSHOT
from crescendo.storage.state_file import State
from crescendo.whole_files import forget_cached, whole_file

DRAFT = ".new"
KEPT = 2  # sound ones, the newest: one may be damaged on its disk


class Snapshot(NamedTuple):
    """The state after all records before ``number``, the last of which has the checksum ``check``."""

    number: int
    check: int
    state: dict[str, Any]

    @staticmethod
    def paths(folder: Path) -> list[Path]:
        """The files of the snapshots in ``folder``, newest first."""
        return sorted(folder.glob("snapshot-" + "[0-9]" * 20), reverse=True)

    @staticmethod
    def number_in(path: Path) -> int:
        """The record that comes after the snapshot in a file, by the file's name."""
        return int(path.name.removeprefix("snapshot-"))

    @staticmethod
    def remove_drafts(folder: Path) -> None:
        """Remove what kills left of snapshots that were being written, each as large as a model."""
        for draft in folder.glob(f"snapshot-*{DRAFT}"):
            system.unlink(draft)

    @classmethod
    def refuse_newer(cls, folder: Path) -> None:
        """Refuse snapshots of a newer format: what a newer program pruned is in them alone, and a damaged one is removed."""
        for path in cls.paths(folder):
            with path.open("rb") as file:
                number = SNAPSHOT.number_in(file.read(len(SNAPSHOT.opening)))
            if number is not None and number > SNAPSHOT.writes:
                SNAPSHOT.check(path, number)

    @classmethod
    def read(cls, path: Path, arrays: bool = True) -> Self | None:
        """The snapshot in a file; None if it is damaged. Without ``arrays`` all of it is checked and the model is not kept."""
        with path.open("rb") as file:
            found = cls._read(file, arrays)
        return found if found is not None and found.number == cls.number_in(path) else None

    @classmethod
    def _read(cls, file: BufferedReader, arrays: bool = True) -> Self | None:
        found = State.read(file, SNAPSHOT, arrays)
        if found is None:
            return None
        return cls(found.fields["number"], found.fields["check"], found.fields["state"] | found.arrays)

    def write(self, folder: Path) -> None:
        """Put it on disk, where it was read back and found to be this state bit for bit; else OSError, and it is not there."""
        arrays = {name: value for name, value in self.state.items() if isinstance(value, np.ndarray)}
        plain = {name: value for name, value in self.state.items() if name not in arrays}
        state = State({"number": self.number, "check": self.check, "state": plain}, arrays)
        with whole_file(folder / f"snapshot-{self.number:020d}", DRAFT, self._check_written) as file:
            state.write(file, SNAPSHOT)

    def _check_written(self, draft: Path) -> None:
        forget_cached(draft)
        with draft.open("rb") as file:
            found = self._read(file)
        if found is None or found[:2] != self[:2] or {*found.state} != {*self.state} or self.differences(found.state):
            raise OSError(errno.EIO, "it was read back otherwise than it was written")

    def differences(self, state: dict[str, Any]) -> list[str]:
        """The fields in which an exported state is not this one, bit for bit; a snapshot of an older version has fewer."""
        return [name for name, value in state.items() if name in self.state and not _same(value, self.state[name])]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return (a.dtype, a.shape) == (b.dtype, b.shape) and a.tobytes() == b.tobytes()
    return type(a) is type(b) and bool(a == b)
