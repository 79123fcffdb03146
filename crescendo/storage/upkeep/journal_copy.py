"""Journal copy: a copy of a server's journal and snapshots that always opens, made while the server runs.

What is copied was there at one instant, snapshots first and segments after them, oldest first: whatever the server adds later
comes after what a copied snapshot needs. If the server prunes something before it was copied, the copy begins anew. Of the last
segment the whole records are copied and no more, so that the copy has no torn tail and its server does not begin a new epoch
for one.
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
    """Where the records of a segment that is being written end now."""
    with segment.open("rb") as file:
        scan = Scan(segment, file)
        for _ in scan.records(keep_bodies=False):
            pass
        if scan.torn:
            scan.check_torn()
        return scan.at


def copy_file(source: Path, target: Path, size: int | None = None) -> None:
    """Copy a file, or its first ``size`` bytes, for its owner's eyes alone, and be sure that it is on disk."""
    handle = system.open_file(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    with source.open("rb") as read, system.fdopen(handle, "wb") as write:
        left = os.fstat(read.fileno()).st_size if size is None else size
        while left and (piece := read.read(min(left, 1 << 20))):
            write.write(piece)
            left -= len(piece)
        write.flush()
        system.fsync(handle)
