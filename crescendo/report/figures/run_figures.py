"""Figures of a run's report, by name, and its curves, whose x axis the reader chooses."""

from __future__ import annotations

from typing import Any

from crescendo.report.figures.plain import (
    Figure,
    end,
    evenly,
    figure,
    largest_of_stretches,
    line,
    log_axis,
    rounds_axis,
)
from crescendo.report.figures.privacy_figures import attacks, spending
from crescendo.report.figures.timeline import timeline
from crescendo.report.measures import Measure
from crescendo.report.numbers import level
from crescendo.report.story import Story

_MOST_POINTS = 400
_AXES = {
    "k": "rounds completed",
    "gradients": "gradients over all clients",
    "bytes": "bytes sent and received",
    "seconds": "virtual seconds",
}
_REFERENCES = {
    "without noise": ("@second", "dash"),
    "pooled": ("@third", "dashdot"),
    "regression": ("@third", "dashdot"),
}
_GUESS = ("@muted", "dot")  # an answer that ignores the record


def drawn(story: Story) -> dict[str, Any]:
    """Return the data that the page's script draws."""
    found = {
        "exchanges": _exchanges(story),
        "steps": _steps(story),
        "timeline": timeline(story.lanes, story.broadcasts.tolist()),
        "staleness": _staleness(story),
    }
    if story.privacy is not None:
        found["spending"], found["attacks"] = spending(story.privacy), attacks(story.privacy)
    return {"name": story.title, "curves": _curves(story), "figures": found}


def _curves(story: Story) -> dict[str, Any]:
    """Return the measures, with every x axis that the reader can choose."""
    rows = story.metrics
    columns = {name: [row[name] for row in rows] for name in ("k", "gradients", "seconds")}
    columns["bytes"] = [row["bytes_up"] + row["bytes_down"] for row in rows]
    made = []
    for one in story.measures:
        first, last = (next((v for v in values if v is not None), None) for values in (one.values, one.values[::-1]))
        levels = [
            {"name": name, "at": at, "text": f"{name} {level(at)}", "color": colour, "dash": dash}
            for name, at in one.references
            for colour, dash in (_REFERENCES.get(name, _GUESS),)
        ]
        beside = "".join(f", {name} {level(at)}" for name, at in one.references)
        made.append(
            {
                "id": one.key, "y": one.values, "shown": one.shown, "levels": levels, "remark": one.remark, "log": _spread(one),
                "first": None if first is None else level(first),
                "last": None if last is None else {"at": last, "text": f"this run {level(last)}"},
                "alt": f"{one.words} over {rows[-1]['k']:,} rounds: from {level(first)} to {level(last)}{beside}.",
            }
        )  # fmt: skip
    return {"x": columns, "titles": _AXES, "measures": made}


def _spread(one: Measure) -> Figure | None:
    """Return the logarithmic axis for a loss whose values differ widely, or None."""
    known = [value for value in [*one.values, *(at for _, at in one.references)] if value is not None and value > 0]
    return log_axis(min(known), max(known)) if one.log else None


def _exchanges(story: Story) -> Figure:
    """Draw the rounds that the gradients took, and those they would take in constant rounds: a slope of 1 on these axes."""
    count, (first, rounds) = len(story.sizes), story.constant
    done = story.sizes.cumsum().tolist()
    places = sorted({*evenly(count, _MOST_POINTS), *(int(1.05**j) for j in range(200) if 1.05**j < count)})
    name, others = f"this run {count:,}", f"constant rounds {rounds:,}"
    ours = line(
        [done[i] for i in places], [i + 1 for i in places], name, "@accent", "%{x:,} gradients: round %{y:,}",
        mode="lines+markers" if count <= 30 else "lines", width=2.5,
    )  # fmt: skip
    most = max(count, rounds) if story.savings else count
    axes = {"xaxis": log_axis(min(first, done[0]), done[-1]), "yaxis": log_axis(1, most)}
    x = "gradients over all clients"
    if not story.savings:  # nothing to compare with: rounds that do not grow, or a run that is no result
        alt = f"{done[-1]:,} gradients in {count:,} rounds."
        return figure([ours], x, alt=alt, ends=[end(count, name, "@accent")], **axes)
    theirs = line(
        [min(first, done[-1]), done[-1]],
        [1, rounds],
        others,
        "@second",
        f"constant rounds of {first:,}: %{{y:,}}",
        dash="dash",
    )
    alt = f"{done[-1]:,} gradients took {count:,} rounds; in constant rounds of {first:,} they would take {rounds:,}."
    ends = [end(count, name, "@accent"), end(rounds, others, "@second")]
    return figure([theirs, ours], x, alt=alt, ends=ends, **axes)


def _steps(story: Story) -> Figure:
    at = evenly(len(story.steps), _MOST_POINTS)
    values = story.steps[at].tolist()
    curve = line(
        at,
        values,
        "step size",
        "@accent",
        "round %{x:,}: %{y:.4g}",
        shape="hv",
        mode="lines+markers" if len(at) <= 60 else "lines",
    )
    wide = min(values) > 0 and max(values) > 30 * min(values)
    yaxis = log_axis(min(values), max(values)) if wide else {"rangemode": "tozero"}
    alt = (
        f"Step sizes of {len(story.steps):,} rounds: from {values[0]:.4g} in the first to {values[-1]:.4g} in the last."
    )
    return figure([curve], "round", alt=alt, xaxis=rounds_axis(len(story.steps) - 1), yaxis=yaxis)


def _staleness(story: Story) -> Figure:
    """Draw the updates that each gradient's model lacked, and the limit, which a client waits rather than reach."""
    rows = largest_of_stretches(story.staleness, 1, _MOST_POINTS)
    t, used, allowed = (rows[:, j].tolist() for j in range(3))
    dots: Figure = {
        "type": "scatter", "mode": "markers", "x": t, "y": used, "name": "used",
        "marker": {"color": "@accent", "size": 5}, "cliponaxis": False,
        "hovertemplate": "gradient %{x:,}: delay %{y:,}<extra></extra>",
    }  # fmt: skip
    limit = line(t, allowed, "limit", "@second", "gradient %{x:,}: below %{y:,.6g}", shape="hv")
    if len(rows) == 1:  # a line of one point is not seen
        limit |= {"mode": "markers", "marker": {"color": "@second", "size": 12, "symbol": "line-ew-open"}}
    most, bound = (max(values, default=0.0) for values in (used, allowed))
    alt = f"Delays of gradients: at most {most:,.0f}, where each stays below its limit, {bound:,.0f} at most."
    ends = [end(allowed[-1], f"limit, at most {bound:,.0f}", "@second")] if len(rows) else []
    furthest = max(t, default=1.0) or 1.0
    axes = {"xaxis": {"range": [0, 1.015 * furthest]}, "yaxis": {"rangemode": "tozero"}}
    return figure([limit, dots], "gradient (label t)", alt=alt, ends=ends, **axes)
