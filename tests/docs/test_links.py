"""Every link of every page leads somewhere: the file is there, and the heading that an anchor names is in it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import DOCS, PAGES, RAW, REPOSITORY, ROOT, name

LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
GENERATED = {"docs/api.md"}  # made by docs/build_site.py; tests/docs/test_site.py looks at it
PROSE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]+`", re.M | re.S)


def links(page: Path) -> list[str]:
    return LINK.findall(PROSE.sub(lambda found: "`" if found[1] is None else "", page.read_text()))


def target(page: Path, link: str) -> tuple[Path, str] | None:
    """The file of the repository that a link of the page names, and its anchor; none for a link to somewhere else."""
    for prefix in (f"{REPOSITORY}/blob/main/", f"{REPOSITORY}/tree/main/", f"{RAW}/main/"):
        if link.startswith(prefix):
            page, link = ROOT / "README.md", link.removeprefix(prefix)
    parts = urlsplit(link)
    if parts.scheme:
        assert parts.scheme == "https" and "." in parts.netloc, f"{name(page)}: {link}"
        return None
    return (page.parent / parts.path).resolve() if parts.path else page, parts.fragment


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


@pytest.mark.parametrize("page", [*PAGES, DOCS / "llms.txt", ROOT / "lab" / "README.md"], ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        found = target(page, link)
        if found is None:
            continue
        file, fragment = found
        assert file.exists() or name(file) in GENERATED, f"{name(page)} links to {link}, which is not there"
        assert file.is_relative_to(ROOT), f"{name(page)} links to {link}, out of the repository"
        if fragment:
            assert fragment in anchors(file), f"{name(page)} links to {link}; {name(file)} has no such heading"


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "SECURITY.md", DOCS / "llms.txt"], ids=name)
def test_a_page_that_is_read_elsewhere_has_absolute_links_and_pictures_that_can_be_shown(page: Path) -> None:
    """The package index shows README without the repository around it, and an assistant is given llms.txt alone."""
    for link in links(page):
        assert urlsplit(link).scheme == "https", f"{name(page)}: {link}"
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text()):
        assert picture.startswith(f"{RAW}/main/"), f"{name(page)}: {picture} is a page about a picture"


def test_the_address_of_the_repository_is_the_same_in_every_file() -> None:
    """pyproject.toml decides it. A file that disagrees is found here; Flower's addresses are its own."""
    owner = REPOSITORY.removeprefix("https://github.com/")
    files = [
        *ROOT.glob("*.*"),
        *(ROOT / ".github").rglob("*.*"),
        *DOCS.glob("*.*"),
        *(ROOT / "crescendo").rglob("*.py"),
        *(ROOT / "dp").rglob("*.*"),
    ]
    for file in files:
        if file.suffix in {".md", ".toml", ".cff", ".yml", ".txt", ".py"}:
            for found in re.findall(r"github(?:usercontent)?\.com/([\w-]+/crescendo\w*)", file.read_text()):
                assert found == owner, f"{name(file)} names {found}"


def test_a_link_that_leads_nowhere_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n\n## A b c\n[x](gone.md) `[y](code.md)`\n```text\n[z](block.md)\n```\n")
    assert links(page) == ["gone.md"] and anchors(page) == {"a-b-c", "a-b-c-1"}
    assert target(page, "gone.md") == (tmp_path / "gone.md", "")
    assert target(page, f"{REPOSITORY}/blob/main/docs/gone.md#x") == (DOCS / "gone.md", "x")
    assert target(page, f"{RAW}/main/gone.png") == (ROOT / "gone.png", "")
