"""The last model of a federation, as a file in the folder of the server or of a client."""

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from crescendo.errors import UsageError
from crescendo.whole_files import whole_file


@dataclass(frozen=True, eq=False)
class LastModel:
    """A last model, and the federation and (by their digest) the terms that it is of."""

    model: Any
    federation: str
    terms: str

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """What `save` wrote, None if there is nothing that can be read."""
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(file["model"], str(file["federation"]), str(file["terms"]))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def save(self, path: Path) -> None:
        """Write the model as an npz, on disk whole or not at all; what is there already is not written again."""
        if self._is_in(path):
            return
        try:
            with whole_file(path) as out:
                np.savez(out, model=np.asarray(self.model), federation=self.federation, terms=self.terms)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"the model cannot be written to {path}: {reason}") from None

    def _is_in(self, path: Path) -> bool:
        kept, model = self.load(path), np.asarray(self.model)
        if kept is None or (kept.federation, kept.terms) != (self.federation, self.terms):
            return False
        return bool(kept.model.dtype == model.dtype and kept.model.tobytes() == model.tobytes())
