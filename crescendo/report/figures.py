"""The figures of a report as plotly's plain dictionaries. Colours are names (``@accent``) that the page looks up, so that
one figure serves light and dark."""

import html
from typing import Any

import numpy as np

from crescendo.core.arrays import Array
from crescendo.report.story import Story

_Figure = dict[str, Any]

_MOST_POINTS = 4000
_MOST_BARS = 400
_AXES = {
    "gradients": "gradients over all clients",
    "k": "rounds completed",
    "bytes": "bytes sent and received",
    "seconds": "virtual seconds",
}


def drawn(story: Story) -> dict[str, Any]:
    """Every figure of a report by its name, and the curves, whose x the reader chooses."""
    found = {
        "rounds": _rounds(story),
        "steps": _steps(story),
        "timeline": _timeline(story),
        "staleness": _staleness(story),
    }
    if story.privacy is not None:
        found["spending"], found["attacks"] = _spending(story), _attacks(story)
    return {"curves": _curves(story), "figures": found}


def _thinned(rows: Array, most: int) -> Array:
    """At most ``most`` rows, evenly chosen, the last one included."""
    if len(rows) <= most:
        return rows
    return rows[np.unique(np.linspace(0, len(rows) - 1, most).astype(np.int64))]


def shown_name(name: str) -> str:
    """A name as plotly shows it letter by letter: it takes ``<b>`` and ``&amp;`` in texts for markup."""
    return html.escape(name, quote=False)


def figure(data: list[_Figure], x: str, y: str, **layout: Any) -> _Figure:
    axes = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}
    return {"data": data, "layout": {**axes, "showlegend": False, **layout}}


def _curves(story: Story) -> dict[str, Any]:
    """Accuracy and loss, with every x there is to choose from."""
    rows = story.metrics
    columns = {name: [row[name] for row in rows] for name in ("gradients", "k", "seconds")}
    columns["bytes"] = [row["bytes_up"] + row["bytes_down"] for row in rows]
    lines = {name: [row.get(name) for row in rows] for name in ("accuracy", "loss")}
    known = {name: values for name, values in lines.items() if any(value is not None for value in values)}
    return {"x": columns, "titles": _AXES, "y": known}


def _rounds(story: Story) -> _Figure:
    """How rounds grow, with the constant size they are compared with."""
    count = len(story.sizes)
    chosen = _thinned(story.sizes, _MOST_POINTS).tolist()
    at = _thinned_index(count)
    shape: _Figure = {
        "x": at,
        "y": chosen,
        "name": "this run",
        "hovertemplate": "round %{x}: %{y:,} gradients<extra></extra>",
    }
    if count <= _MOST_BARS:
        shape |= {"type": "bar", "marker": {"color": "@accent"}}
    else:
        shape |= {"type": "scatter", "mode": "lines", "fill": "tozeroy", "line": {"color": "@accent"}}
    line = {
        "type": "scatter", "mode": "lines", "x": [-0.5, count - 0.5], "y": [story.constant] * 2,
        "name": f"constant rounds of {story.constant:,}", "line": {"color": "@second", "dash": "dash", "width": 2},
        "hovertemplate": "constant rounds of %{y:,}<extra></extra>",
    }  # fmt: skip
    return figure([shape, line], "round", "gradients", bargap=0.25, showlegend=True)


def _thinned_index(count: int) -> list[int]:
    return [int(i) for i in _thinned(np.arange(count), _MOST_POINTS)]


def _steps(story: Story) -> _Figure:
    at, values = _thinned_index(len(story.steps)), _thinned(story.steps, _MOST_POINTS).tolist()
    line = {
        "type": "scatter", "mode": "lines+markers" if len(at) <= 60 else "lines", "x": at, "y": values,
        "line": {"color": "@accent", "shape": "hv"}, "hovertemplate": "round %{x}: %{y:.4g}<extra></extra>",
    }  # fmt: skip
    return figure([line], "round", "step size", yaxis={"title": {"text": "step size"}, "rangemode": "tozero"})


def _spending(story: Story) -> _Figure:
    """Epsilon of every client as the rounds go by, and what was stated."""
    found = story.privacy
    assert found is not None
    colours = ["@accent", "@second", "@third", "@fourth", "@fifth"]
    lines: list[_Figure] = [
        {
            "type": "scatter", "mode": "lines", "x": found.rounds, "y": course, "name": shown_name(name),
            "line": {"color": colours[j % len(colours)], "width": 2},
            "hovertemplate": "%{fullData.name}, round %{x}: epsilon %{y:.4g}<extra></extra>",
        }
        for j, (name, course) in enumerate(found.courses.items())
    ]  # fmt: skip
    if found.stated is not None and found.rounds:
        lines.append(
            {
                "type": "scatter", "mode": "lines", "x": [found.rounds[0], found.rounds[-1]], "y": [found.stated] * 2,
                "name": "stated", "line": {"color": "@ink", "dash": "dash", "width": 2},
                "hovertemplate": "stated: %{y:g}<extra></extra>",
            }
        )  # fmt: skip
    return figure(
        lines,
        "round",
        "epsilon spent",
        showlegend=True,
        yaxis={"title": {"text": "epsilon spent"}, "rangemode": "tozero"},
    )


def _attacks(story: Story) -> _Figure:
    """How many present records any attack can find, beside guessing."""
    assert story.privacy is not None
    accused, most = story.privacy.attacks
    best = {
        "type": "scatter", "mode": "lines", "x": accused[1:], "y": most[1:], "name": "best attack, at most",
        "line": {"color": "@accent", "width": 2.5},
        "hovertemplate": "accusing %{x:.2%} of absent records: at most %{y:.2%} of present ones<extra></extra>",
    }  # fmt: skip
    guess = {
        "type": "scatter", "mode": "lines", "x": accused[1:], "y": accused[1:], "name": "guessing",
        "line": {"color": "@second", "dash": "dash", "width": 2}, "hoverinfo": "skip",
    }  # fmt: skip
    axes: dict[str, Any] = {
        "xaxis": {"title": {"text": "absent records accused"}, "type": "log", "dtick": 1, "tickformat": "~%"},
        "yaxis": {"title": {"text": "present records found"}, "type": "log", "dtick": 1, "tickformat": "~%"},
    }
    return figure([best, guess], "", "", showlegend=True, **axes)


def _timeline(story: Story) -> _Figure:
    """A lane per client: work in two shades that alternate by round, waits, absences, and a line per broadcast."""
    bars = []
    for name, colour, odd in (("even rounds", "@accent", 0), ("odd rounds", "@soft", 1)):
        found = [
            (lane.name, start, end, f"round {i}")
            for lane in story.lanes
            for (start, end), i in zip(lane.work, lane.rounds, strict=True)
            if i % 2 == odd
        ]
        bars.append(_bars(name, colour, found))
    waits = [(lane.name, start, end, "waits") for lane in story.lanes for start, end in lane.waits]
    away = [(lane.name, start, end, "away") for lane in story.lanes for start, end in lane.away]
    bars += [
        _bars(name, colour, found)
        for name, colour, found in (("waiting", "@wait", waits), ("away", "@grid", away))
        if found
    ]
    ticks = _thinned(story.broadcasts, 300).tolist()
    shapes = [
        {"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1, "layer": "above",
         "line": {"color": "@ink", "width": 1, "dash": "dot"}, "opacity": 0.35}
        for at in ticks
    ]  # fmt: skip
    names = [shown_name(lane.name) for lane in story.lanes]
    return figure(
        bars, "virtual seconds", "", barmode="overlay", shapes=shapes, bargap=0.35, showlegend=True,
        height=130 + 34 * max(3, len(names)),
        yaxis={"categoryorder": "array", "categoryarray": names[::-1], "showgrid": False, "type": "category"},
    )  # fmt: skip


def _bars(name: str, colour: str, found: list[tuple[str, float, float, str]]) -> _Figure:
    return {
        "type": "bar", "orientation": "h", "name": name, "marker": {"color": colour, "line": {"width": 0}},
        "y": [shown_name(lane) for lane, *_ in found], "base": [start for _, start, *_ in found],
        "x": [end - start for _, start, end, _ in found], "customdata": [[start, end, word] for _, start, end, word in found],
        "hovertemplate": "%{y}, %{customdata[2]}: %{customdata[0]:,.4g} to %{customdata[1]:,.4g} s<extra></extra>",
    }  # fmt: skip


def _staleness(story: Story) -> _Figure:
    """How many updates each gradient's model lacked at most, and how many it was allowed to lack."""
    rows = _thinned(story.staleness, _MOST_POINTS)
    t, used, allowed = (rows[:, j].tolist() for j in range(3))
    dots = {
        "type": "scatter", "mode": "markers", "x": t, "y": used, "name": "used",
        "marker": {"color": "@accent", "size": 7, "opacity": 0.7}, "cliponaxis": False,
        "hovertemplate": "gradient %{x:,}: delay %{y:,}<extra></extra>",
    }  # fmt: skip
    line = {
        "type": "scatter", "mode": "lines", "x": t, "y": allowed, "name": "allowed",
        "line": {"color": "@second", "width": 2, "shape": "hv"},
        "hovertemplate": "gradient %{x:,}: allowed %{y:,.6g}<extra></extra>",
    }  # fmt: skip
    return figure([line, dots], "gradient (label t)", "delay in gradients", showlegend=True)
