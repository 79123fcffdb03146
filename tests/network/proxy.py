"""A bad network between clients and server: connections that are cut, held up, slow, and closed in one direction only."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class BadNetwork:
    """Forwards from a port of its own to ``to``. Every connection dies after a random number of bytes, some of them slowly."""

    def __init__(self, to: int, rng: random.Random, most_bytes: int = 6_000) -> None:
        self._to, self._rng, self._most = to, rng, most_bytes
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0
        self.cuts = 0
        self.calm = False  # from now on nothing goes wrong
        self._server: asyncio.Server | None = None

    def __enter__(self) -> BadNetwork:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.close()
            return
        budget = [self._rng.randrange(self._most)]
        one_way = self._rng.random() < 0.2  # when it dies, one direction goes on for a while
        ways = [
            asyncio.ensure_future(self._pump(reader, to_writer, budget)),
            asyncio.ensure_future(self._pump(to_reader, writer, budget)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if one_way and not self.calm:
                await asyncio.wait(ways, timeout=0.2)
        finally:
            for way in ways:
                way.cancel()
            for end in (writer, to_writer):
                with suppress(OSError):
                    end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: list[int]) -> None:
        with suppress(OSError):
            while data := await reader.read(4096):
                if not self.calm:
                    budget[0] -= len(data)
                    if budget[0] < 0:
                        self.cuts += 1
                        writer.write(data[: len(data) // 2])  # the rest is lost with the connection
                        return
                    if self._rng.random() < 0.1:
                        await asyncio.sleep(self._rng.uniform(0, 0.03))  # held up: later bytes of others overtake
                writer.write(data)
                await writer.drain()


class SlowLine:
    """One party's line to ``to``: so many bytes a second each way, and every ``cut_every`` seconds all its connections end.

    What it takes in before it can carry it is small, so that a cut loses what a real line would lose. `carried` counts the bytes
    that came out at the other end, up and down.
    """

    HELD = 16 << 10  # bytes that are read at once

    def __init__(self, to: int, bytes_per_second: float, cut_every: float) -> None:
        self._to, self._rate, self._cut_every = to, bytes_per_second, cut_every
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._free = {"up": 0.0, "down": 0.0}  # when the line has carried what was given to it
        self.carried = {"up": 0, "down": 0}
        self.port = self.cuts = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(60)
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    async def _listen(self) -> None:
        door = _narrow(socket.socket())
        door.bind(("127.0.0.1", 0))
        self._server = await asyncio.start_server(self._carry, sock=door, limit=self.HELD)
        self.port = door.getsockname()[1]
        self._tasks.append(asyncio.create_task(self._cut()))

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _cut(self) -> None:
        while True:
            await asyncio.sleep(self._cut_every)
            self._end_all()

    def _end_all(self) -> None:
        self.cuts += bool(self._open)
        for end in self._open:
            end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = _narrow(socket.socket())
        there.setblocking(False)
        try:
            await self._loop.sock_connect(there, ("127.0.0.1", self._to))
        except OSError:
            writer.close()
            return
        to_reader, to_writer = await asyncio.open_connection(sock=there, limit=self.HELD)
        self._open |= {writer, to_writer}
        try:
            ways = self._pump("up", reader, to_writer), self._pump("down", to_reader, writer)
            await asyncio.wait([asyncio.ensure_future(way) for way in ways], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open -= {writer, to_writer}
            for end in (writer, to_writer):
                with suppress(OSError):
                    end.transport.abort()

    async def _pump(self, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(self.HELD):
                begin = max(self._loop.time(), self._free[way])
                self._free[way] = begin + len(data) / self._rate
                await asyncio.sleep(self._free[way] - self._loop.time())
                writer.write(data)
                self.carried[way] += len(data)
                await writer.drain()


class Gate(SlowLine):
    """A line of any speed that is cut when a test says so, and stays cut until it says that it is up again."""

    def __init__(self, to: int) -> None:
        super().__init__(to, bytes_per_second=float("inf"), cut_every=float("inf"))
        self._is_down = False

    def down(self) -> None:
        """End what is open; what comes from now on finds no server."""
        self._is_down = True
        self._loop.call_soon_threadsafe(self._end_all)

    def up(self) -> None:
        """Carry what comes from now on."""
        self._is_down = False

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_down:
            writer.transport.abort()
        else:
            await super()._carry(reader, writer)


def _narrow(one: socket.socket) -> socket.socket:
    """The system shall take in little that was not carried yet."""
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 << 10)
    return one


class CutOnce:
    """Forwards from a port of its own to ``to``. After so many bytes up, or down, the connection that carries them ends, once."""

    def __init__(self, to: int, way: str, after: int) -> None:
        self._to, self._way, self._left = to, way, after
        self.port = 0
        self.carried = {"up": 0, "down": 0}
        self.is_cut = False
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> CutOnce:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._to)
        ways = self._pump("up", reader, to_writer), self._pump("down", to_reader, writer)
        await asyncio.wait([asyncio.ensure_future(way) for way in ways], return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, to_writer):
            end.close()

    async def _pump(self, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(4096):
                if way == self._way and not self.is_cut:
                    self.is_cut, data = len(data) > self._left, data[: self._left]
                    self._left -= len(data)
                writer.write(data)
                self.carried[way] += len(data)
                await writer.drain()
                if self.is_cut and self._left == 0 and way == self._way:
                    self._left = -1
                    return
