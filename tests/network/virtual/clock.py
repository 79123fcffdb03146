"""An event loop on a virtual clock: when nothing is ready, time jumps to the next timer."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from contextvars import Context
from typing import Any

from tests.network.virtual.process import CURRENT, Process
from tests.network.virtual.threads import Strand

START = 1_000_000.0  # seconds that the machines are up at the start of a run
SINCE_1970 = 1_800_000_000.0  # what the calendar says then
CALLBACKS_AT_ONCE = 200_000  # without a step of the clock: then something loops


class Stuck(Exception):
    """Nothing will ever happen, or something happens again and again at one instant."""


class _Admitted:
    """A callback that runs if its process does."""

    _context: Context

    def _run(self) -> None:
        process: Process | None = self._context.get(CURRENT)
        if process is None or process.admits(self):  # type: ignore[arg-type]
            super()._run()  # type: ignore[misc]


class _Handle(_Admitted, asyncio.Handle):
    pass


class _Timer(_Admitted, asyncio.TimerHandle):
    pass


class VirtualLoop(asyncio.BaseEventLoop):
    """asyncio's own loop over a selector that does not wait. It does not know of sockets."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self._callbacks = START, 0
        self._clock_resolution = 1e-6
        self._selector = self
        self.failures: list[dict[str, Any]] = []
        self.set_exception_handler(lambda loop, facts: self.failures.append(facts))
        self.set_task_factory(_task)

    def time(self) -> float:
        return self.now

    def since_1970(self) -> float:
        return SINCE_1970 + self.now - START

    def select(self, timeout: float | None) -> tuple[()]:
        """Let time pass until the next timer."""
        if timeout is None:
            raise Stuck("nothing is left to happen")
        if timeout > 0:
            self.now, self._callbacks = self.now + timeout, 0
        self._callbacks += len(self._ready)  # type: ignore[attr-defined]
        if self._callbacks > CALLBACKS_AT_ONCE:
            raise Stuck(f"more than {CALLBACKS_AT_ONCE} callbacks at one instant")
        return ()

    def _process_events(self, events: object) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _call_soon(self, callback: Any, args: Any, context: Context | None) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        if executor is not None:
            return asyncio.wrap_future(executor.submit(func, *args), loop=self)
        done = self.create_future()

        def job() -> None:
            try:
                result, error = func(*args), None
            except Exception as caught:
                result, error = None, caught
            self.call_soon(_set, done, result, error)

        Strand(job).begin()
        return done


def _set(done: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if not done.done():
        done.set_result(result) if error is None else done.set_exception(error)


def _task(loop: asyncio.AbstractEventLoop, coro: Any, context: Context | None = None) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, context=context)
    process = CURRENT.get() if context is None else context.get(CURRENT)
    if process is not None:
        process.tasks.add(task)
    return task
