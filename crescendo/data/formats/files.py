"""Data files: finds them, unpacks them, and detects altered copies of known ones."""

import bz2
import contextlib
import gzip
import hashlib
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Self

from crescendo.data import cache
from crescendo.data.sets.known import KnownFile
from crescendo.errors import DataError

_VARIABLE = "CRESCENDO_DATA"
_UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.decompress,
    ".bz2": bz2.decompress,
    ".gz": gzip.decompress,
}
_OPEN: dict[str, Callable[[Path], Any]] = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}
_DAMAGE = (lzma.LZMAError, EOFError, ValueError, OSError, zlib.error)


def data_folder(folder: Path | str | None) -> Path | None:
    """Return the given folder, or the one that the environment variable names; None without either."""
    chosen = folder or os.environ.get(_VARIABLE)
    return Path(chosen).expanduser() if chosen else None


def downloads() -> Path:
    """Return the cache folder where `crescendo data get` puts files; it is searched last."""
    return cache.folder() / "sets"


class DataFile:
    """A data file, read once. Its content is unpacked according to the suffix of its name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def find(cls, names: Sequence[str], folder: Path | None, *, fall_back: bool = True) -> Self | None:
        """Find the first of ``names``, plain or packed, in the folder and then, with ``fall_back``, among the downloads."""
        places = [place for place in (folder, downloads() if fall_back else None) if place is not None]
        forms = [place / form for place in places for name in names for form in _forms(name)]
        return next((cls(path) for path in forms if path.is_file()), None)

    @classmethod
    def must_find(cls, source: str, names: Sequence[str], folder: Path | None) -> Self:
        found = cls.find(names, folder)
        if found is not None:
            return found
        looked = ", ".join(form for name in names for form in _forms(name))
        how = (
            f"get it with crescendo data get {source}, or give the folder that has it as data.folder or in the environment "
            f"variable {_VARIABLE}"
        )
        if folder is None:
            raise DataError(f"{source} is read from a file ({looked}) and no data folder was given; {how}")
        if not folder.is_dir():
            raise DataError(f"{source} was looked for in {folder}, which is not a folder; {how}")
        raise DataError(f"{source} is not in {folder}, where {looked} were looked for; {how}")

    def beside(self, name: str) -> Self | None:
        """Return the file ``name`` in the same folder, packed as the name shows, plain, or packed in another way."""
        return self.find([name, _unpacked(Path(name))], self.path.parent, fall_back=False)

    @property
    def name(self) -> str:
        """The file's name without the suffix of its packing."""
        return _unpacked(self.path)

    @cached_property
    def raw(self) -> bytes:
        """The file's bytes, still packed."""
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise DataError(f"{self.path} cannot be read: {error.strerror or error}") from error

    @cached_property
    def content(self) -> bytes:
        if self.path.suffix not in _UNPACK:
            return self.raw
        try:
            return _UNPACK[self.path.suffix](self.raw)
        except _DAMAGE as error:
            raise self._damaged(error) from error

    @contextlib.contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Yield the content as a stream, to read some of it."""
        path = self.path
        try:
            content = _OPEN[path.suffix](path) if path.suffix in _OPEN else path.open("rb")
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
        try:
            with content:
                yield content
        except _DAMAGE as error:
            raise self._damaged(error) from error

    def check(self, known: KnownFile) -> None:
        """Refuse a file that differs from the known one.

        A packed file whose hash is known need not be unpacked to be trusted, so its cached copy can be used at once.
        """
        if sha256(self.raw) != known.packed and (found := sha256(self.content)) != known.content:
            raise DataError(
                f"{self.path} is not the {known.name} that is known here: the sha256 of its content is {found}, not "
                f"{known.content}; replace it by an unaltered copy, or give the file by its path to read it unchecked"
            )

    def _damaged(self, error: Exception) -> DataError:
        reason = str(error).strip().rstrip(".")
        return DataError(
            f"{self.path} is cut short or damaged and cannot be unpacked ({reason[:1].lower() + reason[1:]}); "
            "replace it by a whole copy"
        )


def _forms(name: str) -> list[str]:
    return [name + suffix for suffix in ("", *_UNPACK)]


def _unpacked(path: Path) -> str:
    return path.stem if path.suffix in _UNPACK else path.name


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
