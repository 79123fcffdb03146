"""Report page of a run: renders a `Story` as HTML."""

from datetime import datetime
from pathlib import Path

from crescendo.report.figures.run_figures import drawn
from crescendo.report.rendering import rendered, script_for
from crescendo.report.story import Story


def page(story: Story, script: str | None = None, made_at: datetime | None = None) -> str:
    """Return the report, which needs no network: with plotly's script inside, or at the relative path ``script``.

    ``made_at`` is the date shown; without one, the same run gives the same page.
    """
    return rendered("page.html", "page.js", script, made_at, story=story, drawn=drawn(story))


def write_page(story: Story, folder: Path, standalone: bool = False, made_at: datetime | None = None) -> None:
    """Write ``report.html`` into ``folder``. Unless ``standalone``, it uses a copy of plotly's script next to ``folder``."""
    (folder / "report.html").write_text(page(story, script_for(folder, standalone), made_at), encoding="utf-8")
