"""Health: the standard gRPC health check on the server's port, and ``GET /healthz`` on a separate port."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2

from crescendo import system
from crescendo.errors import UsageError
from crescendo.network.protocol.wire_messages import SERVICE
from crescendo.network.transport.channels import parsed
from crescendo.network.transport.pending_streams import PendingStreams
from crescendo.network.transport.security.address import Address

LONGEST = 8192
PATIENCE = 5.0
MOST_OPEN = 16  # connections; a newer one replaces the oldest
NOTHING_HERE = "there is nothing here; this port answers GET /healthz and nothing else"


def health_handlers(pending: PendingStreams, is_serving: Callable[[], bool]) -> Any:
    """Return the handlers of ``grpc.health.v1.Health/Check``, to add to a gRPC server.

    There is no ``Watch``, because it would hold streams open for any peer. A peer that opens a check and sends nothing is
    pending like any other.
    """

    async def check(requests: Any, context: Any) -> None:
        request = await pending.first_message(context)
        if request is None:
            return
        if request.service not in ("", SERVICE):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"this server serves {SERVICE}")
        status = health_pb2.HealthCheckResponse.SERVING if is_serving() else health_pb2.HealthCheckResponse.NOT_SERVING
        await pending.send_last(context, [health_pb2.HealthCheckResponse(status=status)])

    handler = grpc.stream_stream_rpc_method_handler(
        check,
        request_deserializer=parsed(health_pb2.HealthCheckRequest),
        response_serializer=health_pb2.HealthCheckResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(health.SERVICE_NAME, {"Check": handler})


class HealthPage:
    """``GET /healthz`` on HOST:PORT. It answers every request unencrypted, so it allows only addresses of this machine."""

    def __init__(self, address: str) -> None:
        self.address, (self._host, self._port) = address, Address(address).host_and_port()
        if address.startswith("unix:") or not Address(address).is_loopback:
            raise UsageError(
                f"{address} is not a loopback address, and /healthz has no lock; write for example 127.0.0.1:8080"
            )

    @contextmanager
    def meanwhile(self, facts: dict[str, Any]) -> Iterator[None]:
        """Answer with these facts from a separate thread while the block runs, which may take a minute."""
        started: Future[Callable[[], object]] = Future()

        async def answer() -> None:
            loop, over = asyncio.get_running_loop(), asyncio.Event()
            server = await self.serve(lambda: facts)
            started.set_result(lambda: loop.call_soon_threadsafe(over.set))
            await over.wait()
            server.close()

        def run() -> None:
            try:
                asyncio.run(answer())
            except UsageError as error:
                started.set_exception(error)

        thread = system.Thread(target=run, name="health", daemon=True)
        thread.start()
        stop = started.result()
        try:
            yield
        finally:
            stop()
            thread.join()

    async def serve(self, facts: Callable[[], dict[str, Any]]) -> asyncio.Server:
        """Answer until the server is closed."""

        there: dict[asyncio.StreamWriter, None] = {}  # oldest first

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there[writer] = None
            if len(there) > MOST_OPEN:
                oldest = next(iter(there))
                del there[oldest]  # now: its own task may run only after hundreds of others
                oldest.transport.abort()
            try:
                # read to the end of the headers: closing with unread data would make the kernel discard the answer
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
                found = head.split(b" ")[:2] == [b"GET", b"/healthz"]
                body = json.dumps(facts() if found else {"error": NOTHING_HERE}).encode() + b"\n"
                status = b"200 OK" if found else b"404 Not Found"
                writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\nConnection: close\r\n")
                writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
                await asyncio.wait_for(writer.drain(), PATIENCE)
            except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass  # the monitor has gone, or never sent a request
            finally:
                there.pop(writer, None)
                writer.close()

        try:
            # asyncio accepts as many connections at once as the backlog, before it can close any of them
            return await asyncio.start_server(answer, self._host, self._port, limit=LONGEST, backlog=MOST_OPEN)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"{self.address} cannot be listened on ({reason}); is the port in use?") from None
