"""A simulated process: what runs in its context stops for ever when it is killed, and for a while when it is frozen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from tests.network.virtual.machine import Machine
    from tests.network.virtual.threads import Strand

CURRENT: ContextVar[Process | None] = ContextVar("the process that runs", default=None)


class Killed(BaseException):
    """The process was killed. It unwinds the stack of a thread; on the way nothing can reach the disk or the network."""


class Process:
    """One start of a program on a machine. Everything that it does carries it in its context."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.loop, self.alive = machine, machine.loop, True
        self.context = copy_context()
        self.context.run(CURRENT.set, self)
        self.strands: dict[Strand, None] = {}
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.at_end: list[Callable[[], None]] = []  # what the kernel does with a process that is gone
        self._late: list[asyncio.Handle] | None = None  # what waits until it is thawed
        self._kept: list[asyncio.Task[Any]] = []

    @property
    def is_frozen(self) -> bool:
        return self._late is not None

    def new_context(self) -> Context:
        """A context of this process, for a task or a thread."""
        return self.context.copy()

    def freeze(self) -> None:
        """It does not run, and its connections stay."""
        self._late = self._late or []

    def thaw(self) -> None:
        """Go on with what came meanwhile."""
        late, self._late = self._late or [], None
        for handle in late:
            handle._loop._ready.append(handle)  # type: ignore[attr-defined]

    def admits(self, handle: asyncio.Handle) -> bool:
        """May this run now? The event loop asks."""
        if self._late is not None:
            self._late.append(handle)
            return False
        return self.alive

    def kill(self) -> None:
        """From now on nothing of it runs. Its tasks are kept as they are, since Python would run their ``finally``."""
        if not self.alive:
            return
        self._kept = list(self.tasks)  # first: what waits for a thaw may be all that holds on to one
        self.alive, self._late = False, None
        for strand in list(self.strands):
            strand.unwind()
        for release in self.at_end:
            release()
        self.at_end.clear()

    def dispose(self) -> None:
        """Forget its tasks, at the end of a run."""
        for task in self._kept:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._kept.clear()


def current() -> Process:
    """The process that runs; `Killed` if it was killed."""
    process = CURRENT.get()
    if process is None or not process.alive:
        raise Killed
    return process
