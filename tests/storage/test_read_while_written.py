"""A journal can be read while it is written: what is on its way is not there yet, and is never taken for damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from crescendo.storage.journal.journal import Journal
from crescendo.storage.journal.segments import JournalDamaged, Scan, Segments

BODIES = [b"first", b"second", b"third", b"fourth"]


def grown(folder: Path) -> tuple[Path, list[bytes]]:
    """A segment, and its bytes after each sync."""
    journal, after = Journal(folder), []
    [segment] = Segments(folder).paths()
    for body in BODIES:
        journal.write([(1, [body])])
        after.append(segment.read_bytes())
    journal.close()
    return segment, after


def test_a_group_that_is_finished_while_somebody_reads_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader meets half a record; before it looks what comes after it, the writer has synced that one and two more."""
    segment, after = grown(tmp_path)
    segment.write_bytes(after[1][:-3])
    look = Scan.check_torn

    def late(scan: Scan) -> None:
        segment.write_bytes(after[3])
        look(scan)

    monkeypatch.setattr(Scan, "check_torn", late)
    assert [record.body for record in Segments(tmp_path).records()] == BODIES[:1]
    assert [record.body for record in Segments(tmp_path).records()] == BODIES


def test_what_was_damaged_before_somebody_reads_is_damage(tmp_path: Path) -> None:
    segment, after = grown(tmp_path)
    whole = bytearray(after[3])
    whole[len(after[1]) - 3] ^= 1
    segment.write_bytes(whole)
    with pytest.raises(JournalDamaged, match="record 1, and later records are there"):
        list(Segments(tmp_path).records())
