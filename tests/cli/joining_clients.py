"""Clients that join a live server, each in a thread of the test's own process, and a log that can be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.client.join import Joined, join
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff
from crescendo.storage.ledger.open_ledger import open_ledger
from tests.conformance.cases import case
from tests.network.live_server import LiveServer
from tests.network.processes import free_port
from tests.network.scripted_client import SOON

ONE: dict[str, Any] = case(clients={"count": 1}, schedule={"rounds": 4, "sizes": {"kind": "constant", "size": 50}})
OPEN: dict[str, Any] = {"mechanisms": ["none"]}
QUICK = Backoff(0.01, 0.05, give_up=20.0)


def nowhere() -> Endpoint:
    return Endpoint(f"127.0.0.1:{free_port()}")


def played(play: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(play(), 300))


def records(folder: Path) -> Path:
    path = folder / "mine.npz"
    if not path.exists():
        rng = np.random.default_rng(0)
        x = rng.normal(size=(200, 4))
        np.savez(path, x=x, y=np.sign(x[:, 0] + 0.1))
    return path


async def joined(
    on: LiveServer, folder: Path, policy: dict[str, Any], name: str = "client 0", log: Any = None
) -> Joined:
    """A client in a thread of this process, until it ends."""
    noted: list[dict[str, Any]] = log if log is not None else []
    return await asyncio.to_thread(
        join,
        Endpoint(f"127.0.0.1:{on.port}"),
        name,
        RecordSource(str(records(folder))),
        folder / "client",
        Policy.model_validate(policy),
        log=lambda event, **facts: noted.append({"event": event, **facts}),
        backoff=Backoff(0.02, 0.2),
    )


def joins(
    where: Endpoint, folder: Path, log: Any, backoff: Backoff = QUICK, name: str = "client 0", **policy: Any
) -> asyncio.Task[Joined]:
    """A client in a thread of its own."""
    allowed = Policy.model_validate({**OPEN, **policy})
    source = RecordSource(str(records(folder)))
    return asyncio.create_task(
        asyncio.to_thread(join, where, name, source, folder / "client", allowed, log=log, backoff=backoff)
    )


async def begun(on: LiveServer, folder: Path) -> Path:
    """A client's folder after it has signed the terms off and sent nothing."""
    from crescendo.federation.agreement import NOTHING_HIDDEN

    policy = Policy.model_validate(OPEN)
    (folder / "client").mkdir()
    with open_ledger(folder / "client" / "ledger.sqlite", policy.budget()) as ledger:
        agreed = on.agreed
        plan = [NOTHING_HIDDEN] * agreed.terms.rounds
        ledger.sign(agreed.federation, agreed.digest, "client 0", plan, 1e-9, lambda events, delta: float("inf"))
    return folder / "client"


class Told:
    """A log that can be waited for."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._loop, self._bell = asyncio.get_running_loop(), asyncio.Event()

    def __call__(self, event: str, **facts: Any) -> None:
        self.lines.append({"event": event, **facts})
        self._loop.call_soon_threadsafe(self._bell.set)

    async def until(self, event: str) -> dict[str, Any]:
        async with asyncio.timeout(SOON):
            while True:
                self._bell.clear()
                for line in self.lines:
                    if line["event"] == event:
                        return line
                await self._bell.wait()
