"""What can be wrong with a ledger's file, each in one sentence: what happened and what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crescendo.errors import DataError, UsageError


def damaged(path: Path, what: str) -> DataError:
    """The sentence for a file that cannot be trusted any more."""
    return DataError(f"the ledger {path} is damaged: {what}; put a sound copy back, as what was spent cannot be known")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what SQLite says into one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise explanation(error, path) from error
    except ValueError as error:  # text that is none: a flipped bit can make it so
        raise damaged(path, str(error)) from error


def is_corrupt(error: sqlite3.Error) -> bool:
    """The file's pages do not fit together."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_CORRUPT


def explanation(error: sqlite3.Error, path: Path) -> UsageError:
    """The sentence for what SQLite says."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return DataError(f"{path} is not a ledger, or its first page is damaged; check the path")
    if code == sqlite3.SQLITE_FULL:
        return UsageError(
            f"the disk of the ledger {path} is full, so nothing was charged or sent; make room and start again"
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return UsageError(f"the ledger {path} is in use by another process; stop that one first")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return UsageError(
            f"the ledger {path} cannot be opened or written ({error}); give it a folder that can be written"
        )
    if code == sqlite3.SQLITE_CONSTRAINT:
        return UsageError(f"the ledger {path} refuses the entry ({error}); open it again to see what it holds")
    if code == sqlite3.SQLITE_IOERR:
        return UsageError(f"the disk of the ledger {path} fails ({error}), so nothing more is sent; check the disk")
    return damaged(path, str(error))
