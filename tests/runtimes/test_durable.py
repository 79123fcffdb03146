"""The durable server: nothing is said before it is on disk, and what was said is there again after any end."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.core.messages import Settled, Sum, Update
from crescendo.core.server import ConflictingUpdate, DuplicateUpdate, Server
from crescendo.errors import DataError, PeerError, Refused, UsageError
from crescendo.runtimes import durable as durable_module
from crescendo.runtimes.durable import DurableServer, JournalFailed, OtherInstance, Published, replay
from crescendo.runtimes.entries import (
    Absent,
    Back,
    Entry,
    Joined,
    Left,
    NewEpoch,
    Opened,
    Received,
    Summed,
    Voided,
    delta_of,
    from_bytes,
    to_bytes,
)
from crescendo.runtimes.journal import Journal, Record, read_records
from crescendo.runtimes.segments import segments_of
from crescendo.runtimes.snapshots import snapshots_of
from crescendo.runtimes.wire import WIRES, encode
from tests.runtimes.durable_play import (
    CLIENTS,
    INSTANCE,
    ROUNDS,
    SIZE,
    START,
    TERMS,
    make,
    masked,
    opened,
    same,
    update,
)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let syncs return at once where many servers are made and none has to outlive the machine."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(os, "fdatasync", lambda file: None)


def state_of(server: DurableServer) -> Any:
    """All that a durable server says."""
    settled = [server.settled(c) for c in range(CLIENTS)]
    present, model = server.present.tolist(), server.model.tobytes()
    return server.k, server.epoch, server.late, present, settled, server.instances, model


# -- publishing --------------------------------------------------------------------------------------------------------


def test_nothing_is_published_before_the_commit(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        before = state_of(server)
        for c in range(CLIENTS):
            server.submit(update(0, c))
        assert server.pending == CLIENTS
        assert state_of(server) == before
        broadcast = server.broadcast(0)
        assert broadcast.k == 0 and 0 not in broadcast.yours and same(broadcast.model, START)
        published = server.commit()
        assert published == Published(True, {c: Settled(1) for c in range(CLIENTS)})
        assert server.pending == 0 and server.k == 1 and 0 in server.broadcast(0).yours
        assert same(broadcast.model, START)  # what was broadcast stays true
        assert server.commit() == Published(False, {})


def test_a_failed_sync_publishes_nothing_and_ends_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with opened(tmp_path) as server:
        before = state_of(server)
        server.submit(update(0, 0))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            with pytest.raises(JournalFailed):
                server.commit()
        for use in (server.commit, server.snapshot, lambda: server.submit(update(0, 1))):
            with pytest.raises(JournalFailed):
                use()
        assert state_of(server)[:5] == before[:5]
    with opened(tmp_path) as again:
        assert same(again.model, replay(tmp_path))


def test_an_entry_that_could_not_be_put_in_line_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise MemoryError

    with opened(tmp_path) as server:
        before = state_of(server)
        monkeypatch.setattr(Journal, "append", fail)
        with pytest.raises(MemoryError):
            server.submit(update(0, 0))
        with pytest.raises(JournalFailed):
            server.commit()
        assert state_of(server)[:5] == before[:5]


@pytest.mark.slow
def test_submitting_and_reading_go_on_while_another_thread_commits(tmp_path: Path) -> None:
    """What a commit published is on disk at that moment; what was submitted meanwhile is kept for the next."""
    over = threading.Event()

    def commit_all_the_time(server: DurableServer) -> None:
        while not (over.is_set() and server.pending == 0):
            for c, settled in server.commit().acks.items():
                on_disk = {
                    (e.round, e.client) for e in map(entry_of, read_records(tmp_path)) if isinstance(e, Received)
                }
                assert all((i, c) in on_disk for i in range(ROUNDS) if i in settled)

    with opened(tmp_path, snapshot_bytes=600) as server, ThreadPoolExecutor(1) as pool:
        committing = pool.submit(commit_all_the_time, server)
        try:
            while not server.finished:
                assert not committing.done(), committing.result()
                for c in range(CLIENTS):
                    for i in range(server.k, min(server.k + 2, ROUNDS)):
                        with contextlib.suppress(DuplicateUpdate):
                            server.submit(update(i, c))
                broadcast = server.broadcast(0)
                word = server.word([0])
                assert (broadcast.epoch, broadcast.k) <= (word.epoch, word.k)
        finally:
            over.set()
        committing.result()
        assert same(server.model, replay(tmp_path))


def entry_of(record: Record) -> Entry:
    return from_bytes(record.kind, record.body)


REFUSED: dict[str, Entry] = {
    "an unknown client": update(0, 0).__class__(0, 9, "float32", bytes(4 * SIZE)),
    "a round that nobody can have finished": Received(5, 0, "float32", bytes(4 * SIZE)),
    "a vector of another length": Received(0, 0, "float32", bytes(4 * SIZE + 4)),
    "half a number": Received(0, 0, "float32", bytes(4 * SIZE - 1)),
    "numbers that are not finite": Received(0, 0, "float32", np.full(SIZE, np.nan, dtype="<f4").tobytes()),
    "a void round of an unknown client": Voided(0, 9),
    "an impossible return": Back(0, ROUNDS),
    "a joining stranger": Joined(9, INSTANCE),
    "an absent stranger": Absent(9),
    "a sum of nothing": Summed((), "float32", bytes(4 * SIZE)),
    "a sum with a stranger": Summed(((0, 0), (0, 9)), "float32", bytes(4 * SIZE)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_entry_leaves_no_trace(tmp_path: Path, what: str) -> None:
    with opened(tmp_path) as server:
        with pytest.raises(PeerError):
            server.submit(REFUSED[what])
        assert server.pending == 0
        before = state_of(server)
        assert server.commit() == Published(False, {}) and state_of(server) == before
    with opened(tmp_path) as again:
        assert state_of(again) == before


def test_a_repeated_update_is_dropped_and_one_with_other_bytes_is_an_alarm_before_and_after_the_commit(
    tmp_path: Path,
) -> None:
    forged = Received(0, 0, "float32", encode(np.ones(SIZE), "float32"))
    with opened(tmp_path) as server:
        server.submit(update(0, 0))
        for _ in range(2):
            with pytest.raises(DuplicateUpdate):
                server.submit(update(0, 0))
            with pytest.raises(ConflictingUpdate):
                server.submit(forged)
            server.commit()
    with opened(tmp_path) as again:
        with pytest.raises(DuplicateUpdate):
            again.submit(update(0, 0))
        with pytest.raises(ConflictingUpdate):
            again.submit(forged)
        assert again.pending == 0


def test_what_changes_nothing_is_not_written(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        assert server.submit(Joined(0, INSTANCE)) and not server.submit(Joined(0, INSTANCE))
        assert server.submit(Back(0, 0)) and not server.submit(Back(0, 0))
        assert server.submit(Voided(0, 0, "lost")) and not server.submit(Voided(0, 0))
        assert server.submit(Absent(0)) and not server.submit(Absent(0))
        assert server.submit(Back(0, 0)) and server.submit(Absent(1)) and server.pending == 6
        assert server.commit().acks == {0: Settled(1)}  # and only whose rounds changed is told


def test_a_client_that_left_keeps_its_acknowledgements_and_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(update(0, 0))
        server.submit(Left(0))
        assert server.commit().acks == {0: Settled(1)}
        with pytest.raises(PeerError, match="left this run for good"):
            server.submit(Back(0, 3))
    with opened(tmp_path) as again:
        assert again.settled(0) == Settled(1)
        with pytest.raises(PeerError, match="left this run for good"):
            again.submit(Joined(0, INSTANCE))


def test_the_word_to_an_aggregator_is_what_is_published(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(update(0, 1))
        assert server.word([0, 1]).yours == {0: Settled(0), 1: Settled(0)}
        server.commit()
        word = server.word([1], model=False)
        assert word.yours == {1: Settled(1)} and word.model is None
        assert server.word([1]).model is server.model


# -- resuming ----------------------------------------------------------------------------------------------------------

clients, rounds = st.integers(0, CLIENTS - 1), st.integers(0, 4)
steps = st.one_of(
    st.builds(lambda i, c, wire, m: ("update", i, c, wire, m), rounds, clients, st.sampled_from(WIRES), st.just(0)),
    st.builds(lambda i, c: Voided(i, c, "because"), rounds, clients),
    st.builds(Absent, clients),
    st.builds(Back, clients, st.integers(-1, 3)),
    st.builds(Joined, clients, st.sampled_from([INSTANCE, "cd" * 16])),
    st.builds(Left, st.just(2)),
    st.builds(lambda i, c: Summed(((i, c), (i, (c + 1) % CLIENTS)), "float64", b""), rounds, clients),
    st.sampled_from(["commit", "commit", "commit", "crash", "snapshot", "witness", "roll"]),
)


@pytest.mark.slow
@pytest.mark.usefixtures("no_waiting")
@settings(deadline=None, max_examples=150)
@given(script=st.lists(steps, max_size=40), build=st.sampled_from([make, masked]))
def test_whatever_happens_the_state_is_that_of_the_committed_entries_and_the_model_its_replay(
    tmp_path_factory: pytest.TempPathFactory, script: list[Any], build: Any
) -> None:
    """The oracle is the core's server, driven with what was committed and nothing else."""
    folder = tmp_path_factory.mktemp("state")
    server, oracle, line = opened(folder, make=build), Server(build(TERMS), START), list[Entry]()
    try:
        for step in script:
            if step == "commit":
                server.commit()
            elif step == "crash":  # what was not committed is gone
                server.close()
                server = opened(folder, make=build)
                line = []
            elif step == "snapshot":
                server.snapshot()
                server.commit()
            elif step == "roll":
                assert server._journal is not None
                server._journal.roll()
                server.commit()
            elif step == "witness":
                if server.witness(0, server.epoch, min(server.k + 2, ROUNDS), server.settled(0)):
                    line.append(NewEpoch(server._state.server.epoch))
            else:
                entry = sized(step, build)
                try:
                    if server.submit(entry):
                        line.append(entry)
                except PeerError:
                    pass
            if step in ("commit", "snapshot", "roll"):
                for entry in line:
                    drive(oracle, entry)
                line = []
                compare(server, oracle)
                assert same(server.model, replay(folder))
        server.close()
        server = opened(folder, make=build)
        compare(server, oracle)
        assert same(server.model, replay(folder)) and server.notes == []
    finally:
        server.close()


def sized(step: Any, build: Any) -> Entry:
    if isinstance(step, tuple):
        return update(step[1], step[2], step[3], build)
    if isinstance(step, Summed):
        low, high = build(TERMS).block(step.pairs[0][0], SIZE)
        return Summed(step.pairs, "float64", encode(np.linspace(0.1, 0.7, high - low), "float64"))
    entry: Entry = step
    return entry


def drive(oracle: Server, entry: Entry) -> None:
    match entry:
        case Received(i, c):
            oracle.receive(Update(i, c, delta_of(entry)))
        case Summed(pairs):
            oracle.receive_sum(Sum(pairs, delta_of(entry)))
        case Voided(i, c):
            oracle.void(i, c)
        case Absent(c):
            oracle.absent(c)
        case Back(c, last):
            oracle.back(c, last)
        case Left(c):
            oracle.leave(c)
        case NewEpoch(epoch):
            oracle.epoch = epoch


def compare(server: DurableServer, oracle: Server) -> None:
    want, got = oracle.export(), server._state.export()
    for name, value in want.items():
        if isinstance(value, np.ndarray):
            assert value.tobytes() == got[name].tobytes(), name
        else:
            assert value == got[name], name
    assert (server.k, server.epoch, server.late) == (oracle.k, oracle.epoch, oracle.late)
    assert same(server.model, oracle.model)


def test_every_kind_of_entry_comes_back_from_its_bytes() -> None:
    entries: list[Entry] = [
        Joined(1, INSTANCE),
        Voided(2**40, 1, "a “reason”"),
        Absent(1),
        Back(1, -1),
        Left(1),
        NewEpoch(3, "why"),
        Received(2**40, 2**20, "bfloat16", b"1234", 7),
        Summed(((1, 2), (3, 4)), "float16", b"1234", 7),
        Opened(TERMS, "ab", START, (0, 2)),
    ]
    for entry in entries:
        kind, body = to_bytes(entry)
        again = from_bytes(kind, b"".join(body))
        assert {n: str(getattr(again, n)) for n in again.__slots__} == {
            n: str(getattr(entry, n)) for n in entry.__slots__
        }
        assert type(again) is type(entry)
    for kind, bad in ((77, b"{}"), (2, b"{}"), (2, b"\xff"), (3, b"short"), (1, b"")):
        with pytest.raises(DataError, match="cannot be read"):
            from_bytes(kind, bad)


# -- who may open it ---------------------------------------------------------------------------------------------------


def test_two_servers_on_one_folder_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(UsageError, match="in use by another process"):
        opened(tmp_path)
    opened(tmp_path).close()


def test_nobody_else_may_read_what_clients_sent(tmp_path: Path) -> None:
    with opened(tmp_path / "journal") as server:
        server.submit(update(0, 1))
        server.snapshot()
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "journal").iterdir()}
    assert len(modes) >= 3 and set(modes.values()) == {0o600}, modes


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_other_terms_are_refused_and_change_nothing(tmp_path: Path, with_snapshot: bool) -> None:
    with opened(tmp_path) as server:
        server.submit(update(0, 0))
        server.commit()
        if with_snapshot:
            server.snapshot()
        before = state_of(server)
    with pytest.raises(Refused, match="begun with other terms"):
        opened(tmp_path, '{"federation":"other"}')
    with opened(tmp_path) as again:
        assert state_of(again) == before


def test_another_instance_is_refused_before_and_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(Joined(1, INSTANCE))
        with pytest.raises(OtherInstance, match="registered as another instance"):
            server.submit(Joined(1, "cd" * 16))
        server.commit()
    with opened(tmp_path) as again:
        with pytest.raises(OtherInstance):
            again.submit(Joined(1, "cd" * 16))
        assert again.instances == {1: INSTANCE}
        again.snapshot()
    with opened(tmp_path) as again, pytest.raises(OtherInstance):
        again.submit(Joined(1, "cd" * 16))


def test_the_last_round_that_a_client_spoke_of_outlives_a_snapshot(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(Back(0, 1))
        server.snapshot()
    with opened(tmp_path) as again:
        assert again.start_of(0) == 2 and not again.submit(Back(0, 1))
        with pytest.raises(PeerError, match="older than what it sent"):
            again.submit(Back(0, 0))


def test_a_client_with_an_older_state_than_it_sent_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(update(0, 0))
        server.submit(update(1, 0))
        server.commit()
        with pytest.raises(PeerError, match="older than what it sent"):
            server.submit(Back(0, 0))


def test_a_folder_without_a_federation_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no journal"):
        DurableServer(tmp_path, TERMS, make)
    with opened(tmp_path) as server:
        server.snapshot()
    for segment in segments_of(tmp_path):
        segment.unlink()
    with pytest.raises(DataError, match="no journal"):
        opened(tmp_path)  # a snapshot without its journal is not a beginning either


def test_clients_named_late_are_waited_for_once_they_come(tmp_path: Path) -> None:
    with opened(tmp_path, present=[0]) as server:
        server.submit(update(0, 0))
        assert server.commit().due and server.k == 1
        server.submit(Back(1, -1))
        server.commit()
        assert server.start_of(1) == 1 and server.settled(1) == Settled(1)
        server.submit(update(1, 0))
        assert not server.commit().due
    with opened(tmp_path, present=[0, 1, 2]) as again:  # what counts is how it was begun
        assert again.present.tolist() == [True, True, False]


# -- older states ------------------------------------------------------------------------------------------------------


def test_a_server_put_back_from_a_backup_begins_a_new_epoch_when_a_client_has_seen_more(tmp_path: Path) -> None:
    now, backup = tmp_path / "now", tmp_path / "backup"
    with opened(now) as server:
        for c in range(CLIENTS):
            server.submit(update(0, c))
        server.commit()
        shutil.copytree(now, backup)
        server.submit(update(1, 1))
        server.commit()
        seen = server.broadcast(1)
    with opened(backup) as old:
        assert not old.witness(0, 0, 1, Settled(1)) and not old.witness(2, 0, 0, Settled(0))
        assert old.witness(1, seen.epoch, seen.k, seen.yours)
        assert old.epoch == 0  # not before it is on disk
        assert old.commit().due and old.epoch == 1
        assert not old.witness(1, seen.epoch, seen.k, seen.yours)  # it is known now
        assert old.witness(2, 4, 0, Settled(0)) and old.commit().due and old.epoch == 5  # another lost history
    with opened(backup) as again:
        assert again.epoch == 5
        beyond = Settled(0, frozenset({ROUNDS}))
        for wrong in ((0, ROUNDS + 1, Settled(0)), (0, 0, Settled(ROUNDS + 1)), (0, 0, beyond), (2**40, 0, Settled(0))):
            with pytest.raises(PeerError, match="cannot be in this run"):
                again.witness(0, *wrong)


def test_a_client_whose_last_round_cannot_be_begins_no_epoch(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(update(0, 0))
        server.commit()
        for last in (-1, ROUNDS):  # older than what it sent, and beyond the run
            with pytest.raises(PeerError, match="its last round is"):
                server.witness(0, 0, 1, Settled(1), last)
        assert server.witness(0, 0, 1, Settled(1), 0)
        server.commit()
        assert server.epoch == 1  # one, by the one that was believed


def test_rounds_that_overtook_are_evidence_too(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        assert server.witness(0, 0, 0, Settled(0, frozenset({1})))


def test_a_cut_tail_begins_a_new_epoch_and_is_noted(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(update(0, 0))
        server.commit()
        server.submit(update(0, 1))
        server.commit()
    [segment] = segments_of(tmp_path)
    data = segment.read_bytes()
    segment.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with opened(tmp_path) as again:
        assert again.epoch == 1 and "torn tail" in again.notes[0]
        assert again.settled(0) == Settled(1) and again.settled(1) == Settled(0)
        again.submit(update(0, 1))  # sent again
        again.commit()
        assert same(again.model, replay(tmp_path))
    with opened(tmp_path) as once_more:
        assert once_more.epoch == 1 and once_more.notes == []


# -- snapshots ---------------------------------------------------------------------------------------------------------


def run_some(server: DurableServer, first: int, last: int) -> None:
    for i in range(first, last):
        for c in range(CLIENTS):
            server.submit(update(i, c))
        server.commit()


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
    assert len(snapshots_of(tmp_path)) == 2 and server.finished


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
    newest, older = snapshots_of(folder)
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
    for path in snapshots_of(one):
        shutil.copy(path, two)
    with opened(two) as again:
        assert state_of(again) == before and "not of this journal" in again.notes[0]


def test_a_snapshot_beyond_the_journal_shows_that_the_journal_is_an_older_one(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        run_some(server, 0, 1)
        server.snapshot()
        run_some(server, 1, 2)
        server.snapshot()
    for segment in segments_of(tmp_path)[1:]:
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
    snapshots_of(tmp_path)[0].write_bytes(b"damaged")
    with opened(tmp_path) as again:
        assert state_of(again) == before


def test_a_snapshot_that_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(tmp_path, snapshot_bytes=10) as server:
        monkeypatch.setattr(durable_module, "write_snapshot", full)
        run_some(server, 0, 1)
        assert server.k == 1 and "could not be written" in server.notes[-1]
