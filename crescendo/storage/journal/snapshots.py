"""Snapshots of a server's state: shortcuts through its journal, which decides. Losing one costs time, nothing else.

A snapshot is a file of plain data and raw arrays with its checksum in front. It is written beside, synced and renamed, so it is
there whole or not at all; the newest ``KEPT`` stay. It names the record of the journal that comes next and the checksum of the
one before, so that it is never taken for a state of another history.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from crescendo.storage.journal.journal import sync_folder

KEPT = 2
_MAGIC = b"CRSSNAP2"


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

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The snapshot in a file; None if it is damaged."""
        with path.open("rb") as file:
            front = file.read(len(_MAGIC) + 32)
            if front[: len(_MAGIC)] != _MAGIC or hashlib.file_digest(file, "sha256").digest() != front[len(_MAGIC) :]:
                return None
            file.seek(len(front))
            fields = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            state = fields["state"]
            for name, dtype, shape in fields["arrays"]:
                count = int(np.prod(shape))
                state[name] = np.frombuffer(file.read(count * np.dtype(dtype).itemsize), dtype=dtype).reshape(shape)
        return cls(fields["number"], fields["check"], state) if fields["number"] == cls.number_in(path) else None

    def write(self, folder: Path) -> None:
        """Put it on disk and remove those that are no longer needed."""
        path = folder / f"snapshot-{self.number:020d}"
        beside = path.with_suffix(".new")
        pieces, hashed = list(self._pieces()), hashlib.sha256()
        for piece in pieces:
            hashed.update(piece)
        private = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(private, "wb") as file:
            file.write(_MAGIC + hashed.digest())
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_folder(folder)
        for old in [*self.paths(folder)[KEPT:], *folder.glob("snapshot-*.new")]:  # the latter a crash left behind
            old.unlink()

    def _pieces(self) -> Iterator[bytes | memoryview]:
        arrays = {name: np.ascontiguousarray(v) for name, v in self.state.items() if isinstance(v, np.ndarray)}
        fields = {
            "number": self.number,
            "check": self.check,
            "arrays": [[name, array.dtype.str, array.shape] for name, array in arrays.items()],
            "state": {name: value for name, value in self.state.items() if name not in arrays},
        }
        text = json.dumps(fields, separators=(",", ":"), allow_nan=False).encode()
        yield len(text).to_bytes(8, "little")
        yield text
        for array in arrays.values():
            yield array.reshape(-1).view(np.uint8).data
