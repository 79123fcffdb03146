"""Parallel clients: threads compute slots ahead of the virtual clock, with the same result for any number of cores.

Theory of operation
-------------------
The simulation asks one client at a time for slots, and would wait for each. But the slots that a client computes before
its next broadcast depend on no other event in the meantime, and a rehearsal has counted them. So a thread computes
them from the moment the client starts them, and the simulation waits for the thread only when its clock reaches their
end.

Every client does the same operations in the same order as without threads: one thread at a time runs its slots, and
only the simulation changes its counters. An exception in a client's code is raised where it would be without threads.
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

_SLOTS_AT_ONCE = 4096  # between two checks for the end of the run; an interrupt waits for this many at most


class _Abandoned(Exception):
    """The run ended while a thread was computing slots for it."""


class _Threads:
    """Pool of threads that lives until the run ends, normally or by an error."""

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
    """Slots of a client's round, from ``first`` up to but excluding ``last``; with ``frame``, the round's release
    follows.

    ``model`` is the start model of the round, None if the round has already begun.
    """

    def __init__(
        self, worker: Worker, round: int, model: Floats | None, first: int, last: int, frame: Floats | None
    ) -> None:
        self._worker, self._round, self._model = worker, round, model
        self._first, self._last, self._frame = first, last, frame

    def compute(self, ended: threading.Event) -> Vector | None:
        """Compute the slots; return the round's release if it ends with them."""
        if self._model is not None:
            self._worker.lay_out(self._round, self._model)
        for h in range(self._first, self._last, _SLOTS_AT_ONCE):
            if ended.is_set():
                raise _Abandoned
            self._worker.compute(h, min(h + _SLOTS_AT_ONCE, self._last))
        return None if self._frame is None else self._worker.released(self._round, self._frame)


class EarlyWorker:
    """A worker whose slots are computed by threads ahead of the virtual clock."""

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
        """Return the work that the delay bound allows now; start a thread on slots certain to be run next."""
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
        assert self._ahead is None, "slots that a crash will lose are never started"
        self._script.pass_on()
        self._worker.restart_round()


@contextmanager
def side_by_side(
    workers: Sequence[Worker], scripts: Sequence[ClientScript], cores: int
) -> Iterator[Sequence[WorkerSide]]:
    """Yield workers of which ``cores`` compute at a time, following the scripts of a rehearsal.

    The threads end with the run. With one core the workers are returned unchanged.
    """
    if cores == 1:
        yield workers
        return
    threads = _Threads(min(cores, len(workers)))
    try:
        yield [EarlyWorker(worker, script, threads) for worker, script in zip(workers, scripts, strict=True)]
    finally:
        threads.end()
