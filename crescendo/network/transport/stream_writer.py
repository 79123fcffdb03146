"""Stream writer: the queue of messages to write on one stream, and the loop that reads and writes it concurrently."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from crescendo.errors import PeerError
from crescendo.network.protocol.wire_messages import Refusal
from crescendo.network.transport.background import background

MAX_QUEUED = 500  # messages that wait for the other side to read them; beyond that its stream is closed
CLOSE_TIMEOUT = 5.0  # seconds in which the other side has to read the last messages before the stream is cut


class StreamWriter(ABC):
    """Writes messages, all of which are sent, and state (acknowledgements, broadcasts), of which only the newest is sent."""

    def __init__(self, encode: Callable[[Any], Any], most: int = MAX_QUEUED) -> None:
        self.closed, self._wake = asyncio.Event(), asyncio.Event()
        self._queue: deque[Any] = deque()
        self._encode, self._most = encode, most

    def send(self, message: Any) -> None:
        """Queue a message. A full queue means that the other side does not read; this closes its stream."""
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
        """Read and write until either ends or the writer is closed; ``broken`` makes the refusal after a protocol error."""
        async with background(read_all, self.write_all(context), self.closed.wait()) as tasks:
            reading, writing, _ = tasks
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            error = reading.exception() if reading.done() else None
            self.close(broken(error) if isinstance(error, PeerError) else None)
            with suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(asyncio.shield(writing), CLOSE_TIMEOUT)

    async def write_all(self, context: Any) -> None:
        """Write until the stream is closed. A broadcast once begun is finished before the newest one is sent."""
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
        """Write a long message in parts; call ``before`` before each part, once the queue is empty.

        Queued messages go out between two parts: on a slow line the whole may take minutes, and pings must get through
        meanwhile, or the other side would count as silent.
        """
        for part in parts:
            while self._queue and not self.closed.is_set():
                await context.write(self._encode(self._queue.popleft()))
            before()
            await context.write(part)

    @abstractmethod
    async def _write_newest(self, context: Any) -> bool:
        """Write the newest state that is due; return False if none is."""
