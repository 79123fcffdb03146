"""Journals of servers as they lie on a simulated disk, with what was pruned from them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from crescendo.errors import CrescendoError
from crescendo.storage.journal.journal_entries import from_bytes
from crescendo.storage.journal.segments import Segments
from tests.network.final_checks import Pair, pairs_in


def whole_journal(server: Path, to: Path) -> Path:
    """The journal in a server's folder, with the segments that were pruned, linked into a new folder."""
    to.mkdir()
    for folder in (server / "archive", server / "journal"):
        for path in folder.glob("journal-" + "[0-9]" * 20) if folder.exists() else ():
            (to / path.name).unlink(missing_ok=True)
            (to / path.name).hardlink_to(path)
    return to


def applied_in(server: Path) -> set[Pair]:
    """The updates that a server's journal has, which may have a torn end."""
    found, number = set[Pair](), 0
    while (to := server.parent / f"journal before {number}").exists():
        number += 1
    with suppress(CrescendoError):
        for record in Segments(whole_journal(server, to)).records():
            found.update(pairs_in(from_bytes(record.kind, record.body)))
    return found
