"""A client that releases through a ledger and may be killed at any point, and a judge of what it leaves behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from crescendo.core.messages import Settled
from crescendo.errors import DataError, Refused
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo.storage.ledger.outbox import Release
from crescendo_dp.events import Counted, PoissonGaussian
from crescendo_dp.ledger.budget import Budget

ROUNDS = 30
PLAN = tuple(None if i == 5 else PoissonGaussian(0.01, 2.0 + i) for i in range(ROUNDS))
BUDGET = Budget(2.0, 1e-6)

Send = Callable[[int, bytes], None]
Tell = Callable[[str], None]
"""Called at each point where a kill may come."""


def cheap(events: Counted, delta: float) -> float:
    """A price that takes no time; the ledger's own is tested elsewhere."""
    return 0.01 * sum(count for _, count in events)


def begun(path: Path, dataset: str = "") -> Ledger:
    ledger = open_ledger(path, BUDGET, dataset=dataset)
    ledger.sign("f", "terms", "me", PLAN, 1e-7, cheap)
    return ledger


def store(ledger: Ledger, i: int, data: bytes) -> bytes:
    """Release ``data`` as round i of the plan."""
    event = PLAN[i]
    assert event is not None
    return ledger.release("f", i, event, data)


class Killed(BaseException):
    """Stands for a kill where no process is needed."""


def sound(path: Path, send: Send, tell: Tell) -> None:
    """What a client does: resend what may be lost, then go on after its own last round; acknowledged now and then."""
    with begun(path) as ledger:
        tell("opened")
        resend(ledger, send, tell)
        ledger.acknowledge("f", Settled(ledger.last_round("f")))
        tell("acknowledged")
        for i in range(ledger.last_round("f") + 1, ROUNDS):
            if PLAN[i] is not None:
                release(ledger, i, send, tell)
            if i % 4 == 3:
                ledger.acknowledge("f", Settled(i - 1))
                tell("acknowledged")


def resend(ledger: Ledger, send: Send, tell: Tell) -> None:
    for i, data in ledger.unacknowledged("f"):
        assert data is not None
        send(i, data)
        tell("sent again")


def release(ledger: Ledger, i: int, send: Send, tell: Tell) -> None:
    fresh = os.urandom(64)
    tell("computed")
    data = store(ledger, i, fresh)
    tell("charged")
    send(i, data)
    tell("sent")


def charges_after_sending(path: Path, send: Send, tell: Tell) -> None:
    """Planted bug."""
    with begun(path) as ledger:
        for i in range(ledger.last_round("f") + 1, ROUNDS):
            event = PLAN[i]
            if event is not None:
                fresh = os.urandom(64)
                send(i, fresh)
                tell("sent")
                ledger.release("f", i, event, fresh)


def resends_fresh_noise(path: Path, send: Send, tell: Tell) -> None:
    """Planted bug."""
    with begun(path) as ledger:
        for i, _ in ledger.unacknowledged("f"):
            send(i, os.urandom(64))
        for i in range(ledger.last_round("f") + 1, ROUNDS):
            if PLAN[i] is not None:
                release(ledger, i, send, tell)


def recomputes_its_last_round(path: Path, send: Send, tell: Tell) -> None:
    """Planted bug: sends what it computed, not what the ledger returned."""
    with begun(path) as ledger:
        for i in range(max(0, ledger.last_round("f")), ROUNDS):
            event = PLAN[i]
            if event is not None:
                fresh = os.urandom(64)
                ledger.release("f", i, event, fresh)
                tell("charged")
                send(i, fresh)


class Found(NamedTuple):
    """What a server got, and what the ledger says about it."""

    got: list[tuple[int, bytes]]
    charged: list[int]
    here: list[Release]


def look(path: Path, got: list[tuple[int, bytes]]) -> Found:
    try:
        with open_ledger(path, read_only=True) as ledger:
            charges = [entry.body["round"] for entry in ledger._file.entries if entry.kind == "charge"]
            return Found(got, charges, ledger.unacknowledged("f"))
    except (DataError, Refused):  # killed before it was begun or signed off
        if got:
            raise
        return Found([], [], [])


def judge(found: Found) -> list[str]:
    """Everything that is wrong with what a client left behind."""
    wrong = []
    if len(set(found.charged)) != len(found.charged):
        wrong.append("a round was charged twice")
    if any(i not in found.charged for i, _ in found.got):
        wrong.append("a message was sent without its charge")
    if len(set(found.got)) != len({i for i, _ in found.got}):
        wrong.append("a round was sent with two different byte strings")
    sent = dict(found.got)
    if any(i not in sent and i not in dict(found.here) for i in found.charged):
        wrong.append("a charge is there without the bytes that it was for")
    if any(sent.get(i, data) != data for i, data in found.here):
        wrong.append("the outbox holds other bytes than were sent")
    return wrong


def played(client: Callable[[Path, Send, Tell], None], path: Path, stops: list[int]) -> list[str]:
    """Run a client, killed at the n-th point for each n of ``stops`` in turn, then to its end. What is wrong afterwards."""
    got: list[tuple[int, bytes]] = []
    wrong: list[str] = []
    for stop in [*stops, 10**9]:
        points = 0

        def tell(_: str, stop: int = stop) -> None:
            nonlocal points
            points += 1
            if points > stop:
                raise Killed

        with suppress(Killed):
            client(path, lambda i, data: got.append((i, data)), tell)
        wrong += judge(look(path, got))
    return wrong
