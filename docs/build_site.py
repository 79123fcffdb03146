"""`make docs`: gathers every page of the site in a folder, then has Zensical build it. Any warning is an error.

    python docs/build_site.py site

The site has more pages than this folder: the reference of the Python names, README, and the files that pages link to.
Zensical reads files only, so these are written before it starts.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))

from python_names import reference  # noqa: E402  beside this file, which is no package

CONFIG = "zensical.toml"
ABOVE = {"README.md": "overview.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
"""Pages of the repository's own folder that are pages of the site as well, and their names there; README would be its index."""
LINK = re.compile(r"\]\((?!\w+:|#|/)([\w./-]+)(#[\w-]+)?\)")
"""A relative link, to a page or to another file of the repository."""
COLOUR = re.compile(r"\x1b\[[\d;]*m")
SHOWN_AS_THEY_ARE = (".png", ".svg", ".txt")


def build(site: Path) -> None:
    """Write the site into the folder ``site``, in place of an earlier one; without it if anything is wrong."""
    with tempfile.TemporaryDirectory(prefix="crescendo-docs-") as name:
        folder = Path(name)
        gather(folder)
        words = [sys.executable, "-m", "zensical", "build", "--strict"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            warnings = COLOUR.sub("", done.stdout + done.stderr).partition("Traceback")[0]
            sys.exit(f"{warnings}The site was not built: see the lines above.")
        shutil.rmtree(site, ignore_errors=True)
        shutil.move(folder / "site", site)


def gather(folder: Path) -> None:
    """Write Zensical's settings and all that the site is made of into ``folder``."""
    settings = (ROOT / CONFIG).read_text()
    into = folder / "docs"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(DOCS, into, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (folder / CONFIG).write_text(settings)
    (into / "api.md").write_text(reference())
    for name, there in ABOVE.items():
        (into / there).write_text(_rewritten((ROOT / name).read_text(), ROOT, there, into))
    for page in sorted(DOCS.rglob("*.md")):
        there = page.relative_to(DOCS).as_posix()
        (into / there).write_text(_rewritten(page.read_text(), page.parent, there, into))
    _check_menu(tomllib.loads(settings)["project"]["nav"], into)


def _rewritten(text: str, seen_from: Path, there: str, into: Path) -> str:
    """The page with its links as the site has them; a file of the repository that it links to is copied into the site."""
    text = text.replace(f"]({_repository()}/blob/main/", f"]({_up(seen_from)}")
    text = text.replace(f"]({_pictures()}/", f"]({_up(seen_from)}")

    def link(found: re.Match[str]) -> str:
        target = (seen_from / found[1]).resolve()
        if not target.is_relative_to(ROOT):
            return found[0]
        place = _place(target.relative_to(ROOT).as_posix(), into)
        return found[0] if place is None else f"]({'../' * there.count('/')}{place}{found[2] or ''})"

    return LINK.sub(link, text)


def _place(name: str, into: Path) -> str | None:
    """Where the site keeps a file of the repository; a file that is no page is kept as text, which a browser shows."""
    if name in ABOVE:
        return ABOVE[name]
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    if not (ROOT / name).is_file():
        return None
    place = f"repository/{name}" + ("" if name.endswith(SHOWN_AS_THEY_ARE) else ".txt")
    (into / place).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / name, into / place)
    return place


def _repository() -> str:
    """The project's address, which pyproject.toml has and no other file decides."""
    urls: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    return urls["Repository"]


def _pictures() -> str:
    """Where the repository's host serves a file by itself, as a picture must be."""
    return _repository().replace("https://github.com/", "https://raw.githubusercontent.com/") + "/main"


def _up(folder: Path) -> str:
    """The way from a folder to the repository's own, empty or ending in a slash."""
    return "../" * len(folder.relative_to(ROOT).parts)


def _check_menu(nav: list[Any], into: Path) -> None:
    """Refuse a menu that names a page twice, names one that is not there, or leaves one out: Zensical does not look."""
    named = list(_pages(nav))
    have = {page.relative_to(into).as_posix() for page in into.rglob("*.md")}
    wrong = {
        "names a page twice": sorted({page for page in named if named.count(page) > 1}),
        "names a page that is not there": sorted(set(named) - have),
        "leaves out a page": sorted(have - set(named)),
    }
    for what, pages in wrong.items():
        if pages:
            sys.exit(f"The menu in {CONFIG} {what}: {', '.join(pages)}.")


def _pages(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for below in nav.values() if isinstance(nav, dict) else nav:
            yield from _pages(below)


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else "site").resolve())
