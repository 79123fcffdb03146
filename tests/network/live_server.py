"""A server in this process, over real sockets: the harness of all tests that need a networked server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.federation.own_model import servers_copy, with_copy
from crescendo.network.protocol.wire_messages import Hello, Welcome
from crescendo.network.server.grpc_server import NetworkServer
from crescendo.network.server.liveness import LivenessLimits
from crescendo.network.server.service import Service
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.security.authenticator import Admit, everybody
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.upkeep.disk_room import DiskRoom, Usage
from tests.conformance.cases import case
from tests.network.scripted_client import SOON, ScriptedClient, opened

TWO: dict[str, Any] = case(
    clients={"count": 2},
    schedule={"rounds": 6, "sizes": {"kind": "constant", "size": 10}, "wait": {"rounds": 1}},
)
ONE_ROUND = case(clients={"count": 2}, schedule={"rounds": 1})
ONES = np.ones(5)


class LiveServer:
    """A server that listens, its log, and the clients that talk to it."""

    def __init__(
        self, agreed: Agreement, service: Service, server: NetworkServer, port: int, log: list[dict[str, Any]]
    ) -> None:
        self.agreed, self.service, self.server, self.port, self.log = agreed, service, server, port, log
        self._open: list[Any] = []

    async def connect(self) -> ScriptedClient:
        manager = Endpoint(f"127.0.0.1:{self.port}").channel()
        channel = await manager.__aenter__()
        self._open.append(manager)
        return ScriptedClient(opened(channel), self.agreed)

    async def say_hello(self, c: int, **changes: Any) -> tuple[ScriptedClient, Any]:
        """A client that joins, and the answer it gets."""
        client = await self.connect()
        said: dict[str, Any] = {
            "name": self.agreed.names[c],
            "instance": f"{c:032x}",
            "federation": self.agreed.federation,
            "digest": self.agreed.digest,
        }
        await client.say(Hello(**{**said, **changes}))
        return client, await client.hear()

    async def join(self, c: int, **changes: Any) -> ScriptedClient:
        client, answer = await self.say_hello(c, **changes)
        assert isinstance(answer, Welcome), answer
        return client

    def events(self, name: str) -> list[dict[str, Any]]:
        return [facts for facts in self.log if facts["event"] == name]

    async def close(self) -> None:
        for manager in self._open:
            await manager.__aexit__(None, None, None)


@asynccontextmanager
async def live_server(
    folder: Path,
    raw: dict[str, Any],
    limits: LivenessLimits | None = None,
    *,
    port: int = 0,
    credentials: Any = None,
    admit: Admit = everybody,
    free: Callable[[Path], float] | None = None,
) -> AsyncIterator[LiveServer]:
    """A server over ``folder``; opened again with the same folder it goes on. ``free`` is the part of its disk that is free."""
    config = read(raw)
    agreed = with_copy(build_terms(terms_text(config)), servers_copy(config.objective.kind))
    log: list[dict[str, Any]] = []

    def note(event: str, **facts: Any) -> None:
        log.append({"event": event, **facts})

    with DurableServer(folder, agreed.text, lambda text: agreed.terms, agreed.initial()) as durable:
        service = Service(durable, agreed, note, None if free is None else _disk(folder, free))
        server = NetworkServer(service, limits or LivenessLimits(600.0), admit, log=note)
        live = LiveServer(agreed, service, server, await server.start(f"127.0.0.1:{port}", credentials), log)
        try:
            yield live
        finally:
            await live.close()
            if server.failed.done():
                server.failed.exception()  # seen; else it would be printed when it is collected
            await server.stop()


def _disk(folder: Path, free: Callable[[Path], float]) -> DiskRoom:
    """A disk of a terabyte, of which 2% stay free."""
    return DiskRoom(folder, 0.02e12, lambda folder: Usage(free(folder) * 1e12, 1e12))


def run_async(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the body of a test on a loop of its own, with a limit to fail by."""
    asyncio.run(asyncio.wait_for(test(), 300))


async def until(true: Callable[[], bool]) -> None:
    """Let the others run until something is so."""
    async with asyncio.timeout(SOON):
        while not true():
            await asyncio.sleep(0)


async def to_the_end(live: LiveServer) -> list[ScriptedClient]:
    """Two clients that have joined, sent all there is, and heard the end."""
    clients = [await live.join(c) for c in (0, 1)]
    for client in clients:
        await client.send(0, np.ones(5))
    for client in clients:
        await client.k(1)
    return clients
