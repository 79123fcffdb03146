"""Threads that take turns: each has a real thread behind it, and only the one that holds the baton runs.

The event loop's thread hands the baton on and waits until it comes back. A thread gives it back when it has to wait: for virtual
time to pass, as a disk takes it or a computation, for a lock or a condition. What the loop's own thread waits for is hurried: it
runs whatever thread has the lock until it is free, as a loop that is held up would.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Self

from tests.network.virtual.process import Killed, current

MOST_ATTEMPTS = 1000  # to unwind a thread: it may catch what is raised once or twice

_running: list[Strand] = []  # from the loop's thread inward: the last one has the baton
_idle: list[_Carrier] = []


class Deadlock(Exception):
    """A thread waits for what can never come."""


class _Carrier:
    """A real thread, which carries one strand after the other."""

    def __init__(self) -> None:
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self.job: Callable[[], None] | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._go.acquire()
            assert self.job is not None
            self.job()
            self.job = None
            self._back.release()

    def resume(self) -> None:
        """By the loop's thread: until the baton comes back."""
        self._go.release()
        self._back.acquire()

    def park(self) -> None:
        """By the carried thread: give the baton back, until it is handed over again."""
        self._back.release()
        self._go.acquire()


class Strand:
    """One job in a thread of the process that makes it."""

    def __init__(self, job: Callable[[], None]) -> None:
        self.process = current()
        self._job, self._loop = job, self.process.loop
        self._context = self.process.new_context()
        self._carrier: _Carrier | None = None
        self.done = False
        self._timer: asyncio.Handle | None = None  # wakes it
        self.blocked_on: Lock | None = None

    def begin(self) -> None:
        """Begin as soon as the loop comes to it."""
        self.process.strands[self] = None
        self._timer = self._loop.call_soon(self.resume, context=self._context)

    def _carried(self) -> None:
        with suppress(Killed):
            self._context.copy().run(self._job)

    def resume(self) -> None:
        """Hand it the baton; back when it waits or is done. Only the loop's thread may."""
        if self.done:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._carrier is None:
            self._carrier = _idle.pop() if _idle else _Carrier()
            self._carrier.job = self._carried
        _running.append(self)
        try:
            self._carrier.resume()
        finally:
            _running.pop()
        if self._carrier.job is None:
            self.done = True
            self.process.strands.pop(self, None)
            _idle.append(self._carrier)

    def unwind(self) -> None:
        """Its process was killed: let it see that, wherever it waits."""
        if self in _running:
            return  # it is the one that noticed
        if self._carrier is None:
            self.done = True
            self.process.strands.pop(self, None)
        for _ in range(MOST_ATTEMPTS):
            if self.done:
                return
            self.resume()
        raise Deadlock("a thread of a process that was killed does not end")

    def sleep(self, seconds: float) -> None:
        """By the strand itself: let virtual time pass."""
        self.wake_in(seconds)
        self.park()

    def wake_in(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self.resume, context=self._context)

    def wake(self) -> None:
        """Let it go on soon."""
        if self._timer is None and not self.done:
            self._timer = self._loop.call_soon(self.resume, context=self._context)

    def park(self) -> None:
        """By the strand itself: until it is resumed; `Killed` if its process is."""
        assert self._carrier is not None
        self._carrier.park()
        if not self.process.alive:
            raise Killed

    def hurry(self) -> None:
        """By the loop's thread, which cannot go on without it: let it run now, whatever time it meant to take."""
        if self.blocked_on is not None:
            self.blocked_on.hurry()
        elif self._timer is None:
            raise Deadlock("the loop waits for a thread that waits for the loop")
        self.resume()


def running() -> Strand | None:
    """The strand that has the baton; None in the loop's own thread."""
    return _running[-1] if _running else None


def sleep(seconds: float) -> None:
    """Let virtual time pass for a thread; the loop's own thread has no time to lose."""
    strand = running()
    if strand is not None and seconds > 0:
        strand.sleep(seconds)


class Lock:
    """A lock, which its owner may take again if it is ``reentrant``."""

    reentrant = False

    def __init__(self) -> None:
        self._owner: Strand | str | None = None
        self._count = 0
        self._waiting: deque[Strand] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        current()
        me: Strand | str = running() or "loop"
        if self._owner == me and self.reentrant:
            self._count += 1
            return True
        while self._owner is not None:
            if not blocking:
                return False
            if isinstance(me, Strand):
                self._waiting.append(me)
                me.blocked_on = self
                try:
                    me.park()
                finally:
                    me.blocked_on = None
                    if me in self._waiting:
                        self._waiting.remove(me)
            else:
                self.hurry()
        self._owner, self._count = me, 1
        return True

    def release(self) -> None:
        self._count -= 1
        if not self._count:
            self._owner = None
            if self._waiting:
                self._waiting.popleft().wake()

    def hurry(self) -> None:
        """Let the owner run until it is free."""
        while isinstance(self._owner, Strand):
            self._owner.hurry()
        if self._owner is not None:
            raise Deadlock("a thread takes a lock that it holds")

    def locked(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class RLock(Lock):
    reentrant = True


class Condition:
    """A condition with a lock of its own."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._waiting: deque[Strand] = deque()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        strand = running()
        if strand is None:
            raise Deadlock("the loop's own thread waits for a condition")
        self._waiting.append(strand)
        if timeout is not None:
            strand.wake_in(timeout)
        self._lock.release()
        try:
            strand.park()
        finally:
            notified = strand not in self._waiting
            if not notified:
                self._waiting.remove(strand)
            if strand.process.alive:
                self._lock.acquire()
        return notified

    def notify(self, n: int = 1) -> None:
        current()
        for _ in range(min(n, len(self._waiting))):
            self._waiting.popleft().wake()

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class Event:
    """A flag to wait for."""

    def __init__(self) -> None:
        self._condition, self._set = Condition(), False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        with self._condition:
            self._set = True
            self._condition.notify_all()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        with self._condition:
            if not self._set:
                self._condition.wait(timeout)
        return self._set


class Thread:
    """A thread of the standard library's, as far as it is used."""

    def __init__(
        self, target: Callable[..., Any], name: str = "", daemon: bool = False, args: tuple[Any, ...] = ()
    ) -> None:
        self._strand = Strand(lambda: target(*args))

    def start(self) -> None:
        self._strand.begin()

    def join(self, timeout: float | None = None) -> None:
        while not self._strand.done:
            self._strand.hurry()

    def is_alive(self) -> bool:
        return not self._strand.done


class ThreadPoolExecutor:
    """One thread, whatever ``workers`` says: this package asks for no more."""

    def __init__(self, workers: int = 1, thread_name_prefix: str = "") -> None:
        self._jobs: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._strand: Strand | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self._jobs.append((lambda: fn(*args, **named), done))
        if self._strand is None:
            self._strand = Strand(self._work)
            self._strand.begin()
        return done

    def _work(self) -> None:
        while self._jobs:
            job, done = self._jobs.popleft()
            try:
                result = job()
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(result)
        self._strand = None

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while wait and self._strand is not None and not self._strand.done:
            self._strand.hurry()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
