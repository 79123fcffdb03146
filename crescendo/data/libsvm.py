"""LIBSVM text, ``label index:value index:value ...`` with indices from 1, read in one compiled pass over the bytes.

Blank lines and ``# comments`` are passed over, lines may end in spaces or CR LF, a label may stand alone, and zeros that
are written out are dropped, since they mean what a missing index means. Everything else is refused with its line number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from crescendo.data.records import FloatArray, IntArray, csr
from crescendo.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_WORD = re.compile(rb"[^\s#]{0,40}")
_NUMBER = re.compile(rb"[-+.0-9eE]+")
_LARGEST = int(np.iinfo(np.int32).max)


def parse(content: bytes, name: str, features: int | None = None) -> tuple[csr_array, FloatArray]:
    """The matrix and the raw labels of a LIBSVM text; ``name`` is what errors call it.

    Without ``features`` the largest index met is their number: pass it where it is known, since a part of a data set
    need not use the last feature.

    >>> x, y = parse(b"+1 1:0.5 3:2\\n-1\\n", "two lines", features=4)
    >>> x.toarray().tolist(), y.tolist()
    ([[0.5, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]], [1.0, -1.0])
    """
    from crescendo.data import libsvm_kernel as kernel

    text = np.frombuffer(content, dtype=np.uint8)
    rows, cells = kernel.room(text)
    limit = _LARGEST if features is None else features
    labels, ends = np.empty(rows), np.zeros(rows + 1, dtype=np.int64)
    values, indices = np.empty(cells), np.empty(cells, dtype=np.int32)
    hard = np.empty((rows + cells, 3), dtype=np.int64)  # an upper bound; untouched pages of it cost nothing
    rows, difficult, error, line, place = kernel.fill(text, limit, labels, values, indices, ends, hard)
    if error:
        raise DataError(f"{name}, line {line}: {_complaint(error, _word(content, place), limit)}; correct that line")
    if rows == 0:
        raise DataError(f"{name} has no records, not one line with a label; check that the file is whole")
    _read_hard(content, name, hard[:difficult], labels, values)
    cells = int(ends[rows])
    widest = int(indices[:cells].max(initial=-1)) + 1
    shape = rows, (max(widest, 1) if features is None else features)
    return csr(values[:cells].copy(), indices[:cells].copy(), ends[: rows + 1], shape), labels[:rows].copy()


def _complaint(error: int, word: str, limit: int) -> str:
    return {
        1: f"'{word}' is not a label, which is one number",
        2: f"'{word}' is not index:value",
        3: f"'{word}' has index 0, but LIBSVM indices start at 1",
        4: f"'{word}' repeats or goes back behind an earlier index, but indices rise along a line",
        5: f"'{word}' has an index above {limit}, the number of features",
        6: f"the value of '{word}' is not a number",
        7: f"'{word}' is not finite",
    }[error]


def _word(content: bytes, place: int) -> str:
    found = _WORD.match(content, place)
    return found.group().decode("utf-8", "backslashreplace") if found else ""


def _read_hard(content: bytes, name: str, hard: IntArray, labels: FloatArray, values: FloatArray) -> None:
    """Give the numbers that the kernel left to Python's float their value."""
    for line, place, cell in hard.tolist():
        found = _NUMBER.match(content, place)
        assert found is not None, "the kernel has read a number here"
        value = float(found.group())
        if not np.isfinite(value):
            raise DataError(f"{name}, line {line}: '{_word(content, place)}' is not finite; correct that line")
        if cell < 0:
            labels[-1 - cell] = value
        else:
            values[cell] = value
