"""Reader of LIBSVM text, ``label index:value index:value ...`` with indices from 1, in one compiled pass over the bytes.

Blank lines and ``# comments`` are skipped, lines may end in spaces or CR LF, a label may stand alone, and explicit zeros are
dropped, since a missing index means zero. The caller chooses for any other line: refuse it with its number, or leave it out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats, Ints
from crescendo.data.records import csr
from crescendo.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_WORD = re.compile(rb"[^\s#]{0,40}")
_NUMBER = re.compile(rb"[-+.0-9eE]+")
_LARGEST = int(np.iinfo(np.int32).max)


def parse(content: bytes, name: str, features: int | None = None) -> tuple[csr_array, Floats]:
    """Return the matrix and the raw labels of a LIBSVM text; errors call it ``name``.

    Pass the number of ``features`` if it is known, since a part of a data set need not use the last feature; the default is
    the largest index in the text.

    >>> x, y = parse(b"+1 1:0.5 3:2\\n-1\\n", "two lines", features=4)
    >>> x.toarray().tolist(), y.tolist()
    ([[0.5, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]], [1.0, -1.0])
    """
    limit = _LARGEST if features is None else features
    found = _filled(content, limit, leave_out=False)
    if found.error:
        line, word = _line_of(content, found.place), _word(content, found.place)
        raise DataError(f"{name}, line {line}: {_complaint(found.error, word, limit)}; correct that line")
    if len(found.labels) == 0:
        raise DataError(f"{name} has no records, not one line with a label; check that the file is whole")
    if found.infinite is not None:
        line, word = _line_of(content, found.infinite), _word(content, found.infinite)
        raise DataError(f"{name}, line {line}: '{word}' is not finite; correct that line")
    widest = int(found.indices.max(initial=-1)) + 1
    return found.matrix(max(widest, 1) if features is None else features), found.labels


def parse_each(content: bytes, features: int) -> tuple[csr_array, Floats, int]:
    """Parse every line alone and leave out those that are not a record; return the matrix, the labels and how many were left out.

    A number that is too large for a float becomes infinite, and the caller leaves its record out.

    >>> x, y, unreadable = parse_each(b"+1 1:0.5\\n-1 1:2 1:2\\n-1 9:1\\nwhat\\n-1 2:3", features=2)
    >>> x.toarray().tolist(), y.tolist(), unreadable
    ([[0.5, 0.0], [0.0, 3.0]], [1.0, -1.0], 3)
    """
    found = _filled(content, features, leave_out=True)
    return found.matrix(features), found.labels, found.unreadable


@dataclass(frozen=True, eq=False)
class _Filled:
    labels: Floats
    values: Floats
    indices: npt.NDArray[np.int32]
    ends: Ints
    unreadable: int
    error: int
    place: int  # of the error
    infinite: int | None  # the place of the first number that is too large

    def matrix(self, features: int) -> csr_array:
        return csr(self.values, self.indices, self.ends, (len(self.labels), features))


def _filled(content: bytes, limit: int, leave_out: bool) -> _Filled:
    from crescendo.data.formats import libsvm_kernel as kernel

    text = np.frombuffer(content, dtype=np.uint8)
    rows, cells = kernel.room(text)
    labels, ends = np.empty(rows), np.zeros(rows + 1, dtype=np.int64)
    values, indices = np.empty(cells), np.empty(cells, dtype=np.int32)
    hard = np.empty((rows + cells, 2), dtype=np.int64)  # an upper bound; untouched pages of it cost nothing
    rows, difficult, unreadable, error, place = kernel.fill(text, limit, leave_out, labels, values, indices, ends, hard)
    infinite = _read_hard(content, hard[:difficult], labels, values)
    cells = int(ends[rows])
    kept = labels[:rows].copy(), values[:cells].copy(), indices[:cells].copy(), ends[: rows + 1]
    return _Filled(*kept, unreadable, error, place, infinite)


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


def _line_of(content: bytes, place: int) -> int:
    return content.count(b"\n", 0, place) + 1


def _read_hard(content: bytes, hard: Ints, labels: Floats, values: Floats) -> int | None:
    """Read the numbers that the kernel left to Python's float; return the place of the first infinite one."""
    infinite = None
    for place, cell in hard.tolist():
        found = _NUMBER.match(content, place)
        assert found is not None, "the kernel has read a number here"
        value = float(found.group())
        if infinite is None and not np.isfinite(value):
            infinite = place
        if cell < 0:
            labels[-1 - cell] = value
        else:
            values[cell] = value
    return infinite
