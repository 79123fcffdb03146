"""Writes a `Story` as HTML. Template, style and script lie beside this file.

Plotly's script has megabytes: the reports of a folder of runs share one copy of it, and a page that must open alone has its own.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from crescendo.report.figures import drawn
from crescendo.report.story import Story

if TYPE_CHECKING:
    from jinja2 import Template


def page(story: Story, script: str | None = None) -> str:
    """The report, which needs no network: with plotly's script inside, or with the copy of it at the relative path ``script``."""
    from markupsafe import Markup

    return _template().render(
        story=story,
        conditions=[(*said, "holds" if holds else "does not hold") for *said, holds in story.conditions],
        drawn=drawn(story),
        style=Markup(_asset("page.css")),
        behaviour=Markup(_asset("page.js")),
        script=script,
        plotly=Markup(_plotly()) if script is None else None,
    )


def write_page(story: Story, folder: Path, standalone: bool = False) -> None:
    """``report.html`` in ``folder``. Unless it is to open alone, it uses a copy of plotly's script beside ``folder``."""
    script = None if standalone else f"../{_shared_script(folder.resolve().parent)}"
    (folder / "report.html").write_text(page(story, script), encoding="utf-8")


def _shared_script(folder: Path) -> str:
    """The name of the script in ``folder``. It gets there whole or not at all, since other runs may be writing it too."""
    from plotly.offline import get_plotlyjs_version

    path = folder / f"plotly-{get_plotlyjs_version()}.min.js"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder, prefix=".plotly-") as draft:
            (Path(draft) / path.name).write_text(_plotly(), encoding="utf-8")
            (Path(draft) / path.name).replace(path)
    return path.name


@lru_cache(maxsize=1)
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    found = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return found.from_string(_asset("page.html"))


def _asset(name: str) -> str:
    return files("crescendo.report").joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
