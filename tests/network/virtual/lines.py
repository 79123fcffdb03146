"""Lines between machines: delay, bandwidth, partitions; and pipes, which carry messages in order until they break."""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context
from typing import Any

EARLY = 1e-5  # seconds that a timer of the loop may be early
WINDOW = 1 << 16  # bytes that may be on their way before the other side reads: gRPC's flow control


class Line:
    """How a machine is connected to the rest."""

    def __init__(self) -> None:
        self.bandwidth, self.delay = self.usual = 1e7, 0.02  # bytes a second, and seconds, each way
        self.is_cut_out = self.is_cut_in = False  # what it sends is lost, what is sent to it

    @property
    def is_cut(self) -> bool:
        return self.is_cut_out or self.is_cut_in


class Pipe:
    """One direction of a connection. Messages arrive in order; `get` them, or wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop, world: Context, sender: Line, receiver: Line) -> None:
        self._loop, self._world, self._from, self._to = loop, world, sender, receiver
        self._flying: deque[tuple[float, int, Any]] = deque()
        self._arrived: deque[tuple[int, Any]] = deque()
        self._unread, self._free_at, self._last = 0, 0.0, 0.0
        self._readers: deque[asyncio.Future[None]] = deque()
        self._writers: deque[asyncio.Future[None]] = deque()
        self.is_broken = False

    async def put(self, size: int, item: Any) -> None:
        """Send, as soon as the receiver has read enough of what was sent before; ConnectionError if the pipe breaks meanwhile."""
        while self._unread >= WINDOW and not self.is_broken:
            await self._wait(self._writers)
        if self.is_broken:
            raise ConnectionError
        self.send(size, item)
        wait = self._free_at - self._loop.time() - WINDOW / self._bandwidth
        if wait > 0:
            await asyncio.sleep(wait)
        if self.is_broken:
            raise ConnectionError

    @property
    def _bandwidth(self) -> float:
        return min(self._from.bandwidth, self._to.bandwidth)

    def send(self, size: int, item: Any) -> None:
        """Put a message on the line, whatever lies on it."""
        self._unread += size
        now = self._loop.time()
        self._free_at = max(now, self._free_at) + size / self._bandwidth
        self._last = max(self._last, self._free_at + self._from.delay + self._to.delay)
        self._flying.append((self._last, size, item))
        self._loop.call_at(self._last, self._arrive, context=self._world)

    def _arrive(self) -> None:
        if self.is_broken or self._from.is_cut_out or self._to.is_cut_in:
            return  # it is sent again when the line is back
        while self._flying and self._flying[0][0] <= self._loop.time() + EARLY:
            _, size, item = self._flying.popleft()
            self._arrived.append((size, item))
            self._wake(self._readers)

    def go_on(self) -> None:
        """The line is back: what is on its way arrives."""
        soon = self._loop.time() + self._from.delay + self._to.delay
        self._flying = deque((max(at, soon), size, item) for at, size, item in self._flying)
        for at, _, _ in self._flying:
            self._loop.call_at(at, self._arrive, context=self._world)
        self._last = max(self._last, soon)

    def lose_flying(self, from_message: int = 0) -> None:
        """What the sender's machine still had is gone with it."""
        while len(self._flying) > from_message:
            self._flying.pop()

    @property
    def flying(self) -> int:
        return len(self._flying)

    @property
    def empty_at(self) -> float:
        """When all that was sent has arrived."""
        return max(self._last, self._loop.time())

    async def get(self) -> Any:
        """The next message; ConnectionError once the pipe is broken, whatever had arrived."""
        while not self._arrived and not self.is_broken:
            await self._wait(self._readers)
        if self.is_broken:
            raise ConnectionError
        size, item = self._arrived.popleft()
        self._unread -= size
        self._wake(self._writers)
        return item

    def break_off(self) -> None:
        self.is_broken = True
        self._flying.clear()
        self._arrived.clear()
        for waiting in (self._readers, self._writers):
            while waiting:
                self._wake(waiting)

    async def _wait(self, waiting: deque[asyncio.Future[None]]) -> None:
        future = self._loop.create_future()
        waiting.append(future)
        try:
            await future
        finally:
            if future in waiting:
                waiting.remove(future)

    @staticmethod
    def _wake(waiting: deque[asyncio.Future[None]]) -> None:
        while waiting:
            future = waiting.popleft()
            if not future.done():
                future.set_result(None)
                return
