"""Data sets from data frames whose columns become features by a schema, stated or drafted from the frame."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.data.labels import NUMBERS, one_by_one
from crescendo.data.memory.given_clients import Owners, with_client_column, with_clients
from crescendo.data.memory.plain_arrays import as_array
from crescendo.data.reading import from_raw, judged
from crescendo.data.records import Column, Dataset, Label, Raw
from crescendo.data.registry import stated_classes
from crescendo.data.tables.cells import Table, as_name, missing, numbers
from crescendo.data.tables.doctor.codes import hold_no_amounts
from crescendo.data.tables.drafting import TableKeys
from crescendo.data.tables.feature_schema import NumberColumn, Schema
from crescendo.data.tables.table_files import frame_table, is_frame
from crescendo.data.tables.table_records import by_looking, by_schema
from crescendo.errors import DataError

LABEL = "the label"  # column name for labels that are passed separately from the data frame
PLAIN = TableKeys()
StatedSchema: TypeAlias = Schema | Mapping[str, Any] | str | os.PathLike[str]


def all_numbers(frame: Any) -> bool:
    """Return True if every column of a data frame is numeric and no cell is missing."""
    kinds = all(getattr(kind, "kind", "O") in "biuf" for kind in frame.dtypes)
    return kinds and not bool(frame.isna().to_numpy().any())


def plain_numbers(frame: Any) -> bool:
    """Return True if all columns are numbers and, by a look at them, amounts rather than codes or dates."""
    if not all_numbers(frame):
        return False
    names = column_names(frame)
    return not hold_no_amounts({name: frame.iloc[:, at].to_numpy() for at, name in enumerate(names)})


def as_arrays(frame: Any, label: str) -> tuple[Any, Any]:
    """Split a data frame into its features and its column ``label``."""
    if label not in frame.columns:
        known = [str(name) for name in frame.columns]
        near = difflib.get_close_matches(label, known, n=1)
        listed = ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
        meant = f"did you mean '{near[0]}'?" if near else f"its columns are {listed}"
        raise DataError(f"y names the column '{label}', which x does not have; {meant}")
    return frame.drop(columns=[label]), frame[label]


def as_schema(stated: StatedSchema) -> Schema:
    """Return the schema from a `Schema`, its plain data or the path of its file; raise ConfigError or DataError otherwise."""
    if isinstance(stated, Schema):
        return stated
    if isinstance(stated, str | os.PathLike):
        from crescendo.tables import read_toml

        stated = read_toml(
            Path(stated).expanduser(), "schema file", "schema names it; `crescendo data schema FILE.csv` drafts one"
        )
    if isinstance(stated, Mapping):
        return Schema.of(stated)
    raise DataError(
        f"schema is the path of a schema file, or its tables as a dictionary, not a {type(stated).__name__}; `crescendo data "
        "schema FILE.csv` drafts one"
    )


def from_frame(
    x: Any,
    y: Any,
    held_out: tuple[Any, Any] | None,
    test: float,
    *,
    classes: Sequence[Label] | None,
    name: str,
    seed: int,
    private: bool,
    schema: StatedSchema | None,
    keys: TableKeys,
    whose: Owners | None = None,
) -> Dataset:
    """Return the records of a data frame; ``y`` holds the labels or names their column, unless the schema names it.

    ``whose`` assigns each record to its client.
    """
    asked = None if schema is None else as_schema(schema)
    y = asked.label if y is None and asked is not None else y
    if y is None:
        raise DataError("a data frame needs its labels: give y, as an array or as the name of a column")
    table, label = _labelled(x, y, name, private)
    column = None if whose is None else whose.name
    if whose is not None:
        table = replace(table, columns={**table.columns, whose.name: whose.ids})
    if asked is None:
        raw = by_looking(table, keys, label, column)
    else:
        raw = by_schema(table, replace(asked, label=None), label, column, private)
    if whose is not None:
        whose = replace(whose, ids=raw.columns[whose.name])
        raw = with_clients(raw, whose, 0.0 if held_out is not None else test, seed)
    if held_out is not None:
        raw = replace(raw, test=_test_part(held_out, raw, name, private))
    if private:
        made = judged(name, raw, test, seed, NUMBERS if classes == NUMBERS else stated_classes(name, classes))
    else:
        made = from_raw(name, raw, test, seed, classes)
    return made if whose is None else with_client_column(made, whose)


def labelled_pair(test: Any) -> Any:
    """Split a test part (frame, "column") into features and labels; return anything else unchanged."""
    pair = isinstance(test, tuple) and len(test) == 2 and is_frame(test[0]) and isinstance(test[1], str)
    return as_arrays(*test) if pair else test


def _test_part(held_out: tuple[Any, Any], raw: Raw, name: str, private: bool) -> Raw:
    assert raw.schema is not None
    table, label = _labelled(*held_out, f"the test part of {name}", private)
    return by_schema(table, replace(raw.schema, label=None), label, None, private)


def _labelled(frame: Any, labels: Any, name: str, private: bool) -> tuple[Table, str]:
    """Return the cells of a data frame with its labels, and the name of the label column."""
    table = frame_table(frame, name)
    if isinstance(labels, str):
        return table, labels
    import pandas

    flat = _as_numbers(labels) if private else as_array(labels)
    if flat.ndim != 1:
        how = "y.ravel() of one column" if flat.ndim else f"a list, an array or a series, not a {type(labels).__name__}"
        raise DataError(f"the labels of x have shape {flat.shape}; one label a record is needed: {how}")
    apart = frame_table(pandas.DataFrame({LABEL: flat}), name)
    if apart.rows != table.rows:
        raise DataError(f"x has {table.rows} records and its labels are {apart.rows}; one label a record is needed")
    return Table(name, {**table.columns, **apart.columns}, table.rows, dates=table.dates), LABEL


def _as_numbers(labels: Any) -> Column:
    """Return the labels of a private run, each converted by itself: True is 1, as in an array."""
    each = one_by_one(labels)
    if each.dtype != object:
        return each.astype(np.int64) if each.dtype.kind == "b" else each
    numbers = (int(label) if isinstance(label, bool | np.bool_) else label for label in each)
    return np.fromiter(numbers, object, len(each))


def column_names(frame: Any) -> tuple[str, ...]:
    """Return the column names of a data frame; () if one occurs twice or is a number, which identifies no column."""
    names = tuple(as_name(column) for column in frame.columns if isinstance(column, str))
    return names if len(set(names)) == len(frame.columns) else ()


def numbers_of(table: Table, names: Sequence[str]) -> Floats:
    """Return the columns ``names`` of a table as numbers, in that order; refuse an absent column or a cell without a number."""
    of = table.name
    absent = [name for name in names if name not in table.columns]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise DataError(
            f"{of} has no column '{absent[0]:.60}'{more}, which the model learned from; name its columns as in training"
        )
    found = np.stack([numbers(table.columns[name]) for name in names], axis=1)
    rows, columns = np.nonzero(np.isnan(found))
    if len(rows):
        raise DataError(
            f"record {rows[0]} of {of} (from 0) has no number in the column '{names[columns[0]]:.60}'; fill it in, or "
            "leave it out"
        )
    return found


def features_of(table: Table, schema: Schema) -> Any:
    """Return the features of a table's records; refuse a record that lacks one."""
    x, fits = schema.apply(table)
    for column in schema.columns:
        cells = table.columns[column.name]
        there = ~missing(cells)
        if isinstance(column, NumberColumn) and there.any() and np.isnan(column.numbers(table)[there]).all():
            raise DataError(
                f"the column '{column.name}' of {table.name} has no number in it, and the model learned from numbers there; give "
                "numbers, or leave the cells empty where they are missing"
            )
    if not fits.all():
        raise DataError(
            f"record {int(np.flatnonzero(~fits)[0])} of {table.name} (from 0) lacks a number, and the schema does not say what a "
            f"missing one becomes; fill it in or leave it out"
        )
    return x
