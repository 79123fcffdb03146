"""A server under the usual limit of open files: a flood of silent connections, and more clients than the limit has room for."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.network.protocol.wire_messages import Hello, Refusal, Welcome
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.descriptors import needed, raise_limit
from tests.conformance.cases import case
from tests.network.processes import free_port
from tests.network.scripted_client import ScriptedClient, opened
from tests.network.silent_connections import silent_connections

pytestmark = pytest.mark.soak

USUAL = 1024
MANY = 1100


def raw(clients: int) -> dict[str, Any]:
    return case(clients={"count": clients}, schedule={"rounds": 1}, serve={"federation": "many", "features": 4})


class Served:
    """A server process, and its log."""

    def __init__(self, folder: Path, port: int, health: int) -> None:
        self.port, self._health, self._log = port, health, folder / "log"

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [line for line in lines if line["event"] == name]

    def health(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._health}/healthz", timeout=60) as page:
            found: dict[str, Any] = json.load(page)
            return found


@contextmanager
def served(folder: Path, clients: int, hard: int) -> Iterator[Served]:
    """A server whose soft limit is the usual one, and which may raise it to ``hard``."""
    (folder / "federation.toml").write_text(read(raw(clients)).to_toml())
    port, health = free_port(), free_port()
    limits = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({USUAL}, {hard}))"
    code = f"{limits}; from crescendo.__main__ import main; main()"
    where = ["--listen", f"127.0.0.1:{port}", "--health", f"127.0.0.1:{health}", "--state", "state"]
    with (folder / "log").open("w") as log:
        command = [sys.executable, "-c", code, "serve", "federation.toml", *where, "--log", "json"]
        server = subprocess.Popen(command, cwd=folder, stderr=log, stdout=subprocess.DEVNULL)
    one = Served(folder, port, health)
    try:
        while not one.events("serving"):
            with suppress(subprocess.TimeoutExpired):
                server.wait(0.2)
            assert server.returncode is None, (folder / "log").read_text()
        yield one
    finally:
        server.terminate()
        server.wait(120)


async def said_to(agreed: Agreement, c: int, port: int, open: AsyncExitStack) -> Any:
    """What the server answers to a client's hello; the connection of one that is let in stays open."""
    async with AsyncExitStack() as own:
        channel = await own.enter_async_context(Endpoint(f"127.0.0.1:{port}").channel())
        client = ScriptedClient(opened(channel), agreed)
        await client.say(Hello(agreed.names[c], f"{c:032x}", agreed.federation, agreed.digest))
        answer = await client.hear()
        if isinstance(answer, Welcome):
            open.push_async_exit(own.pop_all())
        return answer


async def answers(agreed: Agreement, port: int) -> list[Any]:
    """Of all clients, each on a connection of its own, a few at a time."""
    found: list[Any] = []
    async with AsyncExitStack() as open:
        for first in range(0, MANY, 20):
            found += await asyncio.gather(*(said_to(agreed, c, port, open) for c in range(first, first + 20)))
    return found


@pytest.mark.parametrize("enough", [True, False])
def test_more_clients_than_the_usual_limit_all_hear_a_word(enough: bool, tmp_path: Path) -> None:
    raise_limit(MANY)
    agreed, hard = build_terms(terms_text(read(raw(MANY)))), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with served(tmp_path, MANY, hard if enough else USUAL) as on:
        found = asyncio.run(answers(agreed, on.port))
        joined = [answer for answer in found if isinstance(answer, Welcome)]
        away = [answer for answer in found if isinstance(answer, Refusal)]
        assert len(joined) + len(away) == MANY
        assert on.health()["connected"] <= len(joined)
        if enough:
            assert not away and not on.events("few_descriptors")
        else:
            assert len(joined) > 700 and all("come back later" in answer.reason for answer in away)
            assert str(needed(MANY)) in on.events("few_descriptors")[0]["reason"]


def test_1500_silent_connections_silence_nobody(tmp_path: Path) -> None:
    async def flood(port: int) -> None:
        async with silent_connections(port, 1500):
            assert on.health()["ok"]
            while not on.events("connections_closed"):
                await asyncio.sleep(0.1)
            assert json.loads(await Endpoint(f"127.0.0.1:{port}").status(60))["k"] == 0

    with served(tmp_path, 2, USUAL) as on:
        asyncio.run(flood(on.port))
        assert 1 <= len(on.events("connections_closed")) <= 20
