"""A server that prunes its journal: nothing goes before two sound snapshots stand for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crescendo import system
from crescendo.storage.journal.journal import Journal
from crescendo.storage.journal.segments import JournalDamaged, Segments
from crescendo.storage.journal.snapshots import DRAFT, Snapshot
from crescendo.storage.state_file import State
from tests.storage.durable_play import opened, run_some, state_of


def first_record(folder: Path) -> int:
    return Segments.first_in(Segments(folder).paths()[0])


def numbers(folder: Path) -> list[int]:
    return [Snapshot.number_in(path) for path in Snapshot.paths(folder)]


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_the_journal_is_kept_from_the_older_of_two_snapshots_on(tmp_path: Path) -> None:
    with opened(tmp_path, prune=True) as server:
        run_some(server, 0, 1)
        server.snapshot()
        assert first_record(tmp_path) == 0, "one snapshot may be damaged on its disk"
        run_some(server, 1, 2)
        server.snapshot()
        assert numbers(tmp_path) == [7, 4] and first_record(tmp_path) == 4
        run_some(server, 2, 3)
        server.snapshot()
        assert numbers(tmp_path) == [10, 7] and first_record(tmp_path) == 7


def test_without_pruning_all_of_it_is_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        for i in range(4):
            run_some(server, i, i + 1)
            server.snapshot()
    assert first_record(tmp_path) == 0 and len(Segments(tmp_path).paths()) == 5


def test_a_pruned_server_outlives_the_damage_of_its_newest_snapshot(tmp_path: Path) -> None:
    with opened(tmp_path, prune=True) as server:
        for i in range(4):
            run_some(server, i, i + 1)
            server.snapshot()
        before = state_of(server)
    damage(Snapshot.paths(tmp_path)[0])
    with opened(tmp_path, prune=True) as again:
        assert state_of(again) == before and len(again.notes) == 1


def test_a_damaged_older_snapshot_does_not_count_and_nothing_it_would_replace_goes(tmp_path: Path) -> None:
    with opened(tmp_path, prune=True) as server:
        for i in range(2):
            run_some(server, i, i + 1)
            server.snapshot()
        damage(Snapshot.paths(tmp_path)[0])
        run_some(server, 2, 3)
        server.snapshot()
        assert first_record(tmp_path) == 4 and 4 in numbers(tmp_path)
        assert "what it would replace is kept" in server.notes[0]
        before = state_of(server)
    damage(Snapshot.paths(tmp_path)[0])
    with opened(tmp_path) as again:
        assert state_of(again) == before


def test_a_snapshot_that_the_disk_gives_back_otherwise_never_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def spoils(file: int) -> None:
        real(file)
        if Path(f"/proc/self/fd/{file}").readlink().suffix == ".new":
            os.pwrite(file, b"?", 1000)

    with opened(tmp_path, prune=True) as server:
        for i in range(2):
            run_some(server, i, i + 1)
            server.snapshot()
        run_some(server, 2, 3)
        before = state_of(server)
        monkeypatch.setattr(system, "fsync", spoils)
        server.snapshot_if_possible()
        assert numbers(tmp_path) == [7, 4] and first_record(tmp_path) == 4
        assert "differ from the data written" in server.notes[-1]
    with opened(tmp_path) as again:
        assert state_of(again) == before


def test_a_state_that_changes_while_it_is_written_never_becomes_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes with the right checksum that are not the server's state: its own state is what they are held against."""
    pieces = State._pieces

    def flipped(state: State) -> object:
        made = [bytes(piece) for piece in pieces(state)]
        return [*made[:-1], bytes([made[-1][0] ^ 1]) + made[-1][1:]]

    with opened(tmp_path, prune=True) as server:
        run_some(server, 0, 1)
        monkeypatch.setattr(State, "_pieces", flipped)
        with pytest.raises(OSError, match="differ from the data written"):
            server.snapshot()
        assert not numbers(tmp_path)


def test_segments_go_oldest_first_and_one_is_gone_from_the_disk_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut may undo any removal that was not synced: with one at a time there is never a gap."""
    journal = Journal(tmp_path, segment_bytes=1)
    for _ in range(5):
        journal.write([(1, [b"body"])])
    steps: list[str] = []

    def noted(name: str, says: Callable[[Any], str]) -> None:
        real = getattr(system, name)

        def call(first: Any, **more: Any) -> None:
            steps.append(says(first))
            real(first, **more)

        monkeypatch.setattr(system, name, call)

    noted("unlink", lambda path: Path(path).name[-1])
    noted("fsync", lambda file: "synced")
    journal.prune(3)
    assert steps == ["0", "synced", "1", "synced", "2", "synced"]
    assert [record.number for record in journal.read(3)] == [3, 4]


def test_without_a_sound_snapshot_a_pruned_journal_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    with opened(tmp_path, prune=True) as server:
        for i in range(3):
            run_some(server, i, i + 1)
            server.snapshot()
    for path in Snapshot.paths(tmp_path):
        damage(path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(JournalDamaged, match="no snapshot in it is sound; put a backup back"):
        opened(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_snapshot_has_the_terms_so_that_a_pruned_journal_still_says_what_it_is_of(tmp_path: Path) -> None:
    with opened(tmp_path, terms='{"federation":"pruned"}') as server:
        server.snapshot()
    found = Snapshot.read(Snapshot.paths(tmp_path)[0])
    assert found is not None and found.state["terms"] == '{"federation":"pruned"}'


def test_a_draft_that_a_kill_left_goes_at_the_next_start(tmp_path: Path) -> None:
    with opened(tmp_path, prune=True) as server:
        run_some(server, 0, 1)
    draft = tmp_path / f"snapshot-{4:020d}{DRAFT}"
    draft.write_bytes(b"half a model")
    with opened(tmp_path, prune=True):
        assert not draft.exists()
