"""Conversion of a table to records with labels, by a stated schema or by one drafted from the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crescendo.data.formats.csv import about_headers, as_written, named
from crescendo.data.records import Column, Raw
from crescendo.data.tables.cells import Table, missing, objects, texts
from crescendo.data.tables.doctor.codes import hold_no_amounts
from crescendo.data.tables.doctor.examined import Examined, about_arrays
from crescendo.data.tables.doctor.number_writing import amounts
from crescendo.data.tables.doctor.odd_rows import without_odd_rows
from crescendo.data.tables.doctor.table_finding import sentences
from crescendo.data.tables.drafting import Draft, TableKeys, drafted
from crescendo.data.tables.feature_schema import Schema
from crescendo.data.tables.table_cautions import about_numbers, about_schema
from crescendo.errors import ConfigError, DataError

AMOUNTS = "the labels are amounts, and are read as numbers"


def by_schema(table: Table, schema: Schema, label: str | None, column: str | None, private: bool = False) -> Raw:
    """Return the records of a table, each judged alone: one that does not fit is left out and counted.

    In a private run labels stay texts, since no single record can show that all labels are numbers.
    """
    name = label_of(table, schema, label, column)
    written = _alone if private else _as_typed
    x, fits = schema.apply(table)
    columns = {} if column is None else {column: written(table.columns[column])}
    raw = Raw(x, written(table.columns[name]), columns=columns, unreadable=table.unreadable, schema=schema)
    raw = replace(raw, notes=tuple(about_schema(schema, table)))
    return raw if fits.all() else _fitting(raw, fits)


def _fitting(raw: Raw, fits: Column) -> Raw:
    return replace(raw.take(fits), unreadable=raw.unreadable + int(np.count_nonzero(~fits)))


def label_of(table: Table, schema: Schema | None, label: str | None, column: str | None) -> str:
    """Return the label column: the schema's, the user's, or the last."""
    if schema is not None and schema.label is not None:
        if label not in (None, schema.label):
            raise ConfigError(f"the label is the column '{schema.label}', as the schema says; leave '{label}' out")
        label = schema.label
    return named(list(table.columns), label, column, table.name)


def by_types(table: Table, keys: TableKeys | None, label: str | None, column: str | None) -> Raw:
    """Return the records of a table with typed columns: use numbers unchanged; look at any other table, if that is allowed."""
    name = named(list(table.columns), label, column, table.name)
    features = [one for one in table.columns if one not in (name, column)]
    kept = {one: table.columns[one] for one in features}
    if (
        keys in (None, TableKeys())
        and features
        and all(map(_plain_numbers, kept.values()))
        and not (keys and hold_no_amounts(kept))
    ):
        columns = {} if column is None else {column: _as_typed(table.columns[column])}
        x = np.stack([cells.astype(np.float64) for cells in kept.values()], axis=1)
        notes = tuple(about_numbers(x, features, keys is not None))
        made = Raw(x, _as_typed(table.columns[name]), columns=columns, names=tuple(features), notes=notes)
        return made if keys is None else with_findings(made)
    if keys is None:
        raise DataError(
            f"{table.name} has columns that are not numbers throughout; in a federation, or in a private run, data.schema says "
            f"what becomes of them (crescendo data schema drafts one)"
        )
    return by_looking(table, keys, label, column)


def with_findings(raw: Raw) -> Raw:
    """Return the records, whose columns are features unchanged, with the doctor's findings among their notes."""
    values = None if raw.y.dtype.kind in "biuf" else amounts(raw.y)
    if values is not None:
        raw = replace(raw, y=values, notes=(*raw.notes, AMOUNTS))
    if not raw.names:
        return raw
    found = about_arrays(raw.names, [raw.x[:, at] for at in range(raw.x.shape[1])], raw.y)
    said = [*raw.notes, *sentences(found)]
    return replace(raw, notes=tuple(dict.fromkeys(said)))  # the csv reader gives some of the same notes


def _plain_numbers(cells: Column) -> bool:
    return cells.dtype.kind in "biuf" and bool(np.isfinite(cells).all())


def by_looking(table: Table, keys: TableKeys, label: str | None, column: str | None) -> Raw:
    """Return the records of a table by a schema drafted from it, with a line about the use of each column."""
    return looked_at(table, keys, label, column)[0]


def looked_at(table: Table, keys: TableKeys, label: str | None, column: str | None) -> tuple[Raw, Draft, Table]:
    """Return the records by a drafted schema, the draft, and the rows that are records."""
    name = named(list(table.columns), label, column, table.name)
    absent = missing(table.columns[name])
    if column is not None:
        absent |= missing(table.columns[column])
    if not table.rows:
        raise DataError(f"{table.name} has no records; it needs a row for each record")
    if absent.all():
        raise DataError(f"{table.name} has no label: the column '{name}' is empty; name another with data.label")
    notes = [*about_headers(table.headers)]
    if absent.any():
        spelled = _spelled(table.columns[name][absent])
        table = table.take(~absent)
        many = int(np.count_nonzero(absent))
        _check_not_missing(table, name, many, spelled)
        as_said = f": they say {spelled}" if spelled else ""
        notes.append(f"{_short(table)}: {many:,} records without {_of(name, column)} are left out{as_said}")
    table, odd = without_odd_rows(table)
    draft = drafted(table, [name, *([] if column is None else [column])], keys, name)
    y = _label_as_typed(table, name)
    examined = Examined(table, draft.schema, y, draft.as_codes, draft.other_minus, draft.unread)
    draft = replace(draft, findings=examined.findings())
    x, fits = draft.schema.apply(table)
    assert fits.all(), "a drafted schema says what missing becomes"
    columns = {} if column is None else {column: _as_typed(table.columns[column])}
    if y.dtype.kind in "biuf" and _as_typed(table.columns[name]).dtype.kind not in "biuf":
        notes.append(AMOUNTS)
    said = (draft.says(_short(table)), *notes, *odd, *sentences(draft.findings))
    return Raw(x, y, columns=columns, schema=draft.schema, looked=True, notes=said), draft, table


def _spelled(cells: Column) -> str:
    """Return the texts of missing cells, such as 'NA', which may be meant as a class; "" if the cells are empty."""
    said = {cell.strip() for cell in cells.tolist() if isinstance(cell, str)} - {""}
    return " or ".join(f"'{cell:.20}'" for cell in sorted(said, key=lambda cell: (cell.lower(), cell))[:4])


def _check_not_missing(table: Table, name: str, many: int, spelled: str) -> None:
    """Refuse labels of which one class is left, if the texts that count as missing may name another class."""
    left = set(texts(table.columns[name]))
    if spelled and len(left) == 1:
        raise DataError(
            f"every record of {table.name} has the label {left.pop():.60}, but for {many:,} that say {spelled}, which count as "
            "missing; give a class of such a name another one"
        )


def _alone(cells: Column) -> Column:
    return objects(texts(cells))


def _as_typed(cells: Column) -> Column:
    """Return numbers if the column has a numeric type or every text is a number, and otherwise texts."""
    return cells if cells.dtype != object else as_written(texts(cells))


def _label_as_typed(table: Table, name: str) -> Column:
    """Return the labels; amounts, such as money, become numbers."""
    made = _as_typed(table.columns[name])
    if made.dtype.kind in "biuf":
        return made
    values = amounts(table.written(name), table.decimal_comma)
    return made if values is None else values


def _of(label: str, column: str | None) -> str:
    return f"a label in '{label}'" + ("" if column is None else f" or without '{column}'")


def _short(table: Table) -> str:
    """Return a file's name without its folders."""
    return table.name.replace("\\", "/").rpartition("/")[2]
