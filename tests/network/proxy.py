"""A bad network between clients and server: connections that are cut, held up, and closed in one direction only."""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import suppress
from types import TracebackType


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
