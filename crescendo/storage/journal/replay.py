"""Replay of a server's journal without the server, to verify its model bit for bit."""

from pathlib import Path

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.errors import DataError
from crescendo.storage.journal.journal_entries import Opened, Received, Summed, delta_of, from_bytes
from crescendo.storage.journal.segments import Segments


def replay(folder: str | Path) -> Floats:
    """Apply the journal's updates in order from its first entry, and return the model; the folder may be in use."""
    model: Floats | None = None
    for record in Segments(Path(folder)).records():
        entry = from_bytes(record.kind, record.body)
        if isinstance(entry, Opened):
            model = np.array(entry.model, dtype=np.float64)
        elif isinstance(entry, Received | Summed):
            assert model is not None
            delta = delta_of(entry)
            model[entry.low : entry.low + len(delta)] -= delta
    if model is None:
        raise DataError(f"there is no federation in {folder}; check the folder")
    return model
