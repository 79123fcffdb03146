"""Soundness of a trace: it fits the terms of its run and is complete. Other checks of a trace rest on this one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crescendo.core.arrays import Array
from crescendo.core.terms import Terms
from crescendo.errors import DataError
from crescendo.simulator.trace import Trace


def require_sound(trace: Trace, terms: Terms) -> None:
    """Raise DataError for the first entry that no run under these terms can have recorded."""
    for wrong in _faults(trace, terms):
        raise DataError(
            f"the trace does not fit the run: {wrong}; it was changed, or it belongs to a run with another config or other data"
        )


def _faults(trace: Trace, terms: Terms) -> Iterator[str]:
    tables = trace.tables
    if len({len(column) for column in tables["segments"].values()}) > 1:
        yield "the columns of its segments have different lengths"
    for name in ("updates", "segments", "excluded"):
        rounds, clients = tables[name]["round"], tables[name]["client"]
        outside = (rounds < 0) | (rounds >= terms.rounds) | (clients < 0) | (clients >= terms.clients)
        if outside.any():
            i, c = int(rounds[outside][0]), int(clients[outside][0])
            yield f"it has round {i} of client {c}, but there are {terms.rounds} rounds and {terms.clients} clients"
    yield from _broadcast_faults(tables, terms)
    yield from _update_faults(tables, terms)
    yield from _segment_faults(tables, terms)


def _broadcast_faults(tables: dict[str, dict[str, Array]], terms: Terms) -> Iterator[str]:
    """Check that broadcasts are in order, and that each holds only updates that the server had by then."""
    applied, made_at = tables["broadcasts"]["applied"], tables["broadcasts"]["made_at"]
    arrivals = tables["updates"]["applied_at"]
    if len(applied) and (np.diff(applied, prepend=0).min() < 0 or applied[-1] > len(arrivals)):
        yield "a broadcast holds updates that were never applied, or fewer than the one before it"
        return
    if len(arrivals) and np.diff(arrivals, prepend=0.0).min() < 0:
        yield "its updates are not in the order in which they arrived"
    for j, (many, when) in enumerate(zip(applied.tolist(), made_at.tolist(), strict=True)):
        if many and arrivals[many - 1] > when:
            yield f"broadcast {j} holds an update that arrived after it was made"


def _update_faults(tables: dict[str, dict[str, Array]], terms: Terms) -> Iterator[str]:
    """Check that every pair with a share is applied once, or excluded."""
    updates, excluded = tables["updates"], tables["excluded"]
    pairs = list(zip(updates["round"].tolist(), updates["client"].tolist(), strict=True))
    if len(set(pairs)) < len(pairs):
        yield "an update was applied twice"
    known = set(pairs) | set(zip(excluded["round"].tolist(), excluded["client"].tolist(), strict=True))
    for i in range(terms.rounds):
        for c in np.flatnonzero(terms.shares(i)).tolist():
            if (i, c) not in known:
                yield f"the update of client {c} in round {i} is neither applied nor excluded"


def _segment_faults(tables: dict[str, dict[str, Array]], terms: Terms) -> Iterator[str]:
    """Check that every applied update was computed from its first slot to its last, on broadcasts that existed."""
    segments, made_at = tables["segments"], tables["broadcasts"]["made_at"]
    columns = (segments[name].tolist() for name in ("client", "round", "first", "last", "basis", "began_at"))
    reached: dict[tuple[int, int], int] = {}
    for c, i, first, last, basis, began in zip(*columns, strict=True):
        if not -1 <= basis < len(made_at) or (basis >= 0 and made_at[basis] > began):
            yield f"client {c} computed a part of round {i} on a broadcast that had not been made"
        # a crashed client restarts its round; otherwise the slots are consecutive
        if not first < last <= terms.share(i, c) or first not in (0, reached.get((i, c), 0)):
            yield f"client {c} computed slots {first} to {last} of round {i}, where {terms.share(i, c)} were due"
        reached[i, c] = last
    for i, c in zip(tables["updates"]["round"].tolist(), tables["updates"]["client"].tolist(), strict=True):
        if reached.get((i, c), 0) != terms.share(i, c):
            yield f"client {c} sent round {i} without all of its gradients"
