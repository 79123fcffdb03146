"""Attack on how a table becomes features by a schema: may one record change another, or keep the client from taking part?

A small table is made up for the run's own schema: numbers inside and far outside of the stated ranges, categories that it lists
and others that it does not, money, percents, missing and broken cells. Each record must come out the same alone and in company.
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from crescendo.audit.worst_cases.file_reading import (
    CELLS,
    LABELS,
    WIDEST,
    FileKind,
    leak,
    some_labels,
    text_file,
)
from crescendo.core.random import Purpose, stream
from crescendo.data.formats.readers import RecordFile
from crescendo.data.records import Label, Records
from crescendo.data.sound import Sound
from crescendo.data.tables.feature_schema import CategoryColumn, NumberColumn, Schema

TableReader: TypeAlias = Callable[[Path, tuple[Label, ...], Schema, str], Records]
# Numbers, by one way of writing them or another.
_WRITTEN = ("$1,234.50", "1.234,50 €", "1.234", "12%", "(5)", "5 kg", "1,2,3")
_UNLISTED = ("a category of its own", "another one", "zzz")  # which no schema is likely to list


def _read_privately(path: Path, classes: tuple[Label, ...], schema: Schema, label: str) -> Records:
    """As a private client reads its table."""
    raw = RecordFile(path).read(label, None, None, leave_out=True, test=False, schema=schema)
    return Sound.of(raw, classes)[0].records


def table_leaks(
    schema: Schema, label: str | None, classes: tuple[Label, ...], seed: int = 0, read: TableReader = _read_privately
) -> list[str]:
    """A sentence if a record of a table changes another, or whether the client goes on.

    >>> schema = Schema.of({"columns": {"age": {"low": 0, "high": 99}, "town": {"values": ["Oslo", "Rome"]}}})
    >>> table_leaks(schema, "ill", ("no", "yes"))
    []
    """
    small, rng = _smaller(schema), stream(seed, Purpose.SPLIT)
    name = schema.label or label or _unused("label", schema)
    kind = _table(small, name, some_labels(classes, rng), rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table{kind.suffix}"
        found = leak(path, kind, classes, small.width, lambda file, known, _: read(file, known, small, name))
    return [] if found is None else [f"by data.schema, {found}"]


def _smaller(schema: Schema) -> Schema:
    """A few columns of either kind: the code is the same for more."""
    kinds = (NumberColumn, CategoryColumn)
    kept = [one for kind in kinds for one in [one for one in schema.columns if isinstance(one, kind)][: WIDEST // 2]]
    return Schema(tuple(sorted(kept, key=lambda one: one.name)), schema.label)


def _unused(name: str, schema: Schema) -> str:
    taken = {one.name for one in schema.columns}
    while name in taken:
        name += "_"
    return name


def _table(schema: Schema, label: str, labels: list[Any], rng: np.random.Generator) -> FileKind:
    columns = schema.columns
    rows = [[*(_cell(one, at, rng) for one in columns), value] for at, value in enumerate(labels)]
    first = rows[0]
    strange = [
        _line([*first[:place], cell, *first[place + 1 :]])
        for place, column in enumerate(columns)
        for cell in _strange(column)
    ]
    strange += [_raw([cell, *first[1:]]) for cell in CELLS] + [_raw([*first[:-1], cell]) for cell in CELLS + LABELS]
    strange += [_raw(first[1:]), _raw([*first, *first])]
    header = _line([*(one.name for one in columns), label])
    return FileKind(".csv", [_line(row) for row in rows], strange, lambda lines: text_file([header, *lines]))


def _cell(column: NumberColumn | CategoryColumn, at: int, rng: np.random.Generator) -> Any:
    """Of the record ``at``: a number in the middle of the range, or a category; every third is one that is not listed."""
    if isinstance(column, NumberColumn):
        return column.written.text(column.low + (column.high - column.low) * float(rng.uniform(0.2, 0.6)))
    if at and at % 3 == 0:
        return _UNLISTED[at // 3 % 2]
    return column.values[int(rng.integers(len(column.values)))]


def _strange(column: NumberColumn | CategoryColumn) -> Iterable[Any]:
    """Cells that a record of its own may hold: the ends, what lies beyond them, what is not listed, nothing."""
    if isinstance(column, NumberColumn):
        ends = (column.written.text(column.low), column.written.text(column.high))
        beside = "" if column.written.unit is None else f"5 {column.written.unit}"
        return (*ends, *column.codes, beside, *_WRITTEN, "1e300", "-1e300", "", "unknown", *_UNLISTED)
    return (column.values[0], column.values[-1], *reversed(_UNLISTED), "", "1e300", f" {column.values[0]} ")


def _line(cells: Iterable[Any]) -> str:
    """Quoted where a cell needs it."""
    made = io.StringIO()
    csv.writer(made, lineterminator="").writerow(list(cells))
    return made.getvalue()


def _raw(cells: Iterable[Any]) -> str:
    """As no program would write them."""
    return ",".join(str(cell) for cell in cells)
