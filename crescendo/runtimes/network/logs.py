"""Structured logs: one JSON object per line. What a caller puts in is printed, so no caller puts in a secret or a record."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any, Protocol, TextIO


class Log(Protocol):
    """Says that something happened, and what is known about it."""

    def __call__(self, event: str, **facts: Any) -> None: ...


class JsonLog:
    """Writes each event as a line ``{"at": .., "event": .., ..}``; may be used from several threads."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out, self._guard = out if out is not None else sys.stderr, threading.Lock()

    def __call__(self, event: str, **facts: Any) -> None:
        line = json.dumps({"at": round(time.time(), 3), "event": event, **facts}, default=str)
        with self._guard:
            try:
                self._out.write(line + "\n")
                self._out.flush()
            except (OSError, ValueError):
                pass  # whoever read the log is gone; the federation goes on


def quiet(event: str, **facts: Any) -> None:
    """A log that nobody reads."""
