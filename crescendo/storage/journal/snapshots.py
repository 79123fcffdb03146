"""Snapshots of a server's state: shortcuts through the journal, which is authoritative. Losing one costs only time.

A snapshot is a state file: plain data and raw arrays after a checksum. It is written as a draft, synced, read back
from the disk and compared with the state, and only then renamed: every file named as a snapshot was sound once. It
holds the number of the next journal record and the checksum of the record before, so it cannot be mistaken for a
snapshot of another history.
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
KEPT = 2  # newest sound snapshots: one may get damaged on disk


class Snapshot(NamedTuple):
    """The state after all records before ``number``; ``check`` is the checksum of the last of them."""

    number: int
    check: int
    state: dict[str, Any]

    @staticmethod
    def paths(folder: Path) -> list[Path]:
        """Return the snapshot files in ``folder``, newest first."""
        return sorted(folder.glob("snapshot-" + "[0-9]" * 20), reverse=True)

    @staticmethod
    def number_in(path: Path) -> int:
        """Return the number of the record that follows a snapshot, from the file's name."""
        return int(path.name.removeprefix("snapshot-"))

    @staticmethod
    def remove_drafts(folder: Path) -> None:
        """Remove the drafts of interrupted snapshots, each as large as a model."""
        for draft in folder.glob(f"snapshot-*{DRAFT}"):
            system.unlink(draft)

    @classmethod
    def refuse_newer(cls, folder: Path) -> None:
        """Refuse snapshots of a newer format: they may hold state that a newer program pruned from the journal."""
        for path in cls.paths(folder):
            with path.open("rb") as file:
                number = SNAPSHOT.number_in(file.read(len(SNAPSHOT.opening)))
            if number is not None and number > SNAPSHOT.writes:
                SNAPSHOT.check(path, number)

    @classmethod
    def read(cls, path: Path, arrays: bool = True) -> Self | None:
        """Read a snapshot; None if it is damaged. With ``arrays`` False the whole file is verified but the model not kept."""
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
        """Write the snapshot, read it back and compare it bit for bit; on a mismatch raise OSError and leave no file."""
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
            raise OSError(errno.EIO, "the data read back differ from the data written")

    def differences(self, state: dict[str, Any]) -> list[str]:
        """Return the fields that differ from an exported state, bit for bit; an older version's snapshot has fewer fields."""
        return [name for name, value in state.items() if name in self.state and not _same(value, self.state[name])]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return (a.dtype, a.shape) == (b.dtype, b.shape) and a.tobytes() == b.tobytes()
    return type(a) is type(b) and bool(a == b)
