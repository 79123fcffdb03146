"""`make docs`: the site builds without a warning, has every page, and asks no other host for anything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import crescendo
from tests.docs.pages import DOCS, ROOT

pytest.importorskip("material", reason="mkdocs-material is not installed: the docs extra")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    made = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert made.returncode == 0, made.stderr
    return folder


@pytest.mark.slow
def test_every_page_is_in_the_site(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS).with_suffix(".html")).exists(), page


@pytest.mark.slow
def test_the_python_reference_has_every_public_name(site: Path) -> None:
    text = (site / "api.html").read_text()
    for name in crescendo.__all__:
        assert f">crescendo.{name}<a" in text, name


@pytest.mark.slow
def test_a_reader_of_the_site_is_told_to_no_other_host(site: Path) -> None:
    """Scripts, styles, fonts and pictures come from the site itself. Links, which a reader chooses to follow, may lead out."""
    for page in site.rglob("*.html"):
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text()):
            assert not re.search(r"(?:src|href)=\"?(?:https?:)?//", tag) or 'rel="canonical"' in tag, (
                f"{page.name}: {tag}"
            )
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\"?(?:https?:)?//|@import", style.read_text()), style
