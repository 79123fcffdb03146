"""Rows of a file that are no records of their own: a line of units under the header, a line of totals at the end, copies."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from crescendo.core.arrays import Array, Ints
from crescendo.data.tables.cells import Table, is_missing, missing, numbers, places_of
from crescendo.data.tables.doctor.number_writing import written_in
from crescendo.data.tables.doctor.table_finding import TableFinding
from crescendo.data.tables.written_numbers import Written

_WORDS = (
    "total totals sum sums subtotal average mean summe gesamt gesamtsumme insgesamt mittelwert totaal totale suma grand_total "
    "sub_total total_général"
)
_TOTALS = frozenset(word.replace("_", " ") for word in _WORDS.split())
_UNIT = re.compile(r"[\[(]?[^\d\s]{1,12}( ?/ ?[^\d\s]{1,6})?[\])]?")
_MOSTLY = 0.9
_FEWEST = 5  # rows of a table of which the first or the last is no record
_MOST_CELLS = 5_000_000
_COPIES, _MORE, _FEW = (
    0.01,
    5,
    4,
)  # of the records, times as many as chance makes, and more than these, are worth a sentence


def without_odd_rows(table: Table) -> tuple[Table, tuple[str, ...]]:
    """The table without a line of units and a line of totals, and a sentence for each that was there."""
    if table.rows < _FEWEST:
        return table, ()
    kept, said = np.ones(table.rows, dtype=np.bool_), list[str]()
    if units := _units(table):
        kept[0] = False
        said.append(f"the line under the header says units ({', '.join(units[:6])}) and is left out")
    if total := _total(table):
        kept[-1] = False
        said.append(f"the last line says '{total}' and is left out, as it is no record")
    return (table, ()) if kept.all() else (table.take(kept), tuple(said))


def _units(table: Table) -> list[str]:
    """What the first row says in the columns of numbers, if it has a unit in each that has anything there."""
    found = list[str]()
    for name, cells in table.columns.items():
        if cells.dtype != object or not _are_numbers(table, name):
            continue
        first = cells[0]
        if is_missing(first):
            continue
        if not np.isnan(numbers(cells[:1])[0]) or _UNIT.fullmatch(first) is None:
            return []
        found.append(first)
    return found if len(set(found)) > 1 or any(unit[:1] in "[(%€$°" for unit in found) else []


def _are_numbers(table: Table, name: str) -> bool:
    """Whether all other rows, but for a few, have numbers there."""
    cells = table.columns[name][1:]
    there = len(cells) - int(np.count_nonzero(missing(cells)))
    if there and np.count_nonzero(np.isfinite(numbers(cells))) >= _MOSTLY * there:
        return True
    return there > 0 and isinstance(written_in(table, name), Written)


def _total(table: Table) -> str:
    """The word in the last row that says it has totals."""
    for cells in table.columns.values():
        if cells.dtype != object or str(cells[-1]).strip(" :").casefold() not in _TOTALS:
            continue
        if np.count_nonzero(cells == cells[-1]) == 1:
            return str(cells[-1])[:40]
    return ""


def copies(columns: list[Array]) -> Iterator[TableFinding]:
    """Of records that are there twice although hardly two can be alike: then the test part holds what training saw.

    >>> sizes = np.append(np.arange(40.0), np.arange(6.0))
    >>> for found in copies([sizes, sizes**2]): print(found.says)
    6 of the 46 records are copies of others, so that the test part may hold records which training saw; remove them from the \
table
    """
    rows = len(columns[0]) if columns else 0
    if not rows or rows * len(columns) > _MOST_CELLS:
        return
    places = np.stack([places_of(column) for column in columns], axis=1)
    each = np.zeros(rows, dtype=np.int64)
    for column in places.T:  # two records are in one place as long as their cells are alike
        each = np.unique(each * (int(column.max()) + 1) + column, return_inverse=True)[1].astype(np.int64)
    distinct = int(each.max()) + 1
    many = rows - distinct
    if many >= max(1, _COPIES * rows) and many > _MORE * _by_chance(places) + _FEW:
        yield TableFinding(
            None,
            f"{many:,} of the {rows:,} records are copies of others, so that the test part may hold records which training saw; "
            "remove them from the table",
        )


def _by_chance(places: Ints) -> float:
    """About how many pairs of records would be alike if the columns had nothing to do with one another."""
    rows = len(places)
    alike = [float(((np.bincount(column) / rows) ** 2).sum() - 1 / rows) for column in places.T]
    return math.prod(max(one, 0.0) for one in alike) * rows * (rows - 1) / 2
