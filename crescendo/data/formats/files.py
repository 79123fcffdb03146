"""Finds data files, unpacks them, and tells an altered file from the one that was meant."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from crescendo.data.sets.known import KnownFile
from crescendo.errors import DataError

_VARIABLE = "CRESCENDO_DATA"
_UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.decompress,
    ".bz2": bz2.decompress,
    ".gz": gzip.decompress,
}
PACKED = tuple(_UNPACK)
_OPEN: dict[str, Callable[[Path], Any]] = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}
_DAMAGE = (lzma.LZMAError, EOFError, ValueError, OSError, zlib.error)


def data_folder(folder: Path | str | None) -> Path | None:
    """The folder given, else the one that the environment variable names, else none."""
    chosen = folder or os.environ.get(_VARIABLE)
    return Path(chosen).expanduser() if chosen else None


def find(names: Sequence[str], folder: Path | None) -> Path | None:
    """The first of ``names`` in the folder, plain or packed."""
    if folder is None:
        return None
    return next((folder / n for name in names for n in _forms(name) if (folder / n).is_file()), None)


def must_find(source: str, names: Sequence[str], folder: Path | None) -> Path:
    path = find(names, folder)
    if path is not None:
        return path
    looked = ", ".join(form for name in names for form in _forms(name))
    how = f"give the folder that has it as data.folder or in the environment variable {_VARIABLE}"
    if folder is None:
        raise DataError(f"{source} is read from a file ({looked}) and no data folder was given; {how}")
    if not folder.is_dir():
        raise DataError(f"{source} was looked for in {folder}, which is not a folder; {how}")
    raise DataError(f"{source} is not in {folder}, where {looked} were looked for; {how}")


def _forms(name: str) -> list[str]:
    return [name + suffix for suffix in ("", *PACKED)]


def read(path: Path) -> bytes:
    """The bytes of a file as they are."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def unpack(raw: bytes, path: Path) -> bytes:
    """The content of a file, unpacked as the end of its name says."""
    if path.suffix not in _UNPACK:
        return raw
    try:
        return _UNPACK[path.suffix](raw)
    except _DAMAGE as error:
        raise _damaged(path, error) from error


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The content of a file, unpacked, to read some of it."""
    try:
        content = _OPEN[path.suffix](path) if path.suffix in _OPEN else path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        with content:
            yield content
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataError:
    reason = str(error).strip().rstrip(".")
    return DataError(
        f"{path} is cut short or damaged and cannot be unpacked ({reason[:1].lower() + reason[1:]}); "
        "replace it by a whole copy"
    )


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def verified(raw: bytes, path: Path, known: KnownFile) -> Callable[[], bytes]:
    """Refuse a file that is not the known one; returns how to get its content.

    A packed file whose own hash is known needs no unpacking to be trusted, so that a cached copy of it can be used at once.
    """
    if sha256(raw) == known.packed:
        return lambda: unpack(raw, path)
    content = unpack(raw, path)
    if (found := sha256(content)) != known.content:
        raise DataError(
            f"{path} is not the {known.name} that is known here: the sha256 of its content is {found}, not {known.content}; "
            "replace it by an unaltered copy, or give the file by its path to read it unchecked"
        )
    return lambda: content
