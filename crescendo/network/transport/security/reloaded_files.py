"""Reloaded files: what was read from some files, read anew when they have changed, without a restart."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from crescendo.errors import CrescendoError

T = TypeVar("T")
Stamp = tuple[tuple[int, int, int] | None, ...]


def stamp_of(paths: Iterable[Path]) -> Stamp:
    """What shows that files have changed: when they were written, their size and their place on the disk; None for no file."""
    return tuple(_stamp(path) for path in paths)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class ReloadedFiles(Generic[T]):
    """What ``read`` makes of the files at ``paths`` as they are now.

    The first time what is wrong with them is raised. Later the last that could be used stays while they cannot be: files are
    replaced one after the other, and a copy may be half way.
    """

    def __init__(self, paths: Iterable[Path], read: Callable[[], T]) -> None:
        self._paths, self._read = tuple(paths), read
        self._stamp, self._value = stamp_of(self._paths), read()

    def __call__(self) -> T:
        with suppress(CrescendoError, OSError):
            self.refresh()
        return self._value

    def refresh(self) -> None:
        """Read changed files; raises what is wrong with them."""
        stamp = stamp_of(self._paths)  # first: what is written while they are read is noticed the next time
        if stamp != self._stamp:
            self._value = self._read()
            self._stamp = stamp
