"""Logs in words: what a person reads on a terminal, harmless whatever a peer wrote."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import termios
from collections.abc import Callable
from typing import Any

import pytest

from crescendo.cli.common import LogForm, event_log
from crescendo.logs import JsonLog
from crescendo.logs.log_events import EVENTS
from crescendo.logs.words import WordsLog, sentence_of

EVIL = "al\x1b]0;owned\x07ice\r\nforged \x9b2J\u202ereversed\u2066 \u2028 \udcff"


def lines_of(say: Callable[[WordsLog], None]) -> list[str]:
    """What a log says into a file, without the line of the date."""
    out = io.StringIO()
    with WordsLog(out) as log:
        say(log)
    first, *lines = out.getvalue().splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", first)
    return lines


def on_terminal(say: Callable[[WordsLog], None], columns: int) -> str:
    """The same on a terminal of so many columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(slave, "w") as out, WordsLog(out, last_words=60.0) as log:
        say(log)
    seen = os.read(master, 1 << 16).decode()
    os.close(master)
    return seen.replace("\r\n", "\n")


def test_a_line_has_the_time_the_level_the_event_and_what_it_means() -> None:
    (line,) = lines_of(lambda log: log("joined", client="alice", start=3, epoch=0, k=3))
    assert re.fullmatch(r"\d\d:\d\d:\d\d  info   joined        alice has joined and goes on at round 3 \(k 3\)", line)


def test_sentences_of_a_terminal_stand_below_each_other_and_fit_it() -> None:
    def say(log: WordsLog) -> None:
        log("unreachable", server="127.0.0.1:7077", reason="nothing is listening there " * 8, again_in=0.5)
        log("end_not_confirmed", clients=["alice", "bob"], why="they did not say " * 8, what_to_do="wait")

    seen = re.sub(r"\x1b\[[\d;]*m", "", on_terminal(say, 90))
    lines = seen.splitlines()[1:]
    assert len(lines) > 5 and all(len(line) <= 90 for line in lines)
    assert all(line[:8].count(":") == 2 or line[:31] == " " * 31 for line in lines)


def test_only_a_terminal_that_wants_colours_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def say(log: WordsLog) -> None:
        log("alarm", client="bob", reason="two of them")

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[1;31merror" in on_terminal(say, 90)
    assert "\x1b" not in lines_of(say)[0]
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in on_terminal(say, 90)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in on_terminal(say, 90)


def test_what_comes_again_and_again_floods_nobody() -> None:
    def say(log: WordsLog) -> None:
        for attempt in range(100):
            log("unreachable", server="here", reason="nobody", without_it=float(attempt), again_in=10.0)
        log("joined", client="alice", start=0)
        log("unreachable", server="here", reason="nobody", without_it=0.1, again_in=10.0)

    lines = lines_of(say)
    assert [re.search(r"(\d+) times", line)[1] for line in lines[1:-2]] == ["2", "4", "8", "16", "32", "64"]  # type: ignore[index]
    assert "joined" in lines[-2] and "times" not in lines[-1]
    assert lines[1].endswith("(1 s without it, 2 times)")


def test_what_is_not_so_is_not_spoken_of() -> None:
    assert sentence_of("stopped", {"k": 3, "finished": False}) == "stopped at round 3"


@pytest.mark.parametrize("event", [*EVENTS, "of another version"])
def test_whatever_a_peer_wrote_no_event_steers_the_terminal(event: str) -> None:
    """Every fact of every sentence, and facts that no sentence names, are shown on one printable line."""
    names = {name for one in getattr(EVENTS.get(event), "sentences", ()) for name in re.findall(r"\{(\w+)\}", one)}
    for facts in (dict.fromkeys(names, EVIL), {"other": EVIL, EVIL: EVIL}, {name: [[3, EVIL], EVIL] for name in names}):
        (line,) = lines_of(lambda log, facts=facts: log(event, **facts))  # type: ignore[misc]
        assert line.isprintable() and "forged" in line + "forged" * (not facts)


def test_the_name_of_an_event_steers_no_terminal_either() -> None:
    (line,) = lines_of(lambda log: log(EVIL))
    assert line.isprintable()


def test_a_long_text_is_cut() -> None:
    said = sentence_of("refused", {"reason": "x" * 100_000, "pairs": [[i, "y" * 5000] for i in range(100)]})
    assert len(said) < 30_000


def test_a_terminal_of_another_encoding_gets_no_control_characters() -> None:
    """U+00DB in UTF-8 has the byte 9B, which begins a control sequence on a terminal of single bytes."""
    master, slave = pty.openpty()
    with os.fdopen(slave, "w", encoding="latin-1") as out, WordsLog(out, last_words=60.0) as log:
        log("left", client="\u00db\u4e2d")
    seen = os.read(master, 1 << 16)
    os.close(master)
    assert b"\xdb? has left" in seen


def test_a_reader_that_does_not_read_holds_nobody_up() -> None:
    """A terminal that is stopped (Ctrl-S) is a full pipe: lines wait for it, and nobody else does."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as out:
        log = WordsLog(out, last_words=0.0)
        for number in range(3000):
            log("refused", client="mallory", reason="x" * 60, round=number)
        log.close()
    assert log._writer.is_alive()
    os.close(reading)
    log._writer.join(60)
    assert not log._writer.is_alive()


def test_a_terminal_gets_words_and_a_file_json_unless_the_command_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal, io.StringIO() as file:
        for stderr, form, kind in (
            (terminal, None, WordsLog),
            (file, None, JsonLog),
            (terminal, LogForm.json, JsonLog),
            (file, LogForm.words, WordsLog),
            (None, None, JsonLog),
        ):
            monkeypatch.setattr("sys.stderr", stderr)
            with event_log(form) as log:
                assert type(log) is kind
    os.close(master)


def test_facts_of_any_kind_are_shown() -> None:
    odd: dict[str, Any] = {"a": None, "b": {"x": EVIL}, "c": float("nan"), "d": b"\x1b", "e": 10**30, "times": 3}
    (line,) = lines_of(lambda log: log("joined", **odd))
    assert line.isprintable() and "c nan" in line
