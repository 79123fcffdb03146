"""Drafts a schema from a table: it looks at every cell, so the table is public, or nothing is private.

A column of numbers gets its range, cut where a value lies further out than the middle 98% of them are wide. A column of text gets
its categories. An index, dates, and texts that hardly repeat are left out, and the draft says so by name.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.data.tables.cells import Table, is_missing, missing, numbers, texts
from crescendo.data.tables.feature_schema import CategoryColumn, NumberColumn, Schema, is_text
from crescendo.errors import ConfigError, DataError

MOST_VALUES = 50  # categories of a column of text; the others count as one
_DISTINCT = 0.95  # the part of an index's numbers that are different, in a column that is called one
_FEW = 5  # records; texts that differ in more of them than that, and never repeat, are no categories
_MOSTLY = 0.9  # the part of a column's cells that say what it is
DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ]+\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(:\d{2})?"
)
INDEX = re.compile(r"(column 1|unnamed.*|index|idx|row|rownum|row_?id|id|.*[_ -]id|nr|no|number)", re.IGNORECASE)


@dataclass(frozen=True)
class TableKeys:
    """What a person said about the columns of a table.

    ``drop`` columns are left out and ``categories`` are no numbers, whatever their cells look like. A missing number becomes
    ``missing``; ``indicator`` asks for a feature that says so, or for none (None: where a cell is missing). With ``scale`` a
    table of numbers alone is scaled, too.
    """

    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    missing: float | Literal["median"] = "median"
    indicator: bool | None = None
    scale: bool = False

    def check(self, columns: Iterable[str], name: str) -> None:
        """ConfigError for a column that is not there."""
        known = list(columns)
        for key, wanted in (("data.drop", self.drop), ("data.categories", self.categories)):
            absent = [column for column in wanted if column not in known]
            if absent:
                raise ConfigError(f"{key} names '{absent[0]}', and the columns of {name} are {', '.join(known)}")


@dataclass(frozen=True)
class Draft:
    """A schema, and what became of each column: numbers and categories that are used, and why others are not."""

    schema: Schema
    left_out: dict[str, str] = field(default_factory=dict)  # column -> why
    no_numbers: dict[str, int] = field(
        default_factory=dict
    )  # column of numbers -> its cells that are none, such as "<0.3"

    def says(self, name: str) -> str:
        """One line about all columns."""
        used = self.schema.columns
        parts = {
            "scaled to [-1, 1]": [self._with_missing(one) for one in used if isinstance(one, NumberColumn)],
            "categories": [f"{one.name} ({_many(one)})" for one in used if isinstance(one, CategoryColumn)],
            "left out": [f"{column} ({why})" for column, why in self.left_out.items()],
        }
        return f"columns of {name}: " + "; ".join(f"{what}: {_some(found)}" for what, found in parts.items() if found)

    def _with_missing(self, column: NumberColumn) -> str:
        many = self.no_numbers.get(column.name, 0)
        odd = f" or no number, as {many:,} {'cell is' if many == 1 else 'cells are'}" if many else ""
        return f"{column.name} ({column.missing:g} where missing{odd})" if column.indicator or odd else column.name


def _many(column: CategoryColumn) -> str:
    return f"{len(column.values)}{' and others' if column.other else ''}{' and missing' if column.indicator else ''}"


def _some(found: list[str], most: int = 12) -> str:
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")


def drafted(table: Table, aside: Iterable[str], keys: TableKeys, label: str | None = None) -> Draft:
    """A schema for the columns of ``table`` that are not set ``aside``, from what its cells hold."""
    aside, columns, left_out = set(aside), list[NumberColumn | CategoryColumn](), dict[str, str]()
    no_numbers = dict[str, int]()
    keys.check(table.columns, table.name)
    for name, cells in table.columns.items():
        if name in aside:
            continue
        made = "data.drop" if name in keys.drop else _drafted(name, cells, keys, name in table.dates)
        if isinstance(made, str):
            left_out[name] = made
            continue
        columns.append(made)
        if isinstance(made, NumberColumn) and (
            odd := int(np.count_nonzero(~missing(cells) & ~np.isfinite(numbers(cells))))
        ):
            no_numbers[name] = odd
    if not columns:
        why = ", ".join(f"{name} is {reason}" for name, reason in list(left_out.items())[:6])
        raise DataError(f"{table.name} has no column left for a feature: {why or 'there is none beside the label'}")
    looked = tuple(name for name in left_out if name not in keys.drop)
    schema = Schema(tuple(sorted(columns, key=lambda one: one.name)), label, looked)
    return Draft(Schema.of(schema.plain()).marked(True), left_out, no_numbers)


def _drafted(name: str, cells: Array, keys: TableKeys, dates: bool) -> NumberColumn | CategoryColumn | str:
    """The column as a schema has it, or why it is left out."""
    if not is_text(name):
        return "a name that cannot be printed"
    absent = missing(cells)
    there = len(cells) - int(np.count_nonzero(absent))
    if not there:
        return "always empty"
    values = numbers(cells)
    finite = values[np.isfinite(values)]
    if name not in keys.categories:
        if dates or (cells.dtype == object and _are_dates(cells[~absent])):
            return "dates"
        if len(finite) >= _MOSTLY * there:
            return _number(name, values, finite, keys)
    return _category(name, cells, keys.indicator, bool(absent.any()), name in keys.categories)


def _are_dates(cells: Array) -> bool:
    return sum(DATE.fullmatch(cell) is not None for cell in cells.tolist()) >= _MOSTLY * len(cells)


def _number(name: str, values: Floats, finite: Floats, keys: TableKeys) -> NumberColumn | str:
    if is_index(name, values):
        return "an index"
    low, high = _range(finite)
    if not low < high:
        return "always the same"
    filled = float(np.median(finite)) if keys.missing == "median" else float(keys.missing)
    low, high = min(low, filled), max(high, filled)
    if not math.isfinite(high - low):
        return "numbers too large for a range"
    wants = bool(np.isnan(values).any()) if keys.indicator is None else keys.indicator
    return NumberColumn(name, low, high, filled, wants)


def _range(finite: Floats) -> tuple[float, float]:
    """From the least to the largest, but no further out than the middle 98% are wide."""
    least, low, high, most = (float(q) for q in np.quantile(finite, (0.0, 0.01, 0.99, 1.0)))
    wide = high - low if high > low else most - least
    return max(least, low - wide), min(most, high + wide)


def is_index(name: str, values: Floats) -> bool:
    """Whether numbers count the records: one after the other, or nearly all different in a column that is called so.

    >>> is_index("a", np.arange(5.0)), is_index("patient_id", np.array([7.0, 3.0, 9.0])), is_index("age", np.array([7.0, 3.0]))
    (True, True, False)
    """
    if len(values) < 3 or not np.isfinite(values).all() or (values != np.rint(values)).any():
        return False
    if (np.diff(values) == 1).all():
        return True
    return INDEX.fullmatch(name) is not None and len(np.unique(values)) >= _DISTINCT * len(values)


def _category(name: str, cells: Array, indicator: bool | None, some_missing: bool, asked: bool) -> CategoryColumn | str:
    counts = Counter(cell for cell in texts(cells) if not is_missing(cell))
    listed = {value: times for value, times in counts.items() if is_text(value)}
    frequent = sorted(listed, key=lambda value: (-listed[value], value))[:MOST_VALUES]
    total, covered = sum(counts.values()), sum(listed[value] for value in frequent)
    if not asked and len(counts) > MOST_VALUES and covered < total / 2:
        return f"text of {len(counts):,} different values"
    if not asked and len(counts) == total >= _FEW:
        return "text that never repeats"
    if len(counts) < 2 and not some_missing:
        return "always the same"
    if not frequent:
        return "text that cannot be printed"
    wants = some_missing if indicator is None else indicator
    return CategoryColumn(name, tuple(sorted(frequent)), len(counts) > len(frequent), wants)
