"""Journal listing: the snapshots and segments in a folder as of one instant, while a server adds and removes files.

Reading a folder takes time. The listing may miss a file that the server makes meanwhile but contain a later one,
which looks like a missing segment. A server that prunes between the listing of snapshots and that of segments leaves
segments without a matching snapshot, which looks like a journal without a sound one. Names are never reused, so two
equal listings in a row are consistent.
"""

from pathlib import Path
from typing import NamedTuple, Self

from crescendo.errors import UsageError
from crescendo.storage.journal.segments import Segments
from crescendo.storage.journal.snapshots import Snapshot

MAX_TRIES = 20  # of a read that a server may disturb by removing files


class FilesGoAway(UsageError):
    """A server removed files faster than they could be read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"the files in {folder} disappear while they are read; try again")


class JournalListing(NamedTuple):
    """Snapshots, newest first, and segments, oldest first."""

    snapshots: list[Path]
    segments: list[Path]

    @classmethod
    def of(cls, folder: Path) -> Self:
        """List ``folder``; raise FileNotFoundError if a file disappears meanwhile."""
        found = None
        while (now := cls(Snapshot.paths(folder), Segments(folder).paths())) != found:
            found = now
        return now
