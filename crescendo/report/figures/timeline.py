"""Timeline figure: when clients worked, waited and were away.

Pieces of work are drawn as bars if the eye can separate them. If it cannot, shares of time are drawn: bars thinner than a pixel
would form moiré patterns with the screen's grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.report.figures.plain import Figure, shown_name
from crescendo.report.lanes import Lane, Lanes, Span
from crescendo.report.numbers import share

_MOST_PIECES = 30  # of work in a lane, and lanes in a figure, that the eye can separate
_MOST_BROADCASTS = 30
_MOST_STRETCHES = 60  # of time, where shares are drawn


def timeline(lanes: Lanes, broadcasts: Sequence[float]) -> Figure:
    """Draw a lane per client, and next to it the share of its time that it waited."""
    shown = lanes.shown
    fine = max((len(lane.work) for lane in shown), default=0) > _MOST_PIECES or len(shown) > _MOST_PIECES
    data = _shares(shown, broadcasts) if fine else _pieces(shown)
    names = [shown_name(lane.name) for lane in shown]
    high = 34 if len(shown) <= 12 else 22 if len(shown) <= 24 else 12
    many = len(broadcasts) > _MOST_BROADCASTS or fine
    alt = (
        f"Timeline of {len(shown):,} of {lanes.clients:,} clients; together they waited {share(lanes.waiting)} of their time, "
        f"from {share(min((lane.waiting for lane in shown), default=0.0))} to "
        f"{share(max((lane.waiting for lane in shown), default=0.0))} by client."
    )
    return {
        "data": [*data, _waiting(shown)],
        "layout": {
            "barmode": "overlay", "bargap": 0.3, "height": 90 + high * max(3, len(names)), "showlegend": not fine,
            "shapes": [] if many else [_mark(at) for at in broadcasts],
            "annotations": [_heading()],
            "xaxis": {"ticksuffix": " s", "ticks": "", "domain": [0, 0.78], "rangemode": "tozero", "tickangle": 0, "nticks": 5},
            "xaxis2": {
                "ticks": "", "domain": [0.83, 1], "range": [0, 1.35], "tickformat": ".0%", "tickvals": [0, 1], "tickangle": 0,
                "fixedrange": True,
            },
            "yaxis": {
                "ticks": "", "categoryorder": "array", "categoryarray": names[::-1], "showgrid": False, "type": "category",
                "tickmode": "array", "tickvals": _labelled(names),
            },
        },
        "ends": [],
        "alt": alt,
        "fine": fine,
    }  # fmt: skip


def _labelled(names: list[str]) -> list[str]:
    """Return the names to write: all of a few, every second or third of many."""
    return names[:: max(1, -(-len(names) // 24))]


def _heading() -> Figure:
    """Return the heading above the bars on the right."""
    return {
        "xref": "paper", "yref": "paper", "x": 0.83, "y": 1, "xanchor": "left", "yanchor": "bottom", "showarrow": False,
        "text": "% waiting", "font": {"size": 12, "color": "@ink"},
    }  # fmt: skip


def _mark(at: float) -> Figure:
    return {
        "type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1, "layer": "above",
        "line": {"color": "@ink", "width": 1, "dash": "dot"}, "opacity": 0.4,
    }  # fmt: skip


def _waiting(lanes: list[Lane]) -> Figure:
    few = len(lanes) <= 24
    return {
        "type": "bar", "orientation": "h", "xaxis": "x2", "name": "share waiting", "showlegend": False,
        "y": [shown_name(lane.name) for lane in lanes], "x": [round(lane.waiting, 4) for lane in lanes],
        "text": [share(lane.waiting) for lane in lanes] if few else None, "textposition": "outside", "cliponaxis": False,
        "marker": {"color": "@waiting", "line": {"width": 0}},
        "hovertemplate": "%{y} waited %{x:.1%} of its time<extra></extra>",
    }  # fmt: skip


# -- few pieces: each is a bar ---------------------------------------------------------------------------------------------


def _pieces(lanes: list[Lane]) -> list[Figure]:
    """Return bars of work, in two shades that alternate by round, of waits and of absences."""
    bars = []
    for name, colour, odd in (("even rounds", "@accent", 0), ("odd rounds", "@soft", 1)):
        found = [
            (lane.name, start, end, f"round {i}")
            for lane in lanes
            for (start, end), i in zip(lane.work, lane.rounds, strict=True)
            if i % 2 == odd
        ]
        bars.append(_bars(name, colour, found))
    for name, colour, word in (("waiting", "@wait", "waits"), ("away", "@grid", "away")):
        spans = [
            (lane.name, start, end, word)
            for lane in lanes
            for start, end in (lane.waits if word == "waits" else lane.away)
        ]
        bars += [_bars(name, colour, spans)] if spans else []
    return [bar for bar in bars if bar["x"]]


def _bars(name: str, colour: str, found: list[tuple[str, float, float, str]]) -> Figure:
    return {
        "type": "bar", "orientation": "h", "name": name, "marker": {"color": colour, "line": {"width": 0}},
        "y": [shown_name(lane) for lane, *_ in found], "base": [start for _, start, *_ in found],
        "x": [end - start for _, start, end, _ in found], "customdata": [[start, end, word] for _, start, end, word in found],
        "hovertemplate": "%{y}, %{customdata[2]}: %{customdata[0]:,.4g} to %{customdata[1]:,.4g} s<extra></extra>",
    }  # fmt: skip


# -- many pieces: shares of stretches of time ------------------------------------------------------------------------------


def _shares(lanes: list[Lane], broadcasts: Sequence[float]) -> list[Figure]:
    """Return the share of each stretch of time at work. Stretches mostly away are marked; those after the end are empty."""
    last = max((end for lane in lanes for spans in (lane.work, lane.waits, lane.away) for _, end in spans), default=1.0)
    edges = np.array(_stretches(broadcasts, last))
    names, cells, gone = [shown_name(lane.name) for lane in lanes], [], []
    middle = (edges[:-1] + edges[1:]) / 2
    for lane in lanes:
        work, away = _covered(lane.work, edges), _covered(lane.away, edges)
        over = middle > max((end for _, end in lane.work), default=0.0)  # it has finished
        hidden = (over | (away > 0.5)).tolist()
        cells.append([None if hide else part for hide, part in zip(hidden, work.round(2).tolist(), strict=True)])
        gone.append([1 if part > 0.5 else None for part in away.tolist()])
    grid: Figure = {"type": "heatmap", "x": edges.round(6).tolist(), "y": names, "ygap": 1, "hoverongaps": False}
    bar = {
        "tickvals": [0.02, 0.98], "ticktext": ["waiting", "at work"], "tickfont": {"size": 12}, "tickangle": 0, "thickness": 10,
        "lenmode": "pixels", "len": 170, "outlinewidth": 0,
        "orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "xanchor": "left",
    }  # fmt: skip
    made = [
        {
            **grid, "z": cells, "zmin": 0, "zmax": 1, "colorscale": [[0, "@wait"], [1, "@accent"]], "colorbar": bar,
            "hovertemplate": "%{y} around %{x:,.4g} s: at work %{z:.0%} of the time<extra></extra>",
        }
    ]  # fmt: skip
    if any(cell for row in gone for cell in row):
        hover = "%{y} around %{x:,.4g} s: away<extra></extra>"
        shade = [[0, "@away"], [1, "@away"]]
        made.append({**grid, "z": gone, "colorscale": shade, "showscale": False, "hovertemplate": hover})
    return made


def _stretches(broadcasts: Sequence[float], last: float) -> list[float]:
    """Return edges from 0 to ``last`` at broadcasts: stretches that begin and end with rounds form no moiré with them.

    >>> _stretches([0.5, 1.0, 60.0, 61.5, 90.0], 100.0)
    [0.0, 60.0, 90.0, 100.0]
    """
    edges, least = [0.0], last / _MOST_STRETCHES
    for at in broadcasts:
        if at - edges[-1] >= least and last - at >= least:
            edges.append(float(at))
    return [*edges, last]


def _covered(spans: Sequence[Span], edges: Floats) -> Any:
    """Return the share of each stretch between ``edges`` covered by ``spans``, which are sorted and disjoint.

    >>> _covered([(0.0, 1.0), (1.5, 4.0)], np.array([0.0, 2.0, 4.0])).tolist()
    [0.75, 1.0]
    """
    if not spans:
        return np.zeros(len(edges) - 1)
    ends = np.array(spans).ravel()
    lengths = np.repeat(np.cumsum([end - start for start, end in spans]), 2)
    lengths[::2] = np.concatenate([[0.0], lengths[1:-1:2]])
    before = np.interp(edges, ends, lengths, left=0.0, right=float(lengths[-1]))
    return np.clip(np.diff(before) / np.diff(edges), 0.0, 1.0)
