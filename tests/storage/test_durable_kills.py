"""SIGKILL at every step of the disk work: before, in the middle of and after every write, sync, rename and removal.

A server runs in a child process and tells of every commit through a pipe, as a network would. It is killed; what it told of is
then held against what is on disk. Then it goes on, is killed again, and so to the end of the run.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from crescendo import system
from crescendo.core.messages import DuplicateUpdate, Settled
from crescendo.core.vectors import encode
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.journal import Journal, JournalFailed
from crescendo.storage.journal.journal_entries import Received
from crescendo.storage.journal.replay import replay
from crescendo.storage.journal.segments import Segments
from crescendo.storage.journal.snapshots import Snapshot
from tests import children
from tests.storage.durable_play import CLIENTS, ROUNDS, SIZE, START, TERMS, make, same

children.preload(__name__)
WHOLE = np.arange(SIZE, dtype=float)  # a start of whole numbers, so that every order of the sums gives the same bits


def delta(round: int, client: int) -> np.ndarray[Any, Any]:
    """Each pair moves the model by its own power of two: the model tells which were applied, and how often."""
    return np.full(SIZE, 2.0 ** (round * CLIENTS + client))


EXPECTED = WHOLE - sum(delta(i, c) for i in range(ROUNDS) for c in range(CLIENTS))


def opened(folder: Path, prune: bool = False) -> DurableServer:
    return DurableServer(folder, TERMS, make, WHOLE, prune=prune, snapshot_bytes=700, segment_bytes=900)


def train(
    server: DurableServer, tell: Callable[[dict[str, Any]], None], rng: random.Random, rounds: int = ROUNDS
) -> None:
    """Every client sends what the server lacks, some of it twice, in groups of any size."""
    while server.k < rounds:
        lacking = [
            (i, c)
            for c in range(CLIENTS)
            for i in range(server.k, min(server.k + 2, rounds))
            if i not in server.settled(c)
        ]
        rng.shuffle(lacking)
        for i, c in (lacking + lacking[:2])[: rng.randint(1, 4)]:
            try:
                server.submit(Received(i, c, "float32", encode(delta(i, c))))
            except DuplicateUpdate:
                assert (i, c) in lacking
        server.commit()
        settled = [(s.below, s.beyond) for s in map(server.settled, range(CLIENTS))]
        tell({"k": server.k, "epoch": server.epoch, "settled": settled, "model": server.model.tolist()})


class Killer:
    """Kills its own process at the ``at``-th step of the disk work; ``half`` writes half of what was to be written first."""

    STEPS: tuple[str, ...] = (
        "pwrite",
        "fsync",
        "fdatasync",
        "open_file",
        "close",
        "ftruncate",
        "replace",
        "unlink",
    )

    def __init__(self, at: int, half: bool) -> None:
        self._left, self._half = at, half
        self._wrap(system, self.STEPS)

    def _wrap(self, module: ModuleType, steps: Iterable[str]) -> None:
        for name in steps:
            setattr(module, name, self._wrapped(name, getattr(module, name)))

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                if name == "pwrite" and self._half:
                    real(args[0], bytes(args[1])[: len(args[1]) // 2], *args[2:])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **more)

        return call


def in_a_process_that_dies(
    folder: Path, at: int, half: bool, seed: int, prune: bool = False
) -> tuple[list[dict[str, Any]], bool]:
    """What a server in a process of its own told of before it was killed, and whether it came to the end."""
    reader, writer = children.CONTEXT.Pipe(duplex=False)
    with reader, children.started(_serve, folder, at, half, seed, prune, writer) as child:
        writer.close()
        told = []
        while line := children.next_message(reader):
            told.append(json.loads(line))
        status = children.exit_code(child)
    assert status in (0, -signal.SIGKILL), "the server failed by itself"
    return told, status == 0


def _serve(folder: Path, at: int, half: bool, seed: int, prune: bool, writer: Connection) -> None:
    """The server's process. What it tells is no disk work: the pipe has an ``os.write`` of its own, from before the killer's."""
    Killer(at, half)

    def tell(told: dict[str, Any]) -> None:
        writer.send_bytes(json.dumps(told).encode())

    with opened(folder, prune) as server:
        train(server, tell, random.Random(seed))


def check_after(folder: Path, told: list[dict[str, Any]]) -> None:
    """Everything that was told of is there, nothing twice, and the state is that of the journal, bit for bit."""
    with opened(folder) as server:
        if (
            Segments.first_in(Segments(folder).paths()[0]) == 0
        ):  # else it was pruned, and the powers of two tell as much
            assert same(server.model, replay(folder))
        powers = (WHOLE - server.model)[0]
        applied = {(i, c) for i in range(ROUNDS) for c in range(CLIENTS) if int(powers) >> (i * CLIENTS + c) & 1}
        assert applied == {(i, c) for c in range(CLIENTS) for i in range(ROUNDS) if i in server.settled(c)}
        assert same(server.model, WHOLE - sum((delta(i, c) for i, c in applied), np.zeros(SIZE)))
        if told:
            last = told[-1]
            assert server.k >= last["k"] and server.epoch >= last["epoch"]
            for c, (below, beyond) in enumerate(last["settled"]):
                yours = Settled(below).joined((first, stop) for first, stop in beyond)
                assert all(i in server.settled(c) for i in range(ROUNDS) if i in yours)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("half", "prune"),
    [(False, False), (True, False), (False, True)],
    ids=["between", "in the middle", "pruning"],
)
def test_killed_at_every_step_of_the_disk_work_nothing_told_is_lost_and_nothing_is_applied_twice(
    tmp_path: Path, half: bool, prune: bool
) -> None:
    pruned = 0
    for at in range(400):
        folder = tmp_path / str(at)
        told, ended = in_a_process_that_dies(folder, at, half, seed=at % 5, prune=prune)
        check_after(folder, told)
        pruned += Segments.first_in(Segments(folder).paths()[0]) > 0
        survives_a_damaged_snapshot(folder)
        if ended:
            break
    assert ended and at > 60, "the run was never long enough to be killed everywhere"
    assert (pruned > 20) == prune


def survives_a_damaged_snapshot(folder: Path) -> None:
    """Whatever is left of the folder, it opens with the same state when its newest snapshot is damaged."""
    with opened(folder) as server:
        before = server.k, server.epoch, server.model.tobytes(), [server.settled(c) for c in range(CLIENTS)]
    if newest := Snapshot.paths(folder)[:1]:
        newest[0].write_bytes(newest[0].read_bytes()[:-1] + b"?")
    with opened(folder) as again:
        assert before == (again.k, again.epoch, again.model.tobytes(), [again.settled(c) for c in range(CLIENTS)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_again_and_again_a_run_comes_to_its_end_with_every_update_applied_once(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    heard: list[dict[str, Any]] = []
    kills = 0
    for _ in range(200):
        told, ended = in_a_process_that_dies(tmp_path, rng.randrange(6, 24), rng.random() < 0.5, rng.randrange(1000))
        heard += told
        check_after(tmp_path, heard)
        if ended:
            break
        kills += 1
    assert ended and kills >= 4
    with opened(tmp_path) as server:
        assert server.finished and same(server.model, EXPECTED) and same(replay(tmp_path), EXPECTED)
    for before, after in itertools.pairwise(heard):  # a client never sees a smaller k in the same epoch
        assert (before["epoch"], before["k"]) <= (after["epoch"], after["k"])


class Disk:
    """Remembers what a power cut would leave: of each file what was synced, of each folder the names that were synced."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._sizes: dict[Path, int] = {}
        self._names: dict[Path, set[str]] = {}
        for name in ("fsync", "fdatasync"):
            patch.setattr(system, name, self._noting)

    def _noting(self, file: int) -> None:
        path = Path(f"/proc/self/fd/{file}").readlink()
        if path.is_dir():
            self._names[path] = {entry.name for entry in path.iterdir()}
        else:
            self._sizes[path] = path.stat().st_size

    def after_a_power_cut(self, folder: Path, copy: Path, rng: random.Random) -> None:
        """What is left of ``folder``: all that was synced; of the rest some bytes, in part other ones."""
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for name in self._names.get(folder, set()):
            path = folder / name
            if not path.exists():
                continue
            data = path.read_bytes()
            kept = self._sizes.get(path, self._sizes.get(path.with_suffix(".new"), 0))
            rest = bytearray(data[kept : rng.randint(kept, len(data))])
            if rest and rng.random() < 0.5:
                at = rng.randrange(len(rest))
                rest[at:] = bytes(len(rest) - at)
            (copy / name).write_bytes(data[:kept] + rest)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_after_a_power_cut_everything_that_was_told_is_there(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill leaves what was written; a power cut only what was synced, so this is what shows that syncs come first."""
    rng, disk, folder = random.Random(seed), Disk(monkeypatch), tmp_path / "state"
    heard: list[dict[str, Any]] = []

    def cut(told: dict[str, Any]) -> None:
        heard.append(told)
        for line in (0, 1):  # with nothing in line, and with an update that was submitted and not committed
            disk.after_a_power_cut(folder, tmp_path / "left", rng)
            check_after(tmp_path / "left", heard)
            if line == 0 and not server.finished:
                server.submit(next(lacking(server)))

    def lacking(server: DurableServer) -> Any:
        for c in range(CLIENTS):
            for i in range(server.k, min(server.k + 2, ROUNDS)):
                if i not in server.settled(c):
                    yield Received(i, c, "float32", encode(delta(i, c)))

    with opened(folder) as server:
        train(server, cut, rng)
    assert len(heard) >= 5


def test_what_a_server_finds_when_it_opens_is_on_disk_before_it_tells_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    folder = tmp_path / "state"
    with opened(folder) as server, monkeypatch.context() as patch:
        patch.setattr(system, "fdatasync", fail)
        server.submit(Received(0, 0, "float32", encode(delta(0, 0))))
        with pytest.raises(JournalFailed):  # written, not synced: it may be there, and it may vanish
            server.commit()
    disk = Disk(monkeypatch)
    with opened(folder) as again:
        assert 0 in again.settled(0)
        disk.after_a_power_cut(folder, tmp_path / "left", random.Random(0))
    with opened(tmp_path / "left") as left:
        assert 0 in left.settled(0)


def test_segments_are_removed_only_when_the_snapshot_that_replaces_them_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, folder = Disk(monkeypatch), tmp_path / "state"
    with DurableServer(folder, TERMS, make, WHOLE) as server:
        train(server, lambda told: None, random.Random(0), rounds=2)
        server.snapshot()
        train(server, lambda told: None, random.Random(0), rounds=3)
        with monkeypatch.context() as patch:
            patch.setattr(
                Journal, "prune", lambda *_: disk.after_a_power_cut(folder, tmp_path / "left", random.Random(0))
            )
            server.snapshot(prune=True)
        before = server.k, server.model
    assert len(Snapshot.paths(tmp_path / "left")) == 2
    for segment in Segments(tmp_path / "left").paths()[:-1]:
        segment.unlink()
    with DurableServer(tmp_path / "left", TERMS, make) as left:
        assert left.k == before[0] and same(left.model, before[1])


def test_the_checks_here_would_notice(tmp_path: Path) -> None:
    """The same checks against a server that told of more than it kept."""
    assert same(START, START.copy())
    told: list[dict[str, Any]] = []
    with opened(tmp_path) as server:
        train(server, told.append, random.Random(0), rounds=1)
    check_after(tmp_path, told)
    told[-1]["settled"][0] = (5, [])
    with pytest.raises(AssertionError):
        check_after(tmp_path, told)
