"""New records for a trained model: rows in memory or in a file, with their labels if they have any."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crescendo.data.formats import libsvm
from crescendo.data.formats.csv import about_headers
from crescendo.data.formats.readers import RecordFile, npz_arrays
from crescendo.data.labels import one_by_one
from crescendo.data.records import Column
from crescendo.data.tables.cells import Table, as_name
from crescendo.data.tables.feature_schema import CategoryColumn, NumberColumn, Schema
from crescendo.data.tables.table_cautions import about_schema
from crescendo.data.tables.table_files import frame_table, is_frame
from crescendo.errors import DataError

BY_PLACE = (
    "the model knows its features by their place, not by name: the columns are taken in the order in which they stand"
)
_X = ("x", "X", "x_test")  # names of the array with the records
_DEALT_WITH = "an array, a data frame, a tensor, or the path of a file"


@dataclass(frozen=True, eq=False)
class NewRecords:
    """Rows as they were given, their labels, and notes about them."""

    x: Any
    labels: Column | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, x: Any, schema: Schema | None, names: tuple[str, ...], features: int, label: str | None) -> NewRecords:
        """Read rows for a model with ``features`` features; a table supplies them by ``schema`` or by ``names``.

        ``label`` is the column that may hold labels; without it the rows have none.
        """
        if isinstance(x, str | os.PathLike):
            return _of_file(Path(x), schema, names, features, label)
        if isinstance(x, bytes) or x is None:
            raise DataError(f"x is {_DEALT_WITH}, not {'bytes' if x is not None else 'None'}")
        if not is_frame(x):
            return cls(x)
        named = [as_name(str(column)) for column in x.columns]
        labels = one_by_one(x.iloc[:, named.index(label)].tolist()) if label in named else None
        notes = () if schema is None else tuple(_unknown(schema, frame_table(x, "x")))
        return cls(x, labels, notes)


def _of_file(path: Path, schema: Schema | None, names: tuple[str, ...], features: int, label: str | None) -> NewRecords:
    path = path.expanduser()
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file of records")
    if not path.exists():
        raise DataError(f"there is no file {path}; check the path")
    file = RecordFile(path)
    if file.is_table:
        return _of_table(file.table(least=1), schema, names, features, label)
    if schema is not None or names:
        known = names if schema is None else tuple(column.name for column in schema.columns)
        raise DataError(
            f"{path} has no named columns, and the model learned from the columns {', '.join(known[:6])}"
            f"{', ..' if len(known) > 6 else ''}; give a table (.csv, .tsv or .parquet)"
        )
    if file.kind == "npz":
        return _of_npz(file)
    if file.kind == "libsvm":  # bypass the cache, which is no place for private records
        return NewRecords(*libsvm.parse(file.content, str(path), features))
    raw = file.read(None, None, None, test=False)
    return NewRecords(raw.x, raw.y)


def _of_table(
    table: Table, schema: Schema | None, names: tuple[str, ...], features: int, label: str | None
) -> NewRecords:
    if not table.rows:
        raise DataError(f"{table.name} has no records; it needs a line for each record")
    said = about_headers(table.headers)
    labels = table.columns.get(label) if label is not None else None
    if schema is not None:
        replace(schema, label=None).check_table(table.columns, table.name)
        return NewRecords(table, labels, (*said, *_unknown(schema, table)))
    if names:
        return NewRecords(table, labels, said)
    rest = {name: cells for name, cells in table.columns.items() if name != label}
    if len(rest) != features:
        raise DataError(
            f"{table.name} has {len(rest)} columns beside labels, and the model learned from {features} features, which it knows "
            "by their place alone; leave other columns out, or name the one that has labels (--label)"
        )
    return NewRecords(Table(table.name, rest, table.rows), labels, (*said, BY_PLACE))


def _unknown(schema: Schema, table: Table) -> Iterator[str]:
    """Warn about cells for which the schema was not made: many in one column, and any category that it does not list."""
    columns = [column for column in schema.columns if column.name in table.columns]
    told = list(about_schema(Schema(tuple(columns)), table)) if columns and table.rows else []
    yield from told
    for column in columns:
        if isinstance(column, NumberColumn) or any(f"'{column.name}'" in one for one in told):
            continue
        strange = column.unlisted(table.columns[column.name])
        if many := sum(strange.values()):
            yield (
                f"{many:,} cell{'s' if many != 1 else ''} of '{column.name}' name a category that the model has not learned, "
                f"such as {next(iter(strange))!r:.60}; {_becomes(column)}"
            )


def _becomes(column: CategoryColumn) -> str:
    return "it counts as 'other'" if column.other else "it counts as none of the categories"


def _of_npz(file: RecordFile) -> NewRecords:
    """Read the array ``x`` (or the only array), and ``y`` if there is one."""
    arrays = npz_arrays(file.content, str(file.path))
    at = next((name for name in _X if name in arrays), None)
    if at is None and len(arrays) == 1:
        (at,) = arrays
    if at is None:
        raise DataError(f"{file.path} has no array x (it has {', '.join(arrays) or 'none'}); save it with x=...")
    x, labels = arrays[at], arrays.get({"x_test": "y_test"}.get(at, "y"))
    if labels is not None and (labels.ndim != 1 or x.ndim < 1 or len(labels) != len(x)):
        raise DataError(
            f"{file.path} has x of shape {x.shape} and y of shape {labels.shape}; one row and one label each"
        )
    return NewRecords(x, labels)
