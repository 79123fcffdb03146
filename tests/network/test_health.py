"""`/healthz` answers whoever asks it properly, and nobody else for long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from crescendo.network.server import health
from crescendo.network.server.health import LONGEST, serve_health

Say = Callable[..., Coroutine[Any, Any, bytes]]


def played(play: Callable[[Say], Awaitable[None]]) -> None:
    """With a function that says pieces to a health server, each when the one before was sent, and returns all it answers."""

    async def run() -> None:
        server = await serve_health("127.0.0.1:0", lambda: {"ok": True, "k": 3})
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

    played(play)


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

    played(play)


@pytest.mark.parametrize(
    "question", [b"GET / HTTP/1.1", b"POST /healthz HTTP/1.1", b"GET /healthz/more HTTP/1.1", b"x"]
)
def test_nothing_else_is_served(question: bytes) -> None:
    async def play(say: Say) -> None:
        answer = await say(question + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 404 Not Found\r\n") and b"this port answers GET /healthz" in answer

    played(play)


def test_a_question_without_end_is_cut_off() -> None:
    async def play(say: Say) -> None:
        with suppress(ConnectionError):  # cut off while it was still asking
            assert await say(b"GET /healthz HTTP/1.1\r\n" + b"x" * 3 * LONGEST) == b""

    played(play)
