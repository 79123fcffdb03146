"""Splits of a data set over clients: every training record goes to exactly one client, and every client gets at least one."""

import heapq
import math
from collections.abc import Sequence, Sized
from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np

from crescendo.core.arrays import Floats, Ints
from crescendo.core.random import Purpose, stream
from crescendo.data.records import Column, Dataset
from crescendo.errors import ConfigError

RULES = ("iid", "label", "dirichlet", "column:NAME")
CLIENT = "client"  # the client column of records that came with their clients


def split(
    dataset: Dataset,
    count: int | None,
    rule: str = "iid",
    *,
    seed: int,
    alpha: float | None = None,
    sizes: Sequence[float] | None = None,
) -> list[Ints]:
    """Return each client's row numbers of the training part, in rising order.

    - ``iid``: shuffled and cut into equal parts, or parts in the ratio of ``sizes``.
    - ``label``: biased; each client sees as few labels as possible, only one if there are at least as many clients as labels.
    - ``dirichlet``: each label is spread over the clients by a draw from Dirichlet(``alpha``), default 1; small is biased.
    - ``column:NAME``: one client for each value of a column, in the order of the values; ``count`` may then be None.

    >>> from crescendo.data import load
    >>> wine = load("wine", test=0, seed=0)
    >>> [len(part) for part in split(wine, 3, "iid", seed=0, sizes=[2, 1, 1])]
    [89, 45, 44]
    >>> [np.unique(wine.train.y[part]).tolist() for part in split(wine, 3, "label", seed=0)]
    [[0.0], [1.0], [2.0]]
    """
    if sizes is not None and rule != "iid":
        raise ConfigError(
            f"clients.sizes goes with clients.split = 'iid', not '{rule}'; remove clients.sizes, or set that split"
        )
    if alpha is not None and rule != "dirichlet":
        raise ConfigError(
            f"clients.alpha goes with clients.split = 'dirichlet', not '{rule}'; remove clients.alpha, or set that split"
        )
    if rule.startswith("column:"):
        parts = _by_column(_column(dataset, rule), rule, count)
    else:
        parts = _by_rule(dataset, _checked_count(count, len(dataset.train)), rule, seed, alpha, sizes)
    return [np.sort(part).astype(np.int64) for part in parts]


def client_names(dataset: Dataset, count: int, rule: str = "iid") -> tuple[str, ...]:
    """Return a name for each client: its value in the column of the split, otherwise its number.

    >>> client_names(dataset=None, count=2)
    ('client 0', 'client 1')
    """
    if rule.startswith("column:"):
        named = (str(value) for value in _owners(_column(dataset, rule))[0])
        called = f"{CLIENT} " if rule.removeprefix("column:") == CLIENT else ""
        return tuple(f"{called}{name}" if name.isdigit() else name for name in named)
    return tuple(f"client {client}" for client in range(count))


def weights(rule: str | Sequence[float], parts: Sequence[Sized]) -> Floats:
    """Return the clients' weights p_c, which sum to 1: by ``size``, ``uniform``, or a list, which is normalised.

    >>> weights("size", [np.arange(3), np.arange(1)]), weights([2, 2], [np.arange(3), np.arange(1)])
    (array([0.75, 0.25]), array([0.5, 0.5]))
    """
    if isinstance(rule, str):
        if rule not in ("size", "uniform"):
            raise ConfigError(f"clients.weights is 'size', 'uniform' or a list of numbers, got '{rule}'")
        given = np.array([float(len(part)) if rule == "size" else 1.0 for part in parts])
    else:
        given = _positive(rule, len(parts), "clients.weights")
    shares: Floats = given / given.sum()
    return shares


def _checked_count(count: int | None, rows: int) -> int:
    if count is None:
        raise ConfigError("clients.count is missing; only a split by column can do without it")
    if isinstance(count, bool) or count != int(count) or count < 1:
        raise ConfigError(f"clients.count must be a whole number from 1 on, got {count}")
    if count > rows:
        raise ConfigError(f"clients.count = {count} is more than the {rows} training records; ask for at most {rows}")
    return int(count)


def _positive(values: Sequence[float], count: int, key: str) -> Floats:
    if len(values) != count:
        raise ConfigError(f"{key} has {len(values)} numbers for {count} clients; give one for each client")
    if not all(isinstance(v, Real) and not isinstance(v, bool) and 0 < v < float("inf") for v in values):
        raise ConfigError(f"{key} must be positive numbers, got {list(values)}")
    return np.asarray(values, dtype=np.float64)


def _by_rule(
    dataset: Dataset, count: int, rule: str, seed: int, alpha: float | None, sizes: Sequence[float] | None
) -> list[Ints]:
    rng = stream(seed, Purpose.SPLIT)
    labels = dataset.train.y
    if rule == "iid":
        return _cut(
            rng.permutation(len(labels)), np.ones(count) if sizes is None else _positive(sizes, count, "clients.sizes")
        )
    if not dataset.classes and rule in ("label", "dirichlet"):
        raise ConfigError(
            f"clients.split = '{rule}' deals records out by their classes, and these labels are numbers; write 'iid'"
        )
    if rule == "label":
        return _by_label(labels, count, rng)
    if rule == "dirichlet":
        return _by_dirichlet(labels, count, 1.0 if alpha is None else alpha, rng)
    raise ConfigError(f"clients.split = '{rule}' is unknown; it is one of {', '.join(RULES)}")


def _cut(rows: Ints, sizes: Floats) -> list[Ints]:
    """Cut rows into consecutive parts in the ratio of ``sizes``, rounding the running sum so that no record is lost."""
    ends = np.rint(np.cumsum(sizes) / sizes.sum() * len(rows)).astype(np.int64)
    parts = np.split(rows, ends[:-1])
    for client, part in enumerate(parts):
        if not len(part):
            raise ConfigError(
                f"clients.sizes leaves client {client} without any of the {len(rows)} records; make its size larger"
            )
    return parts


def _by_label(labels: Floats, count: int, rng: np.random.Generator) -> list[Ints]:
    by_class = [rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    if count <= len(by_class):  # whole labels, spread as evenly as possible
        groups = np.array_split(np.arange(len(by_class)), count)
        return [np.concatenate([by_class[label] for label in group]) for group in groups]
    holders = _holders(np.array([len(rows) for rows in by_class]), count)
    return [part for rows, many in zip(by_class, holders, strict=True) for part in np.array_split(rows, many)]


def _holders(sizes: Ints, count: int) -> Ints:
    """Return the number of clients per label: one each, then repeatedly one more where a client would hold the most records."""
    holders = np.ones(len(sizes), dtype=np.int64)
    for _ in range(count - len(sizes)):
        holders[np.argmax(sizes / holders)] += 1
    return holders


def _by_dirichlet(labels: Floats, count: int, alpha: float, rng: np.random.Generator) -> list[Ints]:
    if not 0 < alpha < float("inf"):
        raise ConfigError(f"clients.alpha must be a positive number, got {alpha}")
    owner = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        share = _dirichlet(alpha, count, rng)
        ends = np.rint(np.cumsum(share)[:-1] * len(rows)).astype(np.int64)
        owner[rows] = np.searchsorted(ends, np.arange(len(rows)), side="right")
    _fill_the_empty(owner, count)
    return np.split(np.argsort(owner, kind="stable"), np.cumsum(np.bincount(owner, minlength=count))[:-1])


def _dirichlet(alpha: float, count: int, rng: np.random.Generator) -> Floats:
    """Draw from Dirichlet(alpha, ..., alpha); if every gamma underflows, give all to one client, the limit for small alpha."""
    draw = rng.dirichlet(np.full(count, alpha))
    if np.isfinite(draw).all() and draw.sum() > 0.5:
        return draw
    draw = np.zeros(count)
    draw[rng.integers(count)] = 1.0
    return draw


def _fill_the_empty(owner: Ints, count: int) -> None:
    """Give each client that the draw left empty one record of the client that has the most at that moment."""
    held = np.bincount(owner, minlength=count)
    ends = np.cumsum(held)
    order = np.argsort(owner, kind="stable")  # the rows of client c end at ends[c]
    richest = [(-int(many), client) for client, many in enumerate(held) if many > 1]
    heapq.heapify(richest)
    taken = np.zeros(count, dtype=np.int64)
    for client in np.flatnonzero(held == 0):
        less, giver = richest[0]
        taken[giver] += 1
        owner[order[ends[giver] - taken[giver]]] = client
        heapq.heapreplace(richest, (less + 1, giver))


def _column(dataset: Dataset, rule: str) -> Column:
    name = rule.removeprefix("column:")
    if name not in dataset.columns:
        if not dataset.columns:
            raise ConfigError(
                f"{dataset.name} has no column '{name}' to split by, or any other; to say which client has which record, give "
                "clients=ids to crescendo.dataset, or data as a list of each client's (x, y)"
            )
        raise ConfigError(
            f"{dataset.name} has no column '{name}' to split by; its columns: {', '.join(dataset.columns)}"
        )
    return dataset.columns[name]


def _owners(column: Column) -> tuple[list[Any], Ints]:
    """Return the values of a column in order, and the position of each record's value among them.

    A private run sorts its texts by the number that each text denotes, if any, without regard to the others.
    """
    if column.dtype != object:
        values, owner = np.unique(column, return_inverse=True)
        return list(values), owner
    texts = sorted(set(column.tolist()), key=lambda text: (_number(text), text))
    place = {text: at for at, text in enumerate(texts)}
    return texts, np.array([place[text] for text in column.tolist()], dtype=np.int64)


def _number(text: str) -> float:
    """Return the finite number that a text denotes, or infinity if it denotes none."""
    with suppress(ValueError):
        if math.isfinite(number := float(text)):
            return number
    return math.inf


def _by_column(column: Column, rule: str, count: int | None) -> list[Ints]:
    values, owner = _owners(column)
    if count is not None and count != len(values):
        raise ConfigError(
            f"clients.split = '{rule}' makes {len(values)} clients, one for each value, not {count}; "
            f"set clients.count = {len(values)} or remove clients.count"
        )
    return np.split(np.argsort(owner, kind="stable"), np.cumsum(np.bincount(owner))[:-1])
