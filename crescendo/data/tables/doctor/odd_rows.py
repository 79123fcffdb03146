"""Odd rows, which are not separate records: a line of units under the header, a line of totals at the end, copies."""

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
_FEWEST = 5  # rows; a shorter table keeps its first and last row
_MOST_CELLS = 5_000_000
_COPIES, _MORE, _FEW = (
    0.01,
    5,
    4,
)  # copies worth a warning: this share of the records, so many times the expected number, and so many more


def without_odd_rows(table: Table) -> tuple[Table, tuple[str, ...]]:
    """Drop a line of units and a line of totals; return the table and a sentence for each dropped line."""
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
    """Return the first row's units, if each of its cells in a column of numbers is empty or a unit."""
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
    """Return True if all other rows, but for a few, have numbers in this column."""
    cells = table.columns[name][1:]
    there = len(cells) - int(np.count_nonzero(missing(cells)))
    if there and np.count_nonzero(np.isfinite(numbers(cells))) >= _MOSTLY * there:
        return True
    return there > 0 and isinstance(written_in(table, name), Written)


def _total(table: Table) -> str:
    """Return the word that marks the last row as totals; "" if there is none."""
    for cells in table.columns.values():
        if cells.dtype != object or str(cells[-1]).strip(" :").casefold() not in _TOTALS:
            continue
        if np.count_nonzero(cells == cells[-1]) == 1:
            return str(cells[-1])[:40]
    return ""


def copies(columns: list[Array]) -> Iterator[TableFinding]:
    """Report more copies of records than chance explains: the test part may then hold records of the training part.

    >>> sizes = np.append(np.arange(40.0), np.arange(6.0))
    >>> for found in copies([sizes, sizes**2]): print(found.says)
    6 of the 46 records are copies of others, so the test part may hold records that training saw; remove them from the table
    """
    rows = len(columns[0]) if columns else 0
    if not rows or rows * len(columns) > _MOST_CELLS:
        return
    places = np.stack([places_of(column) for column in columns], axis=1)
    each = np.zeros(rows, dtype=np.int64)
    for column in places.T:  # two records share a number as long as their cells agree
        each = np.unique(each * (int(column.max()) + 1) + column, return_inverse=True)[1].astype(np.int64)
    distinct = int(each.max()) + 1
    many = rows - distinct
    if many >= max(1, _COPIES * rows) and many > _MORE * _by_chance(places) + _FEW:
        yield TableFinding(
            None,
            f"{many:,} of the {rows:,} records are copies of others, so the test part may hold records that training saw; "
            "remove them from the table",
        )


def _by_chance(places: Ints) -> float:
    """Estimate the number of equal pairs of records if the columns were independent."""
    rows = len(places)
    alike = [float(((np.bincount(column) / rows) ** 2).sum() - 1 / rows) for column in places.T]
    return math.prod(max(one, 0.0) for one in alike) * rows * (rows - 1) / 2
