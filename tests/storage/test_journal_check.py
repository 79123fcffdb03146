"""The check of a server's journal: each damage is one sentence that says what it means, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crescendo.errors import CrescendoError
from crescendo.storage.formats import SNAPSHOT
from crescendo.storage.journal.journal import Journal
from crescendo.storage.journal.journal_entries import Received, to_bytes
from crescendo.storage.journal.segments import Segments
from crescendo.storage.journal.snapshots import Snapshot
from crescendo.storage.upkeep.examination import Examination
from crescendo.storage.upkeep.journal_check import HISTORY, NEEDED, WITHOUT, check_journal
from tests.storage.durable_play import make, opened, run_some, update

pytestmark = pytest.mark.usefixtures("no_waiting")


def examined(folder: Path, replayed: bool = True) -> Examination:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = Examination(folder, "server")
    check_journal(folder, make if replayed else None, found)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Records 0 to 3, a snapshot, 4 to 6, a snapshot, 7 to 12."""
    with opened(tmp_path) as server:
        for i in range(2):
            run_some(server, i, i + 1)
            server.snapshot()
        run_some(server, 2, 4)
    return tmp_path


def flip(path: Path, at: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("prune", [False, True], ids=["whole", "pruned"])
def test_a_sound_journal_is_sound_while_its_server_runs(tmp_path: Path, prune: bool) -> None:
    with opened(tmp_path, prune=prune) as server:
        for i in range(4):
            run_some(server, i, i + 1)
            server.snapshot()
            found = examined(tmp_path)
            assert found.sound and found.notes == [], found
        assert found.facts["k"] == 4 and found.facts["records"] == 13 and found.facts["first"] == (10 if prune else 0)


def test_damage_before_the_newest_snapshot_is_history_and_damage_after_it_is_fatal(folder: Path) -> None:
    first, _, last = Segments(folder).paths()
    flip(first)
    assert [HISTORY in sentence for sentence in examined(folder).damage] == [True]
    flip(last, 60)
    sentences = examined(folder, replayed=False).damage
    assert HISTORY in sentences[0] and NEEDED in sentences[1] and len(sentences) == 2


@pytest.mark.parametrize("replayed", [True, False], ids=["replayed", "checksums"])
def test_a_missing_segment_is_noticed(folder: Path, replayed: bool) -> None:
    Segments(folder).paths()[1].unlink()
    sentences = examined(folder, replayed).damage
    assert "records before it are missing" in sentences[0] and HISTORY in sentences[0]


@pytest.mark.parametrize("at", range(0, 700, 23))
def test_whichever_byte_of_a_snapshot_is_flipped_it_is_noticed(folder: Path, at: int) -> None:
    newest = Snapshot.paths(folder)[0]
    flip(newest, at % newest.stat().st_size)
    assert any("is damaged" in sentence for sentence in examined(folder).damage)


def test_a_snapshot_that_is_not_what_the_journal_adds_up_to_is_noticed(folder: Path) -> None:
    found = Snapshot.read(Snapshot.paths(folder)[0])
    assert found is not None
    Snapshot(found.number, found.check, {**found.state, "late": 3}).write(folder)
    (sentence,) = examined(folder).damage
    assert "is not what the journal adds up to (late)" in sentence
    moved = np.nextafter(found.state["model"], 9.0)
    Snapshot(found.number, found.check, {**found.state, "model": moved}).write(folder)
    (sentence,) = examined(folder).damage
    assert "is not what the journal adds up to (model)" in sentence


def test_a_pair_that_is_applied_twice_is_noticed(folder: Path) -> None:
    journal = Journal(folder)
    again = update(1, 2)
    journal.write([to_bytes(Received(again.round, again.client, again.wire, again.data))])
    journal.close()
    (sentence,) = examined(folder).damage
    assert "record 13 contradicts those before it" in sentence and "already sent round 1" in sentence


def test_a_torn_tail_is_a_note_as_a_server_may_be_writing_it(folder: Path) -> None:
    with Segments(folder).paths()[-1].open("ab") as file:
        file.write(b"half a record")
    found = examined(folder)
    assert found.sound and "13 bytes that are no whole record" in found.notes[0]


def test_a_snapshot_beyond_the_end_means_that_what_was_acknowledged_is_lost(folder: Path) -> None:
    for segment in Segments(folder).paths()[1:]:
        segment.unlink()
    assert "the journal ends before it: what was acknowledged is lost" in examined(folder).damage[0]


def test_a_pruned_journal_without_a_sound_snapshot_cannot_be_opened_and_that_is_said(folder: Path) -> None:
    Segments(folder).paths()[0].unlink()
    for path in Snapshot.paths(folder):
        flip(path)
    assert any("has no sound snapshot" in sentence and NEEDED in sentence for sentence in examined(folder).damage)


def test_files_that_a_server_prunes_while_they_are_read_are_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Snapshot.paths
    with opened(tmp_path, prune=True) as server:
        rounds = iter(range(10))

        def listed(folder: Path) -> list[Path]:
            found = real(folder)
            if looking and (i := next(rounds, None)) is not None and i < 6:
                looking.clear()
                run_some(server, i, i + 1)
                server.snapshot()
                looking.append(1)
            return found

        looking: list[int] = []
        monkeypatch.setattr(Snapshot, "paths", staticmethod(listed))
        looking.append(1)
        found = Examination(tmp_path, "server")
        check_journal(tmp_path, make, found)
        assert found.sound, found


def test_of_a_damaged_snapshot_it_is_said_what_a_server_starts_from_instead(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        for i in range(2):
            run_some(server, i, i + 1)
            server.snapshot()
    newer, older = Snapshot.paths(tmp_path)
    first = Segments(tmp_path).paths()[0]
    sound = {path: path.read_bytes() for path in (newer, older, first)}

    def said(*flipped: Path, pruned: bool = False) -> list[str]:
        for path in sound:
            path.write_bytes(sound[path])
        for path in flipped:
            flip(path)
        if pruned:
            first.unlink()
        return [sentence.partition("; ")[2] for sentence in examined(tmp_path).damage]

    assert said(newer) == [f"{WITHOUT}, from an older snapshot"]
    assert said(older) == [f"{WITHOUT}, from a newer snapshot"]
    assert said(newer, older) == [f"{WITHOUT}, from the beginning of the journal"] * 2
    assert said(older, pruned=True) == [HISTORY]
    assert said(newer, older, pruned=True) == [NEEDED] * 2 + [f"{NEEDED}"]


def test_a_snapshot_of_a_newer_program_is_not_called_damaged(folder: Path) -> None:
    newest = Snapshot.paths(folder)[0]
    newest.write_bytes(SNAPSHOT.opening[:-1] + b"9" + newest.read_bytes()[len(SNAPSHOT.opening) :])
    with pytest.raises(CrescendoError, match="newer"):
        examined(folder)
