"""What a peer causes again and again takes few lines of the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from crescendo.network.transport import log_summaries
from crescendo.network.transport.log_summaries import LINES, SummarisedLog

Lines = list[dict[str, Any]]


def logged(cause: Callable[[SummarisedLog], None]) -> Lines:
    """The lines of the log, up to the end."""
    lines: Lines = []

    async def run() -> None:
        log = SummarisedLog(lambda event, **facts: lines.append({"event": event, **facts}))
        cause(log)
        log.close()

    asyncio.run(run())
    return lines


def test_the_first_events_have_lines_of_their_own_and_the_rest_one_with_their_number() -> None:
    def cause(log: SummarisedLog) -> None:
        for n in range(1000):
            log("refused", "10.0.0.1", n=n)
        log("refused", "10.0.0.2", n=-1)

    lines = logged(cause)
    assert lines[:LINES] == [{"event": "refused", "n": n} for n in range(LINES)]
    assert lines[LINES] == {"event": "refused", "n": -1}
    assert len(lines) == LINES + 2
    assert lines[-1] == {
        "event": "repeated",
        "kind": "refused",
        "among": "10.0.0.1",
        "count": 1000 - LINES,
        "within_seconds": 60.0,
        "last": {"n": 999},
    }


def test_events_that_count_for_many_are_added_up() -> None:
    def cause(log: SummarisedLog) -> None:
        for _ in range(LINES + 2):
            log("closed", "a", 7)

    lines = logged(cause)
    assert [line["count"] for line in lines] == [7] * LINES + [14]


def test_peers_without_end_do_not_make_keys_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_summaries, "MOST_KEYS", 3)

    def cause(log: SummarisedLog) -> None:
        for n in range(200):
            log("refused", f"10.0.0.{n}")

    lines = logged(cause)
    assert len(lines) == 3 + LINES + 1
    assert (lines[-1]["event"], lines[-1]["among"], lines[-1]["count"]) == ("repeated", "others", 197 - LINES)


def test_an_interval_ends_by_itself_and_the_next_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_summaries, "INTERVAL", 0.0)
    monkeypatch.setattr(log_summaries, "LINES", 1)
    lines: Lines = []

    async def run() -> None:
        log = SummarisedLog(lambda event, **facts: lines.append({"event": event, **facts}))
        for _ in range(2):
            for _ in range(3):
                log("refused", "a")
            while "count" not in lines[-1]:
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(run(), 60))
    assert [line.get("count", 1) for line in lines] == [1, 2, 1, 2]
