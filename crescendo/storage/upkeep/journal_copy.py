"""Journal copy: a consistent copy of a server's journal and snapshots, made while the server runs.

The files to copy are listed at one instant. Snapshots are copied first, then segments, oldest first, so later writes
of the server come after everything that a copied snapshot needs. If the server prunes a file before it is copied, the
copy starts over. Of the last segment only complete records are copied, so the copy has no torn tail and its server
need not begin a new epoch.
"""

import os
import shutil
from pathlib import Path

from crescendo import system
from crescendo.storage.journal.segments import Scan
from crescendo.storage.upkeep.journal_listing import MAX_TRIES, FilesGoAway, JournalListing
from crescendo.whole_files import PRIVATE_FILE, make_folder, sync_folder


def copy_journal(folder: Path, to: Path) -> None:
    """Copy the journal in ``folder`` to the new folder ``to``, synced."""
    for _ in range(MAX_TRIES):
        make_folder(to)
        try:
            _copy_all(folder, to)
            return
        except FileNotFoundError:  # pruned meanwhile
            shutil.rmtree(to)
    raise FilesGoAway(folder)


def _copy_all(folder: Path, to: Path) -> None:
    snapshots, segments = JournalListing.of(folder)
    for snapshot in snapshots:
        copy_file(snapshot, to / snapshot.name)
    for segment in segments:
        copy_file(segment, to / segment.name, _whole_records(segment) if segment == segments[-1] else None)
    sync_folder(to)


def _whole_records(segment: Path) -> int:
    """Return the current end of the complete records in a segment that is being written."""
    with segment.open("rb") as file:
        scan = Scan(segment, file)
        for _ in scan.records(keep_bodies=False):
            pass
        if scan.torn:
            scan.check_torn()
        return scan.at


def copy_file(source: Path, target: Path, size: int | None = None) -> None:
    """Copy a file, or its first ``size`` bytes, to a private file, and sync it."""
    handle = system.open_file(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    with source.open("rb") as read, system.fdopen(handle, "wb") as write:
        left = os.fstat(read.fileno()).st_size if size is None else size
        while left and (piece := read.read(min(left, 1 << 20))):
            write.write(piece)
            left -= len(piece)
        write.flush()
        system.fsync(handle)
