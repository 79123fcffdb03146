"""A small federation for tests of the durable server: three clients, ten rounds, a model of five numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from crescendo.core.arrays import Vector
from crescendo.core.terms import Terms
from crescendo.core.vectors import encode
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.journal_entries import Received

TERMS, CLIENTS, ROUNDS, SIZE = '{"federation":"test"}', 3, 10, 5
START = np.array([0.1, -0.2, 0.3, -0.4, 0.5])
INSTANCE = "ab" * 16


def make(text: str, blocks: int = 1) -> Terms:
    """Terms of which every client has a share in every round."""
    assert text.startswith("{")
    return Terms(ConstantSizes(30), ConstantSteps(0.1), (0.3, 0.3, 0.4), ROUNDS, ahead=1, blocks=blocks)


def masked(text: str) -> Terms:
    """The same with masks: each round moves one of two blocks."""
    return make(text, blocks=2)


def opened(folder: Path, terms: str = TERMS, make: Any = make, **more: Any) -> DurableServer:
    return DurableServer(folder, terms, make, START, **more)


def delta(round: int, client: int, size: int = SIZE) -> Vector:
    """A displacement whose sums depend on their order in the last bits."""
    return np.random.default_rng((round, client)).normal(size=size).astype(np.float32)


def update(round: int, client: int, wire: str = "float32", make: Any = make) -> Received:
    low, high = make(TERMS).block(round, SIZE)
    return Received(round, client, wire, encode(delta(round, client, high - low), wire))


def same(a: Vector, b: Vector) -> bool:
    """Bit for bit."""
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


def state_of(server: DurableServer) -> Any:
    """All that a durable server says."""
    settled = [server.settled(c) for c in range(CLIENTS)]
    present, model = server.present.tolist(), server.model.tobytes()
    return server.k, server.epoch, server.late, present, settled, server.instances, model


def run_some(server: DurableServer, first: int, last: int) -> None:
    """Every client's updates of some rounds, committed round by round."""
    for i in range(first, last):
        for c in range(CLIENTS):
            server.submit(update(i, c))
        server.commit()
