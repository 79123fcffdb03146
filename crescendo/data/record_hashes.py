"""Keyed hashes of a file's records, which recognise the same records in another file. They depend on the file, never on terms.

A record is the set of its nonempty cells, each a column with a number or a text. So the order of columns and of records does not
count, and a zero equals a missing cell. Numbers are compared to seven digits, since other programs write fewer digits than we do.
Columns of a table are identified by name, those of arrays, images and LIBSVM text by position: a csv matches the same table saved
as Parquet, but not as npz. One column more or fewer changes every record.

The hash is BLAKE2b with a key, and reveals nothing without it. The smallest hashes belong to the same records in any file.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import reduce
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Array
from crescendo.data.formats.readers import RecordFile
from crescendo.data.records import Raw
from crescendo.data.tables.cells import Table, as_category, as_name, is_missing, numbers

_Words = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.uint64]
_LABEL = np.uint32(2**32 - 1)  # the column of the labels, if columns are identified by position
_TOGETHER = 1 << 16  # records that are copied in memory at a time
_WIDEST = int(np.iinfo(np.int32).max)  # of LIBSVM text: there are no terms here to limit the number of features


def smallest_hashes(file: RecordFile, key: bytes, keep: int) -> Hashes:
    """Return the ``keep`` smallest hashes of a file's records, each once, in order; all of them if there are fewer."""
    return reduce(lambda kept, more: np.union1d(kept, more)[:keep], _hashes(file, key), np.zeros(0, dtype=np.uint64))


def _hashes(file: RecordFile, key: bytes) -> Iterator[Hashes]:
    for columns, words, ends in _of_table(file.table(alone=True)) if file.is_table else _of_arrays(_raw(file)):
        pairs = memoryview(np.column_stack([columns, words]).tobytes())
        starts = np.concatenate([[0], ends[:-1]])
        found = (
            blake2b(pairs[8 * a : 8 * b], digest_size=8, key=key).digest()
            for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
            if a < b  # an empty record identifies nothing
        )
        yield np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64)


def _raw(file: RecordFile) -> Raw:
    return file.read(None, None, _WIDEST if file.kind == "libsvm" else None, leave_out=True, test=False)


_Cells = tuple[
    _Words, _Words, npt.NDArray[Any]
]  # of some records: columns and words of the cells, and the end of each record


def _of_table(table: Table) -> Iterator[_Cells]:
    named = sorted((zlib.crc32(as_name(name).encode()), name) for name in table.columns)
    columns = np.array([number for number, _ in named], dtype=np.uint32)
    words = [_words(table.columns[name]) for _, name in named]
    for start in range(0, table.rows, _TOGETHER):
        yield _filled(columns, np.column_stack([column[start : start + _TOGETHER] for column in words]))


def _of_arrays(raw: Raw) -> Iterator[_Cells]:
    labels = _words(raw.y)
    columns = np.append(np.arange(raw.x.shape[1], dtype=np.uint32), _LABEL) if isinstance(raw.x, np.ndarray) else None
    for start in range(0, len(raw), _TOGETHER):
        x, y = raw.x[start : start + _TOGETHER], labels[start : start + _TOGETHER]
        yield _sparse(x, y) if columns is None else _filled(columns, np.column_stack([_numbers(x), y]))


def _filled(columns: _Words, words: _Words) -> _Cells:
    """Return the nonempty cells of a dense block."""
    held = words != 0
    return np.broadcast_to(columns, words.shape)[held], words[held], np.cumsum(np.count_nonzero(held, axis=1))


def _sparse(x: Any, labels: _Words) -> _Cells:
    """Return the nonempty cells of a sparse block, with each record's label after its features."""
    ends = x.indptr[1:]
    columns, words = np.insert(x.indices.astype(np.uint32), ends, _LABEL), np.insert(_numbers(x.data), ends, labels)
    held = words != 0
    return columns[held], words[held], np.cumsum(held)[ends + np.arange(len(labels))]


def _numbers(values: Array) -> _Words:
    """Return numbers as 32 bits; 0 is a zero of either sign, or a missing cell."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = values.astype(np.float32)
    return np.where(np.isnan(narrow) | (narrow == 0), np.float32(0), narrow).view(np.uint32)


def _words(cells: Array) -> _Words:
    """Return each cell as 32 bits, independently of the others: a number as a number, a text by its checksum."""
    cells = cells if cells.dtype.kind in "biuf" else cells.astype(object)
    values = numbers(cells)
    found = _numbers(values)
    if cells.dtype == object:
        texts = np.flatnonzero(np.isnan(values))
        written: list[str] = cells[texts].tolist()
        known = {cell: 0 if is_missing(cell) else zlib.crc32(as_category(cell).encode()) for cell in set(written)}
        found[texts] = [known[cell] for cell in written]
    return found
