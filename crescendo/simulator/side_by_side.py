"""Clients that compute side by side: threads run slots ahead of the virtual clock, with the same result for any number of cores.

Theory of operation
-------------------
The simulation asks one client after the other for slots, and would wait for each. But what a client computes up to the next
broadcast that it takes in depends on nothing that happens elsewhere in the meantime, and a rehearsal has told how many slots
these are. So a thread gets them as soon as the client begins with them, and the simulation waits only when its clock has come
to their end.

Every client does the same things in the same order as without: its slots are run by one thread at a time, and its counters
are touched by the simulation alone. What a client's code raises comes out where it would have come out.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from crescendo.core.arrays import Floats, Vector
from crescendo.core.client import Done, Wait, Work
from crescendo.core.messages import Broadcast, Update
from crescendo.core.sides import ClientSide, WorkerSide
from crescendo.simulator.rehearsal import ClientScript
from crescendo.worker import Worker

_SLOTS_AT_ONCE = (
    4096  # run by a thread before it looks whether the run has ended: an interrupt waits no longer than for these
)


class _Abandoned(Exception):
    """The run has ended before the slots that were being run for it."""


class _Threads:
    """Threads that compute until the run ends, however it ends."""

    def __init__(self, cores: int) -> None:
        self._pool = ThreadPoolExecutor(cores, thread_name_prefix="crescendo-client")
        self._ended = threading.Event()

    def start(self, work: _Ahead) -> Future[Vector | None]:
        context = contextvars.copy_context()  # numpy's handling of overflow is a setting of the caller's context
        return self._pool.submit(context.run, work.compute, self._ended)

    def end(self) -> None:
        self._ended.set()
        self._pool.shutdown(cancel_futures=True)


class _Ahead:
    """Slots of a client's round, from ``first`` up to but not ``last``; with ``frame`` it is released after them.

    ``model`` is where the round begins, None if it has begun.
    """

    def __init__(
        self, worker: Worker, round: int, model: Floats | None, first: int, last: int, frame: Floats | None
    ) -> None:
        self._worker, self._round, self._model = worker, round, model
        self._first, self._last, self._frame = first, last, frame

    def compute(self, ended: threading.Event) -> Vector | None:
        """The release, if there is one."""
        if self._model is not None:
            self._worker.lay_out(self._round, self._model)
        for h in range(self._first, self._last, _SLOTS_AT_ONCE):
            if ended.is_set():
                raise _Abandoned
            self._worker.compute(h, min(h + _SLOTS_AT_ONCE, self._last))
        return None if self._frame is None else self._worker.released(self._round, self._frame)


class EarlyWorker:
    """A worker whose slots are computed by threads before the clock has come to their end."""

    def __init__(self, worker: Worker, script: ClientScript, threads: _Threads) -> None:
        self._worker, self._script, self._threads = worker, script, threads
        self._ahead: Future[Vector | None] | None = None
        self._released: Vector | None = None

    @property
    def client(self) -> ClientSide:
        return self._worker.client

    @property
    def round_is_full(self) -> bool:
        return self._worker.round_is_full

    def next(self) -> Work | Wait | Done:
        """What the delay bound allows now. What is sure to be asked for next is begun."""
        todo = self._worker.next()
        if isinstance(todo, Work) and self._ahead is None:
            self._look_ahead(todo)
        return todo

    def _look_ahead(self, todo: Work) -> None:
        slots, finishes = self._script.undisturbed()
        if not slots:
            return
        model = None if self._worker.has_begun else self.client.start()
        frame = self.client.frame if finishes else None
        work = _Ahead(self._worker, todo.round, model, todo.first, todo.first + slots, frame)
        self._ahead = self._threads.start(work)

    def begin(self) -> None:
        self._script.pass_on()
        if self._ahead is None:
            self._worker.begin()

    def run(self, slots: int) -> None:
        self._script.pass_on()
        if self._ahead is None:
            self._worker.run(slots)
            return
        ahead, self._ahead = self._ahead, None
        self._released = ahead.result()
        self.client.advance(slots)

    def finish(self) -> Update:
        self._script.pass_on()
        released, self._released = self._released, None
        return self._worker.finish() if released is None else self._worker.send(released)

    def receive(self, broadcast: Broadcast) -> None:
        self._script.pass_on()
        self._worker.receive(broadcast)

    def restart_round(self) -> None:
        assert self._ahead is None, "what a crash will lose is not begun"
        self._script.pass_on()
        self._worker.restart_round()


@contextmanager
def side_by_side(
    workers: Sequence[Worker], scripts: Sequence[ClientScript], cores: int
) -> Iterator[Sequence[WorkerSide]]:
    """The same workers, of which ``cores`` compute at a time; if these are more than one, by the scripts of a rehearsal.

    When the run ends, so do their threads.
    """
    if cores == 1:
        yield workers
        return
    threads = _Threads(min(cores, len(workers)))
    try:
        yield [EarlyWorker(worker, script, threads) for worker, script in zip(workers, scripts, strict=True)]
    finally:
        threads.end()
