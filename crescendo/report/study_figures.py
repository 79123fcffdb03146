"""The figures of a study: a line per algorithm or setting, with a band or bars for what the seeds leave open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crescendo.report.figures import figure, shown_name

_COLOURS = ("@accent", "@second", "@third", "@fourth", "@fifth", "@sixth", "@seventh", "@eighth")
_DASHES = ("solid", "dash", "dot", "dashdot")
MOST_LINES = len(_COLOURS)
LEGEND = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}}


@dataclass(frozen=True, eq=False)
class StudyLine:
    """Means over seeds at each x; ``low`` and ``high`` are empty where there is one seed, None where a mean has no bounds."""

    name: str
    x: Sequence[Any]
    mean: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


def bands(lines: Sequence[StudyLine], x: str, y: str) -> dict[str, Any]:
    """Step curves of an accuracy: a model stands until the next one is there. Colour and dash tell lines apart, in print too."""
    shades = [
        shade for place, line in enumerate(lines) if line.low for shade in _band(line, _COLOURS[place % MOST_LINES])
    ]
    curves = [
        {
            "type": "scatter", "mode": "lines", "x": list(line.x), "y": list(line.mean), "name": shown_name(line.name),
            "line": {"color": _COLOURS[place % MOST_LINES], "width": 2.5, "shape": "hv", "dash": _DASHES[place % 4]},
            "hovertemplate": f"%{{fullData.name}}: {y} %{{y:.4f}} at %{{x:,.5~s}}<extra></extra>",
        }
        for place, line in enumerate(lines)
    ]  # fmt: skip
    return figure(
        [*shades, *curves], x, y, showlegend=True, xaxis={"title": {"text": x}, "rangemode": "tozero"}, height=420,
        legend={**LEGEND, "traceorder": "normal"},
    )  # fmt: skip


def end_range(lines: Sequence[StudyLine]) -> list[float]:
    """The part of the y axis in which the curves end, so that their ends can be told apart.

    >>> end_range([StudyLine("a", [0, 1], [0.1, 0.80]), StudyLine("b", [0, 1], [0.1, 0.84])])
    [0.76, 0.85]
    """
    ends = [line.mean[-1] for line in lines if line.mean and line.mean[-1] is not None]
    known = [end for end in ends if end is not None]
    if not known:
        return [0.0, 1.0]
    span = max(max(known) - min(known), 0.01)
    return [round(max(0.0, min(known) - span), 4), round(min(1.0, max(known) + span / 4), 4)]


def _band(line: StudyLine, colour: str) -> list[dict[str, Any]]:
    edge = {
        "type": "scatter",
        "mode": "lines",
        "x": list(line.x),
        "line": {"width": 0, "shape": "hv"},
        "hoverinfo": "skip",
    }
    low, high = (
        [None if bound is None else min(1.0, max(0.0, bound)) for bound in bounds] for bounds in (line.low, line.high)
    )
    below = {**edge, "y": low, "showlegend": False}
    above = {**edge, "y": high, "showlegend": False, "fill": "tonexty", "fillcolor": colour}
    return [below, above]


def dots(lines: Sequence[StudyLine], x: str, y: str, log: bool = False) -> dict[str, Any]:
    """Measured points joined by lines, with a bar for each interval."""
    made = []
    for place, line in enumerate(lines):
        colour = _COLOURS[place % MOST_LINES]
        one: dict[str, Any] = {
            "type": "scatter", "mode": "lines+markers", "x": [_shown(x) for x in line.x], "y": list(line.mean),
            "name": shown_name(line.name), "line": {"color": colour, "width": 2, "dash": _DASHES[place % 4]},
            "marker": {"size": 7, "color": colour}, "cliponaxis": False,
            "hovertemplate": f"%{{fullData.name}}: {y} %{{y:.4f}} at %{{x}}<extra></extra>",
        }  # fmt: skip
        if line.low:
            one["error_y"] = _bars(line)
        made.append(one)
    kind = {"type": "log"} if log else {} if _are_numbers(lines) else {"type": "category"}
    title = {"text": shown_name(x)}
    return figure(made, "", y, showlegend=len(lines) > 1, xaxis={"title": title, **kind}, height=360)


def _shown(x: Any) -> Any:
    return shown_name(x) if isinstance(x, str) else x


def _bars(line: StudyLine) -> dict[str, Any]:
    up, down = (
        [
            None if bound is None or mean is None else abs(bound - mean)
            for bound, mean in zip(bounds, line.mean, strict=True)
        ]
        for bounds in (line.high, line.low)
    )
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 1.5, "width": 4}


def _are_numbers(lines: Sequence[StudyLine]) -> bool:
    return all(isinstance(value, int | float) for line in lines for value in line.x)
