"""Every decimal that a user reads has a digit before its point: 0.902, never .902. Messages, help, docstrings, pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BARE = re.compile(r"(?<![\\\w.\])}:,/~])\.\d+(?!\w)")
FORMAT = re.compile(r"\.\d+%")  # a literal that is nothing but a format


def literals(source: str) -> Iterator[tuple[int, str]]:
    """The string literals of a file with their lines, but for the formats of f-strings."""
    tree = ast.parse(source)
    formats = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None
        for part in ast.walk(node.format_spec)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in formats:
            yield node.lineno, node.value


def bare(text: str) -> list[str]:
    """Decimals without a digit before the point, each with the words around it."""
    if FORMAT.fullmatch(text):
        return []
    return [text[max(0, m.start() - 30) : m.end() + 20] for m in BARE.finditer(text)]


def sources() -> list[Path]:
    return sorted([*(ROOT / "crescendo").rglob("*.py"), *(ROOT / "dp" / "crescendo_dp").rglob("*.py")])


def pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.toml")]
    templates = [*(ROOT / "crescendo").rglob("*.html")]
    return sorted(found + templates)


def test_no_literal_has_a_decimal_without_its_zero() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {words!r}"
        for path in sources()
        for line, text in literals(path.read_text())
        for words in bare(text)
    ]
    assert not found, "\n".join(found)


def test_no_page_has_a_decimal_without_its_zero() -> None:
    found = [f"{path.relative_to(ROOT)}: {words!r}" for path in pages() for words in bare(path.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", ["an accuracy of .902", "(.5%)", "between -.5 and 1", "+.1", "eta = .01.", ".84"])
def test_a_bare_decimal_is_seen(text: str) -> None:
    assert bare(text)


@pytest.mark.parametrize("text", ["0.902", "%{y:.4g}", "{:,.0f}", ".3g", "a.1", "version 1.2.3", "[1].5"])
def test_what_is_no_bare_decimal_is_let_be(text: str) -> None:
    assert not bare(text)
