"""Commit queue: batches messages for the journal thread, and reports each batch on the loop.

While a batch is written the next one gathers, so that one sync serves all messages that came meanwhile. The callback that reports
a batch begins the next one; no task does, since waking a task costs a busy loop milliseconds. (A thread that begins the next
batch by itself is no faster: then both want the interpreter at once.)
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

from crescendo.network.server.service import Committed, Service, Submission
from crescendo.storage.journal.journal import GROUP, GROUP_BYTES

Batch = list[tuple[Submission, asyncio.Future[None]]]


class CommitQueue:
    """Submissions on their way to ``service``. ``connected`` lists who is told, ``taken`` gets batches, ``failed`` the error."""

    def __init__(
        self,
        service: Service,
        connected: Callable[[], list[int]],
        taken: Callable[[Batch, Committed], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._service, self._connected, self._taken, self._failed = service, connected, taken, failed
        self._waiting: deque[tuple[Submission, asyncio.Future[None]]] = deque()
        self._loop, self._hand = asyncio.get_running_loop(), ThreadPoolExecutor(1, "commit")
        self._holds = 0  # who wants nothing to be begun
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: Submission) -> asyncio.Future[None]:
        """Put an item in line; done when it is on disk or refused, and ``taken`` was told."""
        done = self._loop.create_future()
        self._waiting.append((item, done))
        self._begin()
        return done

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """What is in hand is finished first; meanwhile nothing is begun."""
        self._holds += 1
        try:
            await self._idle.wait()
            yield
        finally:
            self._holds -= 1
            self._begin()

    async def close(self) -> None:
        """Finish what is in hand. What still waits is forgotten; nobody was told of it."""
        self._holds += 1
        await self._idle.wait()
        self._hand.shutdown(wait=False)

    def _begin(self) -> None:
        if not self._waiting or self._holds or not self._idle.is_set():
            return
        batch, size = Batch(), 0
        while self._waiting and len(batch) < GROUP and size < GROUP_BYTES:
            batch.append(self._waiting.popleft())
            size += batch[-1][0].size
        self._idle.clear()
        self._hand.submit(self._take, batch, self._connected())

    def _take(self, batch: Batch, connected: list[int]) -> None:
        """In the thread."""
        outcome: Committed | BaseException
        try:
            outcome = self._service.take([item for item, _ in batch], connected)
        except BaseException as error:
            outcome = error
        with suppress(RuntimeError):  # the loop is closed, and nobody listens
            self._loop.call_soon_threadsafe(self._end, batch, outcome)

    def _end(self, batch: Batch, outcome: Committed | BaseException) -> None:
        self._idle.set()
        try:
            if isinstance(outcome, BaseException):
                raise outcome
            self._taken(batch, outcome)
        except BaseException as error:
            self._holds += 1  # for good: what is in memory is not known any more
            self._failed(error)
        self._begin()
