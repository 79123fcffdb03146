"""SIGTERM and SIGINT as a wish to stop: the write in hand is finished first, however often the signal comes."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Wish:
    """Whether somebody wants this process to stop."""

    def __init__(self) -> None:
        self._made = False
        self._event: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def event(self) -> asyncio.Event:
        """An event of the running loop that is set when the wish is made."""
        event = asyncio.Event()
        self._event = asyncio.get_running_loop(), event
        if self._made:
            event.set()
        return event

    def make(self, number: int = 0, frame: FrameType | None = None) -> None:
        self._made = True
        if self._event is not None:
            loop, event = self._event
            with suppress(RuntimeError):  # the loop is closed: it is stopping already
                loop.call_soon_threadsafe(event.set)


@contextmanager
def stoppable() -> Iterator[Wish]:
    """Signals only make a wish while this lasts. Outside the main thread nobody can catch signals, and none are."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    before = [signal.signal(one, wish.make) for one in SIGNALS]
    try:
        yield wish
    finally:
        for one, handler in zip(SIGNALS, before, strict=True):
            signal.signal(one, handler)
