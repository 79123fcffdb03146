"""Connections that say nothing: the server has descriptors left for its clients, its journal and its operator."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import grpc.aio
import pytest

from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.server.health import MOST_OPEN, HealthPage
from crescendo.network.transport import channels, connections
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.connections import Connections
from crescendo.network.transport.descriptors import RESERVE, open_now
from tests.network import raw_streams
from tests.network.attacks import Attack, AttackedServer, Patch, attacked, each, each_without, run_attack, succeeds
from tests.network.live_server import TWO, live_server, run_async, until
from tests.network.raw_streams import channel_to
from tests.network.silent_connections import FROM, silent_connections

pytestmark = pytest.mark.slow

ALLOWED = 48  # connections
FLOOD = 200


@contextmanager
def few_descriptors() -> Iterator[None]:
    """So few that the flood takes all that may be open, and more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(open_now()) + RESERVE + ALLOWED, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def look_at_the_health(here: AttackedServer) -> None:
    page = await HealthPage("127.0.0.1:0").serve(here.server.service.status)
    async with page:
        port = page.sockets[0].getsockname()[1]
        async with silent_connections(port, 3 * MOST_OPEN):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
            answer = await asyncio.wait_for(reader.read(), raw_streams.DEADLINE)
            writer.close()
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["finished"] is False


async def answered_status(port: int) -> str:
    """The status, asked for again as an operator would: while gRPC is full it closes whoever comes, until the next look."""
    end = asyncio.get_running_loop().time() + raw_streams.DEADLINE
    while True:
        try:
            return await Endpoint(f"127.0.0.1:{port}").status(raw_streams.DEADLINE)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE or asyncio.get_running_loop().time() > end:
                raise
            await asyncio.sleep(0.02)


async def silent_connections_leave_descriptors_for_clients_journal_and_operator(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch, few_descriptors():
        patch.setattr(connections, "LOOK_EVERY", 0.01)
        async with attacked(folder) as here:
            good, late = [here.client(c) for c in (0, 1)], here.client(2)
            for client in good:
                await client.join()
            async with silent_connections(here.port, FLOOD, "PRI * "):
                await until(lambda: bool(here.live.events("connections_closed")))
                async with channel_to(here.port) as fresh:
                    late.channel = fresh
                    answer = await late.join()
                    assert isinstance(answer, pb.ToClient) and answer.HasField("welcome"), answer
                    async with here.server.commit_queue.paused():
                        here.server.service.durable.snapshot()  # a new segment, and a file beside
                    await look_at_the_health(here)
                    assert await answered_status(here.port)
                    await asyncio.gather(*(client.behave() for client in (*good, late)))
            said = here.live.events("connections_closed")
            assert {line["address"] for line in said} == {FROM} and len(said) <= FLOOD // 2


@each(silent_connections_leave_descriptors_for_clients_journal_and_operator)
def test_connections(attack: Attack, tmp_path: Path) -> None:
    run_attack(attack, tmp_path)


def whoever_came_first_stays(patch: Patch) -> None:
    patch.setattr(Connections, "close_excess", lambda self, port: 0)
    patch.setattr("tests.network.live_server.SOON", 1.0)


@each_without((whoever_came_first_stays, silent_connections_leave_descriptors_for_clients_journal_and_operator))
def test_without_the_guard_the_attack_is_seen_to_succeed(
    planted: Callable[[Patch], None], attack: Attack, tmp_path: Path, monkeypatch: Patch
) -> None:
    planted(monkeypatch)
    succeeds(attack, tmp_path)


def test_a_connection_that_never_speaks_or_never_opens_a_stream_is_closed(tmp_path: Path, monkeypatch: Patch) -> None:
    limits = {"grpc.server_handshake_timeout_ms": 50, "grpc.max_connection_idle_ms": 50}
    options = dict(channels.SERVER_OPTIONS)
    assert all(0 < options[name] <= 30_000 for name in limits)
    monkeypatch.setattr(channels, "SERVER_OPTIONS", [*{**options, **limits}.items()])
    settings = b"\0\0\0\4\0\0\0\0\0"

    async def run() -> None:
        async with live_server(tmp_path, TWO) as live:
            for first in (b"", b"PRI * HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings):
                reader, writer = await asyncio.open_connection("127.0.0.1", live.port)
                writer.write(first)
                with suppress(ConnectionError):
                    await asyncio.wait_for(reader.read(), raw_streams.DEADLINE)
                writer.close()

    run_async(run)
