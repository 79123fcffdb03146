"""The last model of a federation, as a file in the folder of the server or of a client."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.errors import UsageError
from crescendo.federation.agreement import Agreement


@dataclass(frozen=True, eq=False)
class _LastModel:
    """A last model, and the federation and terms that it is of."""

    model: Any
    federation: str
    terms: str


def load_model(path: Path) -> _LastModel | None:
    """What `save_model` wrote, None if there is nothing that can be read."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return _LastModel(file["model"], str(file["federation"]), str(file["terms"]))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def save_model(path: Path, model: Any, agreement: Agreement) -> None:
    """The model as an npz, there whole or not at all."""
    draft = path.with_suffix(".draft")
    try:
        with draft.open("wb") as out:
            np.savez(out, model=np.asarray(model), federation=agreement.federation, terms=agreement.digest)
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"the model cannot be written to {path}: {(error.strerror or str(error)).lower()}") from None
