"""Every link of every page leads somewhere: the file is there, and the heading that an anchor names is in it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import PAGES, ROOT, name

LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
GENERATED = {"docs/api.md"}  # made by docs/hooks.py; tests/docs/test_site.py looks at it
PROSE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]+`", re.M | re.S)


def links(page: Path) -> list[str]:
    return LINK.findall(PROSE.sub(lambda found: "`" if found[1] is None else "", page.read_text()))


def anchors(page: Path) -> set[str]:
    """The headings as they are linked to: lower case, words joined by hyphens, a number behind the second of a name."""
    found: set[str] = set()
    for heading in re.findall(
        r"^#+ +(.+?) *#*$", PROSE.sub(lambda m: m[0] if m[1] is None else "", page.read_text()), re.M
    ):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        at = slug
        while at in found:
            number = int(at.removeprefix(slug).lstrip("-_") or 0) + 1
            at = f"{slug}-{number}"
        found.add(at)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme == "https" and "." in parts.netloc, f"{name(page)}: {link}"
            continue
        target = (page.parent / parts.path).resolve() if parts.path else page
        assert target.exists() or name(target) in GENERATED, f"{name(page)} links to {link}, which is not there"
        assert target.is_relative_to(ROOT), f"{name(page)} links to {link}, out of the repository"
        if parts.fragment:
            assert parts.fragment in anchors(target), (
                f"{name(page)} links to {link}; {name(target)} has no such heading"
            )


def test_a_link_that_leads_nowhere_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n\n## A b c\n[x](gone.md) `[y](code.md)`\n```text\n[z](block.md)\n```\n")
    assert links(page) == ["gone.md"] and anchors(page) == {"a-b-c", "a-b-c-1"}
