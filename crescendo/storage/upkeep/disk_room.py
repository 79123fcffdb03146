"""Room on the disk: from when on little is left, and from when on a server takes nothing new.

A journal that meets the end of the disk fails, and its server ends. Before that the server stops taking rounds and goes on
talking: what is left is for its snapshots, for what other programs write, and for whoever comes to make room.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path

from crescendo import system

LOW, FULL = 0.10, 0.02  # parts of the disk that are free, below which there is little room, and none
MARGIN = 0.01  # beyond a limit, before it counts as passed again: a disk at the limit is not logged again and again


class Room(Enum):
    """How much room there is."""

    ENOUGH = 0
    LITTLE = 1
    NONE = 2


def free_share(folder: Path) -> float:
    """The part of a folder's disk that is free; OSError if the file system does not say, as some of networks do not."""
    usage = system.disk_usage(folder)
    if not usage.total:
        raise OSError(errno.ENOTSUP, "the file system does not say how large it is", str(folder))
    return usage.free / usage.total


class DiskRoom:
    """The room on the disk of ``folder``, each time it is measured.

    >>> shares = iter([0.5, 0.09, 0.105, 0.019, 0.025, 0.031, 0.2])
    >>> room = DiskRoom(Path("."), lambda folder: next(shares))
    >>> [room.measured().name for _ in range(7)]
    ['ENOUGH', 'LITTLE', 'LITTLE', 'NONE', 'NONE', 'LITTLE', 'ENOUGH']
    """

    def __init__(self, folder: Path, measure: Callable[[Path], float] = free_share) -> None:
        self._folder, self._measure, self._room = folder, measure, Room.ENOUGH
        self.free = 1.0

    def measured(self) -> Room:
        """The room now. A disk that cannot be asked has as much as it had."""
        with suppress(OSError):
            self.free = self._measure(self._folder)
            full = FULL + MARGIN * (self._room is Room.NONE)
            low = LOW + MARGIN * (self._room is not Room.ENOUGH)
            self._room = Room.NONE if self.free < full else Room.LITTLE if self.free < low else Room.ENOUGH
        return self._room
