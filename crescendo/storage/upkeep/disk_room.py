"""Room on the disk: from when on little is left, and from when on a server takes nothing new.

A journal that meets the end of the disk fails, and its server ends. Before that the server stops taking rounds and goes on
talking: what is left is for its snapshots, for what other programs write, and for whoever comes to make room. What it needs
for that follows from its model and its journal, and not from how large the disk is.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from crescendo import system

MODELS = 4  # that a reserve has room for: a snapshot that is written, one that is sound, the model for its readers, one to spare
WARNING = 5  # times the reserve, below which there is little room
MARGIN = 0.5  # of the reserve, beyond a limit, before it counts as passed again: a disk at the limit is logged once


class Room(Enum):
    """How much room there is."""

    ENOUGH = 0
    LITTLE = 1
    NONE = 2


class Usage(NamedTuple):
    """Bytes of a disk that are free, and all."""

    free: float
    total: float

    def __str__(self) -> str:
        return f"{self.free / 1e6:,.0f} MB ({self.free / self.total:.1%})"


def usual_reserve(model: int, journal: int) -> float:
    """The reserve for a model of so many bytes, with so many bytes of journal from one snapshot to the next."""
    return journal + MODELS * model


def usage_of(folder: Path) -> Usage:
    """The disk of a folder; OSError if the file system does not say, as some of networks do not."""
    usage = system.disk_usage(folder)
    if not usage.total:
        raise OSError(errno.ENOTSUP, "the file system does not say how large it is", str(folder))
    return Usage(usage.free, usage.total)


class DiskRoom:
    """The room on the disk of ``folder``, each time it is measured: none while less than ``reserve`` bytes are free.

    >>> free = iter([1e12, 99, 105, 19, 29, 31, 200])
    >>> room = DiskRoom(Path("."), 20, lambda folder: Usage(next(free), 1e13))
    >>> [room.measured().name for _ in range(7)]
    ['ENOUGH', 'LITTLE', 'LITTLE', 'NONE', 'NONE', 'LITTLE', 'ENOUGH']
    """

    def __init__(self, folder: Path, reserve: float, measure: Callable[[Path], Usage] = usage_of) -> None:
        self._folder, self._measure, self._room = folder, measure, Room.ENOUGH
        self.reserve, self.usage = reserve, Usage(1.0, 1.0)

    def measured(self) -> Room:
        """The room now. A disk that cannot be asked has as much as it had."""
        with suppress(OSError):
            self.usage = self._measure(self._folder)
            none = self.reserve * (1 + MARGIN * (self._room is Room.NONE))
            little = self.reserve * (WARNING + MARGIN * (self._room is not Room.ENOUGH))
            free = self.usage.free
            self._room = Room.NONE if free < none else Room.LITTLE if free < little else Room.ENOUGH
        return self._room
