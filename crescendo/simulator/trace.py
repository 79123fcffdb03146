"""A recorded run: what was computed on which model, what was sent, what arrived when; and the check of the paper's theorem."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.core.terms import Terms
from crescendo.errors import CrescendoError, DataError

# The tables of a trace and their columns; a column whose name ends in "at" holds virtual seconds, all others whole numbers.
TABLES = {
    "updates": ("round", "client", "sent_at", "applied_at"),  # in the order the server applied them
    "broadcasts": ("k", "applied", "made_at"),  # applied: how many of `updates` were in the model
    "segments": (
        "client",
        "round",
        "first",
        "last",
        "basis",
        "began_at",
        "ended_at",
    ),  # slots first..last-1; basis: broadcast or -1
    "waits": ("client", "began_at", "ended_at"),
    "absences": ("client", "began_at", "ended_at"),
    "excluded": ("round", "client"),  # pairs that k passed because their client was absent, or that were void
}


class Inconsistent(CrescendoError):
    """A recorded gradient was computed on a model that lacked updates which Paper [thmalg] requires."""


@dataclass
class Recorder:
    """Collects a trace while a run goes on."""

    rows: dict[str, list[tuple[float, ...]]] = field(default_factory=lambda: {name: [] for name in TABLES})

    def add(self, table: str, *row: float) -> None:
        self.rows[table].append(row)

    def tables(self) -> dict[str, dict[str, Array]]:
        return {name: _columns(name, self.rows[name]) for name in TABLES}


def _columns(table: str, rows: list[tuple[float, ...]]) -> dict[str, Array]:
    names = TABLES[table]
    values = np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
    return {name: values[:, j].astype(np.float64 if name.endswith("at") else np.int64) for j, name in enumerate(names)}


@dataclass(frozen=True, eq=False)
class Trace:
    """What happened. ``max_delay_used`` is the largest t_delay / tau(t_glob), None under the rule of rounds."""

    model: Floats
    gradients: int
    rounds: int
    broadcasts: int
    bytes_up: int
    bytes_down: int
    max_rounds_ahead: int
    max_delay_used: float | None
    waits: int
    late: int
    virtual_seconds: float
    tables: dict[str, dict[str, Array]]

    def counts(self) -> dict[str, Any]:
        """The numbers of the run, without its arrays."""
        return {name: value for name, value in vars(self).items() if name not in ("model", "tables")}

    def save(self, path: Path) -> None:
        """Write one npz file: the same run gives the same bytes."""
        arrays: dict[str, Array] = {
            f"{t}.{c}": column for t, columns in self.tables.items() for c, column in columns.items()
        }
        counts = np.frombuffer(json.dumps(self.counts(), sort_keys=True).encode(), dtype=np.uint8)
        whole = io.BytesIO()
        np.savez_compressed(whole, allow_pickle=False, model=self.model, counts=counts, **arrays)
        path.write_bytes(whole.getvalue())

    @classmethod
    def load(cls, path: Path) -> Trace:
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                tables = {t: {c: file[f"{t}.{c}"] for c in columns} for t, columns in TABLES.items()}
                return cls(model=file["model"], tables=tables, **json.loads(file["counts"].tobytes()))
        except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise DataError(f"{path} is not a trace that can be read ({error}); run again to make a new one") from error

    def check(self, terms: Terms) -> int:
        """Paper [thmalg]: every gradient's model held all updates labelled 0 .. t - tau(t) - 1. The number of gradients checked.

        Under the rule of rounds the delay is the one the rule implies: every update of rounds below i - d. Pairs that
        were declared absent or void are excluded; they are listed in the table ``excluded``.
        """
        missing = list(_first_missing(terms, self))
        checked, segments = 0, self.tables["segments"]
        assignments: dict[int, Array] = {}
        for c, i, first, last, basis in zip(*(segments[name].tolist() for name in TABLES["segments"][:5]), strict=True):
            if i not in assignments:
                assignments = (
                    {i: terms.assignment(i)} if len(assignments) > 64 else {**assignments, i: terms.assignment(i)}
                )
            labels = terms.before(i) + np.flatnonzero(assignments[i] == c)[first:last]
            lacking = missing[basis + 1].for_client(c)
            wrong = labels[_required(terms, i, labels) > lacking]
            if len(wrong):
                raise Inconsistent(
                    f"the gradient labelled {wrong[0]} (client {c}, round {i}) was computed without the update labelled "
                    f"{lacking}, which the delay bound requires"
                )
            checked += len(labels)
        return checked


def _required(terms: Terms, i: int, labels: Array) -> Array:
    """How many of the first labels the model of each gradient has to hold."""
    if terms.tau is None:
        assert terms.ahead is not None
        return np.full(len(labels), terms.before(max(0, i - terms.ahead)))
    required: Array = np.ceil(labels - np.asarray(terms.tau(labels), dtype=np.float64))
    return required


@dataclass(frozen=True)
class _Missing:
    """The lowest label that a model lacks, and the lowest of any client other than that label's."""

    lowest: float
    owner: int
    of_others: float

    def for_client(self, c: int) -> float:
        """A client's own updates are always in its model."""
        return self.of_others if c == self.owner else self.lowest


def _first_missing(terms: Terms, trace: Trace) -> Iterator[_Missing]:
    """For the first model, and then for each broadcast: which label it lacks first."""
    updates, broadcasts = trace.tables["updates"], trace.tables["broadcasts"]
    pairs = list(zip(updates["round"].tolist(), updates["client"].tolist(), strict=True))
    excluded = trace.tables["excluded"]
    held = set(zip(excluded["round"].tolist(), excluded["client"].tolist(), strict=True))
    taken = full = 0  # every pair of the rounds below ``full`` is held
    for applied in [0, *broadcasts["applied"].tolist()]:
        held.update(pairs[taken:applied])
        taken = applied
        while full < terms.rounds and not _lacking(terms, full, held):
            full += 1
        yield _lowest_missing(terms, full, held)


def _lowest_missing(terms: Terms, full: int, held: set[tuple[int, int]]) -> _Missing:
    lowest, owner = math.inf, -1
    for i in range(full, terms.rounds):
        for label, c in _lacking(terms, i, held):
            if owner < 0:
                lowest, owner = label, c
            elif c != owner:
                return _Missing(lowest, owner, label)
    return _Missing(lowest, owner, math.inf)


def _lacking(terms: Terms, i: int, held: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs of round i that are not held: the label of the client's first gradient, and the client; lowest label first."""
    owners, positions = _first_entries(terms, i)
    return sorted((terms.before(i) + at, c) for c, at in zip(owners, positions, strict=True) if (i, c) not in held)


@lru_cache(maxsize=256)
def _first_entries(terms: Terms, i: int) -> tuple[list[int], list[int]]:
    """The clients with a share in round i, and where each one's first entry stands in the round's assignment."""
    owners, positions = np.unique(terms.assignment(i), return_index=True)
    return owners.tolist(), positions.tolist()
