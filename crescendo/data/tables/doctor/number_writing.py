"""Detection of the way a column's numbers are written: money, percents, a unit, marks between thousands."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TypeAlias

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.data.tables.cells import Table, is_missing, numbers, objects
from crescendo.data.tables.doctor.codes import is_code_name
from crescendo.data.tables.written_numbers import Cell, Written, decimal_of, same_unit

_SAMPLE, _SOME = 500, 0.5  # different texts that are tried first, and the share of them that must read as a number
MOSTLY = 0.9  # the share of a column's cells that decides the way of writing
_LONGEST = 12  # characters of a unit
_ORDINALS = frozenset(("st", "nd", "rd", "th", "er", "e", "º", "ª", ".", "°"))
_THREES = re.compile(r"-?[1-9][0-9]{0,2}(\.[0-9]{3})+")
_COMMA = re.compile(r"[0-9],[0-9]{1,2}(?![0-9,])")
_ABOUT = frozenset(("~", "≈", "<", ">", "≤", "≥", "<=", ">=", "±", "ca.", "ca"))
_PHONE = re.compile(r"\+[0-9]{1,3}[ -][0-9 -]+")
_FEW_LABELS = 20  # different labels, which may be classes even if they read as amounts
Cells: TypeAlias = Mapping[str, int]  # each text, and its number of cells


def written_in(table: Table, name: str) -> Written | str | None:
    """Return how a text column's numbers are written, or a text why they cannot be read; None if it has no such numbers."""
    cells = table.written(name)
    if cells.dtype != object or is_code_name(name):
        return None
    counts = Counter(cell for cell in cells.tolist() if not is_missing(cell))
    if not _may_be_written(counts, table.decimal_comma):
        return None
    found = written_as(counts, table.decimal_comma)
    if found is None and table.decimal_comma and _all_in_threes(counts) and _has_decimal_commas(table):
        return Written("thousands", None, ",")
    return found


def _may_be_written(cells: Cells, comma: bool) -> bool:
    """Return True if a longer look is worth its time: not for plain numbers, nor for texts of which few have digits."""
    some = list(islice(cells, _SAMPLE))
    read = sum(Cell.of(cell) is not None for cell in some)
    if read < _SOME * len(some):
        return False
    if comma:
        return True
    return bool(np.isnan(numbers(objects(cells))).any())


def hides_thousands(table: Table) -> bool:
    """Return True if a file with decimal commas has points between thousands: as decimal points, 1.200 would read as 1.2."""
    if not table.decimal_comma:
        return False
    found = (written_in(table, name) for name in table.columns)
    return any(isinstance(one, Written) and one.kind == "thousands" for one in found)


def _all_in_threes(cells: Cells) -> bool:
    """Return True if every cell has a point before its last three digits, which alone is ambiguous."""
    return bool(cells) and all(_THREES.fullmatch(cell) for cell in cells)


def _has_decimal_commas(table: Table) -> bool:
    """Return True if a cell of the table has decimals behind a comma, so that points separate thousands."""
    return any(_COMMA.search(cell) for cells in table.raw.values() for cell in cells.tolist())


def written_as(cells: Cells, comma: bool = False) -> Written | str | None:
    """Return how numbers are written in these texts. ``comma`` is True for a file with decimal commas.

    >>> written_as({"$1,200": 1, "$7.50": 1}), written_as({"1.234,5": 1, "1.234": 3}, comma=True)
    (Written(kind='money', unit='USD', decimal='.'), Written(kind='thousands', unit=None, decimal=','))
    >>> written_as({"5 kg": 2, "500 g": 1}), written_as({"1.5": 1, "2": 1}), written_as({"1st": 1, "2nd": 1})
    ("amounts in several units ('g', 'kg')", None, None)
    """
    parts = {cell: made for cell in cells if (made := Cell.of(cell)) is not None}
    total, found = sum(cells.values()), sum(cells[cell] for cell in parts)
    if not total or found < MOSTLY * total or _are_phones(cells):
        return None
    kind = _kind(parts, cells)
    if isinstance(kind, str) or kind is None:
        return kind
    decimal = _decimal(parts.values(), comma)
    if decimal == "both":
        return "numbers with decimal commas and with decimal points (1,5 and 1.5)"
    written = Written(kind.kind, kind.unit, decimal)
    if written.kind == "number" and written.unit is None:
        if np.isnan(numbers(objects(parts))).any() and decimal != ",":
            written = Written("thousands", None, decimal)
        elif decimal != ",":
            return None
        elif any(mark in part.body for part in parts.values() for mark in ". '"):
            written = Written("thousands", None, decimal)
    values = written.numbers(objects(parts), comma)
    read = sum(cells[cell] for cell, value in zip(parts, values.tolist(), strict=True) if value == value)
    return written if read >= MOSTLY * total else None


def _are_phones(cells: Cells) -> bool:
    """Return True for telephone numbers: a plus before groups of digits.

    >>> _are_phones({"+47 22 33 444": 1, "+44 20 7946": 1}), _are_phones({"+5": 1, "+1,200": 1})
    (True, False)
    """
    return sum(many for cell, many in cells.items() if _PHONE.fullmatch(cell)) >= MOSTLY * sum(cells.values())


def _kind(parts: Mapping[str, Cell], cells: Cells) -> Written | str | None:
    """Classify the words next to the digits; return a text if there are several kinds, None if the words are not a unit."""
    beside = Counter[str]()
    for cell, part in parts.items():
        beside[part.beside] += cells[cell]
    bare = beside.pop("", 0)
    if not beside:
        return Written()
    if all(part.percent for part in parts.values() if part.beside):
        shares = [part.value(None, False) for part in parts.values() if not part.beside]
        if shares and max(map(abs, shares)) <= 1:
            return "numbers with and without a percent sign (12% and 0.12)"
        return Written("percent")
    currencies = {part.currency for part in parts.values() if part.beside}
    if None not in currencies:
        codes = sorted(code for code in currencies if code is not None)
        return Written("money", codes[0]) if len(codes) == 1 else f"amounts in several currencies ({', '.join(codes)})"
    if any(part.before for part in parts.values()):
        return f"numbers with {_some(beside)} before each" if not bare and set(beside) <= _ABOUT else None
    if currencies != {None} or any(part.percent for part in parts.values()):
        return f"numbers with several different texts ({_some(beside)})"
    return _unit(beside, bare)


def _unit(beside: Counter[str], bare: int) -> Written | str | None:
    units = list[str]()
    for text, _ in beside.most_common():
        if not any(same_unit(text, unit) for unit in units):
            units.append(text)
    letters = all(len(unit) <= _LONGEST and not any(map(str.isdecimal, unit)) for unit in units)
    if not letters or {unit.casefold() for unit in units} <= _ORDINALS or len(units) > 6:
        return None
    if bare > sum(beside.values()):
        return None
    return Written(unit=units[0]) if len(units) == 1 else f"amounts in several units ({_some(units)})"


def _some(texts: Iterable[str]) -> str:
    return ", ".join(sorted(repr(text) for text in texts)[:4])


def _decimal(parts: Iterable[Cell], comma: bool) -> str | None:
    """Return the decimal mark that the digits show, "both" if they show two, and the likelier one if they show none.

    If some amounts of money have no decimals, the three digits in 1.234 are thousands rather than decimals.
    """
    found = list(parts)
    bodies = [part.body for part in found]
    marks = {mark for body in bodies if (mark := decimal_of(body)) is not None}
    if len(marks) == 2:
        return "both"
    if marks:
        return marks.pop()
    pointed = [body for body in bodies if "." in body]
    if pointed and not any("," in body for body in bodies):
        whole = len(pointed) < len(bodies) or any(body.index(".") > 1 for body in pointed)
        return "," if whole and (comma or any(part.currency for part in found)) else "."
    return ("," if comma else ".") if any("," in body for body in bodies) else None


def amounts(labels: Array, comma: bool = False) -> Floats | None:
    """Return labels that are money, percents or amounts as numbers if many differ; None for any other labels.

    >>> amounts(np.array([f"${at},500" for at in range(1, 40)], dtype=object))[:2].tolist(), amounts(np.array(["5%", "10%"]))
    ([1500.0, 2500.0], None)
    """
    texts = labels.tolist()
    if not all(isinstance(text, str) for text in texts) or len(set(texts)) <= _FEW_LABELS:
        return None
    found = written_as(Counter(texts), comma)
    if not isinstance(found, Written):
        return None
    values = found.numbers(objects(texts), comma)
    return values if np.isfinite(values).all() else None
