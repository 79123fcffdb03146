"""Shutdown requests: after SIGTERM or SIGINT the process finishes its current write, however often the signal comes."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Self

from crescendo import interrupts

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class ShutdownRequest:
    """A request to stop this process, made or not."""

    def __init__(self) -> None:
        self._requested = False
        self._event: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def event(self) -> asyncio.Event:
        """Return an event of the running loop that is set when a shutdown is requested."""
        event = asyncio.Event()
        self._event = asyncio.get_running_loop(), event
        if self._requested:
            event.set()
        return event

    def request(self, number: int = 0, frame: FrameType | None = None) -> None:
        self._requested = True
        if self._event is not None:
            loop, event = self._event
            with suppress(RuntimeError):  # the loop is closed: the process is stopping already
                loop.call_soon_threadsafe(event.set)

    @classmethod
    @contextmanager
    def on_signals(cls) -> Iterator[Self]:
        """Turn signals into shutdown requests within the block. Outside the main thread it catches none: only that thread can."""
        shutdown = cls()
        if threading.current_thread() is not threading.main_thread():
            yield shutdown
            return
        before = [signal.signal(one, shutdown.request) for one in SIGNALS]
        if interrupts.noted():
            shutdown.request()  # it came before, and its exception was lost
        try:
            yield shutdown
        finally:
            for one, handler in zip(SIGNALS, before, strict=True):
                signal.signal(one, handler)
