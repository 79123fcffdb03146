"""A client killed at any instant: what was sent was charged, and a round has one byte string for ever."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import children
from tests.storage import ledger_play as play
from tests.storage.ledger_play import PLAN

children.preload(__name__)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.mark.slow
@settings(deadline=None, max_examples=8)
@given(stops=st.lists(st.integers(0, 12), max_size=3))
def test_a_client_stopped_at_any_points_leaves_nothing_wrong(stops: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert play.played(play.sound, Path(folder) / "ledger.db", stops) == []


@pytest.mark.parametrize(
    ("client", "wrong"),
    [
        (play.charges_after_sending, "a message was sent without its charge"),
        (play.resends_fresh_noise, "a round was sent with two different byte strings"),
        (play.recomputes_its_last_round, "the outbox holds other bytes than were sent"),
    ],
)
def test_a_planted_bug_is_seen_by_the_judge(
    client: Callable[[Path, play.Send, play.Tell], None], wrong: str, path: Path
) -> None:
    assert wrong in play.played(client, path, [3, 2])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_process_killed_at_random_instants_charges_once_and_sends_one_byte_string(path: Path, seed: int) -> None:
    random, log = Random(seed), path.with_name("sent")
    log.touch()
    kills = 0
    while True:
        finished = killed_after(path, log, points=random.randint(0, 12))
        kills += not finished
        got = [(int(line.split()[0]), bytes.fromhex(line.split()[1])) for line in log.read_text().splitlines()]
        assert play.judge(play.look(path, got)) == []
        if finished:
            break
        assert kills < 100, "every run gets further than the last, or the ledger stands still"
    assert sorted({i for i, _ in got}) == [i for i, event in enumerate(PLAN) if event is not None]
    assert kills > 2


def killed_after(path: Path, log: Path, points: int) -> bool:
    """Run the client in a process of its own and kill it while it is past its n-th point. Whether it came to its end."""
    reader, writer = children.CONTEXT.Pipe(duplex=False)
    with reader, children.started(_play, path, log, writer) as child:
        writer.close()
        said: list[bytes] = []
        while len(said) <= points and (more := children.next_message(reader)):
            said.append(more)
        child.kill()
        assert children.exit_code(child) in (0, -signal.SIGKILL), "the client failed by itself"
        while more := children.next_message(reader):
            said.append(more)
    return said[-1:] == [b"!"]


def _play(path: Path, log: Path, writer: Connection) -> None:
    """The client's process: it writes down what it sends, and tells of each point."""
    sent = os.open(log, os.O_WRONLY | os.O_APPEND)
    play.sound(path, lambda i, data: _noted(sent, f"{i} {data.hex()}\n"), lambda _: writer.send_bytes(b"."))
    writer.send_bytes(b"!")


def _noted(file: int, words: str) -> None:
    os.write(file, words.encode())
