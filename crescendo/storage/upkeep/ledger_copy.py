"""Ledger copy: a consistent copy of a ledger's file, even one in use, that leaves the original unchanged."""

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from crescendo import system
from crescendo.storage.ledger.ledger_faults import explained
from crescendo.storage.ledger.ledger_schema import LOCK_TIMEOUT
from crescendo.whole_files import PRIVATE_FILE

WAL, LOCK = "-wal", ".lock"


def copy_ledger(path: Path, to: Path) -> None:
    """Copy the current state of the ledger at ``path`` to the single file ``to``.

    While a client has the ledger open, SQLite's backup copies it page by page as of one instant. Otherwise no process
    writes, and the file is copied with the log that a killed client may have left: opening that in place would change
    it.
    """
    system.close(system.open_file(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
    with _unless_in_use(path) as free, explained(path):
        if free:
            shutil.copyfile(path, to)
            if (log := path.with_name(path.name + WAL)).exists():
                shutil.copyfile(log, to.with_name(to.name + WAL))
        else:
            uri = f"{path.absolute().as_uri()}?mode=ro"
            with (
                closing(sqlite3.connect(uri, uri=True, timeout=LOCK_TIMEOUT)) as source,
                closing(sqlite3.connect(to)) as target,
            ):
                source.backup(target)
    with closing(sqlite3.connect(to)) as copied, explained(path):
        copied.execute(
            "pragma wal_checkpoint(truncate)"
        ).fetchall()  # in the copy only: folds the log into the one file


@contextmanager
def _unless_in_use(path: Path) -> Iterator[bool]:
    """Yield True if no client has the ledger open, and keep clients from opening it meanwhile."""
    try:
        lock = system.open_file(path.with_name(path.name + LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            system.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            free = True
        except OSError:
            free = False
        yield free
    finally:
        system.close(lock)
