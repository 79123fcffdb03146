"""Parsed files, kept so that the second load is quick.

An entry is an uncompressed ``.npz`` (no pickle) whose name is a hash of everything it was made from, so it is never out of
date; the CRC that zip keeps of every array tells a damaged entry, which is then made anew. The folder can be deleted at any
time. A folder that cannot be written costs time, nothing else.
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

_NAMES = "_names"  # the list of the arrays: damage to the directory of a zip can hide one without any CRC noticing
Arrays: TypeAlias = dict[str, Array]


def folder() -> Path:
    """``CRESCENDO_CACHE`` if set, else the user's cache folder of this operating system."""
    chosen = os.environ.get("CRESCENDO_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("crescendo", appauthor=False)


def cached(kind: str, made_from: tuple[object, ...], build: Callable[[], Arrays]) -> Arrays:
    """The arrays that ``build`` gives, from the cache if they are there and whole.

    ``made_from`` must tell apart whatever can give other arrays: hashes of contents, options, the version of the code.
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
        return None  # absent, damaged or unreadable: all mean "make it anew"


def _write(path: Path, arrays: Arrays) -> None:
    """Whole or not at all: a reader never meets half a file, and two writers do not mix."""
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
