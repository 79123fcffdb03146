"""Ledger check, on a copy: pages, hashes, triggers, the book's arithmetic, and the outbox against the charges."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from crescendo.errors import CrescendoError
from crescendo.storage.ledger.ledger_faults import explained
from crescendo.storage.ledger.ledger_file import LedgerEntry, LedgerFile
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo.storage.upkeep.examination import Examination
from crescendo.storage.upkeep.ledger_copy import copy_ledger

MAX_PAGES = 5  # SQLite's messages about damaged pages to report


def check_ledger(path: Path, found: Examination) -> None:
    """Examine the ledger at ``path``, which may be in use and is not changed."""
    noted = LedgerFile.noted_head(path)  # before copying, so that the copy cannot be older than the note
    with tempfile.TemporaryDirectory(prefix="crescendo-") as folder:
        copy = Path(folder) / path.name
        try:
            copy_ledger(path, copy)
            _check_pages(copy, found)
            file = LedgerFile(copy, read_only=True)
        except CrescendoError as error:
            found.damage.append(str(error).replace(str(copy), str(path)))
            return
        with closing(file):
            _check_noted(file, noted, path, found)
            _check_outbox(file, found)
            _check_book(file, path, found)


def _check_pages(copy: Path, found: Examination) -> None:
    with explained(copy), closing(sqlite3.connect(f"{copy.absolute().as_uri()}?mode=ro", uri=True)) as db:
        said = [str(row[0]) for row in db.execute("pragma integrity_check").fetchall()]
    for words in [words for words in said if words != "ok"][:MAX_PAGES]:
        found.damage.append(
            f"the ledger's pages do not fit together ({words}); what was spent may be unknown: put a sound copy back"
        )


def _check_noted(file: LedgerFile, noted: tuple[int, str] | None, path: Path, found: Examination) -> None:
    if noted is not None and not file.reaches(*noted):
        found.damage.append(
            f"{path.name} has {len(file.entries)} entries where {noted[0]} were written: it is an older or another copy, and "
            f"forgets what was spent"
        )
    if file.is_backup:
        found.notes.append(f"{path.name} is a backup: what was charged after it was made is not in it")


def _check_outbox(file: LedgerFile, found: Examination) -> None:
    """Check that all bytes belong to a charge and match its hash."""
    kept = sorted(file.kept())
    for seq in kept:
        entry = file.entries[seq] if seq < len(file.entries) else None
        if entry is None or entry.kind != "charge" or entry.body.get("sha256") is None:
            found.damage.append(f"the outbox has bytes that belong to no charge (entry {seq}); they are never sent")
        elif file.bytes_of(seq, entry.body["sha256"]) is None:
            found.damage.append(
                f"the bytes of {_round_of(entry)} are not those that were charged; they cannot be sent, so the round will be "
                f"void and stays spent"
            )
    found.facts["outbox"] = len(kept)


def _check_book(file: LedgerFile, path: Path, found: Examination) -> None:
    try:
        ledger = Ledger(file)
    except CrescendoError as error:
        found.damage.append(str(error).replace(str(file.path), str(path)))
        return
    charges = [entry for entry in file.entries if entry.kind == "charge"]
    federations = {str(entry.body["federation"]) for entry in file.entries if entry.kind == "sign"}
    booked = sum(count for _, count in ledger.charged())
    if booked != len(charges):
        found.damage.append(f"the ledger has {len(charges)} charges and its book {booked}; what was spent is not known")
    found.facts |= {"entries": len(file.entries), "federations": sorted(federations), "charged": len(charges)}
    found.facts |= {"open": ledger.open_federations(), "head": file.head[1]}


def _round_of(entry: LedgerEntry) -> str:
    return f"round {entry.body['round']} of federation {entry.body['federation']!r}"
