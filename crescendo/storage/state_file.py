"""State file: plain data and raw arrays in one file, after a format number and a checksum of the rest.

No pickle: plain data are stored as JSON, arrays as raw bytes. A file whose checksum does not match was cut short or
damaged, and is not read.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from crescendo.core.arrays import Array
from crescendo.storage.formats import StoredFormat

_KINDS = "biuf"  # numeric dtypes; other arrays cannot be stored as raw bytes


class State(NamedTuple):
    """The content of a state file: ``fields`` as JSON, and arrays by name."""

    fields: dict[str, Any]
    arrays: dict[str, Array]

    @property
    def size(self) -> int:
        """The bytes of the arrays, almost all of the file."""
        return sum(array.nbytes for array in self.arrays.values())

    def write(self, file: BinaryIO, kind: StoredFormat) -> None:
        """Write the state to an empty file."""
        pieces, hashed = list(self._pieces()), hashlib.sha256()
        for piece in pieces:
            hashed.update(piece)
        file.write(kind.opening + hashed.digest())
        for piece in pieces:
            file.write(piece)

    @classmethod
    def read(cls, file: BinaryIO, kind: StoredFormat, arrays: bool = True) -> State | None:
        """Read a file; None if it is damaged or of another kind. With ``arrays`` False they are verified but not kept."""
        opening, digest = file.read(len(kind.opening)), file.read(32)
        if not kind.reads(opening) or hashlib.file_digest(file, "sha256").digest() != digest:  # type: ignore[arg-type]
            return None
        file.seek(len(opening) + len(digest))
        fields = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        listed = fields.pop("arrays")
        return cls(fields, dict(_arrays(file, listed)) if arrays else {})

    def _pieces(self) -> Iterator[bytes | memoryview]:
        whole = {name: np.asarray(array, order="C") for name, array in self.arrays.items()}
        assert all(array.dtype.kind in _KINDS for array in whole.values()), "an array that is not of numbers"
        listed = [[name, array.dtype.str, array.shape] for name, array in whole.items()]
        text = json.dumps({**self.fields, "arrays": listed}, separators=(",", ":"), allow_nan=False).encode()
        yield len(text).to_bytes(8, "little")
        yield text
        for array in whole.values():
            yield array.reshape(-1).view(np.uint8).data


def _arrays(file: BinaryIO, listed: list[tuple[str, str, list[int]]]) -> Iterator[tuple[str, Array]]:
    for name, dtype, shape in listed:
        data = file.read(math.prod(shape) * np.dtype(dtype).itemsize)
        yield name, np.frombuffer(data, dtype=dtype).reshape(shape)
