"""Event log: one line per event, in JSON or in words. What a caller puts in is printed, so that is never a secret or a record.

Whoever reads the log may stop reading without going away: a pipe that nobody drains is full after 64 kB, and a write to it waits
for ever. So a thread of its own writes, and callers only put lines in a queue. When the queue is full, newer lines are
dropped and counted, and a line at their place says how many: ``{"at": .., "event": "lines_dropped", "lines": ..}``.
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

MOST_LINES = 10_000  # that wait to be written
LAST_WORDS = 2.0  # seconds that a process which ends waits for some of its last lines to be read
MOST_WAITS = 15  # of those, as long as each time some are


class Log(Protocol):
    """Says that something happened, and what is known about it."""

    def __call__(self, event: str, **facts: Any) -> None: ...


class EventLog(ABC):
    """Writes each event as one line, in order; a call never waits, whatever thread it comes from.

    Use it in ``with``: at the end, what is in the queue is written as long as somebody reads it.
    """

    def __init__(self, out: TextIO | None = None, most: int = MOST_LINES, last_words: float = LAST_WORDS) -> None:
        self._most, self._last_words = most, last_words
        self._lines: deque[str] = deque()
        self._dropped, self._closed, self._change = 0, False, threading.Condition()
        sink = _Sink(out if out is not None else sys.stderr)
        self._writer = threading.Thread(target=self._write_all, args=(sink,), name="log", daemon=True)
        self._writer.start()

    def __call__(self, event: str, **facts: Any) -> None:
        with self._change:  # the clock is read in here, so that lines stand in its order
            if self._closed or len(self._lines) >= self._most:
                self._dropped += 1
                return
            self._count_dropped()
            self._lines.append(self._line(time.time(), event, facts))
            self._change.notify()

    @abstractmethod
    def _line(self, at: float, event: str, facts: dict[str, Any]) -> str:
        """How an event that happened ``at`` this time is written."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what is waiting, and give up if nobody reads it."""
        with self._change:
            self._closed = True
            self._change.notify()
        for _ in range(MOST_WAITS):
            waiting = len(self._lines)
            self._writer.join(self._last_words)
            if not self._writer.is_alive() or len(self._lines) >= waiting:
                return

    def _count_dropped(self) -> None:
        """Say, at their place in the order, how many lines are missing."""
        if self._dropped:
            self._lines.append(self._line(time.time(), "lines_dropped", {"lines": self._dropped}))
            self._dropped = 0

    def _write_all(self, sink: _Sink) -> None:
        with sink:
            while (line := self._next()) is not None:
                sink.write(line + "\n")

    def _next(self) -> str | None:
        """The next line as soon as there is one; None at the end."""
        with self._change:
            while not self._lines:
                self._count_dropped()
                if not self._lines:
                    if self._closed:
                        return None
                    self._change.wait()
            return self._lines.popleft()


class JsonLog(EventLog):
    """Writes each event as ``{"at": .., "event": .., ..}``. JSON escapes whatever could steer a terminal."""

    def _line(self, at: float, event: str, facts: dict[str, Any]) -> str:
        return json.dumps({"at": round(at, 3), "event": event, **facts}, default=str)


class _Sink:
    """Where lines go: past Python's buffer, whose lock a thread that waits for a reader would take into the process's end."""

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
            pass  # whoever read the log is gone; the federation goes on

    def _write_bytes(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # somebody else made this pipe non-blocking
                ready = select.poll()
                ready.register(self._descriptor, select.POLLOUT)
                ready.poll()


@contextlib.contextmanager
def hear_libraries(log: Log) -> Iterator[None]:
    """What Python's libraries warn of through `logging` and `warnings` becomes lines of the log while this lasts."""

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
    """A log that nobody reads."""
