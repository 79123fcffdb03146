"""Upkeep of a state on disk: `verify` reports damage, `backup` makes a verified copy."""

import hashlib
import json
import os
import shutil
from pathlib import Path

from crescendo.core.terms import Terms
from crescendo.errors import DataError, UsageError
from crescendo.federation.agreement import build_terms
from crescendo.federation.last_model import LastModel
from crescendo.storage.journal.journal import lock_folder
from crescendo.storage.ledger.ledger_file import LedgerFile
from crescendo.storage.upkeep.examination import Examination
from crescendo.storage.upkeep.journal_check import check_journal
from crescendo.storage.upkeep.journal_copy import copy_file, copy_journal
from crescendo.storage.upkeep.ledger_check import check_ledger
from crescendo.storage.upkeep.ledger_copy import copy_ledger
from crescendo.whole_files import PRIVATE_FOLDER, sync_folder

JOURNAL, TERMS, MODEL, LEDGER = "journal", "terms.json", "model.npz", "ledger.sqlite"
PARTIAL, LOCK = ".partial", "lock"


def verify(path: Path) -> Examination:
    """Examine a server's state, a client's state or a ledger, which may be in use, without changing it."""
    found = Examination(path, _kind_of(path))
    if found.kind == "server":
        _check_server(path, found)
    elif found.kind == "client":
        check_ledger(path / LEDGER, found)
        _check_model(path, found)
    else:
        check_ledger(path, found)
    return found


def backup(path: Path, to: Path) -> Examination:
    """Copy a state, which may be in use, to the new folder ``to``, and return the examination of the copy.

    The copy is made in ``TO.partial``, verified, synced and renamed, so that ``to`` is always a whole backup.
    """
    kind = _kind_of(path)
    if not to.name or to.exists() or to.is_symlink():
        raise UsageError(f"{to} exists already; name a new folder for the backup")
    partial = to.with_name(to.name + PARTIAL)
    lock = _begun(partial)
    try:
        if kind == "server":
            _copy_server(path, partial)
        else:
            _copy_client(path, partial)
        found = verify(partial / path.name if kind == "ledger" else partial)
        if not found.sound:
            raise DataError(f"{path} is not sound, so there is no backup of it: {found.damage[0]}")
        sync_folder(partial)
        partial.rename(to)
        sync_folder(to.absolute().parent)
        (to / LOCK).unlink()  # last: it marks the remains of a killed backup
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        os.close(lock)
    found.path = to
    return found


def _kind_of(path: Path) -> str:
    if path.is_file():
        return "ledger"
    if (path / JOURNAL).is_dir() or (path / TERMS).exists():
        return "server"
    if (path / LEDGER).exists():
        return "client"
    if (path / MODEL).exists() or list(path.glob("seen-*.json")):
        raise UsageError(f"there is no ledger in {path}; name the file that the policy of this client names")
    raise UsageError(f"{path} is neither the state of a server or client nor a ledger; check the path")


# -- examination ------------------------------------------------------------------------------------------------------


def _check_server(path: Path, found: Examination) -> None:
    text = _kept_terms(path, found)
    check_journal(path / JOURNAL, _made, found, text)
    digest = None if text is None else hashlib.sha256(text.encode()).hexdigest()
    if digest is not None and found.facts.get("digest", digest) != digest:
        found.damage.append(
            f"{TERMS} has other terms than the journal; the next start makes it again from the run file"
        )
    _check_model(path, found)


def _made(text: str) -> Terms:
    return build_terms(text).terms


def _kept_terms(path: Path, found: Examination) -> str | None:
    """Return the terms stored next to the journal; without them, the next start makes them again from the run file."""
    try:
        return str(json.loads((path / TERMS).read_text())["terms"])
    except FileNotFoundError:
        found.notes.append(f"there is no {TERMS}; the next start makes it from the run file")
    except (OSError, ValueError, KeyError, TypeError):
        found.damage.append(
            f"{TERMS} cannot be read; the next start makes it again from the run file, if that is unchanged"
        )
    return None


def _check_model(path: Path, found: Examination) -> None:
    if (path / MODEL).exists() and LastModel.load(path / MODEL) is None:
        found.damage.append(f"{MODEL} cannot be read; a finished party writes it again when it is started")


# -- copying ------------------------------------------------------------------------------------------------------------


def _begun(partial: Path) -> int:
    """Make an empty, locked folder to copy to. Empty one that a killed backup left."""
    there = partial.exists() or partial.is_symlink()
    whole_folder = partial.is_dir() and not partial.is_symlink()  # the target of a link is not ours to empty
    if there and not (whole_folder and ((partial / LOCK).exists() or not any(partial.iterdir()))):
        raise UsageError(f"{partial} exists and was not left by a backup; remove it, or name another folder")
    lock = lock_folder(partial)
    partial.chmod(PRIVATE_FOLDER)
    for inside in partial.iterdir():
        if inside.is_dir():
            shutil.rmtree(inside)
        elif inside.name != LOCK:
            inside.unlink()
    return lock


def _copy_server(path: Path, to: Path) -> None:
    copy_journal(path / JOURNAL, to / JOURNAL)
    for name in (TERMS, MODEL):
        if (path / name).exists():
            copy_file(path / name, to / name)


def _copy_client(path: Path, to: Path) -> None:
    """Copy a client's state, the ledger last, so that the copied view of the server is never newer than the charges."""
    ledger = path / LEDGER if path.is_dir() else path
    for source in sorted([*path.glob("seen-*.json"), *path.glob(MODEL)]) if path.is_dir() else ():
        copy_file(source, to / source.name)
    target = to / ledger.name
    copy_ledger(ledger, target)
    LedgerFile.make_backup(target)
    with target.open("rb") as file:
        os.fsync(file.fileno())
