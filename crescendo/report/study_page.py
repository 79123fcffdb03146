"""Study pages: render the stories of sweeps and comparisons as HTML."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from crescendo.report.figures.study_figures import bands, dots, end_range, shown_range
from crescendo.report.rendering import rendered
from crescendo.report.study_story import ComparisonStory, SweepStory

_AXES = {
    "seconds": "virtual seconds",
    "gradients": "gradients over all clients",
    "bytes": "bytes sent and received",
}


def sweep_page(story: SweepStory, script: str | None = None, made_at: datetime | None = None) -> str:
    """Return a sweep's page with plotly's script inside, or at the relative path ``script``."""
    figures = {"swept": dots(story.lines, story.x, story.measure, story.log)} if story.lines else {}
    drawn = {"name": story.title, "curves": {}, "figures": figures}
    return rendered("sweep.html", "study.js", script, made_at, story=story, drawn=drawn)


def comparison_page(story: ComparisonStory, script: str | None = None, made_at: datetime | None = None) -> str:
    """Return a comparison's page with plotly's script inside, or at the relative path ``script``."""
    curves = {
        name: bands(lines, _AXES[name], story.measure, story.levels, story.least)
        for name, lines in story.curves.items()
    }
    figures: dict[str, Any] = {}
    if story.trials:
        figures["trials"] = dots(
            story.trials, "step size, times the run file's", f"{story.measure} on the validation part", log=True
        )
    lines = next(iter(story.curves.values()), [])
    drawn = {
        "name": story.title,
        "curves": curves,
        "figures": figures,
        "ends": end_range(lines, story.least),
        "shown": shown_range(lines, story.levels, story.least),
    }
    return rendered("comparison.html", "study.js", script, made_at, story=story, drawn=drawn)
