"""A table's check-up before training: the use of each column, its faults, and the word that mends each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.data.formats.readers import RecordFile
from crescendo.data.labels import NUMBERS, to_be_predicted
from crescendo.data.reading import from_raw
from crescendo.data.tables.cells import Table
from crescendo.data.tables.doctor.table_finding import TableFinding
from crescendo.data.tables.drafting import Draft, TableKeys
from crescendo.data.tables.feature_schema import CategoryColumn, NumberColumn
from crescendo.data.tables.table_records import looked_at
from crescendo.errors import DataError

_SHOWN = 6  # categories or classes
_FEW = 20  # whole numbers, which may be names


@dataclass(frozen=True)
class TableLine:
    """One line about a column, or about the whole table (no name); ``well`` is False for a fault."""

    name: str
    well: bool
    says: str
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "state": "ok" if self.well else "note", "says": self.says, "remedy": self.remedy}


@dataclass(frozen=True)
class CheckedTable:
    """The findings of a look at a table's records."""

    source: str
    lines: tuple[TableLine, ...]

    @property
    def notes(self) -> int:
        return sum(not line.well for line in self.lines)

    @classmethod
    def of(cls, path: Path, label: str | None = None) -> CheckedTable:
        """Check a csv, tsv or Parquet file; raise DataError for one from which no model can learn."""
        if not path.exists():
            raise DataError(f"there is no file {path}; name a table with a header line: .csv, .tsv or .parquet")
        if not RecordFile(path).is_table:
            raise DataError(f"{path} has no columns with names; a table is a .csv, .tsv or .parquet")
        raw, draft, table = looked_at(RecordFile(path).table(), TableKeys(scale=True), label, None)
        numbers = to_be_predicted(raw.y)
        data = from_raw(str(path), raw, 0.2 if len(raw) > 1 else 0.0, 0, NUMBERS if numbers else None)
        said = {one.sentence for one in draft.findings}
        notes = [note for note in data.notes[1:] if note not in said]
        name = label or list(table.columns)[-1]
        lines = (
            *_about_label(name, raw.y, numbers),
            *_about_columns(draft, table),
            *(TableLine("", False, note) for note in notes),
        )
        return cls(path.name, (TableLine("", True, f"{len(raw):,} records and {len(table.columns)} columns"), *lines))


def _about_label(name: str, labels: Any, numbers: bool) -> Iterator[TableLine]:
    if numbers:
        says = f"the label, a number from {float(labels.min()):g} to {float(labels.max()):g}"
    else:
        times = Counter(f"{label:g}" if isinstance(label, float) else str(label) for label in labels.tolist())
        shares = [f"{label:.40} {100 * many / len(labels):.3g}%" for label, many in times.most_common(_SHOWN)]
        more = f" and {len(times) - _SHOWN} more" if len(times) > _SHOWN else ""
        says = f"the label, with {len(times)} classes: {', '.join(shares)}{more}"
    yield TableLine(name, True, says)


def _about_columns(draft: Draft, table: Table) -> Iterator[TableLine]:
    found: dict[str | None, list[TableFinding]] = {}
    for one in draft.findings:
        found.setdefault(one.column, []).append(one)
    for column in draft.schema.columns:
        if column.name not in found:
            yield TableLine(column.name, True, _becomes(column, table))
        yield from (TableLine(column.name, False, one.in_schema, one.word) for one in found.get(column.name, []))
    for name, why in draft.left_out.items():
        yield TableLine(name, False, f"is left out: it is {why}", '"drop"')
    yield from (TableLine("", False, one.in_schema, one.word) for one in found.get(None, []))


def _becomes(column: NumberColumn | CategoryColumn, table: Table) -> str:
    absent = ", empty in some records" if column.indicator else ""
    if isinstance(column, NumberColumn):
        return f"a number from {column.low:g} to {column.high:g}{absent}{_perhaps_names(column, table)}"
    more = f" and {len(column.values) - _SHOWN} more" if len(column.values) > _SHOWN else ""
    return f"one of {', '.join(f'{value:.40}' for value in column.values[:_SHOWN])}{more}{absent}"


def _perhaps_names(column: NumberColumn, table: Table) -> str:
    """Note a few whole numbers with gaps between them, such as those of wards: they are often names."""
    values = column.numbers(table)
    found = np.unique(values[np.isfinite(values)])
    if not 2 < len(found) <= _FEW or (found != np.rint(found)).any() or found[-1] - found[0] < len(found):
        return ""
    return f', one of {len(found)} whole numbers; if they are names, write as = "category"'
