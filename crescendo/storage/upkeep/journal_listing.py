"""Journal listing: the snapshots and segments in a folder as of one instant, beside a server that makes and removes them.

To read a folder takes time. A file that the server makes meanwhile may be missed and a later one seen, which looks like a
segment that is missing; a server that prunes between a look at the snapshots and one at the segments leaves segments that none of
those snapshots goes with, which looks like a journal without a sound one. Names are never used twice, so two looks
that find the same saw what was there between them.
"""

from pathlib import Path
from typing import NamedTuple, Self

from crescendo.errors import UsageError
from crescendo.storage.journal.segments import Segments
from crescendo.storage.journal.snapshots import Snapshot

MAX_TRIES = 20  # of whatever a server may disturb by what it removes


class FilesGoAway(UsageError):
    """A server removed files faster than they could be read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"the files in {folder} go away while they are read; try again")


class JournalListing(NamedTuple):
    """Snapshots, newest first, and segments, oldest first."""

    snapshots: list[Path]
    segments: list[Path]

    @classmethod
    def of(cls, folder: Path) -> Self:
        """What is in ``folder``; FileNotFoundError if a file goes while it is looked at."""
        found = None
        while (now := cls(Snapshot.paths(folder), Segments(folder).paths())) != found:
            found = now
        return now
