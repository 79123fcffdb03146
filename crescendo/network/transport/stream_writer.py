"""The writing half of a stream, the same for one client and for an aggregator with many; and both halves run together."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from crescendo.errors import PeerError
from crescendo.network.protocol.wire_messages import Refusal

MAX_QUEUED = 500  # that wait for the other side to read them; then its stream is closed
LAST_WORDS = 5.0  # seconds after which a stream is cut whose other side does not read what was said last


class StreamWriter(ABC):
    """What is to be said on a stream: words, none of which may be lost, and news, of which only the newest waits."""

    def __init__(self, most: int = MAX_QUEUED) -> None:
        self.closed, self._wake = asyncio.Event(), asyncio.Event()
        self._words: deque[Any] = deque()
        self._most = most

    def say(self, message: Any) -> None:
        """Say something that must not be lost on the way; few of these ever wait, or the other side does not read."""
        if len(self._words) >= self._most:
            self.closed.set()
        else:
            self._words.append(message)
        self._wake.set()

    def close(self, refusal: Refusal | None = None) -> None:
        """End the stream, after a last word."""
        if refusal is not None:
            self.say(refusal)
        self.closed.set()
        self._wake.set()

    async def write_all(self, context: Any) -> None:
        """Write what there is to say until the stream is closed. A broadcast that was begun is finished, then the newest goes."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while await self._write_one(context):
                pass
            if self.closed.is_set():
                return

    async def _write_one(self, context: Any) -> bool:
        if self._words:
            await context.write(self._worded(self._words.popleft()))
            return True
        return not self.closed.is_set() and await self._write_news(context)

    @abstractmethod
    def _worded(self, message: Any) -> Any:
        """A word as it is written."""

    @abstractmethod
    async def _write_news(self, context: Any) -> bool:
        """Write the newest of something that is due; False if nothing is."""


async def run_stream(
    writer: StreamWriter, context: Any, read_all: Coroutine[Any, Any, None], broken: Callable[[PeerError], Refusal]
) -> None:
    """Read and write until one of both ends or the writer is closed. What breaks the protocol is answered with ``broken``."""
    tasks = [asyncio.create_task(run) for run in (read_all, writer.write_all(context), writer.closed.wait())]
    reading, writing = tasks[:2]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        error = reading.exception() if reading.done() else None
        if isinstance(error, PeerError):
            writer.close(broken(error))
        writer.close()
        with suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(writing), LAST_WORDS)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
