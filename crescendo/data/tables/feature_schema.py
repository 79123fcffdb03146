"""Feature schema: maps the columns of a table to features, stated before any record is read.

A record's features depend only on that record and the schema, not on other records, their number or their order. So a schema can
be part of the terms of a private federation, and every client applies it in the same way. The party that writes the terms may be
hostile and chooses every number here; whatever it chooses, a feature lies in [-1, 1].
"""

from __future__ import annotations

import math
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np

from crescendo.core.arrays import Array, Bools, Floats, Ints
from crescendo.data.provenance import LookedAt, digest_of
from crescendo.data.tables.cells import Table, as_category, as_name, is_missing, numbers, texts
from crescendo.data.tables.written_numbers import KINDS, LONGEST_UNIT, PLAIN, Written, currency
from crescendo.errors import ConfigError, DataError

MARK = "looked_at"
_LEFT_OUT = "left out"  # instead of a digest
MOST_COLUMNS = 5_000
MOST_FEATURES = 20_000
LONGEST = 200  # characters of a name or a category
MOST_CODES = 1_000  # whole numbers that are categories
_MOST_MISSING = 20  # numbers that stand for a missing cell
_WORDS = ("kind", "unit", "decimal")
_DROP = "drop"
_DENSE, _DENSE_EACH = (
    128,
    4,
)  # features, or times the columns; more make a sparse matrix, since a short schema can ask for many
Plain: TypeAlias = dict[str, Any]
Entries: TypeAlias = list[tuple[Ints, Floats]]  # for each record: the index of a feature, -1 for none, and its value


@dataclass(frozen=True)
class NumberColumn:
    """Numbers from ``low`` to ``high``, scaled to -1..1; a number outside counts as the nearer end.

    A cell that is empty or not a number counts as ``missing``; without ``missing``, its record is left out. With ``indicator``
    one more feature is 1 for a missing cell. ``looked_at`` marks a line that was read off records. ``written`` is the way the
    numbers are written, and ``codes`` are numbers, such as -999, that stand for a missing cell.
    """

    name: str
    low: float
    high: float
    missing: float | None = None
    indicator: bool = False
    looked_at: bool = field(default=False, compare=False)
    written: Written = PLAIN
    codes: tuple[float, ...] = ()

    @classmethod
    def of(cls, name: str, raw: Plain) -> Self:
        _check_keys(name, raw, ("low", "high", "missing", "fill", "indicator", *_WORDS, MARK))
        for key in ("low", "high"):
            if key not in raw:
                raise _wrong(name, f"has no {key}; a column of numbers has low and high, a category has values")
        raw, codes = _without_codes(name, raw)
        low, high, other = (_float(name, key, raw[key]) if key in raw else None for key in ("low", "high", "missing"))
        assert low is not None and high is not None
        if not low < high:
            raise _wrong(name, f"has low = {low:g} and high = {high:g}; low must be below high")
        if not sys.float_info.min <= high - low <= sys.float_info.max:
            raise _wrong(name, f"goes from {low:g} to {high:g}, a range that a float cannot measure")
        if other is not None and not low <= other <= high:
            raise _wrong(name, f"has missing = {other:g}, which must lie between low = {low:g} and high = {high:g}")
        indicator = _flag(name, "indicator", raw)
        if indicator and other is None:
            raise _wrong(name, "has an indicator and no missing; say which number an empty cell becomes")
        return cls(name, low, high, other, indicator, _flag(name, MARK, raw), _written(name, raw), codes)

    def plain(self) -> Plain:
        filled: Plain = {} if self.missing is None else {"fill" if self.codes else "missing": self.missing}
        codes = {"missing": list(self.codes)} if self.codes else {}
        words = {**codes, **filled, **self.written.plain()}
        return {"low": self.low, "high": self.high, **words, **_flags(self, "indicator", MARK)}

    @property
    def asks(self) -> str:
        return f"what is the public range of {self.name:.60}?"

    @property
    def features(self) -> list[str]:
        return [self.name, *([f"{self.name} is missing"] if self.indicator else [])]

    @property
    def longest_square(self) -> float:
        """The largest contribution of this column to the square of a record's length."""
        if self.missing is None or not self.indicator:
            return 1.0
        return max(1.0, 1.0 + float(self._scaled(np.array([self.missing]))[0]) ** 2)

    def numbers(self, table: Table) -> Floats:
        """Return the column's cells as numbers, nan for one that is missing or not a number."""
        if self.written == PLAIN:
            values = numbers(table.columns[self.name])
        else:
            values = self.written.numbers(table.written(self.name), table.decimal_comma)
        return np.where(np.isin(values, self.codes), np.nan, values) if self.codes else values

    def entries(self, table: Table) -> tuple[Entries, Bools]:
        values = self.numbers(table)
        absent = np.isnan(values)
        filled = self.low if self.missing is None else self.missing
        scaled = self._scaled(np.where(absent, filled, values))
        found: Entries = [(np.zeros(len(values), dtype=np.int64), scaled)]
        if self.indicator:
            found.append((np.where(absent, 1, -1), np.ones(len(values))))
        return found, ~absent if self.missing is None else np.ones(len(values), dtype=np.bool_)

    def _scaled(self, values: Floats) -> Floats:
        inside = np.clip(values, self.low, self.high)  # finite, as low and high are
        share = (inside - self.low) / (self.high - self.low)
        return np.clip(2.0 * share - 1.0, -1.0, 1.0)


@dataclass(frozen=True)
class CategoryColumn:
    """One of ``values``, each a feature that is 1 if the cell holds that value; any other cell gives 0 for all of them.

    With ``other`` one more feature is 1 for an unlisted value; with ``indicator`` one more is 1 for a missing cell.
    """

    name: str
    values: tuple[str, ...]
    other: bool = False
    indicator: bool = False
    looked_at: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, name: str, raw: Plain) -> Self:
        raw = _as_values(name, raw)
        _check_keys(name, raw, ("values", "other", "indicator", MARK))
        listed = raw["values"]
        if not isinstance(listed, list | tuple) or not listed:
            raise _wrong(name, "has values that are no list; name the categories, for example values = ['yes', 'no']")
        if len(listed) > MOST_FEATURES:
            raise _wrong(name, f"has {len(listed)} values, and {MOST_FEATURES} are allowed; name the most frequent")
        values = tuple(_category(name, value) for value in listed)
        often, times = Counter(values).most_common(1)[0]
        if times > 1:
            raise _wrong(name, f"lists the category {often!r:.60} twice; name each once")
        return cls(name, values, *(_flag(name, key, raw) for key in ("other", "indicator", MARK)))

    def plain(self) -> Plain:
        return {"values": list(self.values), **_flags(self, "other", "indicator", MARK)}

    @property
    def asks(self) -> str:
        return f"which values can {self.name:.60} have, by what is public?"

    @property
    def features(self) -> list[str]:
        more = [*(["other"] if self.other else []), *(["missing"] if self.indicator else [])]
        return [f"{self.name} = {value}" for value in self.values] + [f"{self.name} is {word}" for word in more]

    @property
    def longest_square(self) -> float:
        return 1.0

    @cached_property
    def _places(self) -> dict[str, int]:
        return {value: place for place, value in enumerate(self.values)}

    def _place(self, cell: str) -> int:
        """Return the index of the feature that is 1 for this cell; -1 for none."""
        at = self._places.get(cell)
        if at is not None:
            return at
        last = len(self.values)
        if is_missing(cell):
            return last + self.other if self.indicator else -1
        return last if self.other else -1

    def unlisted(self, cells: Array) -> dict[str, int]:
        """Count the values among the cells that are not listed."""
        found = Counter(texts(cells))
        return {cell: many for cell, many in found.items() if cell not in self._places and not is_missing(cell)}

    def entries(self, table: Table) -> tuple[Entries, Bools]:
        found = texts(table.columns[self.name])
        known = {cell: self._place(cell) for cell in set(found)}
        places = np.fromiter((known[cell] for cell in found), np.int64, len(found))
        return [(places, np.ones(len(found)))], np.ones(len(found), dtype=np.bool_)


def _flags(column: NumberColumn | CategoryColumn, *keys: str) -> Plain:
    """Return the flags that are set."""
    return {key: True for key in keys if getattr(column, key)}


Columns: TypeAlias = tuple[NumberColumn | CategoryColumn, ...]


@dataclass(frozen=True)
class Schema:
    """The columns in use, in the order of their names, and the label column if it is named.

    >>> schema = Schema.of({"label": "died", "columns": {
    ...     "age": {"low": 0, "high": 100, "missing": 50}, "sex": {"values": ["f", "m"]}}})
    >>> schema.features
    ('age', 'sex = f', 'sex = m')
    >>> cells = {"age": np.array(["75", "", "200"], dtype=object), "sex": np.array(["m", "f", "x"], dtype=object)}
    >>> x, fits = schema.apply(Table("three", cells, 3))
    >>> x.tolist(), fits.tolist()
    ([[0.5, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], [True, True, True])
    """

    columns: Columns
    label: str | None = None
    left_out: tuple[str, ...] = field(default=(), compare=False)  # columns left out after a look at their cells

    @classmethod
    def of(cls, raw: object) -> Self:
        """Build a schema from plain data, as TOML or JSON hold it; refuse an invalid one with a ConfigError."""
        if not isinstance(raw, Mapping) or not isinstance(raw.get("columns"), Mapping):
            raise ConfigError("a schema has a table [columns] with a line for each column; see docs/own_data.md")
        strange = [key for key in raw if key not in ("columns", "label", "draft")]
        if strange:
            raise ConfigError(f"there is no key {strange[0]!r:.60} in a schema; it has label, columns and draft")
        label = raw.get("label")
        label = None if label is None else _name(label)
        named = raw["columns"]
        if not 1 <= len(named) <= MOST_COLUMNS:
            raise ConfigError(f"a schema has 1 to {MOST_COLUMNS} columns, not {len(named)}")
        drafted = raw.get("draft", {})
        if not isinstance(drafted, Mapping):
            raise ConfigError("a schema's [draft] is a table with a digest for each drafted column")
        if wrong := [name for name, digest in drafted.items() if not isinstance(digest, str)]:
            raise ConfigError(
                f"a schema's [draft] has the key {wrong[0]!r:.60}, which is not a digest; leave it as it was written"
            )
        used = {name: table for name, table in named.items() if table != _DROP}
        if not used:
            raise ConfigError("the schema drops every column; give one a line such as {low = 0, high = 100}")
        made_of = (_marked(_column(name, table), table, drafted) for name, table in used.items())
        columns = tuple(sorted(made_of, key=lambda one: one.name))
        made = cls(
            columns, label, tuple(name for name, says in drafted.items() if says == _LEFT_OUT and name not in named)
        )
        made._check()
        return made

    def _check(self) -> None:
        seen = [*(one.name for one in self.columns), *(() if self.label is None else (self.label,))]
        alike: dict[str, str] = {}
        for name in seen:
            same = unicodedata.normalize("NFKC", name)
            if same in alike:
                what = "is named twice" if name == alike[same] else f"looks like the column '{alike[same][:60]}'"
                raise ConfigError(
                    f"the schema's column '{name[:60]}' {what}; name each column once, the label among them"
                )
            alike[same] = name
        if self.width > MOST_FEATURES:
            raise ConfigError(
                f"the schema makes {self.width} features, and {MOST_FEATURES} are allowed; list fewer values"
            )

    def plain(self) -> Plain:
        """Return plain data for `of`; equal schemas give equal data. ``draft`` holds digests of columns that were looked at."""
        label = {} if self.label is None else {"label": self.label}
        digests = {one.name: _digest(one) for one in self.columns if one.looked_at} | dict.fromkeys(
            self.left_out, _LEFT_OUT
        )
        columns = {one.name: one.plain() for one in self.columns}
        return {**label, "columns": columns, **({"draft": digests} if digests else {})}

    @property
    def looked_at(self) -> tuple[LookedAt, ...]:
        """The columns that were read off records or left out because of them, with the question for a person about each."""
        there = tuple(LookedAt(f"data.schema.columns.{one.name}", one.asks) for one in self.columns if one.looked_at)
        asks = "is it of no use, by what is public? then take this line out, else give it one under [columns]"
        return there + tuple(LookedAt(f"data.schema.draft.{name:.60}", asks) for name in self.left_out)

    def marked(self, looked_at: bool) -> Schema:
        """Return a copy that marks every column as looked at (a draft) or none (a draft from a public table)."""
        columns = tuple(replace(one, looked_at=looked_at) for one in self.columns)
        return replace(self, columns=columns, left_out=self.left_out if looked_at else ())

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(name for column in self.columns for name in column.features)

    @cached_property
    def width(self) -> int:
        """The number of features of a record."""
        return sum(len(column.features) for column in self.columns)

    def norm_bound(self, intercept: bool = True) -> float:
        """Return a bound, rounded up, on the length of any record (x, 1).

        >>> Schema((CategoryColumn("a", ("1", "2")), NumberColumn("b", 0, 1), NumberColumn("c", 0, 1))).norm_bound()
        2.0
        """
        square = math.fsum(column.longest_square for column in self.columns) + float(intercept)
        root = math.sqrt(square)
        return root if root * root >= square and root.is_integer() else math.nextafter(root, math.inf)

    def names(self) -> list[str]:
        """Return the columns that a table must have."""
        return [*(column.name for column in self.columns), *([] if self.label is None else [self.label])]

    def check_table(self, columns: Iterable[str], table: str) -> None:
        """Refuse a table that lacks a column, judged by its header and not by records."""
        known = set(columns)
        absent = [name for name in self.names() if name not in known]
        if absent:
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            raise DataError(
                f"{table} has no column '{absent[0]}'{more}, which the schema names; its columns are {_listed(known)}"
            )

    def apply(self, table: Table) -> tuple[Any, Bools]:
        """Return the features of each record, and a mask of the records that have them all; the caller drops the others."""
        self.check_table([*table.columns, *([] if self.label is None else [self.label])], table.name)
        fits, entries, first = np.ones(table.rows, dtype=np.bool_), Entries(), 0
        for column in self.columns:
            found, fit = column.entries(table)
            entries += [(np.where(places < 0, -1, places + first), values) for places, values in found]
            fits &= fit
            first += len(column.features)
        dense = self.width <= max(_DENSE, _DENSE_EACH * len(self.columns))
        return _matrix(entries, table.rows, self.width, dense), fits


def _matrix(entries: Entries, rows: int, width: int, dense: bool) -> Any:
    if dense:
        x = np.zeros((rows, width))
        for places, values in entries:
            at = np.flatnonzero(places >= 0)
            x[at, places[at]] = values[at]
        return x
    from scipy.sparse import csr_array

    kept = [np.flatnonzero((places >= 0) & (values != 0)) for places, values in entries]
    each = list(zip(entries, kept, strict=True))
    places = np.concatenate([places[at] for (places, _), at in each])
    values = np.concatenate([values[at] for (_, values), at in each])
    return csr_array((values, (np.concatenate(kept), places)), shape=(rows, width))


# -- parsing of a schema's lines --------------------------------------------------------------------------------------


def _column(name: object, raw: object) -> NumberColumn | CategoryColumn:
    name = _name(name)
    if not isinstance(raw, Mapping):
        raise _wrong(name, "is no table; write for example {low = 0, high = 100}, {values = ['yes', 'no']} or \"drop\"")
    category = "values" in raw or "as" in raw
    return CategoryColumn.of(name, dict(raw)) if category else NumberColumn.of(name, dict(raw))


def _as_values(name: str, raw: Plain) -> Plain:
    """Replace ``as = "category"`` in a line by values: the whole numbers from low to high."""
    if raw.get("as", "category") != "category":
        raise _wrong(name, f'has as = {raw["as"]!r:.60}; write as = "category", or leave it out')
    if "as" not in raw or "values" in raw:
        return {key: value for key, value in raw.items() if key != "as"}
    if not {"low", "high"} <= set(raw):
        raise _wrong(name, 'has as = "category" and no values; name the categories, for example values = ["1", "2"]')
    low, high = (_float(name, key, raw[key]) for key in ("low", "high"))
    if not (low.is_integer() and high.is_integer() and 0 < high - low < MOST_CODES):
        raise _wrong(
            name,
            f'has as = "category" for numbers from {low:g} to {high:g}, which is for up to {MOST_CODES} whole ones; name the '
            "categories in values",
        )
    rest = {key: value for key, value in raw.items() if key not in ("as", "low", "high", "missing", "fill", *_WORDS)}
    return {**rest, "values": [str(code) for code in range(int(low), int(high) + 1)]}


def _without_codes(name: str, raw: Plain) -> tuple[Plain, tuple[float, ...]]:
    """Split a list ``missing`` off a line: return the line with ``fill`` as its ``missing``, and the codes for missing cells."""
    listed = raw.get("missing")
    if not isinstance(listed, list | tuple):
        if "fill" in raw:
            raise _wrong(name, "has fill but no list; write missing = 55, or missing = [-999] with fill = 55")
        return raw, ()
    if not 1 <= len(listed) <= _MOST_MISSING:
        raise _wrong(name, f"has missing = [..] of {len(listed)} numbers, and 1 to {_MOST_MISSING} are allowed")
    codes = tuple(sorted({_float(name, "missing", code) + 0.0 for code in listed}))
    rest = {key: value for key, value in raw.items() if key not in ("missing", "fill")}
    return {**rest, **({"missing": raw["fill"]} if "fill" in raw else {})}, codes


def _written(name: str, raw: Plain) -> Written:
    """Read from a column's line how its numbers are written."""
    kind, unit, decimal = raw.get("kind", "number"), raw.get("unit"), raw.get("decimal")
    if kind not in KINDS:
        raise _wrong(name, f"has kind = {kind!r:.60}; write one of {', '.join(KINDS)}")
    if decimal not in (None, ".", ","):
        raise _wrong(name, f'has decimal = {decimal!r:.60}; the mark before decimals is "." or ","')
    if unit is None:
        return Written(kind, None, decimal)
    if kind in ("percent", "thousands"):
        raise _wrong(name, f"has kind = {kind!r} and a unit; leave one of them out")
    if not is_text(unit) or len(unit) > LONGEST_UNIT or any(letter.isdigit() for letter in unit):
        raise _wrong(name, f"has unit = {unit!r:.60}; a unit is a short text without digits, such as 'kg'")
    if kind == "money" and currency(unit) is None:
        raise _wrong(name, f"has unit = {unit!r:.60}, which is no known currency; write its code, such as 'EUR'")
    return Written(kind, as_name(unit) if kind != "money" else currency(unit), decimal)


def _marked(
    column: NumberColumn | CategoryColumn, table: object, drafted: Mapping[str, object]
) -> NumberColumn | CategoryColumn:
    """Mark the column as looked at if it still equals the draft and was not declared: then only its mark was removed."""
    said = isinstance(table, Mapping) and MARK in table
    digest = drafted.get(column.name)
    return column if said or digest is None or digest != _digest(column) else replace(column, looked_at=True)


def _digest(column: NumberColumn | CategoryColumn) -> str:
    """Return a digest of the range or the values alone: a change of flags does not declare them."""
    if isinstance(column, NumberColumn):
        return digest_of({"low": column.low, "high": column.high})
    return digest_of({"values": list(column.values)})


def _wrong(name: str, says: str) -> ConfigError:
    return ConfigError(f"the schema's column '{name[:60]}' {says}")


def _check_keys(name: str, raw: Plain, known: tuple[str, ...]) -> None:
    strange = [key for key in raw if key not in known]
    if strange:
        raise _wrong(name, f"has no key {strange[0]!r:.60}; it may have {', '.join(known)}")


def is_text(value: object) -> bool:
    """Return True for a name or a category that can be shown to a person who signs for it."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable() and not value.isspace()


def _name(value: object) -> str:
    if not isinstance(value, str) or not is_text(value):
        raise ConfigError(
            f"{value!r:.60} is no name of a column; a name has 1 to {LONGEST} letters that can be printed"
        )
    return as_name(value)


def _category(name: str, value: object) -> str:
    """Return a category in the form used for comparison; numbers and truth values become text."""
    text = value if isinstance(value, str) else _as_text(value)
    if text is None or not is_text(text):
        raise _wrong(name, f"lists {value!r:.60}, which is not a category; use a number or a short text")
    return as_category(text)


def _as_text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value)
    if not isinstance(value, int | float) or not abs(value) <= 2**53:
        return None
    return texts(np.array([value]))[0]


def _float(name: str, key: str, value: object) -> float:
    """Return a finite number; refuse any other value."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max:
        return float(value)
    raise _wrong(name, f"has {key} = {value!r:.60}, which must be a finite number")


def _flag(name: str, key: str, raw: Plain) -> bool:
    value = raw.get(key, False)
    if not isinstance(value, bool):
        raise _wrong(name, f"has {key} = {value!r:.60}, which must be true or false")
    return value


def _listed(names: Iterable[str], most: int = 12) -> str:
    found = sorted(names)
    return ", ".join(found[:most]) + (", ..." if len(found) > most else "")
