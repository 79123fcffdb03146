"""Reloaded files: a value read from files, and read again whenever they change, without a restart."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from crescendo.errors import CrescendoError

T = TypeVar("T")
Stamp = tuple[tuple[int, int, int] | None, ...]


def stamp_of(paths: Iterable[Path]) -> Stamp:
    """Return a stamp that changes with the files: time of writing, size and inode of each, or None for a missing file."""
    return tuple(_stamp(path) for path in paths)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class ReloadedFiles(Generic[T]):
    """The value that ``read`` makes of the current files at ``paths``.

    Errors of the first read are raised. After that the last good value stays while the files are not usable: an operator replaces
    them one after the other, and a copy may be half done.
    """

    def __init__(self, paths: Iterable[Path], read: Callable[[], T]) -> None:
        self._paths, self._read = tuple(paths), read
        self._stamp, self._value = stamp_of(self._paths), read()

    def __call__(self) -> T:
        with suppress(CrescendoError, OSError):
            self.refresh()
        return self._value

    def refresh(self) -> None:
        """Read changed files; raise an error if they are not usable."""
        stamp = stamp_of(self._paths)  # first: the next refresh then notices a change made while reading
        if stamp != self._stamp:
            self._value = self._read()
            self._stamp = stamp
