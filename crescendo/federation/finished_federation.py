"""A finished federation: its last model, and the terms that describe its records, labels and objective.

The file may come from an untrusted source. Nothing in it is unpickled or run as code, and its terms must respect the
limits of a peer's terms.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.data.records import Label
from crescendo.errors import ConfigError, CrescendoError, DataError, UsageError
from crescendo.federation.agreement import MOST_TEXT, Agreement, build_terms
from crescendo.federation.last_model import LastModel
from crescendo.federation.objective_terms import Described
from crescendo.federation.own_model import with_copy
from crescendo.objectives import ModelFile

MODEL, TERMS, JOURNAL, LEDGER = "model.npz", "terms.json", "journal", "ledger.sqlite"


@dataclass(frozen=True, eq=False)
class FinishedFederation:
    """The last model of ``agreed`` terms. ``place`` is the folder of a server or client, or the model file itself."""

    place: Path
    agreed: Agreement
    model: Floats

    @classmethod
    def is_at(cls, place: Path) -> bool:
        """Return True if a path belongs to a federation, finished or not, and not to a run."""
        if place.is_dir():
            there = any((place / name).exists() for name in (TERMS, JOURNAL, LEDGER))
            return not (place / "config.toml").exists() and (there or _says_federation(place / MODEL))
        return place.suffix == ".npz" and _says_federation(place)

    @classmethod
    def of(cls, place: Path) -> Self:
        """Return the federation at ``place``; raise DataError if it is damaged or not finished."""
        file = place / MODEL if place.is_dir() else place
        if not file.is_file():
            raise DataError(
                f"{place} is the folder of a federation that is not finished; {MODEL} appears after its last round"
            )
        if file.is_symlink():
            raise DataError(
                f"{file} is a symbolic link, but a federation writes a plain file; copy the file itself there"
            )
        try:
            found = LastModel.read(file.read_bytes())
        except OSError as error:
            raise DataError(f"{file} cannot be read: {(error.strerror or 'unknown reason').lower()}") from None
        except Exception as error:  # zip and npy readers raise dozens of types; on bytes in memory each means damage
            raise DataError(
                f"{file} is damaged and cannot be read; copy it again from the server or a client"
            ) from error
        agreed = _terms_of(found, file)
        model = found.model
        if model.dtype.kind != "f" or model.shape != (agreed.size,):
            raise DataError(
                f"{file} is damaged or was changed: its terms describe {agreed.size:,} numbers, but its model has shape "
                f"{model.shape} of type {model.dtype}; copy it again from the server or a client"
            )
        return cls(place, agreed, model.astype(np.float64))

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels that the model predicts: 0 and 1 if the terms name no classes, empty for regression."""
        stated = self.agreed.classes
        return (0, 1) if stated is None else stated

    @property
    def numbers(self) -> bool:
        """True for a regression."""
        return self.agreed.objective.traits.numbers

    @property
    def kind(self) -> str:
        """The name of the objective in the terms."""
        return self.agreed.learns[0]

    def with_copy(self, copy: ModelFile | None) -> Agreement:
        """Return the terms with a computable objective: ours, or this copy of the model that they describe."""
        goal = self.agreed.objective
        if isinstance(goal, Described) and copy is None:
            raise UsageError(
                f"{self.place} trained {goal.kind}, and a federation's files hold no code; name a copy that you trust, "
                f"with the SHA-256 {goal.sha256}"
            )
        return with_copy(self.agreed, copy)


def _says_federation(file: Path) -> bool:
    if file.is_symlink() or not file.is_file():  # a pipe would never end
        return False
    with contextlib.suppress(Exception), np.load(file, allow_pickle=False) as found:
        return "federation" in found.files
    return False


def _terms_of(found: LastModel, file: Path) -> Agreement:
    text = found.text or _text_beside(found, file)
    try:
        agreed = build_terms(text)
    except (CrescendoError, RecursionError) as error:
        raise DataError(f"{file} has terms that this version cannot use: {error}") from None
    if (agreed.digest, agreed.federation) != (found.terms, found.federation):
        raise DataError(f"{file} is damaged or was changed: its terms do not match the digest in it; copy it again")
    return agreed


def _text_beside(found: LastModel, file: Path) -> str:
    """Read the terms from the server's folder, for a model file of an early version, which has no terms."""
    beside = file.parent / TERMS
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        if not beside.is_symlink() and beside.stat().st_size <= 2 * MOST_TEXT:
            text = json.loads(beside.read_text(encoding="utf-8"))["terms"]
            if isinstance(text, str):
                return text
    raise ConfigError(
        f"{file} belongs to the federation '{found.federation:.60}' and was written by an early version without its terms; "
        "start the server or the client once more with this version, or name the server's folder"
    )
