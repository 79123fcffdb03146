"""Records that come with their clients: a list of the clients' arrays, an id for each record, or a column of a data frame.

Each becomes one data set with a column for the client, and the run splits by that column. So the run file, the report and a
comparison need no special case.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np

from crescendo.core.arrays import Array, Bools
from crescendo.core.random import Purpose, stream
from crescendo.data.labels import one_by_one
from crescendo.data.memory.foreign_frames import as_frame
from crescendo.data.memory.frame_labels import labelled_by_name, with_text_name
from crescendo.data.memory.plain_arrays import arrays_of_pairs, as_array
from crescendo.data.partition import CLIENT
from crescendo.data.records import Column, Dataset, Raw
from crescendo.data.tables.cells import objects
from crescendo.data.tables.table_files import frame_table, is_frame
from crescendo.errors import DataError

_TEST_PART = 1  # the round of the stream, the same as for records that come without clients
_PARTS = {"train", "training", "test", "testing", "validation", "valid", "val", "dev", "unsupervised"}
_PAIR = 2


@dataclass(frozen=True, eq=False)
class JoinedRecords:
    """Records of all clients with their labels. ``owners`` holds each record's client; None if it is unknown."""

    x: Any
    y: Any
    owners: Column | None = None


@dataclass(frozen=True, eq=False)
class Owners:
    """The client of each record, and the name of the column that holds it."""

    name: str
    ids: Column

    def held_out(self, test: float, seed: int) -> Bools:
        """Return a seeded choice of the share ``test`` of every client's records; each client keeps at least one.

        >>> Owners("site", np.array([0] * 10 + [1] * 5 + [2])).held_out(0.2, 0).nonzero()[0].size
        3
        """
        order = stream(seed, Purpose.SPLIT, round=_TEST_PART).permutation(len(self.ids))
        held = np.zeros(len(self.ids), dtype=np.bool_)
        for mine in _by_owner(self.ids, order):
            held[mine[: min(round(test * len(mine)), len(mine) - 1)]] = True
        if test > 0 and not held.any():
            raise DataError(
                f"the clients have too few records to hold out test={test:g} of each; give a test part, test=(x, y), or test=0"
            )
        return held

    def check_kept(self, data: Dataset) -> None:
        """Refuse data in which a client has no training record left: the run would silently lose that client."""
        gone = [name for name in np.unique(self.ids).tolist() if name not in set(data.columns[self.name].tolist())]
        if gone:
            raise DataError(
                f"{self.name} {gone[0]!s:.60} has no record left to train on, since none has a stated class and numbers; "
                "correct its records or leave this client out"
            )


def _by_owner(ids: Column, order: Array) -> list[Array]:
    place = np.unique(ids, return_inverse=True)[1][order]
    return np.split(order[np.argsort(place, kind="stable")], np.cumsum(np.bincount(place))[:-1])


def owners_of(x: Any, clients: Any, records: int) -> Owners | None:
    """Return the client of each record, from one id per record or the name of a column; None without ``clients``."""
    if clients is None:
        return None
    if isinstance(clients, str):
        return Owners(clients, _checked(_column(x, clients), f"the column '{clients}'", records))
    if isinstance(clients, Owners):
        return Owners(clients.name, _checked(clients.ids, "clients", records))
    return Owners(CLIENT, _checked(as_array(clients), "clients", records))


def _column(x: Any, name: str) -> Array:
    if not is_frame(x):
        raise DataError(
            f"the records have no column '{name:.60}', since they are no data frame; give the id of each record's client, "
            "clients=ids"
        )
    if name not in x.columns:
        known = [str(one) for one in x.columns]
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"did you mean '{near[0]}'?" if near else f"its columns are {', '.join(known[:12])}"
        raise DataError(f"clients come from the column '{name:.60}', which x does not have; {meant}")
    return frame_table(x[[name]], "x").columns[name]


def _checked(ids: Array, what: str, records: int) -> Column:
    """Return ids as whole numbers or texts, one for each record; refuse anything else."""
    if ids.ndim != 1 or len(ids) != records:
        raise DataError(
            f"{what} has {len(ids) if ids.ndim else 'no'} ids for {records:,} records; give one for each record, or how many "
            "clients there are, such as clients=5"
        )
    if ids.dtype.kind == "f":
        absent = ~np.isfinite(ids)
        if not absent.any() and (ids != np.rint(ids)).any():
            odd = ids[ids != np.rint(ids)][0]
            raise DataError(f"{what} has {odd:g}, which is no id of a client; ids are whole numbers or texts")
        ids = ids if absent.any() else ids.astype(np.int64)
    elif ids.dtype.kind in "iub":
        return ids
    else:
        absent = np.array([one is None or one != one or not str(one).strip() for one in ids.tolist()], dtype=np.bool_)
    if absent.any():
        raise DataError(
            f"{what} names no client for record {int(np.flatnonzero(absent)[0])} (from 0); fill it in or leave this record out"
        )
    return ids if ids.dtype.kind == "i" else objects(_text(one) for one in ids.tolist())


def _text(one: Any) -> str:
    return one.decode("utf-8", "replace").strip() if isinstance(one, bytes) else str(one).strip()


# -- a list of clients -----------------------------------------------------------------------------------------------------


def joined(x: Any, y: Any = None, private: bool = False) -> JoinedRecords:
    """Put the arrays of several clients together; return records without clients unchanged.

    Clients come as a list of pairs (x, y), of torch data sets, or of data frames with ``y`` the name of their label; as one list
    of their x and one of their y; or as a dictionary of any of these by the client's name.

    >>> found = joined([(np.zeros((2, 3)), [0, 1]), (np.ones((1, 3)), [1])])
    >>> found.x.shape, found.y.tolist(), found.owners.tolist()
    ((3, 3), [0, 1, 1], [0, 0, 1])
    """
    x = as_frame(x)
    names: list[Any] | None = None
    if is_dictionary(x):
        x, names = _named(x)
    pairs = _pairs(x, y)
    if pairs is None:
        return JoinedRecords(*(labelled_by_name(x, as_frame(y)) if is_frame(x) else (x, as_frame(y))))
    sides = [_sides(pair, y, private) for pair in pairs]
    _check_alike([one for one, _ in sides])
    counts = [int(one.shape[0]) for one, _ in sides]
    for client, ((_, labels), count) in enumerate(zip(sides, counts, strict=True)):
        if not count:
            raise DataError(f"{_called(client, names)} has no records; leave it out")
        if not isinstance(labels, str) and labels.shape != (count,):
            raise DataError(
                f"{_called(client, names)} has {count} records and labels of shape {labels.shape}; one label a record is needed"
            )
    owners = np.repeat(np.arange(len(counts)), counts)
    whose = owners if names is None else objects(names[at] for at in owners)
    together = y if isinstance(y, str) else _labels([labels for _, labels in sides])
    return JoinedRecords(_concatenated([one for one, _ in sides]), together, whose)


def is_dictionary(x: Any) -> TypeGuard[Mapping[Any, Any]]:
    """Return True for a dictionary, but not for a sparse matrix by keys (dok), which is one only by its type."""
    return isinstance(x, Mapping) and not hasattr(x, "tocsr")


def is_clients(x: Any) -> bool:
    """Return True if a dictionary holds clients rather than the tables of a run file."""
    return is_dictionary(x) and bool(x) and not any(isinstance(one, Mapping | str) for one in x.values())


def is_list_of_clients(x: Any) -> bool:
    """Return True if a list or a dictionary has a pair (x, y) or a torch data set for each client."""
    if isinstance(x, list | tuple) and x:
        return all(_is_pair(one) or _is_torch(one) for one in x)
    return is_clients(x)


def _named(x: Mapping[Any, Any]) -> tuple[list[Any], list[str]]:
    names = [str(name) for name in x]
    if {name.lower() for name in names} <= _PARTS:
        first = names[0]
        raise DataError(
            f"x has the parts {', '.join(names[:6])}, which are no clients; train on one of them: x[{first!r}], and give the "
            "other as test="
        )
    return list(x.values()), names


def _called(client: int, names: Sequence[Any] | None) -> str:
    return f"client {client}" if names is None else f"client {names[client]!s:.60}"


def _pairs(x: Any, y: Any) -> list[Any] | None:
    """Return the records of each client, or None for records that are not grouped by client."""
    if not isinstance(x, list | tuple) or not x:
        return None
    if y is None:
        if all(_is_pair(one) or _is_torch(one) for one in x):
            return list(x)
        _refuse_nearly(x)
        return None
    if isinstance(y, str):
        frames = [as_frame(one) for one in x]
        return frames if all(map(is_frame, frames)) else None
    several = isinstance(y, list | tuple) and len(y) > 0 and all(_dimensions(one) == 1 for one in y)
    if not (several and all(_dimensions(one) >= 2 for one in x)):
        return None
    if len(x) != len(y):
        raise DataError(
            f"x has the records of {len(x)} clients and y the labels of {len(y)}; give both for each client"
        )
    return list(zip(x, y, strict=True))


def _refuse_nearly(x: Sequence[Any]) -> None:
    """Refuse a list that is nearly a list of clients."""
    for client, one in enumerate(x):
        if isinstance(one, list | tuple) and len(one) != _PAIR and any(_dimensions(inner) >= 2 for inner in one):
            raise DataError(
                f"client {client} is {len(one)} things, and each client is a pair (x, y); records of its own for testing go into "
                "test=(x, y)"
            )
        if isinstance(one, list | tuple) and len(one) == _PAIR and _dimensions(one[0]) >= 2 and not _is_pair(one):
            raise DataError(f"client {client} has no label for each of its records; give it as a pair (x, y)")
    if all(is_frame(as_frame(one)) for one in x):
        raise DataError('labels are missing: name the column that has them, as in crescendo.simulate(frames, "column")')


def _is_pair(one: Any) -> bool:
    return isinstance(one, list | tuple) and len(one) == _PAIR and _dimensions(one[0]) >= 2 and _dimensions(one[1]) == 1


def _is_torch(one: Any) -> bool:
    """Return True for a torch Dataset or DataLoader, judged by its methods."""
    if isinstance(one, list | tuple | str | Mapping) or hasattr(one, "shape") or is_frame(one):
        return False
    return hasattr(one, "__len__") and (hasattr(one, "__getitem__") or hasattr(one, "batch_size"))


def _dimensions(value: Any) -> int:
    """Return the dimensions of an array, frame, sparse matrix, tensor or list, going by first items; 0 for other values."""
    value = as_frame(value)
    if hasattr(value, "shape"):
        return len(value.shape)
    if not isinstance(value, list | tuple):
        return 1 if hasattr(value, "__array__") else 0
    return 1 + (_dimensions(value[0]) if value else 0)


def _sides(pair: Any, y: Any, private: bool) -> tuple[Any, Any]:
    if isinstance(y, str):
        return pair, y
    if _is_torch(pair):
        return arrays_of_pairs(pair)
    x, labels = (as_frame(one) for one in pair)
    made = (
        one_by_one(labels) if private else as_array(labels)
    )  # in a private run no label may decide the type of the others
    return x if is_frame(x) or hasattr(x, "tocsr") else as_array(x), made


def _check_alike(sides: Sequence[Any]) -> None:
    """Refuse clients whose records differ in shape."""
    first = sides[0]
    for client, one in enumerate(sides):
        if is_frame(one) != is_frame(first) or hasattr(one, "tocsr") != hasattr(first, "tocsr"):
            raise DataError(
                f"client {client} has a {type(one).__name__} and client 0 a {type(first).__name__}; give all of them alike"
            )
        if is_frame(one) and set(one.columns) != set(first.columns):
            odd = sorted(set(map(str, one.columns)) ^ set(map(str, first.columns)))[0]
            raise DataError(
                f"client {client} and client 0 differ in the column '{odd:.60}'; give all of them the same columns"
            )
        if not is_frame(one) and tuple(one.shape[1:]) != tuple(first.shape[1:]):
            raise DataError(
                f"client {client} has records of shape {tuple(one.shape[1:])} and client 0 of shape {tuple(first.shape[1:])}; "
                "all clients need the same features"
            )


def _concatenated(sides: Sequence[Any]) -> Any:
    if is_frame(sides[0]):
        import pandas

        return pandas.concat([one[list(sides[0].columns)] for one in sides], ignore_index=True)
    if hasattr(sides[0], "tocsr"):
        from scipy.sparse import vstack

        return vstack([one.tocsr() for one in sides], format="csr")
    return np.concatenate(sides)


def _labels(sides: Sequence[Array]) -> Array:
    """Join all labels without changing their types: numpy would turn numbers among texts into texts."""
    kinds = {one.dtype.kind in "biuf" for one in sides} if len({one.dtype.kind for one in sides}) > 1 else {True}
    return np.concatenate(sides if len(kinds) == 1 else [one.astype(object) for one in sides])


def free_name(x: Any) -> str:
    """Return a name for the client column that no other column of the data frame has."""
    name, taken = CLIENT, {str(one) for one in x.columns} if is_frame(x) else set()
    while name in taken:
        name += "_"
    return name


def with_clients(raw: Raw, owners: Owners, test: float, seed: int) -> Raw:
    """Return the records with their client column and the held-out records of each client."""
    held = owners.held_out(test, seed) if test > 0 and raw.test is None else None
    return replace(raw, columns={**raw.columns, owners.name: owners.ids}, in_test=held)


def with_client_column(data: Dataset, owners: Owners) -> Dataset:
    """Return the data set with its client column named; refuse one in which a client has no records left."""
    owners.check_kept(data)
    return replace(data, client_column=owners.name)


def test_part(test: Any, y: Any) -> Any:
    """Return the test part, joined if it comes by client; a lone data frame has its labels in the column ``y``.

    >>> [part.shape for part in test_part([(np.zeros((2, 3)), [0, 1]), (np.ones((1, 3)), [1])], None)]
    [(3, 3), (3,)]
    """
    test = as_frame(test)
    if is_frame(test) and isinstance(y, str):
        return with_text_name(test, y), y
    if isinstance(test, tuple | list) and test and all(map(_is_pair, test)):
        found = joined(test)
        return found.x, found.y
    return (as_frame(test[0]), as_frame(test[1])) if isinstance(test, tuple) and len(test) == _PAIR else test


def without(x: Any, column: str) -> Any:
    """Drop a column of a data frame; return anything else unchanged."""
    return x.drop(columns=[column]) if is_frame(x) and column in x.columns else x


def without_pair(test: Any, column: str) -> Any:
    """Drop a column of a test part's data frame."""
    return (without(test[0], column), test[1]) if isinstance(test, tuple) and len(test) == _PAIR else test


def declared_by_name(records: Mapping[Any, Any], names: Sequence[str]) -> list[Any]:
    """Return declared numbers of records in the order of the clients; refuse missing and unknown names."""
    given = {str(name): count for name, count in records.items()}
    if set(given) != set(names):
        odd = sorted(set(given) ^ set(names))[0]
        raise DataError(
            f"records declares {', '.join(sorted(given)[:6])}, and the clients are {', '.join(names[:6])}: '{odd:.60}' is in one "
            "of them only"
        )
    return [given[name] for name in names]
