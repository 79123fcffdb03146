"""The report of a run: writes a `Story` as HTML."""

from pathlib import Path

from crescendo.report.figures import drawn
from crescendo.report.rendering import rendered, shared_script
from crescendo.report.story import Story


def page(story: Story, script: str | None = None) -> str:
    """The report, which needs no network: with plotly's script inside, or with the copy of it at the relative path ``script``."""
    return rendered(
        "page.html",
        "page.js",
        script,
        story=story,
        conditions=[(*said, "holds" if holds else "does not hold") for *said, holds in story.conditions],
        drawn=drawn(story),
    )


def write_page(story: Story, folder: Path, standalone: bool = False) -> None:
    """``report.html`` in ``folder``. Unless it is to open alone, it uses a copy of plotly's script beside ``folder``."""
    script = None if standalone else f"../{shared_script(folder.resolve().parent)}"
    (folder / "report.html").write_text(page(story, script), encoding="utf-8")
