"""The commit queue: batches gather behind the one in hand, nothing is begun while it is held or after a failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crescendo.network.server.commit_queue import MAX_BATCH, MAX_BATCH_BYTES, Batch, CommitQueue
from crescendo.network.server.service import Committed, Submission
from crescendo.storage.journal.journal_entries import Received

SOON = 60.0


class Disk:
    """A service whose disk lets a batch through when it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)
        self.broken = False

    def process(self, items: list[Submission], connected: list[int]) -> Committed:
        self.batches.append([item.client for item in items])
        self.begun.release()
        assert self.may_end.acquire(timeout=SOON)
        if self.broken:
            raise OSError("no space")
        return Committed({}, len(self.batches), None, {})

    async def wait(self) -> None:
        """Until the next batch is in hand."""
        assert await asyncio.to_thread(self.begun.acquire, timeout=SOON)


class Played:
    """A queue over such a disk, and what it told."""

    def __init__(self) -> None:
        self.disk, self.taken, self.failures = Disk(), list[list[int]](), list[BaseException]()
        self.queue = CommitQueue(self.disk, list, self._on_taken, self.failures.append)  # type: ignore[arg-type]

    def _on_taken(self, batch: Batch, said: Committed) -> None:
        self.taken.append([item.client for item in batch])
        for item in batch:
            assert item.done is not None
            item.done.set_result(None)

    def add(self, *clients: int, size: int = 0) -> list[asyncio.Future[None]]:
        return [self.queue.add(Submission(c, Received(0, c, "float64", bytes(size)))) for c in clients]


def play(body: Callable[[Played], Awaitable[Any]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(SOON):
            await body(Played())

    asyncio.run(run())


def test_what_comes_while_a_batch_is_written_is_the_next() -> None:
    async def body(on: Played) -> None:
        first = on.add(0)
        await on.disk.wait()
        rest = on.add(*range(1, MAX_BATCH + 3))
        on.disk.may_end.release(3)
        await asyncio.gather(*first, *rest)
        assert on.disk.batches == on.taken == [[0], list(range(1, MAX_BATCH + 1)), [MAX_BATCH + 1, MAX_BATCH + 2]]
        await on.queue.close()

    play(body)


def test_a_batch_ends_with_the_message_that_makes_it_large() -> None:
    async def body(on: Played) -> None:
        async with on.queue.paused():
            all_of_them = on.add(0, 1, 2, size=MAX_BATCH_BYTES // 2)
        on.disk.may_end.release(2)
        await asyncio.gather(*all_of_them)
        assert on.taken == [[0, 1], [2]]
        await on.queue.close()

    play(body)


def test_whoever_holds_the_line_waits_for_what_is_in_hand_and_nothing_else_is_begun() -> None:
    async def body(on: Played) -> None:
        on.add(0)
        await on.disk.wait()
        (waiting,) = on.add(1)
        on.disk.may_end.release()
        async with on.queue.paused():
            assert on.taken == [[0]]
            on.add(2)
            await asyncio.sleep(0)
            assert on.disk.batches == [[0]] and len(on.queue) == 2
        on.disk.may_end.release()
        await waiting
        assert on.taken == [[0], [1, 2]]
        await on.queue.close()

    play(body)


def test_closing_finishes_what_is_in_hand_and_forgets_the_rest() -> None:
    async def body(on: Played) -> None:
        on.add(0)
        await on.disk.wait()
        (rest,) = on.add(1)
        closing = asyncio.create_task(on.queue.close())
        on.disk.may_end.release()
        await closing
        on.add(2)
        await asyncio.sleep(0)
        assert on.taken == on.disk.batches == [[0]] and not rest.done()

    play(body)


@pytest.mark.parametrize("where", ["the disk", "telling"])
def test_after_a_failure_nothing_is_taken_and_it_is_said_why(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(on: Played) -> None:
        if where == "the disk":
            on.disk.broken = True
        else:
            monkeypatch.setattr(on.queue, "_committed", lambda batch, said: [].pop())
        on.add(0)
        await on.disk.wait()
        (rest,) = on.add(1)
        on.disk.may_end.release()
        async with on.queue.paused():
            assert [type(error) for error in on.failures] == [OSError if where == "the disk" else IndexError]
        on.add(2)
        await asyncio.sleep(0)
        assert on.disk.batches == [[0]] and not rest.done()
        await on.queue.close()

    play(body)
