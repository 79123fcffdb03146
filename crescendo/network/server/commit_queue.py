"""Commit queue: batches messages for the journal thread, and reports each batch on the loop.

While a batch is written the next one gathers, so that one sync serves all messages that arrived meanwhile. The callback that
reports a batch begins the next one. A task would be slower, because waking it costs a busy loop milliseconds. A thread that
begins the next batch itself is no faster either: thread and loop then compete for the interpreter.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from crescendo import system
from crescendo.network.server.service import Committed, Service, Submission

MAX_BATCH = 64  # messages that are synced together; why not 20: docs/decisions.md
MAX_BATCH_BYTES = 4 << 20  # bytes of a batch: large messages must not delay the first ones

Batch = list[Submission]


class CommitQueue:
    """Submissions on their way to ``service``. ``connected`` lists the clients that get the broadcasts. ``committed`` is called
    with each batch before its futures are set, ``failed`` with an error, which ends the queue for good."""

    def __init__(
        self,
        service: Service,
        connected: Callable[[], list[int]],
        committed: Callable[[Batch, Committed], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._service, self._connected, self._committed, self._failed = service, connected, committed, failed
        self._waiting: deque[Submission] = deque()
        self._loop, self._thread = asyncio.get_running_loop(), system.ThreadPoolExecutor(1, "commit")
        self._pauses = 0  # callers that hold back the next batch
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, submission: Submission) -> asyncio.Future[None]:
        """Queue a submission; done when it is on disk or refused, and ``committed`` was called."""
        done = submission.done = self._loop.create_future()
        self._waiting.append(submission)
        self._begin()
        return done

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Wait for the current batch, and begin no other within the block."""
        self._pauses += 1
        try:
            await self._idle.wait()
            yield
        finally:
            self._pauses -= 1
            self._begin()

    async def close(self) -> None:
        """Finish the current batch. Submissions that still wait are dropped; none of them was acknowledged."""
        self._pauses += 1
        await self._idle.wait()
        self._thread.shutdown(wait=False)

    def _begin(self) -> None:
        if not self._waiting or self._pauses or not self._idle.is_set():
            return
        batch, size = Batch(), 0
        while self._waiting and len(batch) < MAX_BATCH and size < MAX_BATCH_BYTES:
            batch.append(self._waiting.popleft())
            size += batch[-1].size
        self._idle.clear()
        self._thread.submit(self._process, batch, self._connected())

    def _process(self, batch: Batch, connected: list[int]) -> None:
        """Process a batch, in the thread."""
        outcome: Committed | BaseException
        try:
            outcome = self._service.process(batch, connected)
        except BaseException as error:
            outcome = error
        with suppress(RuntimeError):  # the loop is closed, and no client is connected
            self._loop.call_soon_threadsafe(self._end, batch, outcome)

    def _end(self, batch: Batch, outcome: Committed | BaseException) -> None:
        self._idle.set()
        try:
            if isinstance(outcome, BaseException):
                raise outcome
            self._committed(batch, outcome)
        except BaseException as error:
            self._pauses += 1  # for good: the state in memory is no longer known
            self._failed(error)
        self._begin()
