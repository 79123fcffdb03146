"""Views of a sweep: a repr line, a notebook table, a plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from crescendo.studies.intervals import Interval
from crescendo.views import html_lines, html_table, plotted, text_table

if TYPE_CHECKING:
    from crescendo.studies.sweeping import Sweep

_MOST_TROUBLES = 5


def interval_text(mean: Interval | None) -> str:
    """
    >>> interval_text(Interval(0.5, 0.4, 0.6, 3)), interval_text(None), interval_text(Interval(0.5, None, None, 1))
    ('0.5000 (0.4000 to 0.6000)', 'none', '0.5000')
    """
    if mean is None:
        return "none"
    return f"{mean.mean:.4f}" + (mean.lacks if mean.low is None else f" ({mean.low:.4f} to {mean.high:.4f})")


def _setting(keys: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in zip(keys, values, strict=True)) or "as the file says"


def in_a_line(found: Sweep) -> str:
    best = found.best()
    mean = None if best is None else best.mean(found.measure)
    at = (
        ""
        if best is None or mean is None
        else f", best {found.score.name if found.score else 'loss'}={mean.mean:.4f} at {_setting(found.varied, best.values)}"
    )
    return f"Sweep({found.name!r}: {len(found.points)} runs over {', '.join(found.keys)}{at})"


def _sweep_rows(found: Sweep) -> list[tuple[str, str, str]]:
    best = found.best()
    chosen = None if best is None else best.values
    return [
        (
            _setting(found.varied, group.values),
            f"{found.words} {interval_text(group.mean(found.measure))}",
            "best" if group.values == chosen else "" if group.clean else "not every run ended well",
        )
        for group in found.groups()
    ]


def as_html(found: Sweep) -> str:
    return html_table(_sweep_rows(found), ("setting", "mean over seeds", "")) + html_lines(_total(found))


def summary(found: Sweep) -> str:
    return "\n".join([text_table(_sweep_rows(found)), *_total(found)])


def troubles(found: Sweep) -> list[str]:
    """Return a sentence for each different failure: the number of runs that had it and the first run's setting."""
    wrong: dict[tuple[str, str], list[str]] = {}
    for point in found.points:
        if point.outcome.status != "done":
            setting = " ".join(f"{key}={value}" for key, value in zip(found.keys, point.values, strict=True))
            wrong.setdefault((point.outcome.status, point.outcome.says), []).append(setting)
    said = []
    for (status, says), settings in list(wrong.items())[:_MOST_TROUBLES]:
        what = "diverged or did not learn" if status == "diverged" else status
        said.append(f"{len(settings):,} {what}, such as {settings[0]}: {says}")
    if len(wrong) > _MOST_TROUBLES:
        said.append(f"the page has {len(wrong) - _MOST_TROUBLES:,} more such sentences")
    return said


def _total(found: Sweep) -> list[str]:
    return [*troubles(found), *([] if (total := found.total) is None else [total.sentence()])]


def plot(found: Sweep) -> Any:
    import plotly.graph_objects as go

    groups = [(group, mean) for group in found.groups() if (mean := group.mean(found.measure)) is not None]
    up = [None if mean.high is None else mean.high - mean.mean for _, mean in groups]
    down = [None if mean.low is None else mean.mean - mean.low for _, mean in groups]
    figure = plotted(
        go.Scatter(
            x=[_setting(found.varied, group.values) for group, _ in groups],
            y=[mean.mean for _, mean in groups],
            error_y={"type": "data", "array": up, "arrayminus": down},
            mode="markers",
        )
    )
    figure.update_layout(title=found.name, yaxis_title=f"{found.words}, mean over seeds with its 95% interval")
    return figure
