"""What a durable server says: nothing before it is on disk, and nothing that did not get there."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crescendo import system
from crescendo.core.messages import DuplicateUpdate, Settled
from crescendo.storage.journal.durable_server import DurableServer, Published
from crescendo.storage.journal.journal import Journal, JournalFailed
from crescendo.storage.journal.journal_entries import Entry, Left, Received, from_bytes
from crescendo.storage.journal.replay import replay
from crescendo.storage.journal.segments import Record, Segments
from tests.storage.durable_play import CLIENTS, ROUNDS, START, opened, same, state_of, update


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
            patch.setattr(system, "fdatasync", fail)
            with pytest.raises(JournalFailed):
                server.commit()
        for use in (server.commit, server.snapshot, lambda: server.submit(update(0, 1))):
            with pytest.raises(JournalFailed):
                use()
        assert state_of(server) == before
    with opened(tmp_path) as again:
        assert same(again.model, replay(tmp_path))


def test_an_entry_that_could_not_be_kept_for_the_commit_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise MemoryError

    with opened(tmp_path) as server:
        before = state_of(server)
        monkeypatch.setattr(DurableServer, "_note_changed", fail)
        with pytest.raises(MemoryError):
            server.submit(update(0, 0))
        with pytest.raises(JournalFailed):
            server.commit()
        assert state_of(server) == before


def test_an_interrupt_in_a_commit_ends_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was taken for the journal and is not in it must not be followed by anything else."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with opened(tmp_path) as server:
        before = state_of(server)
        server.submit(update(0, 0))
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "write", interrupted)
            with pytest.raises(KeyboardInterrupt):
                server.commit()
        for use in (server.commit, server.snapshot, lambda: server.submit(update(0, 1))):
            with pytest.raises(JournalFailed):
                use()
        assert state_of(server) == before
    with opened(tmp_path) as again:
        assert again.k == 0 and same(again.model, replay(tmp_path))


def test_a_client_that_has_left_is_published_and_resumed_like_the_others(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(update(0, 0))
        server.submit(Left(0))
        assert server.commit().acks[0] == Settled(1)
    with opened(tmp_path) as again:
        assert again.settled(0) == Settled(1)


@pytest.mark.slow
def test_submitting_and_reading_go_on_while_another_thread_commits(tmp_path: Path) -> None:
    """What a commit published is on disk at that moment; what was submitted meanwhile is kept for the next."""
    over = threading.Event()

    def commit_all_the_time(server: DurableServer) -> None:
        while not (over.is_set() and server.pending == 0):
            for c, settled in server.commit().acks.items():
                on_disk = {
                    (e.round, e.client) for e in map(entry_of, Segments(tmp_path).records()) if isinstance(e, Received)
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


def test_the_word_to_an_aggregator_is_what_is_published(tmp_path: Path) -> None:
    with opened(tmp_path) as server:
        server.submit(update(0, 1))
        assert server.word([0, 1]).yours == {0: Settled(0), 1: Settled(0)}
        server.commit()
        word = server.word([1], model=False)
        assert word.yours == {1: Settled(1)} and word.model is None
        assert server.word([1]).model is server.model
