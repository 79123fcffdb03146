"""The pages of studies: a sweep's and a comparison's stories as HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crescendo.report.rendering import rendered, shared_script
from crescendo.report.study_figures import bands, dots, end_range
from crescendo.report.study_story import ComparisonStory, SweepStory

_AXES = {
    "seconds": "virtual seconds",
    "gradients": "gradients over all clients",
    "bytes": "bytes sent and received",
}


def sweep_page(story: SweepStory, script: str | None = None) -> str:
    """A page with plotly's script inside, or with the copy of it at the relative path ``script``."""
    figures = {"swept": dots(story.lines, story.x, story.measure, story.log)} if story.lines else {}
    return rendered("sweep.html", "study.js", script, story=story, drawn={"curves": {}, "figures": figures})


def comparison_page(story: ComparisonStory, script: str | None = None) -> str:
    """The same for a comparison."""
    curves = {name: bands(lines, _AXES[name], "accuracy") for name, lines in story.curves.items()}
    figures: dict[str, Any] = {}
    if story.trials:
        figures["trials"] = dots(
            story.trials, "step size, times the run file's", "accuracy on the validation part", log=True
        )
    ends = end_range(next(iter(story.curves.values()), []))
    drawn = {"curves": curves, "figures": figures, "ends": ends}
    return rendered("comparison.html", "study.js", script, story=story, drawn=drawn)


def script_for(folder: Path, standalone: bool) -> str | None:
    """Where a page in ``folder`` finds plotly's script: beside the folder, or inside the page."""
    return None if standalone else f"../{shared_script(folder.resolve().parent)}"
