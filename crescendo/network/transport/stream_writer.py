"""Stream writer: what waits to be written on one stream, and how a stream is read and written side by side."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from crescendo.errors import PeerError
from crescendo.network.protocol.wire_messages import Refusal
from crescendo.network.transport.background import background

MAX_QUEUED = 500  # messages that wait for the other side to read them; then its stream is closed
CLOSE_TIMEOUT = 5.0  # seconds after which a stream is cut whose other side does not read the last messages


class StreamWriter(ABC):
    """Messages, none of which may be lost, and state (acknowledgements, broadcasts), of which only the newest waits."""

    def __init__(self, encode: Callable[[Any], Any], most: int = MAX_QUEUED) -> None:
        self.closed, self._wake = asyncio.Event(), asyncio.Event()
        self._queue: deque[Any] = deque()
        self._encode, self._most = encode, most

    def send(self, message: Any) -> None:
        """Queue a message. Few of these ever wait; if there are too many the other side does not read, and is cut."""
        if len(self._queue) >= self._most:
            self.closed.set()
        else:
            self._queue.append(message)
        self._wake.set()

    def close(self, refusal: Refusal | None = None) -> None:
        """End the stream, after a last message."""
        if refusal is not None:
            self.send(refusal)
        self.closed.set()
        self._wake.set()

    async def run(
        self, context: Any, read_all: Coroutine[Any, Any, None], broken: Callable[[PeerError], Refusal]
    ) -> None:
        """Read and write until one of both ends or the writer is closed; ``broken`` answers what breaks the protocol."""
        async with background(read_all, self.write_all(context), self.closed.wait()) as tasks:
            reading, writing, _ = tasks
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            error = reading.exception() if reading.done() else None
            self.close(broken(error) if isinstance(error, PeerError) else None)
            with suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(asyncio.shield(writing), CLOSE_TIMEOUT)

    async def write_all(self, context: Any) -> None:
        """Write until the stream is closed. A broadcast that was begun is finished, then the newest one follows."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while await self._write_one(context):
                pass
            if self.closed.is_set():
                return

    async def _write_one(self, context: Any) -> bool:
        if self._queue:
            await context.write(self._encode(self._queue.popleft()))
            return True
        return not self.closed.is_set() and await self._write_newest(context)

    async def _write_parts(self, context: Any, parts: Iterable[Any], before: Callable[[], None] = lambda: None) -> None:
        """Write a long message; ``before`` is called before each part, when nothing else waits.

        What waits in the queue goes out between two parts: on a slow line the whole may take minutes, in which the other side
        has to hear a ping, or it would count as silent.
        """
        for part in parts:
            while self._queue and not self.closed.is_set():
                await context.write(self._encode(self._queue.popleft()))
            before()
            await context.write(part)

    @abstractmethod
    async def _write_newest(self, context: Any) -> bool:
        """Write the newest state that is due; False if nothing is."""
