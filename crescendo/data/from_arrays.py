"""Data sets from memory: arrays, data frames, tensors, or a torch Dataset or DataLoader."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crescendo.core.arrays import Array
from crescendo.data.from_frames import (
    PLAIN,
    StatedSchema,
    as_arrays,
    column_names,
    features_of,
    from_frame,
    labelled_pair,
    numbers_of,
    plain_numbers,
)
from crescendo.data.labels import NUMBERS, one_by_one
from crescendo.data.memory.foreign_frames import as_frame, stacked
from crescendo.data.memory.frame_labels import about_index
from crescendo.data.memory.given_clients import (
    Owners,
    free_name,
    joined,
    owners_of,
    test_part,
    with_client_column,
    with_clients,
    without,
    without_pair,
)
from crescendo.data.memory.plain_arrays import arrays_of_pairs, as_array
from crescendo.data.reading import from_raw, judged
from crescendo.data.records import Dataset, Label, Raw, Records, as_records, finite_rows
from crescendo.data.registry import stated_classes
from crescendo.data.scaling import Scaling
from crescendo.data.sound import Sound
from crescendo.data.tables.cells import Table
from crescendo.data.tables.drafting import TableKeys
from crescendo.data.tables.feature_schema import Schema
from crescendo.data.tables.table_cautions import about_private_arrays
from crescendo.data.tables.table_files import frame_table, is_frame
from crescendo.data.tables.table_records import with_findings
from crescendo.errors import DataError


def dataset(
    x: Any,
    y: Any = None,
    *,
    test: Any = 0.2,
    classes: Sequence[Label] | None = None,
    name: str = "arrays",
    seed: int = 0,
    private: bool = False,
    schema: StatedSchema | None = None,
    keys: TableKeys = PLAIN,
    clients: Any = None,
) -> Dataset:
    """Return records and labels as a data set for `simulate`.

    ``x`` has one record per row: a numpy array, a data frame, a sparse matrix or a tensor. A record may have a shape (an image),
    which a neural model reads. A data frame may have text columns and missing cells: they become features by ``schema`` (a
    `Schema`, its tables, or the path of its file), or by a schema that is drafted from the frame according to ``keys``; ``y`` may
    then name the label column, or be left out if the schema names it.
    Tables of polars, Arrow and Hugging Face count as data frames. Without ``y``, ``x`` is a torch Dataset or DataLoader of pairs.
    Records may come with their clients: ``x`` is a list with a pair (x, y) for each client, or a dictionary of such pairs by
    name; or ``clients`` holds an id for each record, or names the data frame column that does. Every client then holds out its
    share.
    ``test`` is the share of the records to hold out, or a pair (x, y), or one pair for each client. ``classes`` are the labels to
    keep; by default all labels are kept. With ``private`` nothing is counted from the records: classes must be stated, and a
    record with another label or a number that is not finite is left out by a rule on that record alone.

    >>> data = dataset(np.zeros((10, 2, 3)), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0], test=0.3)
    >>> data.train.x.shape, data.train.shape, len(data.test), data.classes
    ((7, 6), (2, 3), 3, (0, 1, 2))
    """
    found = joined(x, y, private)
    x, y, test = found.x, found.y, test_part(test, found.y)
    if found.owners is not None:
        if clients is not None:
            raise DataError("x has the records of each client, so that clients would say it twice; leave clients out")
        clients = Owners(free_name(x), found.owners)
    whose = None
    if is_frame(x):
        whose = owners_of(x, clients, len(x))
        if isinstance(clients, str) and schema is None:
            x, test = without(x, clients), without_pair(test, clients)
        x = stacked(x, y if isinstance(y, str) else None) if schema is None else x
        y = as_arrays(found.x, y)[1] if isinstance(y, str) and not is_frame(x) else y
    if is_frame(x) and schema is None and isinstance(y, str) and (private or keys == PLAIN):
        rest, labels = as_arrays(x, y)
        x, y, test = (rest, labels, labelled_pair(test)) if private or plain_numbers(rest) else (x, y, test)
    if is_frame(x) and (schema is not None or keys != PLAIN or not (private or plain_numbers(x))):
        pair = test if isinstance(test, tuple) and len(test) == 2 else None
        share = 0.0 if pair is not None else _share(test)
        said: dict[str, Any] = {"classes": classes, "name": name, "seed": seed, "private": private}
        made = from_frame(x, y, pair, share, **said, schema=schema, keys=keys, whose=whose)
        return made if private else replace(made, notes=(*made.notes, *about_index(x)))
    if schema is not None or keys != PLAIN:
        raise DataError(f"a schema is about the columns of a data frame, and x is a {type(x).__name__}; leave it out")
    names = column_names(x) if is_frame(x) else ()
    records, labels = _pair(x, y, private)
    shape = tuple(int(length) for length in records.shape[1:]) if records.ndim > 2 else ()
    held_out = None
    if isinstance(test, tuple) and len(test) == 2:
        others, their_labels = _pair(*test, private)
        if others.shape[1:] != records.shape[1:]:
            raise DataError(f"test x has records of shape {others.shape[1:]}, and x of shape {records.shape[1:]}")
        held_out, share = Raw(*_flat(others, their_labels, of="test x")), 0.0
    else:
        share = _share(test)
    flat, labels = _flat(records, labels, of="x")
    raw = Raw(flat, labels, held_out, names=names)
    whose = owners_of(x, clients, len(raw)) if whose is None else whose
    raw = raw if whose is None else with_clients(raw, whose, share, seed)
    if private:
        made = _judged(name, raw, share, seed, NUMBERS if classes == NUMBERS else stated_classes(name, classes))
    else:
        made = from_raw(name, with_findings(raw), share, seed, classes)
        made = replace(made, notes=(*made.notes, *about_index(x))) if is_frame(x) else made
    part = None if made.test is None else _shaped(made.test, shape)
    made = made if whose is None else with_client_column(made, whose)
    return replace(made, train=_shaped(made.train, shape), test=part)


def _judged(name: str, raw: Raw, test: float, seed: int, classes: tuple[Label, ...]) -> Dataset:
    found, _ = Sound.of(raw, classes)
    if len(raw) and not len(found.records):
        named = ", ".join(map(str, classes[:12]))
        raise DataError(
            f"none of the {len(raw):,} records of {name} has one of the classes {named} and finite numbers; check classes"
        )
    return judged(name, replace(raw, notes=tuple(about_private_arrays(raw.x))), test, seed, classes)


def records_of(
    x: Any, like: Records, schema: Schema | None = None, names: Sequence[str] = (), scaling: Scaling | None = None
) -> Records:
    """Return records without labels, of the same shape as ``like``.

    If the model learned from a table, columns of a data frame or a `Table` become features by ``schema`` or are looked up by
    ``names``; their order does not matter, and other columns, such as the label, are ignored. If neither is known, the columns of
    a `Table` are features in their order.

    >>> records_of([[1.0, 2.0]], Records(np.zeros((3, 2)), np.zeros(3))).x
    array([[1., 2.]])
    """
    x = as_frame(x)
    if isinstance(x, Table) or (is_frame(x) and (schema is not None or names)):
        table = x if isinstance(x, Table) else frame_table(x, "x", None if schema is not None else names)
        x = features_of(table, schema) if schema is not None else numbers_of(table, names or list(table.columns))
    records = x if hasattr(x, "tocsr") else as_array(x)
    flat, _ = _flat(records, np.zeros(records.shape[0] if records.shape else 0), of="x")
    if flat.shape[1] != like.features or (like.shape and records.ndim > 2 and records.shape[1:] != like.shape):
        due = like.shape or (like.features,)
        raise DataError(
            f"x has records of shape {tuple(records.shape[1:])}, and the model learned from records of shape {due}"
        )
    made = as_records(flat, np.zeros(flat.shape[0]))
    unsound = np.flatnonzero(~finite_rows(made.x))
    if len(unsound):  # a model would predict a class for them too
        raise DataError(
            f"record {unsound[0]} of x (from 0) has a number that is not finite; fill it in, or remove that record"
        )
    return _shaped(made if scaling is None else scaling.records(made), like.shape)


def _share(test: Any) -> float:
    if isinstance(test, int | float) and 0 <= test < 1:
        return float(test)
    raise DataError(f"test is a share from 0 to 1, or a pair (x, y), not {_said(test)}")


def _said(value: Any) -> str:
    return repr(value) if isinstance(value, str | int | float) else f"a {type(value).__name__}"


def _shaped(records: Records, shape: tuple[int, ...]) -> Records:
    return replace(records, shape=shape)


def _flat(x: Any, y: Array, of: str) -> tuple[Any, Array]:
    if not x.shape:
        what = {"U": "a text", "S": "bytes", "O": "no array"}.get(x.dtype.kind, "a single number")
        raise DataError(f"{of} is {what}; rows of numbers are needed, one record each")
    if y.ndim != 1 or x.shape[0] != y.shape[0]:
        how = {1: "y.ravel()"}.get(y.shape[1], "y.argmax(axis=1) if they are one-hot") if _is_table_of(y, x) else ""
        raise DataError(
            f"{of} has {x.shape[0]} records and its labels have shape {y.shape}; one label a record is needed"
            + (f": {how}" if how else "")
        )
    if hasattr(x, "tocsr"):
        x = x.tocsr()
    else:
        if x.ndim < 2 or x.dtype.kind not in "buif":
            raise DataError(f"{of} has shape {x.shape} and type {x.dtype}; rows of numbers are needed, one record each")
        x = x.reshape(len(x), math.prod(x.shape[1:]))
    return x, y


def _is_table_of(y: Array, x: Any) -> bool:
    return y.ndim == 2 and x.shape[0] == y.shape[0]


def _pair(x: Any, y: Any, private: bool) -> tuple[Any, Array]:
    if y is None:
        return arrays_of_pairs(x)
    if isinstance(y, str) and not isinstance(x, str | bytes):
        raise DataError(
            "y names a column, and x is no data frame; make it one, pandas.DataFrame(x), or for records with their clients a "
            "list or dictionary of data frames"
        )
    if isinstance(x, str | bytes) or isinstance(y, str | bytes):
        raise DataError("x and y are arrays; to read a file, name it as data.source in the config")
    labels = one_by_one(y) if private and isinstance(y, list | tuple) else as_array(y)
    return x if hasattr(x, "tocsr") else as_array(x), labels
