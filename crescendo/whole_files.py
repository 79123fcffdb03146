"""Whole files: a file appears under its name with all its bytes on disk, or not at all; only its owner may read it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from crescendo import system

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700  # modes


@contextmanager
def whole_file(
    path: Path, suffix: str = ".draft", check: Callable[[Path], None] = lambda draft: None
) -> Iterator[BinaryIO]:
    """Write a draft next to ``path``, sync it, and only then rename it to ``path``.

    ``check`` examines the synced draft. If it raises, or the writing does, the file at ``path`` stays as it was and the draft is
    removed: on a full disk it would take up the last free space.
    """
    draft = path.with_suffix(suffix)
    handle = system.open_file(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        with blamed_on(path), system.fdopen(handle, "wb") as file:
            os.fchmod(handle, PRIVATE_FILE)  # a draft left by a killed process may have another mode
            yield file
            file.flush()
            system.fsync(handle)
        check(draft)
        system.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            system.unlink(draft)
        raise
    sync_folder(path.parent)


@contextmanager
def blamed_on(path: Path) -> Iterator[None]:
    """Add ``path`` to errors of the system that name no file, such as a full disk, so that the user knows which disk it is."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter, with the folders above it, and sync them to disk."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    for place in missing:
        sync_folder(place.parent)


def sync_folder(folder: Path) -> None:
    """Sync the names in ``folder`` to disk."""
    handle = system.open_file(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        system.fsync(handle)
    finally:
        system.close(handle)


def forget_cached(path: Path) -> None:
    """Make the next reader read from the disk: after a failed sync the cache may hold pages that never reached it."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
