"""Log summaries: an event that one peer causes again and again gets a few lines in the log, and then one with a count."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from crescendo.logs import Log

LINES = 10  # per kind, key and interval; further events are only counted
INTERVAL = 60.0  # seconds
MOST_KEYS = 100  # kinds and keys that are counted separately; the events of all others are counted together
OTHERS = "others"


@dataclass(eq=False)
class _Repeated:
    """Events of one kind and key in the current interval."""

    lines: int = 0
    count: int = 0  # events without a line
    last: dict[str, Any] = field(default_factory=dict)
    end: asyncio.TimerHandle | None = None


class SummarisedLog:
    """Writes each peer's first events of an interval to a log; at the end of the interval, ``repeated`` counts the others.

    ``key`` names the peer, for example by its address or name. `close` writes all counts.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._repeated: dict[tuple[str, str], _Repeated] = {}

    def __call__(self, event: str, key: str, count: int | None = None, **facts: Any) -> None:
        at = (event, key)
        if at not in self._repeated and len(self._repeated) >= MOST_KEYS:
            at = (event, OTHERS)
        one = self._repeated.setdefault(at, _Repeated())
        if one.end is None:
            one.end = asyncio.get_running_loop().call_later(INTERVAL, self._end, at)
        if one.lines < LINES:
            one.lines += 1
            self._log(event, **facts, **({} if count is None else {"count": count}))
        else:
            one.count, one.last = one.count + (count or 1), facts

    def close(self) -> None:
        """End every interval now."""
        for at in list(self._repeated):
            self._end(at)

    def _end(self, at: tuple[str, str]) -> None:
        one = self._repeated.pop(at)
        if one.end is not None:
            one.end.cancel()
        if one.count:
            event, key = at
            self._log("repeated", kind=event, among=key, count=one.count, within_seconds=INTERVAL, last=one.last)
