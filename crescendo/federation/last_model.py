"""File of a federation's last model, in the folder of the server or of a client.

The file holds the text of the terms along with the vector, so it can be interpreted without other files.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from crescendo.errors import UsageError
from crescendo.whole_files import whole_file

if TYPE_CHECKING:
    from crescendo.federation.agreement import Agreement

_DAMAGED = (OSError, ValueError, KeyError, EOFError, AttributeError, RuntimeError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class LastModel:
    """A last model with its federation, the digest of its terms, and their text.

    Files of early versions have no text.
    """

    model: Any
    federation: str
    terms: str
    text: str = ""

    @classmethod
    def of(cls, model: Any, agreed: Agreement) -> Self:
        """Return the last model of a federation under these terms."""
        return cls(model, agreed.federation, agreed.digest, agreed.text)

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """Read a model written by `save`; return None if the file is missing or damaged."""
        try:
            return cls.read(path.read_bytes())
        except _DAMAGED:
            return None

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Read a model written by `save`, without unpickling; refuse content that would unpack to more than its own size."""
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            if sum(one.file_size for one in file.zip.infolist()) > len(content):
                raise ValueError("the file is compressed, but a federation writes uncompressed files")
            text = file["text"].item().decode() if "text" in file.files else ""
            found = cls(file["model"], str(file["federation"]), str(file["terms"]), text)
        if text and hashlib.sha256(text.encode()).hexdigest() != found.terms:
            raise ValueError("its terms do not match the digest in it")
        return found

    def save(self, path: Path) -> None:
        """Write the model as an npz, atomically; skip the write if the file already holds it."""
        if self._is_in(path):
            return
        arrays = {
            "model": np.asarray(self.model),
            "federation": np.array(self.federation),
            "terms": np.array(self.terms),
        }
        arrays |= {"text": np.array(self.text.encode())} if self.text else {}  # canonical terms are ASCII
        try:
            with whole_file(path) as out:
                np.savez(out, allow_pickle=False, **arrays)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"cannot write the model to {path}: {reason}") from None

    def _is_in(self, path: Path) -> bool:
        kept, model = self.load(path), np.asarray(self.model)
        if kept is None or (kept.federation, kept.terms, kept.text) != (self.federation, self.terms, self.text):
            return False
        return bool(kept.model.dtype == model.dtype and kept.model.tobytes() == model.tobytes())
