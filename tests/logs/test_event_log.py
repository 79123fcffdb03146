"""The log never holds anybody up, and says what it left out."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from crescendo.logs import JsonLog, hear_libraries


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


class Pipe:
    """A pipe to write into, and all that was read from it in the end."""

    def __init__(self) -> None:
        self.reading, writing = os.pipe()
        self.out = os.fdopen(writing, "w")
        self._found: list[bytes] = []
        self._reader = threading.Thread(target=self._read)

    def _read(self) -> None:
        while data := os.read(self.reading, 65536):
            self._found.append(data)

    def begin_reading(self) -> None:
        self._reader.start()

    def end(self) -> None:
        self.out.close()
        self._reader.join(60)

    def read(self) -> list[dict[str, Any]]:
        self.end()
        return lines_of(b"".join(self._found).decode())


def test_lines_stand_in_the_order_they_were_said() -> None:
    out = io.StringIO()
    with JsonLog(out) as log:
        for number in range(100):
            log("counted", number=number)
    found = lines_of(out.getvalue())
    assert [line["number"] for line in found] == list(range(100))
    assert all(line["event"] == "counted" and isinstance(line["at"], float) for line in found)


def test_a_full_pipe_that_nobody_reads_holds_nobody_up_and_what_was_dropped_is_counted() -> None:
    pipe, said = Pipe(), 3000  # of 100 bytes: a pipe holds 65,536
    with JsonLog(pipe.out, most=50, last_words=60.0) as log:
        for number in range(said):
            log("counted", number=number, words="x" * 60)
        pipe.begin_reading()
    found = pipe.read()
    numbers = [line["number"] for line in found if line["event"] == "counted"]
    dropped = [line["lines"] for line in found if line["event"] == "lines_dropped"]
    assert numbers == sorted(numbers) and len(numbers) < said
    assert len(numbers) + sum(dropped) == said
    for before, line, after in zip(found, found[1:], found[2:], strict=False):
        if line["event"] == "lines_dropped":  # it stands where the lines are missing
            assert after["number"] - before["number"] - 1 == line["lines"]


def test_the_end_waits_for_a_reader_and_not_for_ever() -> None:
    pipe = Pipe()
    log = JsonLog(pipe.out, last_words=0.0)
    for number in range(3000):
        log("counted", number=number, words="x" * 60)
    log.close()  # returns, although nobody reads
    log("after the end")
    pipe.begin_reading()
    log._writer.join(60)
    assert not log._writer.is_alive()
    found = pipe.read()
    assert [line["number"] for line in found[:-1]] == list(range(3000))
    assert found[-1]["event"] == "lines_dropped" and found[-1]["lines"] == 1


def test_the_end_waits_as_long_as_lines_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are: here each wait is as long as it takes somebody to read the 65,536 bytes that a pipe holds."""
    pipe, waits = Pipe(), 0
    log = JsonLog(pipe.out)
    for number in range(3000):
        log("counted", number=number, words="x" * 60)

    def read_some(seconds: float) -> None:
        nonlocal waits
        waits, left, before = waits + 1, 65536, len(log._lines)
        while log._lines and (left > 0 or len(log._lines) == before):
            left -= len(os.read(pipe.reading, left)) if left > 0 else 0

    monkeypatch.setattr(log._writer, "join", read_some)
    log.close()
    assert not log._lines and waits > 3
    monkeypatch.undo()
    pipe.begin_reading()
    log._writer.join(60)
    pipe.end()


def test_a_pipe_that_does_not_block_is_waited_for() -> None:
    pipe = Pipe()
    os.set_blocking(pipe.out.fileno(), False)
    with JsonLog(pipe.out, last_words=60.0) as log:
        for number in range(3000):
            log("counted", number=number, words="x" * 60)
        pipe.begin_reading()
    assert [line["number"] for line in pipe.read()] == list(range(3000))


def test_a_reader_that_has_gone_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out, JsonLog(out, last_words=60.0) as log:
        log("said to nobody")
        log("and again")
    assert not log._writer.is_alive()


def test_a_file_that_its_owner_closes_is_still_written_to(tmp_path: Path) -> None:
    with (tmp_path / "log").open("a") as out:
        log = JsonLog(out, last_words=60.0)
    log("late")
    log.close()
    assert lines_of((tmp_path / "log").read_text())[0]["event"] == "late"


def test_no_stderr_at_all_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    with JsonLog(last_words=60.0) as log:
        log("said to nobody")
    assert not log._writer.is_alive()


@pytest.mark.filterwarnings("always")
def test_what_libraries_say_is_a_line_of_the_log_too() -> None:
    out = io.StringIO()
    with JsonLog(out) as log, hear_libraries(log):
        try:
            raise OSError("the cable\nis out")
        except OSError:
            logging.getLogger("grpc._cython").exception("unexpected")
        logging.getLogger("asyncio").info("of no interest")
        warnings.warn("old ways", stacklevel=1)
    found = lines_of(out.getvalue())
    assert [(line["event"], line["name"], line["level"]) for line in found] == [
        ("library", "grpc._cython", "error"),
        ("library", "py.warnings", "warning"),
    ]
    assert "the cable\nis out" in found[0]["says"] and "old ways" in found[1]["says"]
    assert logging.getLogger().handlers == [] or all("Pass" not in repr(one) for one in logging.getLogger().handlers)
