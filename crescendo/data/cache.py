"""Cache of parsed files, for a quick second load.

An entry is an uncompressed ``.npz`` (no pickle) whose name is a hash of all its inputs, so it is never stale. Zip stores a CRC
of every array; an entry that fails it is built again. The folder can be deleted at any time, and a folder that cannot be
written only costs time.
"""

import contextlib
import hashlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import platformdirs

from crescendo.core.arrays import Array

_NAMES = "_names"  # the list of the arrays: damage to a zip's directory can hide one without failing a CRC
Arrays: TypeAlias = dict[str, Array]


def folder() -> Path:
    """Return ``CRESCENDO_CACHE`` if it is set, and otherwise the operating system's cache folder for the user."""
    chosen = os.environ.get("CRESCENDO_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("crescendo", appauthor=False)


def cached(kind: str, made_from: tuple[object, ...], build: Callable[[], Arrays]) -> Arrays:
    """Return the arrays of ``build``, from the cache if it has them undamaged.

    ``made_from`` must hold every input on which the arrays depend: hashes of contents, options, the version of the code.
    """
    identity = hashlib.sha256(repr((kind, *made_from)).encode()).hexdigest()
    path = folder() / f"{kind}-{identity[:32]}.npz"
    arrays = _read(path)
    if arrays is None:
        arrays = build()
        _write(path, arrays)
    return arrays


def _read(path: Path) -> Arrays | None:
    try:
        with np.load(path, allow_pickle=False) as entry:
            arrays = {name: entry[name] for name in entry.files}
        names = arrays.pop(_NAMES).tolist()
        return arrays if sorted(arrays) == names else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError):
        return None  # absent, damaged or unreadable: the caller builds it


def _write(path: Path, arrays: Arrays) -> None:
    """Write the entry atomically: a reader never sees half a file, and two writers do not mix."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, allow_pickle=False, **arrays, **{_NAMES: np.array(sorted(arrays))})
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
