"""Event log: one line per event, in JSON or in words. It prints all facts, so callers never pass secrets or records.

The reader of the log may stop reading without closing it: an unread pipe is full after 64 kB, and a write to it blocks for ever.
So a separate thread writes, and callers only put lines into a queue. When the queue is full, newer lines are dropped and
counted, and a line in their place has the count: ``{"at": .., "event": "lines_dropped", "lines": ..}``.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol, Self, TextIO

MOST_LINES = 10_000  # in the queue
LAST_WORDS = 2.0  # seconds that an ending process waits for progress on its last lines
MOST_WAITS = 15  # of those, while each makes progress


class Log(Protocol):
    """Logs an event with its facts."""

    def __call__(self, event: str, **facts: Any) -> None: ...


class EventLog(ABC):
    """Writes each event as one line, in order. A call never blocks, on any thread.

    Use it in ``with``: at the end, it writes the queue as long as the reader goes on reading.
    """

    def __init__(self, out: TextIO | None = None, most: int = MOST_LINES, last_words: float = LAST_WORDS) -> None:
        self._most, self._last_words = most, last_words
        self._lines: deque[str] = deque()
        self._dropped, self._closed, self._change = 0, False, threading.Condition()
        sink = _Sink(out if out is not None else sys.stderr)
        self._writer = threading.Thread(target=self._write_all, args=(sink,), name="log", daemon=True)
        self._writer.start()

    def __call__(self, event: str, **facts: Any) -> None:
        with self._change:  # the clock is read inside the lock, so that lines are in its order
            if self._closed or len(self._lines) >= self._most:
                self._dropped += 1
                return
            self._count_dropped()
            self._lines.append(self._line(time.time(), event, facts))
            self._change.notify()

    @abstractmethod
    def _line(self, at: float, event: str, facts: dict[str, Any]) -> str:
        """Return the line for an event that happened at the time ``at``."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the queue, and give up if its reader has stopped."""
        with self._change:
            self._closed = True
            self._change.notify()
        for _ in range(MOST_WAITS):
            waiting = len(self._lines)
            self._writer.join(self._last_words)
            if not self._writer.is_alive() or len(self._lines) >= waiting:
                return

    def _count_dropped(self) -> None:
        """Add a line with the number of dropped lines, in their place."""
        if self._dropped:
            self._lines.append(self._line(time.time(), "lines_dropped", {"lines": self._dropped}))
            self._dropped = 0

    def _write_all(self, sink: _Sink) -> None:
        with sink:
            while (line := self._next()) is not None:
                sink.write(line + "\n")

    def _next(self) -> str | None:
        """Wait for the next line and return it; return None at the end."""
        with self._change:
            while not self._lines:
                self._count_dropped()
                if not self._lines:
                    if self._closed:
                        return None
                    self._change.wait()
            return self._lines.popleft()


class JsonLog(EventLog):
    """Writes each event as ``{"at": .., "event": .., ..}``. JSON escapes control characters, so a terminal is safe."""

    def _line(self, at: float, event: str, facts: dict[str, Any]) -> str:
        return json.dumps({"at": round(at, 3), "event": event, **facts}, default=str)


class _Sink:
    """The stream written to, without Python's buffer: a thread blocked on a reader would hold its lock at the process's exit."""

    def __init__(self, out: TextIO | None) -> None:
        self._out, self._descriptor, self._encoding = out, -1, getattr(out, "encoding", None) or "utf-8"
        with contextlib.suppress(OSError, ValueError, AttributeError):  # a stream in memory, or none at all
            self._descriptor = os.dup(out.fileno())  # type: ignore[union-attr]

    def __enter__(self) -> _Sink:
        return self

    def __exit__(self, *error: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def write(self, line: str) -> None:
        try:
            if self._descriptor >= 0:
                self._write_bytes(line.encode(self._encoding, "replace"))
            elif self._out is not None:
                self._out.write(line)
                self._out.flush()
        except (OSError, ValueError):
            pass  # the reader has gone; the federation goes on

    def _write_bytes(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # another process made this pipe non-blocking
                ready = select.poll()
                ready.register(self._descriptor, select.POLLOUT)
                ready.poll()


@contextlib.contextmanager
def hear_libraries(log: Log) -> Iterator[None]:
    """Log the warnings of Python's libraries, from `logging` and `warnings`, inside this context."""

    class Pass(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            log("library", name=record.name, level=record.levelname.lower(), says=self.format(record))

    handler, root = Pass(logging.WARNING), logging.getLogger()
    root.addHandler(handler)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(handler)


def quiet(event: str, **facts: Any) -> None:
    """Log nothing."""
