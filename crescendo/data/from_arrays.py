"""A data set out of what a program has in memory: arrays, data frames, tensors, or a torch Dataset or DataLoader."""

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
    all_numbers,
    as_arrays,
    column_names,
    features_of,
    from_frame,
    numbers_of,
)
from crescendo.data.labels import NUMBERS, one_by_one
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
from crescendo.errors import DataError


def dataset(
    x: Any,
    y: Any = None,
    *,
    test: float | tuple[Any, Any] = 0.2,
    classes: Sequence[Label] | None = None,
    name: str = "arrays",
    seed: int = 0,
    private: bool = False,
    schema: StatedSchema | None = None,
    keys: TableKeys = PLAIN,
) -> Dataset:
    """Records and labels as a data set that `simulate` takes.

    ``x`` has one record a row: a numpy array, a data frame, a sparse matrix or a tensor. A record may have a shape of its own
    (an image), which a neural model reads. In a data frame columns may be text, and cells missing: they become features by
    ``schema`` (a `Schema`, its tables, or the path of its file), or by one that is drafted from the frame itself, as ``keys``
    say; ``y`` may then name the column with the labels, or be left out where the schema does.
    Without ``y``, ``x`` is a torch Dataset or DataLoader that gives pairs of both.
    ``test`` is the share of the records that is held out, or a pair (x, y) of its own. ``classes`` are the labels to keep;
    without them, all that occur. With ``private`` nothing is counted from the records: classes must be stated, and a record
    that has none of them or no finite numbers is left out by a rule on that record alone.

    >>> data = dataset(np.zeros((10, 2, 3)), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0], test=0.3)
    >>> data.train.x.shape, data.train.shape, len(data.test), data.classes
    ((7, 6), (2, 3), 3, (0, 1, 2))
    """
    if is_frame(x) and schema is None and isinstance(y, str) and (private or keys == PLAIN):
        rest, labels = as_arrays(x, y)
        x, y = (rest, labels) if private or all_numbers(rest) else (x, y)
    if is_frame(x) and (schema is not None or keys != PLAIN or not (private or all_numbers(x))):
        pair = test if isinstance(test, tuple) and len(test) == 2 else None
        share = 0.0 if pair is not None else _share(test)
        said: dict[str, Any] = {"classes": classes, "name": name, "seed": seed, "private": private}
        return from_frame(x, y, pair, share, **said, schema=schema, keys=keys)
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
    if private:
        made = _judged(name, raw, share, seed, NUMBERS if classes == NUMBERS else stated_classes(name, classes))
    else:
        made = from_raw(name, raw, share, seed, classes)
    part = None if made.test is None else _shaped(made.test, shape)
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
    """Records without labels, of the shape that ``like`` has.

    Columns of a data frame or a `Table` become features by ``schema``, or are those of ``names``, if the model learned from a
    table: then the order of the columns is of no matter, and others, such as the label's, may be there. The columns of a `Table`
    are features in their order where neither is known.

    >>> records_of([[1.0, 2.0]], Records(np.zeros((3, 2)), np.zeros(3))).x
    array([[1., 2.]])
    """
    if isinstance(x, Table) or (is_frame(x) and (schema is not None or names)):
        table = x if isinstance(x, Table) else frame_table(x, "x", None if schema is not None else names)
        x = features_of(table, schema) if schema is not None else numbers_of(table, names or list(table.columns))
    records = x if hasattr(x, "tocsr") else _array(x)
    flat, _ = _flat(records, np.zeros(records.shape[0] if records.shape else 0), of="x")
    if flat.shape[1] != like.features or (like.shape and records.ndim > 2 and records.shape[1:] != like.shape):
        due = like.shape or (like.features,)
        raise DataError(
            f"x has records of shape {tuple(records.shape[1:])}, and the model learned from records of shape {due}"
        )
    made = as_records(flat, np.zeros(flat.shape[0]))
    unsound = np.flatnonzero(~finite_rows(made.x))
    if len(unsound):  # a model answers them too, with some class or other
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
        raise DataError(
            f"{of} has {x.shape[0]} records and its labels have shape {y.shape}; one label a record is needed"
        )
    if hasattr(x, "tocsr"):
        x = x.tocsr()
    else:
        if x.ndim < 2 or x.dtype.kind not in "buif":
            raise DataError(f"{of} has shape {x.shape} and type {x.dtype}; rows of numbers are needed, one record each")
        x = x.reshape(len(x), math.prod(x.shape[1:]))
    return x, y


def _pair(x: Any, y: Any, private: bool) -> tuple[Any, Array]:
    if y is None:
        return _gathered(x)
    if isinstance(x, str | bytes) or isinstance(y, str | bytes):
        raise DataError("x and y are arrays; to read a file, name it as data.source in the config")
    labels = one_by_one(y) if private and isinstance(y, list | tuple) else _array(y)
    return x if hasattr(x, "tocsr") else _array(x), labels


def _array(values: Any) -> Array:
    """As a numpy array; a tensor's numbers are shared, a data frame's copied."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    try:
        return np.asarray(values)
    except ValueError as error:
        raise DataError(
            "x and y are arrays, and all records have as many numbers; these are of several lengths"
        ) from error


def _gathered(pairs: Any) -> tuple[Array, Array]:
    """All records of a torch Dataset, one by one, or of a DataLoader, batch by batch."""
    try:
        batched = hasattr(pairs, "batch_size") and hasattr(pairs, "dataset")
        items = list(pairs) if batched else [pairs[k] for k in range(len(pairs))]
        xs, ys = zip(*((_array(x), _array(y)) for x, y in items), strict=True)
    except (TypeError, ValueError, KeyError):
        raise DataError(
            f"a {type(pairs).__name__} without labels is no data; pass x and y, or a torch Dataset or DataLoader of pairs"
        ) from None
    join = np.concatenate if batched else np.stack
    return join(xs), join(ys)
