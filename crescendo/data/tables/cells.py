"""Cells of a table: each is read as a number or a category by itself, whatever the other cells hold."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from crescendo.core.arrays import Array, Bools, Floats, Ints

_EXCEL = ("#n/a", "#div/0!", "#ref!", "#value!", "#name?", "#num!", "#null!")
MISSING = frozenset(
    ("", "na", "n/a", "n.a.", "k.a.", "<na>", "nan", "nat", "null", "none", "?", "-", "--", ".", *_EXCEL)
)
"""Texts that stand for an empty cell, in lower case. A listed category of such a name takes precedence."""
_TRUTH = {"true": 1.0, "false": 0.0}
_WHOLE = re.compile(r"[+-]?\d+[.]0+")
_EXACT = 2.0**53  # all whole numbers up to here are floats


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Columns of cells by name: texts in an array of objects, or numbers in which nan is a missing cell.

    ``unreadable`` counts lines that are not a record, and ``headers`` those among them that repeat the header. In a file with
    ``decimal_comma`` a number such as 1,5 is 1.5 in ``columns``, and stays as written in ``raw``. The repr shows no cells.
    """

    name: str
    columns: dict[str, Array]
    rows: int
    unreadable: int = 0
    dates: frozenset[str] = field(default_factory=frozenset)  # columns that are dates by their type
    other: dict[str, str] = field(default_factory=dict)  # columns whose type is not read, and that type
    headers: int = 0
    decimal_comma: bool = False
    raw: dict[str, Array] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Table({self.name!r}: {self.rows:,} rows of {len(self.columns)} columns)"

    def take(self, rows: Bools) -> Self:
        columns, raw = ({name: cells[rows] for name, cells in of.items()} for of in (self.columns, self.raw))
        return replace(self, columns=columns, rows=int(np.count_nonzero(rows)), raw=raw)

    def written(self, name: str) -> Array:
        """Return the cells of a column as they were written."""
        return self.raw.get(name, self.columns[name])


def as_name(text: str) -> str:
    """Return a name or category in the form used for comparison: é may be one letter, or e and an accent.

    >>> as_name(" e\\u0301 ") == "\\u00e9"
    True
    """
    text = text.strip()
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def as_category(text: str) -> str:
    """Return a cell as a category: 3.0 is 3, since a missing cell turns a column of whole numbers into floats.

    >>> as_category("3.00"), as_category("3.50"), as_category(" 007 ")
    ('3', '3.50', '007')
    """
    text = as_name(text)
    return text.partition(".")[0] if _WHOLE.fullmatch(text) else text


def texts(cells: Array) -> list[str]:
    """Return each cell as a category, empty if it is missing. Whole numbers are written without a point.

    >>> texts(np.array([1.0, 2.5, np.nan])), texts(np.array([" a", "3.0", ""], dtype=object))
    (['1', '2.5', ''], ['a', '3', ''])
    """
    if cells.dtype != object:
        return [_written(cell) for cell in cells.tolist()]
    known = {cell: as_category(cell) for cell in set(cells.tolist())}
    return [known[cell] for cell in cells.tolist()]


def _written(cell: Any) -> str:
    if isinstance(cell, bool):
        return str(cell)
    if isinstance(cell, int) and abs(cell) <= _EXACT:
        return str(cell)
    number = float(cell)
    if math.isnan(number):
        return ""
    return str(int(number)) if number.is_integer() else repr(number)


def numbers(cells: Array) -> Floats:
    """Return each cell as a number, nan if it is missing or not a number.

    >>> numbers(np.array(["1.5", "", "n/a", "long", "True", "1e999"], dtype=object))
    array([1.5, nan, nan, nan, 1. , inf])
    """
    if cells.dtype != object:
        return cells.astype(np.float64)
    found: list[str] = cells.tolist()
    try:
        return np.fromiter(map(float, found), np.float64, len(found))
    except ValueError:
        return np.fromiter(map(_number, found), np.float64, len(found))


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return _TRUTH.get(cell.strip().lower(), math.nan)


def missing(cells: Array) -> Bools:
    """Return a mask of the cells that are empty or written as missing.

    >>> missing(np.array(["1.5", " ", "N/A", "long"], dtype=object))
    array([False,  True,  True, False])
    """
    if cells.dtype != object:
        return np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), dtype=np.bool_)
    known = {cell: is_missing(cell) for cell in set(cells.tolist())}
    return np.fromiter((known[cell] for cell in cells.tolist()), np.bool_, len(cells))


def is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def places_of(cells: Array) -> Ints:
    """Return an index from 0 on for each cell, the same for cells of the same category or number.

    >>> places_of(np.array(["b", "a", "b "], dtype=object)).tolist(), places_of(np.array([2.0, np.nan, 2.0])).tolist()
    ([0, 1, 0], [0, 1, 0])
    """
    if cells.dtype != object:
        return np.unique(cells, return_inverse=True)[1].astype(np.int64)
    known: dict[str, int] = {}
    return np.fromiter((known.setdefault(text, len(known)) for text in texts(cells)), np.int64, len(cells))


def objects(cells: Iterable[str]) -> Array:
    """Return an array of text objects, so that one long text does not widen all cells."""
    return np.array(list(cells), dtype=object)
