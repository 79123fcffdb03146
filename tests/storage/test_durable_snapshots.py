"""Snapshots of a durable server: a start is short, and nothing hangs on any one of them."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from crescendo.errors import DataError
from crescendo.storage.journal import durable_server as durable_module
from crescendo.storage.journal.journal_entries import Entry, from_bytes
from crescendo.storage.journal.replay import replay
from crescendo.storage.journal.segments import Segments
from crescendo.storage.journal.snapshots import Snapshot
from tests.storage.durable_play import CLIENTS, ROUNDS, opened, run_some, same, state_of, update


def test_a_start_reads_the_journal_from_the_newest_snapshot_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as server:
        run_some(server, 0, 5)
        server.snapshot()
        run_some(server, 5, 6)
        before = state_of(server)
        starts = [server.start_of(c) for c in range(CLIENTS)]
    read: list[int] = []

    def counted(kind: int, body: bytes) -> Entry:
        read.append(kind)
        return from_bytes(kind, body)

    monkeypatch.setattr(durable_module, "from_bytes", counted)
    with opened(tmp_path) as again:
        assert state_of(again) == before and len(read) == CLIENTS
        assert [again.start_of(c) for c in range(CLIENTS)] == starts == [6] * CLIENTS
        assert same(again.model, replay(tmp_path))


@pytest.mark.slow
def test_snapshots_are_made_by_themselves_so_that_a_start_stays_quick(tmp_path: Path) -> None:
    for i in range(ROUNDS):  # a restart after every round does not put them off
        with opened(tmp_path, snapshot_bytes=400) as server:
            run_some(server, i, i + 1)
            assert server._journal is not None
            assert server._journal.end - server._snapshot_at < 15
            assert same(server.model, replay(tmp_path))
    assert len(Snapshot.paths(tmp_path)) == 2 and server.finished


@pytest.mark.slow
@pytest.mark.usefixtures("no_waiting")
def test_a_damaged_snapshot_is_passed_over_wherever_the_damage_is(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with opened(folder) as server:
        run_some(server, 0, 2)
        server.snapshot()
        run_some(server, 2, 3)
        server.snapshot()
        before = state_of(server)
    newest, older = Snapshot.paths(folder)
    data, older_data = newest.read_bytes(), older.read_bytes()
    for at in range(0, len(data), 7):
        newest.write_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        if at % 2:
            older.write_bytes(older_data[: at // 2])
        else:
            older.write_bytes(older_data)
        with opened(folder) as again:
            assert state_of(again) == before and len(again.notes) == 1 + at % 2
            assert same(again.model, replay(folder))


def test_a_snapshot_of_another_history_is_not_used(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, first in ((one, 0), (two, 1)):
        with opened(folder) as server:
            server.submit(update(0, first))
            server.commit()
            server.snapshot()
            before = state_of(server)
    for path in Snapshot.paths(one):
        shutil.copy(path, two)
    with opened(two) as again:
        assert state_of(again) == before and "not of this journal" in again.notes[0]


def test_a_snapshot_beyond_the_journal_shows_that_the_journal_is_an_older_one(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        run_some(server, 0, 1)
        server.snapshot()
        run_some(server, 1, 2)
        server.snapshot()
    for segment in Segments(tmp_path).paths()[1:]:
        segment.unlink()
    with opened(tmp_path) as again:
        assert (again.k, again.epoch) == (1, 1)


def test_a_pruned_federation_goes_on_and_says_that_it_cannot_be_replayed(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        for i in range(3):
            run_some(server, i, i + 1)
            server.snapshot(prune=True)
        run_some(server, 3, 4)
        before = state_of(server)
    with opened(tmp_path) as again:
        assert state_of(again) == before
    with pytest.raises(DataError, match="has no record 0"):
        replay(tmp_path)
    Snapshot.paths(tmp_path)[0].write_bytes(b"damaged")
    with opened(tmp_path) as again:
        assert state_of(again) == before


def test_a_snapshot_that_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(tmp_path, snapshot_bytes=10) as server:
        monkeypatch.setattr(Snapshot, "write", full)
        run_some(server, 0, 1)
        assert server.k == 1 and "could not be written" in server.notes[-1]
