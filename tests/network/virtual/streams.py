"""gRPC's streams in memory: what `crescendo.network.transport.channels` asks of `grpc.aio`, over `lines`.

Every message is made into bytes on one side and parsed on the other. A stream ends as gRPC's do: the client's `read` raises what
the call came to, the server's handler is cancelled. A connection whose other end vanished is noticed by its keepalive, after 20
to 30 seconds. Of a killed process the system still sends what it had taken over, up to some message.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import Any, NamedTuple

import grpc
import grpc.aio

from tests.network.virtual.lines import Pipe
from tests.network.virtual.process import Process, current

OVERHEAD = 60  # bytes of a message besides its own
HEARD_LATE = (20.0, 30.0)  # seconds after which keepalive notices
CONNECT_TIMEOUT = 20.0
FINISHED = "RPC already finished."


class _Status(NamedTuple):
    """What a call came to."""

    code: grpc.StatusCode
    details: str = ""
    is_local: bool = False


class _End(NamedTuple):
    """The last thing on a pipe: a half-close, or how the server ended the call."""

    status: _Status | None = None


class Network:
    """Who listens where, and the connections between."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: Random, world: Context) -> None:
        self.loop, self.rng, self.world = loop, rng, world
        self.listeners: dict[str, Listener] = {}
        self.calls: dict[Call, None] = {}
        self.tap: Callable[[Process, Any], None] = lambda process, message: None  # sees what clients send
        self.tap_down: Callable[[Process, Any, int], None] = lambda process, message, size: None
        self.machines: dict[str, Any] = {}  # by the address that they listen on
        self.attempts, self.most_attempts = Counter[tuple[Any, int]](), Counter[Any]()  # streams, in a minute
        self.breaks = 0  # connections that were reset
        self._ports = 40_000

    # -- in place of grpc.aio ------------------------------------------------------------------------------------------------

    def server(self, options: Any = ()) -> Listener:
        return Listener(self, current())

    def channel(self, address: str, options: Any = ()) -> Channel:
        return Channel(self, address)

    # -- what goes wrong -----------------------------------------------------------------------------------------------------

    def reset(self, machine: Any) -> None:
        """Every connection of a machine breaks, and both ends notice."""
        for call in [call for call in self.calls if machine in call.ends]:
            self.breaks += 1
            call.reset("Socket closed")

    def cut(self, machine: Any, outward: bool = True, inward: bool = True) -> None:
        """What a machine sends, or what is sent to it, does not arrive until `mend`."""
        machine.line.is_cut_out, machine.line.is_cut_in = outward, inward
        for call in self.calls:
            if machine in call.ends:
                call.watch()

    def mend(self, machine: Any) -> None:
        machine.line.is_cut_out = machine.line.is_cut_in = False
        for call in self.calls:
            if machine in call.ends and not call.is_cut:
                call.go_on()

    def vanish(self, process: Process, power: bool) -> None:
        """A process is gone, or its machine without a word."""
        for address, listener in list(self.listeners.items()):
            if listener.process is process:
                del self.listeners[address]
        for call in [call for call in self.calls if process in (call.process, call.server_process)]:
            call.lose(process, power)

    def note_attempt(self, machine: Any) -> None:
        minute = int(self.loop.time() // 60)
        self.attempts[machine, minute] += 1
        self.most_attempts[machine] = max(self.most_attempts[machine], self.attempts[machine, minute])

    def next_port(self) -> int:
        self._ports += 1
        return self._ports


class Listener:
    """A server that listens."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network, self.process, self._handlers = network, process, list[Any]()
        self._address = ""
        self.tasks: set[asyncio.Task[Any]] = set()

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        self._handlers += handlers

    def add_insecure_port(self, address: str) -> int:
        self._address = address
        return 1

    async def start(self) -> None:
        self._network.listeners[self._address] = self

    async def stop(self, grace: float | None) -> None:
        if self._network.listeners.get(self._address) is self:
            del self._network.listeners[self._address]
        if self.tasks and grace:
            await asyncio.wait(self.tasks, timeout=grace)
        for task in self.tasks:
            task.cancel()

    def handler(self, path: str) -> Any:
        details = _Details(path)
        found = [made for made in (one.service(details) for one in self._handlers) if made is not None]
        return found[0] if found else None


class _Details(NamedTuple):
    method: str
    invocation_metadata: tuple[()] = ()


class Channel:
    """A client's connection; it has one stream."""

    def __init__(self, network: Network, address: str) -> None:
        self._network, self._address = network, address
        self._calls: list[Call] = []

    def stream_stream(self, path: str, request_serializer: Any, response_deserializer: Any) -> Callable[[], Call]:
        def begin() -> Call:
            call = Call(self._network, self._address, path, request_serializer, response_deserializer)
            self._calls.append(call)
            return call

        return begin

    async def close(self) -> None:
        for call in self._calls:
            call.cancel()


class Call:
    """One stream, as its client sees it."""

    def __init__(self, network: Network, address: str, path: str, serialize: Any, parse: Any) -> None:
        self._network, self._address, self._path = network, address, path
        self._serialize, self._parse = serialize, parse
        self.process = current()
        self.server_process: Process | None = None
        self._status: _Status | None = None
        self._connected = network.loop.create_future()
        self._up: Pipe | None = None
        self._down: Pipe | None = None
        self._task: asyncio.Task[Any] | None = None  # of the server
        self._half_closed = False
        network.calls[self] = None
        network.note_attempt(self.process.machine)
        network.loop.call_later(self._trip, self._connect, context=network.world)

    @property
    def _trip(self) -> float:
        return 3 * float(self.process.machine.line.delay) + 0.001

    @property
    def ends(self) -> tuple[Any, ...]:
        return (self.process.machine, None if self.server_process is None else self.server_process.machine)

    @property
    def is_cut(self) -> bool:
        return any(end is not None and end.line.is_cut for end in self.ends)

    def _connect(self) -> None:
        network, loop = self._network, self._network.loop
        if self._status is not None or not self.process.alive:
            return
        listener = network.listeners.get(self._address)
        machine = network.machines.get(self._address)
        lines = [self.process.machine.line, *([] if machine is None else [machine.line])]
        if any(line.is_cut for line in lines) or (listener is not None and listener.process.is_frozen):
            loop.call_later(CONNECT_TIMEOUT, self._refused, "connection attempt timed out", context=network.world)
            return
        if listener is None:
            self._refused("Connection refused")
            return
        handler = listener.handler(self._path)
        self.server_process = listener.process
        here, there = self.process.machine.line, listener.process.machine.line
        self._up, self._down = Pipe(loop, network.world, here, there), Pipe(loop, network.world, there, here)
        context = ServerContext(self, handler, self._up, self._down, network.next_port())
        self._task = loop.create_task(context.serve(handler), context=listener.process.new_context())
        listener.tasks.add(self._task)
        self._task.add_done_callback(listener.tasks.discard)
        if not self._connected.done():
            self._connected.set_result(None)

    def _refused(self, why: str) -> None:
        self._end(_Status(grpc.StatusCode.UNAVAILABLE, f"failed to connect to all addresses; last error: {why}"))

    def _end(self, status: _Status) -> None:
        """The call has come to its end, as far as the client is concerned."""
        if self._status is None:
            self._status = status
            self._network.calls.pop(self, None)
            for pipe in (self._up, self._down):
                if pipe is not None:
                    pipe.break_off()
            if not self._connected.done():
                self._connected.set_result(None)

    # -- for the client --------------------------------------------------------------------------------------------------------

    async def write(self, message: Any) -> None:
        current()
        if self._status is not None or self._half_closed:
            raise asyncio.InvalidStateError(FINISHED)
        try:
            await asyncio.shield(self._connected)
            self._raise_if_over()
            self._network.tap(self.process, message)
            data = self._serialize(message)
            assert self._up is not None
            await self._up.put(len(data) + OVERHEAD, data)
        except ConnectionError:
            self._raise_if_over()
        except asyncio.CancelledError:
            self.cancel()
            raise

    async def read(self) -> Any:
        current()
        if self._status is None:
            try:
                await asyncio.shield(self._connected)
                if self._down is not None and self._status is None:
                    item = await self._down.get()
                    if not isinstance(item, _End):
                        return self._parse(item)
                    assert item.status is not None
                    self._end(item.status)
            except ConnectionError:
                pass
            except asyncio.CancelledError:
                self.cancel()
                raise
        self._raise_if_over()
        return grpc.aio.EOF

    async def details(self) -> str:
        return "" if self._status is None else self._status.details

    async def done_writing(self) -> None:
        if self._status is None and not self._half_closed:
            self._half_closed = True
            await asyncio.shield(self._connected)
            if self._up is not None and not self._up.is_broken:
                self._up.send(OVERHEAD, _End())

    def cancel(self) -> bool:
        current()
        if self._status is not None:
            return False
        pipe = self._up
        at = self._network.loop.time() if pipe is None else pipe.empty_at
        self._tell_server(at if not self.is_cut else at + self._network.rng.uniform(*HEARD_LATE))
        self._status = _Status(grpc.StatusCode.CANCELLED, "Locally cancelled by application!", True)
        self._network.calls.pop(self, None)
        if self._down is not None:
            self._down.break_off()
        if not self._connected.done():
            self._connected.set_result(None)
        return True

    def _raise_if_over(self) -> None:
        status = self._status
        if status is None or status.code is grpc.StatusCode.OK:
            return
        if status.is_local:
            raise asyncio.CancelledError
        metadata = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(status.code, metadata, metadata, details=status.details)

    # -- what goes wrong -------------------------------------------------------------------------------------------------------

    def _tell_server(self, at: float) -> None:
        """The server's side learns that the stream is over."""
        up, down, task = self._up, self._down, self._task

        def over() -> None:
            for pipe in (up, down):
                if pipe is not None:
                    pipe.break_off()
            if task is not None and not task.done():
                task.cancel()

        context = self._network.world if self.server_process is None else self.server_process.context
        self._network.loop.call_at(at, over, context=context)

    def reset(self, why: str) -> None:
        """Both ends notice."""
        self._tell_server(self._network.loop.time())
        self._tell_client(self._network.loop.time(), why)

    def _tell_client(self, at: float, why: str) -> None:
        status = _Status(grpc.StatusCode.UNAVAILABLE, why)
        self._network.loop.call_at(at, self._end, status, context=self.process.context)

    def watch(self) -> None:
        """The line is cut: each end notices by itself, if it stays so."""
        loop, rng = self._network.loop, self._network.rng

        def look(tell: Callable[[], None]) -> None:
            if self.is_cut and self in self._network.calls:
                tell()

        client, server = loop.time() + rng.uniform(*HEARD_LATE), loop.time() + rng.uniform(*HEARD_LATE)
        loop.call_at(
            client, look, lambda: self._tell_client(loop.time(), "keepalive timed out"), context=self._network.world
        )
        loop.call_at(server, look, lambda: self._tell_server(loop.time()), context=self._network.world)

    def go_on(self) -> None:
        for pipe in (self._up, self._down):
            if pipe is not None and not pipe.is_broken:
                pipe.go_on()

    def lose(self, process: Process, power: bool) -> None:
        """One end is gone. Its system sends what it had, and closes the connection, unless the whole machine is gone."""
        loop, rng = self._network.loop, self._network.rng
        own = self._up if process is self.process else self._down
        if own is not None:
            own.lose_flying(0 if power else rng.randint(0, own.flying))
        silent = power or self.is_cut
        at = loop.time() + rng.uniform(*HEARD_LATE) if silent else loop.time() if own is None else own.empty_at
        if process is self.process:
            self._network.calls.pop(self, None)
            self._tell_server(at)
        else:
            self._tell_client(at, "keepalive timed out" if silent else "Socket closed")


class ServerContext:
    """One stream, as its server's handler sees it."""

    def __init__(self, call: Call, handler: Any, up: Pipe, down: Pipe, port: int) -> None:
        self._call, self._handler, self._up, self._down, self._port = call, handler, up, down, port
        self._status = _Status(grpc.StatusCode.OK)
        self._read_all = False

    async def serve(self, handler: Any) -> None:
        if handler is None:
            self._status = _Status(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        else:
            try:
                await handler.stream_stream(None, self)
            except grpc.aio.AbortError:
                pass
            except asyncio.CancelledError:
                self._status = _Status(grpc.StatusCode.CANCELLED, "cancelled by the server")
            except grpc.aio.BaseError:  # the client was gone when something was written
                self._status = _Status(grpc.StatusCode.CANCELLED, "the client is gone")
            except Exception as error:
                self._status = _Status(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}")
                current().machine.failed(error)
        if not self._down.is_broken:
            self._down.send(OVERHEAD, _End(self._status))

    async def read(self) -> Any:
        current()
        if self._read_all:
            return grpc.aio.EOF
        try:
            item = await self._up.get()
        except ConnectionError:
            return grpc.aio.EOF
        if isinstance(item, _End):
            self._read_all = True
            return grpc.aio.EOF
        return self._handler.request_deserializer(item)

    async def write(self, message: Any) -> None:
        process = current()
        data = self._handler.response_serializer(message)
        self._call._network.tap_down(process, message, len(data))
        try:
            await self._down.put(len(data) + OVERHEAD, data)
        except ConnectionError:
            raise grpc.aio.InternalError(FINISHED) from None

    async def send_initial_metadata(self, metadata: Any) -> None:
        pass

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> None:
        self._status = _Status(code, details)
        raise grpc.aio.AbortError

    def set_code(self, code: grpc.StatusCode) -> None:
        self._status = self._status._replace(code=code)

    def set_details(self, details: str) -> None:
        self._status = self._status._replace(details=details)

    def peer(self) -> str:
        return f"ipv4:10.0.0.{self._call.process.machine.number}:{self._port}"

    def auth_context(self) -> dict[str, Any]:
        return {}
