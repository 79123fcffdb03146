"""Health: ``GET /healthz`` answers with one line of JSON about the process, for a monitor; nothing else is served there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from crescendo.errors import UsageError
from crescendo.network.transport.security import host_and_port, is_loopback

LONGEST = 8192
PATIENCE = 5.0
NOTHING_HERE = "there is nothing here; this port answers GET /healthz and nothing else"


def check_health(address: str) -> None:
    """It answers every request, in the clear: so it stays on this machine, with certificates too."""
    host_and_port(address)
    if address.startswith("unix:") or not is_loopback(address):
        raise UsageError(
            f"{address} is not a loopback address, and /healthz has no lock; write for example 127.0.0.1:8080"
        )


async def serve_health(address: str, facts: Callable[[], dict[str, Any]]) -> asyncio.Server:
    """Answer on HOST:PORT until the server is closed."""
    check_health(address)
    host, port = host_and_port(address)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # to the end of the headers: closing on what was not read would make the kernel take the answer back
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
            found = head.split(b" ")[:2] == [b"GET", b"/healthz"]
            body = json.dumps(facts() if found else {"error": NOTHING_HERE}).encode() + b"\n"
            status = b"200 OK" if found else b"404 Not Found"
            writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\nConnection: close\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await asyncio.wait_for(writer.drain(), PATIENCE)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the monitor is gone, or never asked
        finally:
            writer.close()

    try:
        return await asyncio.start_server(answer, host, port, limit=LONGEST)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{address} cannot be listened on ({reason}); is the port in use?") from None
