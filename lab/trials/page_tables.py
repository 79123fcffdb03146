"""Writes tables into a page of the documentation, each between two comments with its name."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def with_tables(page: str, tables: dict[str, list[str]]) -> str:
    """Return the page with these tables in their places.

    >>> print(with_tables("Before.\\n<!-- scores -->\\nold\\n<!-- end of scores -->\\nAfter.", {"scores": ["| 1 |", "|---|"]}))
    Before.
    <!-- scores -->
    | 1 |
    |---|
    <!-- end of scores -->
    After.
    """
    for name, lines in tables.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.S)
        assert place.search(page), f"the page has no place for {name}"
        text = "\n".join(lines) + "\n"
        page = place.sub(lambda found, text=text: found[1] + text + found[2], page)  # type: ignore[misc]
    return page


def write_tables(page: str, tables: dict[str, list[str]]) -> None:
    path = DOCS / page
    path.write_text(with_tables(path.read_text(encoding="utf-8"), tables), encoding="utf-8")
