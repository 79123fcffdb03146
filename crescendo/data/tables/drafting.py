"""Drafts of a schema from a table. Drafting looks at every cell, so it is for public tables and for runs without privacy.

A column of numbers gets its range, cut at values further out than the width of the middle 98%. A column of text gets its
categories. An index, dates, and texts that hardly repeat are left out, and the draft lists them. Money, percents and amounts in
one unit are numbers, and codes are categories.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np

from crescendo.core.arrays import Array, Bools, Floats
from crescendo.data.tables.cells import Table, is_missing, missing, numbers, texts
from crescendo.data.tables.doctor.codes import HUGE, are_whole_dates, is_code
from crescendo.data.tables.doctor.number_writing import written_in
from crescendo.data.tables.doctor.table_finding import TableFinding
from crescendo.data.tables.feature_schema import CategoryColumn, NumberColumn, Schema, is_text
from crescendo.data.tables.written_numbers import PLAIN, Written
from crescendo.errors import ConfigError, DataError

MOST_VALUES = 50  # categories of a column of text; the others count as one
_DISTINCT = 0.95  # the share of different numbers in a column that is named like an index
_FEW = 5  # records; if texts never repeat in at least so many, they are not categories
_HALF, _DIFFERENT = (
    0.5,
    10,
)  # of a column's cells, and different ones, that look like numbers with a few texts among them
_MOSTLY = 0.9  # the share of a column's cells that decides its kind
_MONTH = r"(jan|feb|m[aä]r|apr|ma[iy]|ju[nl]|aug|sep|o[ck]t|nov|de[cz])[a-z]*"
DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ]+\d{1,2}:\d{2}.*)?"
    rf"|\d{{1,2}}\.?[ -]{_MONTH}[ .,-]+\d{{2,4}}|{_MONTH}\.? \d{{1,2}},? \d{{4}}"
    r"|\d{1,2}:\d{2}(:\d{2})?( ?[ap]\.?m\.?)?",
    re.IGNORECASE,
)
_MARKED = re.compile(r"[0-9][,' \u00a0\u202f\u2009\u2019][0-9]{2,3}")  # between thousands
_POINTED = re.compile(r"[0-9][.' \u00a0\u202f\u2009\u2019][0-9]{2,3}")
OTHER_MINUS = "numbers with another minus than -"
INDEX = re.compile(r"(column 1|unnamed.*|index|idx|row|rownum|row_?id|id|.*[_ -]id|nr|no|number)", re.IGNORECASE)


@dataclass(frozen=True)
class TableKeys:
    """A user's options for the columns of a table.

    ``drop`` columns are left out, and ``categories`` are never read as numbers. A missing number becomes ``missing``;
    ``indicator`` turns a feature that marks missing cells on or off (None: on if a cell is missing). ``codes`` are numbers that
    stand for a missing cell. With ``scale`` a table of numbers alone is scaled, too.
    """

    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    missing: float | Literal["median"] = "median"
    indicator: bool | None = None
    scale: bool = False
    codes: tuple[float, ...] = ()

    def check(self, columns: Iterable[str], name: str) -> None:
        """Refuse options for a column that the table does not have."""
        known = list(columns)
        for key, wanted in (("data.drop", self.drop), ("data.categories", self.categories)):
            absent = [column for column in wanted if column not in known]
            if absent:
                raise ConfigError(f"{key} names '{absent[0]}', and the columns of {name} are {', '.join(known)}")


@dataclass(frozen=True)
class Draft:
    """A schema, the numbers and categories that it uses, and the reasons why other columns are left out."""

    schema: Schema
    left_out: dict[str, str] = field(default_factory=dict)  # column -> why
    no_numbers: dict[str, int] = field(
        default_factory=dict
    )  # column of numbers -> its cells that are none, such as "<0.3"
    as_codes: tuple[str, ...] = ()  # categories whose cells look like numbers
    other_minus: tuple[str, ...] = ()  # columns of "thousands" without a mark between thousands
    unread: dict[str, str] = field(default_factory=dict)  # column -> why its numbers cannot be read
    findings: tuple[TableFinding, ...] = ()

    def says(self, name: str) -> str:
        """Return one line about all columns."""
        used = self.schema.columns
        parts = {
            "scaled to [-1, 1]": [self._with_missing(one) for one in used if isinstance(one, NumberColumn)],
            "categories": [f"{one.name} ({self._many(one)})" for one in used if isinstance(one, CategoryColumn)],
            "left out": [f"{column} ({why})" for column, why in self.left_out.items()],
        }
        return f"columns of {name}: " + "; ".join(f"{what}: {_some(found)}" for what, found in parts.items() if found)

    def _with_missing(self, column: NumberColumn) -> str:
        many = self.no_numbers.get(column.name, 0)
        odd = f" or no number, as {many:,} {'cell is' if many == 1 else 'cells are'}" if many else ""
        filled = [f"{column.missing:g} where missing{odd}"] if column.indicator or odd else []
        how = OTHER_MINUS if column.name in self.other_minus else str(column.written)
        written = [] if column.written == PLAIN else [how]
        codes = [f"{' and '.join(f'{code:g}' for code in column.codes)} as missing"] if column.codes else []
        said = ", ".join([*written, *codes, *filled])
        return f"{column.name} ({said})" if said else column.name

    def _many(self, column: CategoryColumn) -> str:
        more = f"{' and others' if column.other else ''}{' and missing' if column.indicator else ''}"
        return f"{len(column.values)}{' codes' if column.name in self.as_codes else ''}{more}"


def _some(found: list[str], most: int = 12) -> str:
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")


def drafted(table: Table, aside: Iterable[str], keys: TableKeys, label: str | None = None) -> Draft:
    """Draft a schema from the cells of those columns of ``table`` that are not set ``aside``."""
    aside, columns, left_out = set(aside), list[NumberColumn | CategoryColumn](), dict[str, str]()
    no_numbers, as_codes, other_minus, unread = dict[str, int](), list[str](), list[str](), dict[str, str]()
    keys.check(table.columns, table.name)
    for name in table.columns:
        if name in aside:
            continue
        seen = _Seen.of(table, name, keys)
        made = "data.drop" if name in keys.drop else _drafted(seen, keys)
        unread |= {name: seen.unread} if seen.unread else {}
        if isinstance(made, str):
            left_out[name] = made
            continue
        columns.append(made)
        if isinstance(made, NumberColumn) and (odd := seen.odd):
            no_numbers[name] = odd
        if isinstance(made, NumberColumn) and seen.has_other_minus:
            other_minus.append(name)
        if isinstance(made, CategoryColumn) and seen.is_code and name not in keys.categories:
            as_codes.append(name)
    if not columns:
        why = ", ".join(f"{name} is {reason}" for name, reason in list(left_out.items())[:6])
        raise DataError(f"{table.name} has no column left for a feature: {why or 'there is none beside the label'}")
    looked = tuple(name for name in left_out if name not in keys.drop)
    schema = Schema(tuple(sorted(columns, key=lambda one: one.name)), label, looked)
    marked = Schema.of(schema.plain()).marked(True)
    return Draft(marked, left_out, no_numbers, tuple(as_codes), tuple(other_minus), unread)


def with_codes_missing(draft: Draft, table: Table) -> Draft:
    """Return the draft with every code that the doctor found as a missing cell, for a person to confirm."""
    codes = {one.column: one.codes for one in draft.findings if one.column is not None and one.codes}
    made, findings = list[NumberColumn | CategoryColumn](), list[TableFinding]()
    mended = set[str]()
    for column in draft.schema.columns:
        keys = TableKeys(codes=codes.get(column.name, ()))
        again = _drafted(_Seen.of(table, column.name, keys), keys) if keys.codes else column
        changed = isinstance(again, NumberColumn) and again is not column
        made.append(
            replace(again, looked_at=column.looked_at) if isinstance(again, NumberColumn) and changed else column
        )
        mended |= {column.name} if changed else set()
    for one in draft.findings:
        findings.append(replace(one, mended=True) if one.codes and one.column in mended else one)
    return replace(draft, schema=replace(draft.schema, columns=tuple(made)), findings=tuple(findings))


@dataclass(frozen=True, eq=False)
class _Seen:
    """The findings of a look at one column's cells."""

    name: str
    cells: Array
    absent: Bools
    values: Floats  # nan for a cell that is missing or not a number
    written: Written
    is_date: bool
    is_code: bool
    unread: str = ""  # why the numbers cannot be read
    typed: str = ""  # the column's type, if cells of that type are not read

    @classmethod
    def of(cls, table: Table, name: str, keys: TableKeys) -> Self:
        cells = table.columns[name]
        absent, values, written, unread = missing(cells), numbers(cells), PLAIN, ""
        if cells.dtype == object and name not in keys.categories:
            found = written_in(table, name)
            if isinstance(found, str):
                unread = found
            elif found is not None and _better(found, table, values, absent):
                values, written = found.numbers(table.written(name), table.decimal_comma), found
        if not unread and written == PLAIN:
            unread = _half_numbers(cells, values, absent)
        if keys.codes:
            values = np.where(np.isin(values, keys.codes), np.nan, values)
            absent = absent | np.isin(numbers(cells), keys.codes)
        dates = name in table.dates or (cells.dtype == object and _are_dates(cells[~absent])) or are_whole_dates(values)
        code = written == PLAIN and is_code(name, cells, values)
        typed = "dates" if name in table.dates else ""
        if name in table.other:
            typed = f"of the type {table.other[name]:.40}, neither numbers nor texts"
        return cls(name, cells, absent, values, written, dates, code, unread, typed)

    @property
    def there(self) -> int:
        return len(self.cells) - int(np.count_nonzero(self.absent))

    @property
    def finite(self) -> Floats:
        return self.values[np.isfinite(self.values)]

    @property
    def has_other_minus(self) -> bool:
        """True if a rule for thousands reads the numbers only because of their minus: (5), 5- or another minus sign."""
        mark = _POINTED if self.written.decimal == "," else _MARKED
        return self.written.kind == "thousands" and not any(map(mark.search, set(self.cells.tolist())))

    @property
    def odd(self) -> int:
        """The number of cells that hold something other than a number."""
        return int(np.count_nonzero(~self.absent & ~np.isfinite(self.values)))


def _half_numbers(cells: Array, values: Floats, absent: Bools) -> str:
    """Return why a column with numbers in most of its cells cannot be read as numbers; "" for any other column."""
    there, found = np.count_nonzero(~absent), np.isfinite(values)
    many = int(np.count_nonzero(found))
    if (
        cells.dtype != object
        or not _HALF * there <= many < _MOSTLY * there
        or len(np.unique(values[found])) <= _DIFFERENT
    ):
        return ""
    odd = next(str(cell) for cell in cells[~absent & ~found])
    return f"numbers in {100 * many / there:.0f}% of its cells and texts such as {odd!r:.40}"


def _better(found: Written, table: Table, values: Floats, absent: Bools) -> bool:
    """Return True if the way of writing reads the cells better than plain numbers do."""
    if np.isnan(values[~absent]).any():
        return not (table.decimal_comma and found == Written(decimal=","))  # plain numbers of such a file cover that
    return found.kind == "thousands" and table.decimal_comma


def _drafted(seen: _Seen, keys: TableKeys) -> NumberColumn | CategoryColumn | str:
    """Return the column's line of a schema, or why it is left out."""
    if not is_text(seen.name):
        return "a name that cannot be printed"
    if not seen.there:
        return seen.typed or "always empty"
    asked = seen.name in keys.categories
    if not asked and seen.is_date:
        return "dates"
    if not asked and not seen.is_code and len(seen.finite) >= _MOSTLY * seen.there:
        return _number(seen, keys)
    made = _category(seen.name, seen.cells, keys.indicator, bool(seen.absent.any()), asked)
    if isinstance(made, str) and made.startswith("text"):
        return seen.unread or (made.replace("text", "codes") if seen.is_code else made)
    return made


def _are_dates(cells: Array) -> bool:
    return sum(DATE.fullmatch(cell) is not None for cell in cells.tolist()) >= _MOSTLY * len(cells)


def _number(seen: _Seen, keys: TableKeys) -> NumberColumn | str:
    values, finite = seen.values, seen.finite
    if is_index(seen.name, values):
        return "an index"
    low, high = _range(finite)
    if not low < high:
        return "always the same"
    filled = float(np.median(finite)) if keys.missing == "median" else float(keys.missing)
    low, high = min(low, filled), max(high, filled)
    if not math.isfinite(high - low) or max(-low, high) > HUGE:
        return "numbers too large for a range"
    wants = bool(np.isnan(values).any()) if keys.indicator is None else keys.indicator
    codes = tuple(code for code in keys.codes if (numbers(seen.cells) == code).any())
    return NumberColumn(seen.name, low, high, filled, wants, written=seen.written, codes=codes)


def _range(finite: Floats) -> tuple[float, float]:
    """Return the least and the largest number, but no further out than the width of the middle 98%."""
    with np.errstate(over="ignore", invalid="ignore"):  # between -1e308 and 1e308
        least, low, high, most = (float(q) for q in np.quantile(finite, (0.0, 0.01, 0.99, 1.0)))
    wide = high - low if high > low else most - least
    return max(least, low - wide), min(most, high + wide)


def is_index(name: str, values: Floats) -> bool:
    """Return True if numbers count the records: consecutive, or nearly all different in a column named like an index.

    >>> is_index("a", np.arange(5.0)), is_index("patient_id", np.array([7.0, 3.0, 9.0])), is_index("age", np.array([7.0, 3.0]))
    (True, True, False)
    """
    if len(values) < 3 or not np.isfinite(values).all() or (values != np.rint(values)).any():
        return False
    with np.errstate(over="ignore"):
        counts = bool((np.diff(values) == 1).all())
    if counts:
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
