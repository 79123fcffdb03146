"""Every event that any part of the package logs is declared, with a sentence for the facts it comes with."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import crescendo
from crescendo.logs.log_events import EVENTS, fields_of

ROOT = Path(crescendo.__file__).parent
LOGS = ("log", "_log", "lost")  # what a log is called where it is used


@functools.cache
def logged() -> list[tuple[str, set[str], bool]]:
    """Every call of a log: the event, the facts that stand there, and whether there may be more (``**facts``)."""
    return list(_calls())


def _calls() -> Iterator[tuple[str, set[str], bool]]:
    for path in ROOT.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "log" in text else ():
            if not isinstance(node, ast.Call) or _name(node.func) not in LOGS or not node.args or _counts(node.func):
                continue
            facts = {word.arg for word in node.keywords if word.arg is not None}
            for event in _events(node.args[0]):
                yield event, facts, len(facts) < len(node.keywords)


def _name(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id in ("math", "np"):
        return ""  # a logarithm
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _counts(called: ast.expr) -> bool:
    """Whether it is a logarithm."""
    return isinstance(called, ast.Attribute) and _name(called.value) in ("math", "np", "jnp", "torch")


def _events(said: ast.expr) -> list[str]:
    """The name of the event, or both names where a condition chooses."""
    return [one.value for one in ast.walk(said) if isinstance(one, ast.Constant) and isinstance(one.value, str)]


@pytest.mark.slow
def test_every_event_that_is_logged_is_declared_and_no_other() -> None:
    assert {event for event, _, _ in logged()} | {"lines_dropped"} == set(EVENTS)


def test_every_event_has_a_sentence_for_the_facts_it_comes_with() -> None:
    unsaid = [
        (event, facts)
        for event, facts, more in logged()
        if event in EVENTS and not more and not any(fields_of(one) <= facts for one in EVENTS[event].sentences)
    ]
    assert unsaid == []


def test_no_sentence_is_left_over() -> None:
    """Each is the first that fits some call, or could be where a call adds facts of its own."""
    calls = logged()
    for event in EVENTS.values():
        for one in event.sentences:
            assert event.name == "lines_dropped" or any(
                name == event.name and (more or fields_of(one) <= facts) for name, facts, more in calls
            ), (event.name, one)
