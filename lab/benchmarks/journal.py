"""Updates on disk before they are acknowledged: one sync for 64 messages, against one for each, and against SQLite.

All ways take the same updates. The models are compared with a replay of the journal, bit for bit, before any timing; then each
way is timed in turn, three times, in one run. Two cores, Python 3.11, November 2026: a sync for 64 messages ran at 5.2 times the
speed of a sync for each with 123 floats (10,500 a second) and at 2.2 times with 61,706 (2,460 a second). Side by side was no
faster: the server's arithmetic takes longer than the disk. The disk decides: set TMPDIR to the disk in question.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from crescendo.core.messages import Update
from crescendo.core.server import Server
from crescendo.core.terms import Terms
from crescendo.core.vectors import decode, encode
from crescendo.network.server.commit_queue import MAX_BATCH as GROUP
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.journal import Journal
from crescendo.storage.journal.journal_entries import Received, to_bytes
from crescendo.storage.journal.replay import replay

CLIENTS = 20
Ways = dict[str, Callable[[Path, list[Received], int], float]]


def terms(rounds: int) -> Terms:
    return Terms(ConstantSizes(CLIENTS), ConstantSteps(0.1), (1 / CLIENTS,) * CLIENTS, rounds, ahead=rounds)


def updates(numbers: int, count: int) -> list[Received]:
    """Return ``count`` updates with some twenty different vectors."""
    rng = np.random.default_rng(0)
    data = [encode(rng.normal(size=numbers)) for _ in range(CLIENTS)]
    return [Received(i // CLIENTS, i % CLIENTS, "float32", data[i % CLIENTS]) for i in range(count)]


def durable(group: int) -> Callable[[Path, list[Received], int], float]:
    """Time the whole way of an update: checked, applied, on disk, published. Return seconds."""

    def run(folder: Path, line: list[Received], numbers: int) -> float:
        with DurableServer(folder, "", lambda _: terms(len(line) // CLIENTS), np.zeros(numbers)) as server:
            started = time.perf_counter()
            for start in range(0, len(line), group):
                for entry in line[start : start + group]:
                    server.submit(entry)
                server.commit()
            seconds = time.perf_counter() - started
            check(server, folder, line)
        return seconds

    return run


def durable_side_by_side(folder: Path, line: list[Received], numbers: int) -> float:
    """Time it as a network runs it: the server takes the next group in while one is on its way to the disk."""
    with (
        DurableServer(folder, "", lambda _: terms(len(line) // CLIENTS), np.zeros(numbers)) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        started = time.perf_counter()
        commit = pool.submit(server.commit)
        for entry in line:
            server.submit(entry)
            if server.pending >= GROUP:
                commit.result()
                commit = pool.submit(server.commit)
        commit.result()
        server.commit()
        seconds = time.perf_counter() - started
        check(server, folder, line)
    return seconds


def check(server: DurableServer, folder: Path, line: list[Received]) -> None:
    oracle = Server(terms(len(line) // CLIENTS), np.zeros(len(server.model)))
    for entry in line:
        oracle.receive(Update(entry.round, entry.client, decode(entry.data, "float32", len(server.model))))
    assert server.finished and server.model.tobytes() == replay(folder).tobytes() == oracle.model.tobytes()


def journal_alone(group: int) -> Callable[[Path, list[Received], int], float]:
    """Time the disk alone."""

    def run(folder: Path, line: list[Received], numbers: int) -> float:
        journal = Journal(folder)
        started = time.perf_counter()
        for start in range(0, len(line), group):
            journal.write([to_bytes(entry) for entry in line[start : start + group]])
        seconds = time.perf_counter() - started
        assert sum(1 for _ in journal.read()) == len(line)
        journal.close()
        return seconds

    return run


def sqlite(folder: Path, line: list[Received], numbers: int) -> float:
    """Time one transaction for each message, on disk when it returns."""
    db = sqlite3.connect(folder / "updates.db", isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.execute("create table updates (round integer, client integer, data blob, primary key (round, client))")
    started = time.perf_counter()
    for entry in line:
        db.execute("insert into updates values (?, ?, ?)", (entry.round, entry.client, entry.data))
    seconds = time.perf_counter() - started
    assert db.execute("select count(*) from updates").fetchone()[0] == len(line)
    db.close()
    return seconds


WAYS: Ways = {
    "durable server, a sync for each message": durable(1),
    f"durable server, a sync for {GROUP}": durable(GROUP),
    f"durable server, a sync for {GROUP}, side by side": durable_side_by_side,
    f"journal alone, a sync for {GROUP}": journal_alone(GROUP),
    "SQLite synchronous=FULL, one transaction each": sqlite,
}


def main() -> None:
    for numbers, count in ((123, 1000), (61_706, 200)):
        line, best = updates(numbers, count), dict.fromkeys(WAYS, float("inf"))
        for _ in range(3):
            for name, way in WAYS.items():
                with tempfile.TemporaryDirectory() as folder:
                    best[name] = min(best[name], way(Path(folder), line, numbers))
        slow = best["durable server, a sync for each message"]
        print(f"{numbers} floats, same model bit for bit:")
        for name, seconds in best.items():
            print(f"  {name}: {count / seconds:,.0f} messages a second, {slow / seconds:.1f} times the first line")


if __name__ == "__main__":
    main()
