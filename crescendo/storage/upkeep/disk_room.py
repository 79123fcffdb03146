"""Disk space: the level at which a server warns, and the level at which it takes no more rounds.

A journal on a full disk fails, and its server ends. Before that the server stops taking rounds but keeps answering.
The remaining space is for its snapshots, for other programs, and for the operator who frees space. The reserve
depends on the sizes of the model and the journal, not of the disk.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from crescendo import system

MODELS = 4  # in the reserve: a snapshot being written, a sound one, the model for its readers, one to spare
WARNING = 5  # times the reserve: below this there is little room
MARGIN = 0.5  # of the reserve: hysteresis, so that a disk at a limit is logged only once


class Room(Enum):
    """The level of free space."""

    ENOUGH = 0
    LITTLE = 1
    NONE = 2


class Usage(NamedTuple):
    """Free and total bytes of a disk."""

    free: float
    total: float

    def __str__(self) -> str:
        return f"{self.free / 1e6:,.0f} MB ({self.free / self.total:.1%})"


def usual_reserve(model: int, journal: int) -> float:
    """Return the reserve for a model and the journal between two snapshots, both in bytes."""
    return journal + MODELS * model


def usage_of(folder: Path) -> Usage:
    """Return the disk usage of a folder; raise OSError if the file system does not report it, as some network ones do not."""
    usage = system.disk_usage(folder)
    if not usage.total:
        raise OSError(errno.ENOTSUP, "the file system does not say how large it is", str(folder))
    return Usage(usage.free, usage.total)


class DiskRoom:
    """Measures the room on the disk of ``folder``: `Room.NONE` while less than ``reserve`` bytes are free.

    >>> free = iter([1e12, 99, 105, 19, 29, 31, 200])
    >>> room = DiskRoom(Path("."), 20, lambda folder: Usage(next(free), 1e13))
    >>> [room.measured().name for _ in range(7)]
    ['ENOUGH', 'LITTLE', 'LITTLE', 'NONE', 'NONE', 'LITTLE', 'ENOUGH']
    """

    def __init__(self, folder: Path, reserve: float, measure: Callable[[Path], Usage] = usage_of) -> None:
        self._folder, self._measure, self._room = folder, measure, Room.ENOUGH
        self.reserve, self.usage = reserve, Usage(1.0, 1.0)

    def measured(self) -> Room:
        """Measure the room; if that fails, return the previous value."""
        with suppress(OSError):
            self.usage = self._measure(self._folder)
            none = self.reserve * (1 + MARGIN * (self._room is Room.NONE))
            little = self.reserve * (WARNING + MARGIN * (self._room is not Room.ENOUGH))
            free = self.usage.free
            self._room = Room.NONE if free < none else Room.LITTLE if free < little else Room.ENOUGH
        return self._room
