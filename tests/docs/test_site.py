"""`make docs`: the site builds without a warning, has every page, leads nowhere wrong, and asks no other host for anything."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest

import crescendo
from tests.docs.pages import DOCS, ROOT

pytest.importorskip("zensical", reason="zensical is not installed: the docs extra")
SCRIPT = DOCS / "build_site.py"
TAG = re.compile(r"<(a|script|link|img|iframe)\b[^>]*>")
ADDRESS = re.compile(r"\b(?:src|href)=\"?([^\s\">]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "site"
    made = subprocess.run([sys.executable, SCRIPT, folder], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, for a repository of one page."""
    spec = importlib.util.spec_from_file_location("build_site", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.syspath_prepend(DOCS)
    spec.loader.exec_module(module)
    root = tmp_path / "repository"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "index.md").write_text("# One page\n\n[Above](../code.py) and [below](#one-page)\n")
    (root / "code.py").write_text("pass\n")
    (root / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (root / "zensical.toml").write_text('[project]\nsite_name = "One"\nnav = ["index.md", "api.md"]\n')
    monkeypatch.setattr(module, "ROOT", root)
    monkeypatch.setattr(module, "DOCS", root / "docs")
    monkeypatch.setattr(module, "ABOVE", {})
    monkeypatch.setattr(module, "reference", lambda: "# Python\n")
    return module


def addresses(page: Path, tags: str) -> list[str]:
    found = [tag for tag in TAG.finditer(page.read_text()) if tag[1] in tags.split()]
    return [
        unescape(address) for tag in found for address in ADDRESS.findall(tag[0]) if 'rel="canonical"' not in tag[0]
    ]


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
def test_every_link_and_picture_of_the_site_is_there(site: Path) -> None:
    """Zensical looks at links to pages only, not at pictures or other files."""
    ids: dict[Path, set[str]] = {}
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # its links begin at the root of a server
            continue
        for address in addresses(page, "a img script link"):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{page.relative_to(site)}: {address}"
            if parts.fragment and target.suffix == ".html":
                if target not in ids:
                    ids[target] = set(re.findall(r"\bid=\"?([^\s\">]+)", target.read_text()))
                assert unquote(parts.fragment) in ids[target], f"{page.relative_to(site)}: {address}"


@pytest.mark.slow
def test_the_readme_in_the_site_links_to_the_site(site: Path) -> None:
    """Its addresses are absolute for the package index; a reader of the site stays there."""
    found = addresses(site / "overview.html", "a img")
    assert "tutorial/simulate.html" in found and "figures/report.png" in found
    assert not [one for one in found if "/blob/main/" in one or "raw.githubusercontent.com" in one]


@pytest.mark.slow
def test_a_reader_of_the_site_is_told_to_no_other_host(site: Path) -> None:
    """Scripts, styles, fonts and pictures come from the site itself. Links, which a reader chooses to follow, may lead out."""
    for page in site.rglob("*.html"):
        for address in addresses(page, "script link img iframe"):
            assert not re.match(r"(?:https?:)?//", address), f"{page.name}: {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\"?(?:https?:)?//|@import", style.read_text()), style


@pytest.mark.slow
def test_a_site_of_one_page_has_the_files_that_the_page_links_to(script: ModuleType, tmp_path: Path) -> None:
    script.build(tmp_path / "site")
    assert "repository/code.py.txt" in addresses(tmp_path / "site" / "index.html", "a")
    assert (tmp_path / "site" / "repository" / "code.py.txt").read_text() == "pass\n"


@pytest.mark.slow
@pytest.mark.parametrize("link", ["gone.md", "#gone", "api.md#gone"])
def test_a_link_that_leads_nowhere_stops_the_build(
    script: ModuleType, tmp_path: Path, link: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (script.DOCS / "index.md").write_text(f"# One page\n\n[Nowhere]({link})\n")
    with pytest.raises(SystemExit, match=r"(?s)does not exist.*\nThe site was not built: see the lines above\.$"):
        script.build(tmp_path / "site")
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize(
    ("menu", "says"),
    [
        ('["index.md"]', "leaves out a page: api.md"),
        ('["index.md", "api.md", "gone.md"]', "names a page that is not there: gone.md"),
        ('["index.md", {A = ["api.md", {B = "index.md"}]}]', "names a page twice: index.md"),
    ],
)
def test_a_wrong_menu_is_refused(script: ModuleType, tmp_path: Path, menu: str, says: str) -> None:
    (script.ROOT / "zensical.toml").write_text(f'[project]\nsite_name = "One"\nnav = {menu}\n')
    with pytest.raises(SystemExit, match=says):
        script.gather(tmp_path / "gathered")
