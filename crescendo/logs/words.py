"""Words log: events as lines for people, with the time, the level, the event and a sentence.

Everything in a line except the declared sentence is treated as a peer's text (`peer_text`): names and reasons come from outside.
"""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Mapping
from typing import Any, TextIO

from crescendo.logs.event_log import LAST_WORDS, MOST_LINES, EventLog
from crescendo.logs.log_events import EVENTS, fields_of
from crescendo.logs.peer_text import LONGEST_TEXT_SHOWN, cleaned

INDENT = 31  # columns before the sentence
NARROWEST = 60  # a terminal up to this width wraps lines by itself
COLOURS = {"info": "32", "warn": "33", "error": "1;31"}  # ANSI codes: green, yellow, bold red
DIM, BOLD = "2", "1"
PHRASES = {
    "times": "{} times",
    "without_it": "{} s without it",
    "finished": "all rounds are done",
}  # for facts whose name and value do not make English
MOST_ITEMS = 20  # shown of a list


class WordsLog(EventLog):
    """Writes each event as a line of words. Of a repeated event it writes the 1st, 2nd, 4th, 8th and so on.

    On a terminal lines are wrapped under their sentence, and coloured unless NO_COLOR is set.
    """

    def __init__(self, out: TextIO | None = None, most: int = MOST_LINES, last_words: float = LAST_WORDS) -> None:
        self._to, self._day, self._last, self._times = out or sys.stderr, "", "", 0
        self._coloured = _is_terminal(self._to) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        super().__init__(out, most, last_words)

    def __call__(self, event: str, **facts: Any) -> None:
        steady = {
            name: fact for name, fact in facts.items() if not isinstance(fact, float)
        }  # floats, such as the length of a wait, differ from one repetition to the next
        self._times = self._times + 1 if repr((event, steady)) == self._last else 1
        self._last = repr((event, steady))
        if self._times & (self._times - 1) == 0:
            super().__call__(event, **(facts if self._times == 1 else {**facts, "times": self._times}))

    def _line(self, at: float, event: str, facts: dict[str, Any]) -> str:
        moment = time.localtime(at)
        level = EVENTS[event].level if event in EVENTS else "info"
        head = f"{self._in(DIM, time.strftime('%H:%M:%S', moment))}  {self._in(COLOURS[level], f'{level:5}')}  "
        wrapped = self._wrapped(sentence_of(event, facts), beside=len(cleaned(event)))
        line = f"{head}{self._in(BOLD, f'{cleaned(event):12}')}  {wrapped}"
        day, before = time.strftime("%Y-%m-%d", moment), self._day
        self._day = day
        return line if day == before else f"{self._in(DIM, day)}\n{line}"

    def _in(self, colour: str, words: str) -> str:
        return f"\x1b[{colour}m{words}\x1b[0m" if self._coloured else words

    def _wrapped(self, sentence: str, beside: int) -> str:
        """Return the sentence wrapped and indented; ``beside`` is the length of the event's name in front of it."""
        width = _width(self._to)
        if width is None or width <= NARROWEST:
            return sentence
        first = " " * (INDENT + max(0, beside - 12))
        wrapper = textwrap.TextWrapper(width, first, " " * INDENT, break_on_hyphens=False)
        return wrapper.fill(sentence)[len(first) :]


def sentence_of(event: str, facts: Mapping[str, Any]) -> str:
    """Return the event's sentence, with its other facts in brackets, except those that are zero or false.

    >>> sentence_of("joined", {"client": "al\\x1b[2Jice", "start": 3, "epoch": 0, "k": 2})
    'al?[2Jice has joined and goes on at round 3 (k 2)'
    >>> sentence_of("of another version", {"reason": "none", "final": True})
    '(reason none, final yes)'
    >>> sentence_of("stopped", {"k": 200, "finished": True})
    'stopped at round 200 (all rounds are done)'
    """
    template = EVENTS[event].sentence(facts) if event in EVENTS else None
    words = {name: _shown(fact) for name, fact in facts.items() if fact is not None and fact != ""}
    said = template.format_map(words) if template is not None else ""
    named = fields_of(template) if template is not None else set()
    rest = {name: word for name, word in words.items() if name not in named and not _is_zero(facts[name])}
    more = ", ".join(
        PHRASES[name].format(word) if name in PHRASES else f"{cleaned(name)} {word}" for name, word in rest.items()
    )
    return f"{said} ({more})".strip() if more else said


def _is_zero(fact: Any) -> bool:
    return isinstance(fact, int | float) and fact == 0  # False counts too


def _shown(fact: Any) -> str:
    """Return a fact of any type as harmless text.

    >>> _shown(0.1234567), _shown(["a", "b\\n"]), _shown("0f" * 32), _shown([[3, "bob"], [4, "bob"]])
    ('0.1235', 'a, b ', '0f0f0f0f0f0f..', '3 bob, 4 bob')
    """
    match fact:
        case bool():
            return "yes" if fact else "no"
        case float():
            return f"{fact:.4g}"
        case list() | tuple():
            some = [
                " ".join(map(_shown, one)) if isinstance(one, list | tuple) else _shown(one)
                for one in fact[:MOST_ITEMS]
            ]
            return ", ".join([*some, f"and {len(fact) - MOST_ITEMS} others"] if len(fact) > MOST_ITEMS else some)
    text = cleaned(str(fact), LONGEST_TEXT_SHOWN)
    is_digest = len(text) == 64 and set(text) <= set("0123456789abcdef")
    return f"{text[:12]}.." if is_digest else text


def _is_terminal(out: TextIO | None) -> bool:
    try:
        return out is not None and out.isatty()
    except ValueError:  # it is closed
        return False


def _width(out: TextIO | None) -> int | None:
    """Return the present width of a terminal in columns; None for any other stream."""
    try:
        return os.get_terminal_size(out.fileno()).columns if out is not None and out.isatty() else None
    except (OSError, ValueError, AttributeError):
        return None
