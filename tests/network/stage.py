"""A server in this process, and clients that say whatever a test wants them to say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.core.messages import Settled
from crescendo.core.vectors import encode
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.federation.own_model import servers_copy, with_copy
from crescendo.network.protocol.wire_messages import (
    Ack,
    BroadcastPart,
    FromClient,
    Hello,
    Welcome,
    from_server,
    to_server,
    update_parts,
)
from crescendo.network.server.grpc_server import NetworkServer
from crescendo.network.server.liveness import LivenessLimits
from crescendo.network.server.service import Service
from crescendo.network.transport.channels import Endpoint, channel_to, join_on
from crescendo.network.transport.security import Admit, everybody
from crescendo.storage.journal.durable_server import DurableServer
from tests.conformance.cases import case

SOON = 60.0  # seconds that a test waits for what should happen at once
TWO: dict[str, Any] = case(
    clients={"count": 2},
    schedule={"rounds": 6, "sizes": {"kind": "constant", "size": 10}, "wait": {"rounds": 1}},
)
ONES = np.ones(5)


class Fake:
    """One stream to the server. Several tasks may speak at once: gRPC takes one write on a call at a time, so they queue."""

    def __init__(self, call: Any, agreed: Agreement) -> None:
        self.call, self.agreed = call, agreed
        self._writing = asyncio.Lock()

    async def say(self, message: FromClient) -> None:
        async with self._writing:
            await self.call.write(to_server(message))

    async def send(self, round: int, delta: Any, wire: str | None = None) -> None:
        agreed = self.agreed
        data = delta if isinstance(delta, bytes) else encode(np.asarray(delta), agreed.wire)
        async with self._writing:
            for part in update_parts(round, data, wire or agreed.wire, agreed.federation, agreed.digest):
                await self.call.write(part)

    async def hear(self) -> Any:
        """The next message, None at the end of the stream."""
        raw = await asyncio.wait_for(self.call.read(), SOON)
        return None if raw is grpc.aio.EOF else from_server(raw)

    async def hear_until(self, kind: Any, true: Any = lambda message: True) -> Any:
        while True:
            message = await self.hear()
            assert message is not None, f"the stream ended before a {kind}"
            if isinstance(message, kind) and true(message):
                return message

    async def closed(self) -> None:
        """Until the server closes the stream; what it had said before may still come."""
        while await self.hear() is not None:
            pass

    async def acknowledged(self, wanted: Settled | None = None) -> Settled:
        """Until these rounds, else any, are on the server's disk: an acknowledgement says so, or a broadcast in its stead."""
        while True:
            yours = (await self.hear_until(Ack | BroadcastPart)).yours
            if yours is not None and (yours == wanted if wanted is not None else yours != Settled(0)):
                found: Settled = yours
                return found

    async def k(self, k: int) -> BroadcastPart:
        found: BroadcastPart = await self.hear_until(BroadcastPart, lambda message: message.vector.about >= k)
        return found


class Stage:
    """A server and the fakes that talk to it."""

    def __init__(
        self, agreed: Agreement, service: Service, server: NetworkServer, port: int, log: list[dict[str, Any]]
    ) -> None:
        self.agreed, self.service, self.server, self.port, self.log = agreed, service, server, port, log
        self._open: list[Any] = []

    async def fake(self) -> Fake:
        manager = channel_to(Endpoint(f"127.0.0.1:{self.port}"))
        channel = await manager.__aenter__()
        self._open.append(manager)
        return Fake(join_on(channel), self.agreed)

    async def say_hello(self, c: int, **changes: Any) -> tuple[Fake, Any]:
        """A client that joins, and the answer it gets."""
        fake = await self.fake()
        said: dict[str, Any] = {
            "name": self.agreed.names[c],
            "instance": f"{c:032x}",
            "federation": self.agreed.federation,
            "digest": self.agreed.digest,
        }
        await fake.say(Hello(**{**said, **changes}))
        return fake, await fake.hear()

    async def join(self, c: int, **changes: Any) -> Fake:
        fake, answer = await self.say_hello(c, **changes)
        assert isinstance(answer, Welcome), answer
        return fake

    def events(self, name: str) -> list[dict[str, Any]]:
        return [facts for facts in self.log if facts["event"] == name]

    async def close(self) -> None:
        for manager in self._open:
            await manager.__aexit__(None, None, None)


@asynccontextmanager
async def stage(
    folder: Path,
    raw: dict[str, Any],
    manners: LivenessLimits | None = None,
    *,
    port: int = 0,
    credentials: Any = None,
    admit: Admit = everybody,
) -> AsyncIterator[Stage]:
    """A server over ``folder``; opened again with the same folder it goes on."""
    config = read(raw)
    agreed = with_copy(build_terms(terms_text(config)), servers_copy(config.objective.kind))
    log: list[dict[str, Any]] = []

    def note(event: str, **facts: Any) -> None:
        log.append({"event": event, **facts})

    with DurableServer(folder, agreed.text, lambda text: agreed.terms, agreed.initial()) as durable:
        service = Service(durable, agreed, note)
        server = NetworkServer(service, manners or LivenessLimits(600.0), admit, log=note)
        made = Stage(agreed, service, server, await server.start(f"127.0.0.1:{port}", credentials), log)
        try:
            yield made
        finally:
            await made.close()
            await server.stop()


def played(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(play(), 300))


async def until(true: Callable[[], bool]) -> None:
    """Let the others run until something is so."""
    async with asyncio.timeout(SOON):
        while not true():
            await asyncio.sleep(0)
