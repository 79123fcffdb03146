"""`/healthz` answers a proper request, and holds no other for long; gRPC's own health check answers on the server's port."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.request
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from crescendo.config.loading import read
from crescendo.errors import UsageError
from crescendo.network.aggregator.node import Node
from crescendo.network.server import health
from crescendo.network.server.health import LONGEST, HealthPage
from crescendo.network.server.serve import Listening
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.descriptors import open_now
from crescendo.runs import serving
from tests.network.live_server import TWO, live_server, run_async
from tests.network.processes import free_port

Say = Callable[..., Coroutine[Any, Any, bytes]]


def with_health(play: Callable[[Say], Awaitable[None]]) -> None:
    """With a function that says pieces to a health server, each when the one before was sent, and returns all it answers."""

    async def run() -> None:
        server = await HealthPage("127.0.0.1:0").serve(lambda: {"ok": True, "k": 3})
        port = server.sockets[0].getsockname()[1]

        async def say(*pieces: bytes) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                return await reader.read()
            finally:
                writer.close()

        async with server:
            await play(say)

    asyncio.run(asyncio.wait_for(run(), 300))


def test_it_answers_with_one_line_of_json() -> None:
    async def play(say: Say) -> None:
        answer = await say(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n") and b"Content-Type: application/json" in head
        assert json.loads(body) == {"ok": True, "k": 3} and body.count(b"\n") == 1
        assert f"Content-Length: {len(body)}".encode() in head

    with_health(play)


def test_it_waits_for_the_end_of_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer before it could be lost: what is still on the way then is answered with a reset."""
    monkeypatch.setattr(health, "PATIENCE", 300.0)

    async def play(say: Say) -> None:
        half = asyncio.create_task(say(b"GET /healthz HTTP/1.1\r\n"))
        for _ in range(5):  # by the time these are answered, it has been read
            whole = await say(b"GET /healthz HTTP/1.1\r\n", b"Host: here\r\n", b"\r\n")
            assert whole.startswith(b"HTTP/1.1 200")
        assert not half.done()
        half.cancel()

    with_health(play)


@pytest.mark.parametrize(
    "question", [b"GET / HTTP/1.1", b"POST /healthz HTTP/1.1", b"GET /healthz/more HTTP/1.1", b"x"]
)
def test_nothing_else_is_served(question: bytes) -> None:
    async def play(say: Say) -> None:
        answer = await say(question + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 404 Not Found\r\n") and b"this port answers GET /healthz" in answer

    with_health(play)


def test_a_question_without_end_is_cut_off() -> None:
    async def play(say: Say) -> None:
        with suppress(ConnectionError):  # cut off while it was still asking
            assert await say(b"GET /healthz HTTP/1.1\r\n" + b"x" * 3 * LONGEST) == b""

    with_health(play)


def test_hundreds_of_silent_connections_at_once_take_few_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all that came in one turn of the loop only one was closed, so that a burst took 1,951 descriptors."""
    monkeypatch.setattr(health, "PATIENCE", 300.0)

    async def run() -> None:
        server = await HealthPage("127.0.0.1:0").serve(lambda: {"ok": True})
        address, before, most, silent = server.sockets[0].getsockname(), len(open_now()), 0, list[socket.socket]()
        async with server:
            for _ in range(200):  # the kernel completes these before the loop runs again, as far as its queue goes
                one = socket.socket()
                one.setblocking(False)
                one.connect_ex(address)
                silent.append(one)
            for _ in range(100):
                await asyncio.sleep(0)
                most = max(most, len(open_now()) - before - len(silent))
            for one in silent:
                one.close()
        assert most <= 3 * health.MOST_OPEN, most

    asyncio.run(asyncio.wait_for(run(), 300))


def test_it_answers_while_a_server_that_starts_is_still_accounting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was silent until the whole plan was accounted for, a minute for some: who watches it would end the server."""
    page, answers = HealthPage(f"127.0.0.1:{free_port()}"), list[Any]()

    class Enough(Exception): ...

    def asking(config: Any) -> Any:
        with urllib.request.urlopen(f"http://{page.address}/healthz", timeout=300) as answer:
            answers.append(json.load(answer))
        raise Enough

    monkeypatch.setattr(serving, "terms_and_cost", asking)
    for _ in range(2):  # the port is free again
        with pytest.raises(Enough):
            serving.serve_file(read(TWO), Listening("127.0.0.1:0", health=page), tmp_path / "served")
    assert answers == [{"ok": True, "starting": True}] * 2


def test_while_the_server_starts_a_port_that_is_taken_is_refused() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(UsageError, match="in use"),
        HealthPage(f"127.0.0.1:{taken.getsockname()[1]}").meanwhile({}),
    ):
        raise AssertionError("nobody listens")


async def checked(port: int, service: str = "") -> int:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service))
        return int(answer.status)


def test_grpc_s_own_health_check_is_answered_on_the_server_s_port(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            for service in ("", "crescendo.v1.Federation"):
                assert await checked(on.port, service) == health_pb2.HealthCheckResponse.SERVING
            with pytest.raises(grpc.aio.AioRpcError, match="this server serves") as refused:
                await checked(on.port, "another")
            assert refused.value.code() == grpc.StatusCode.NOT_FOUND
            on.server.failed.set_exception(OSError("no space"))
            assert await checked(on.port) == health_pb2.HealthCheckResponse.NOT_SERVING

    run_async(play)


def test_an_aggregator_without_a_way_to_the_server_does_not_serve() -> None:
    async def play() -> None:
        listens, stop = asyncio.Event(), asyncio.Event()
        node = Node("node", Endpoint("127.0.0.1:1"), log=lambda event, **facts: listens.set())
        running = asyncio.create_task(node.run("127.0.0.1:0", stop))
        await listens.wait()
        assert await checked(node.port) == health_pb2.HealthCheckResponse.NOT_SERVING
        stop.set()
        await running

    run_async(play)
