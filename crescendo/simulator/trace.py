"""Trace of a run: the gradients computed on each model, the messages sent, and their arrival times."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.errors import DataError

# The tables of a trace and their columns; a column whose name ends in "at" holds virtual seconds, the others integers.
TABLES = {
    "updates": ("round", "client", "sent_at", "applied_at"),  # in the order in which the server applied them
    "broadcasts": ("k", "applied", "made_at"),  # applied: the number of `updates` in the model
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


@dataclass
class Recorder:
    """Collects the rows of a trace during a run."""

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
    """The final model, counts and tables of a run.

    ``max_delay_used`` is the largest t_delay / tau(t_glob), None under the rule of rounds.
    """

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
        """Return the counts of the run, without its arrays."""
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
        """Read a trace written by `save`."""
        try:
            with np.load(path, allow_pickle=False) as file:
                tables = {t: {c: file[f"{t}.{c}"] for c in columns} for t, columns in TABLES.items()}
                return cls(model=file["model"], tables=tables, **json.loads(file["counts"].tobytes()))
        except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise DataError(f"{path} is not a readable trace ({error}); run again to make a new one") from error
