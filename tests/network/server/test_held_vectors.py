"""A vector that is on disk is let go: a server does not hold one for each client that it is waiting for."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.core.messages import Settled
from crescendo.network.server.service import Committed, Service, Submission
from crescendo.storage.journal.journal_entries import Received
from tests.conformance.cases import case
from tests.network.live_server import live_server

CLIENTS = 3
FEATURES = 300_000  # more than one part
RAW = case(
    run={"wire": "float32"},
    clients={"count": CLIENTS},
    schedule={"rounds": 6, "sizes": {"kind": "constant", "size": 10}, "wait": {"rounds": 1}},
    serve={"federation": "large", "features": FEATURES},
)


def test_what_was_acknowledged_is_held_by_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[weakref.ref[Any]] = []
    process = Service.process

    def watched(service: Service, batch: Sequence[Submission], connected: Sequence[int]) -> Committed:
        taken.extend(weakref.ref(item.message.data) for item in batch if isinstance(item.message, Received))
        return process(service, batch, connected)

    monkeypatch.setattr(Service, "process", watched)

    async def play() -> None:
        async with live_server(tmp_path, RAW) as on:
            fakes = [await on.join(c) for c in range(CLIENTS)]
            for fake in fakes:
                await fake.send(0, np.zeros(on.agreed.objective.size))
                await fake.acknowledged(Settled(1))
                (held,) = taken
                while held() is not None:  # the thread that took it is just letting go; the whole has a limit
                    await asyncio.sleep(0)
                taken.clear()

    asyncio.run(asyncio.wait_for(play(), 300))
