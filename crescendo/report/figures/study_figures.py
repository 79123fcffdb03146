"""Figures of a study: a line per algorithm or setting, with a band or bars for the interval over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crescendo.report.figures.plain import Figure, end, figure, log_axis, shown_name
from crescendo.report.figures.plain import line as level_line
from crescendo.report.figures.privacy_figures import COLOURS
from crescendo.report.numbers import number

_DASHES = ("solid", "dash", "dot", "dashdot")
MOST_LINES = len(COLOURS)
_EARLY = 0.25  # of a curve's points: they do not affect the part of the axis that is shown


@dataclass(frozen=True, eq=False)
class StudyLine:
    """Means over seeds at each x. ``low`` and ``high`` are empty for one seed, and have None for a mean without bounds."""

    name: str
    x: Sequence[Any]
    mean: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


def bands(
    lines: Sequence[StudyLine], x: str, y: str, levels: Sequence[tuple[str, float]] = (), least: float = 0.0
) -> Figure:
    """Draw step curves of a score from ``least`` to 1: a model's score holds until the next model.

    Lines differ in colour and dash, so that they differ in print too.
    """
    shades = [
        shade
        for place, line in enumerate(lines)
        if line.low
        for shade in _band(line, COLOURS[place % MOST_LINES], least)
    ]
    curves, ends = [], []
    for place, line in enumerate(lines):
        colour, last = COLOURS[place % MOST_LINES], _last(line.mean)
        name = line.name if last is None else f"{line.name} {number(last)}"
        curves.append(
            {
                "type": "scatter", "mode": "lines", "x": list(line.x), "y": list(line.mean), "name": shown_name(name),
                "line": {"color": colour, "width": 2.5, "shape": "hv", "dash": _DASHES[place % 4]},
                "hovertemplate": f"%{{fullData.name}}: {y} %{{y:.4f}} at %{{x:,.5~s}}<extra></extra>",
            }
        )  # fmt: skip
        ends += [end(last, name, colour)] if last is not None else []
    furthest = max((at for line in lines for at in line.x), default=1)
    for name, at in levels:
        text = f"{name} {number(at)}"
        curves.append(level_line([0, furthest], [at, at], text, "@muted", text, dash="dot", width=1.5))
        ends.append(end(at, text, "@muted"))
    told = ", ".join(one["text"] for one in ends)
    return figure(
        [*shades, *curves], x, alt=f"{y[:1].upper()}{y[1:]} against {x}; at the end: {told}.", ends=ends,
        xaxis={"rangemode": "tozero"}, height=420,
    )  # fmt: skip


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def shown_range(
    lines: Sequence[StudyLine], levels: Sequence[tuple[str, float]] = (), least: float = 0.0
) -> list[float]:
    """Return the part of the y axis to show: the range of all but the first points, and of the levels.

    >>> shown_range([StudyLine("a", range(20), [0.1, 0.2, *[0.8] * 18])], [("commonest class", 0.7)])
    [0.692, 0.808]
    """
    late = [mean for line in lines for mean in line.mean[math.ceil(_EARLY * len(line.mean)) :]]
    known = [value for value in [*late, *(at for _, at in levels)] if value is not None]
    if not known:
        return [0.0, 1.0]
    pad = max(0.08 * (max(known) - min(known)), 0.005)
    return [round(max(least, min(known) - pad), 4), round(min(1.0, max(known) + pad), 4)]


def end_range(lines: Sequence[StudyLine], least: float = 0.0) -> list[float]:
    """Return the part of the y axis in which the curves end, so that a reader can distinguish their ends.

    >>> end_range([StudyLine("a", [0, 1], [0.1, 0.80]), StudyLine("b", [0, 1], [0.1, 0.84])])
    [0.76, 0.85]
    """
    ends = [line.mean[-1] for line in lines if line.mean and line.mean[-1] is not None]
    known = [end for end in ends if end is not None]
    if not known:
        return [0.0, 1.0]
    span = max(max(known) - min(known), 0.01)
    return [round(max(least, min(known) - span), 4), round(min(1.0, max(known) + span / 4), 4)]


def _band(line: StudyLine, colour: str, least: float) -> list[dict[str, Any]]:
    edge = {
        "type": "scatter",
        "mode": "lines",
        "x": list(line.x),
        "line": {"width": 0, "shape": "hv"},
        "hoverinfo": "skip",
    }
    low, high = (
        [None if bound is None else min(1.0, max(least, bound)) for bound in bounds] for bounds in (line.low, line.high)
    )
    below = {**edge, "y": low, "showlegend": False}
    above = {**edge, "y": high, "showlegend": False, "fill": "tonexty", "fillcolor": colour}
    return [below, above]


def dots(lines: Sequence[StudyLine], x: str, y: str, log: bool = False) -> Figure:
    """Draw measured points joined by lines, with a bar for each interval."""
    made, ends = [], []
    several, share = len(lines) > 1, y.startswith("accuracy")
    for place, line in enumerate(lines):
        colour, last = COLOURS[place % MOST_LINES], _last(line.mean)
        one: dict[str, Any] = {
            "type": "scatter", "mode": "lines+markers", "x": [_shown(x) for x in line.x], "y": list(line.mean),
            "name": shown_name(line.name), "line": {"color": colour, "width": 2, "dash": _DASHES[place % 4]},
            "marker": {"size": 7, "color": colour, "symbol": place % 4}, "cliponaxis": False,
            "hovertemplate": f"%{{fullData.name}}: {y} %{{y:.4f}} at %{{x}}<extra></extra>",
        }  # fmt: skip
        if line.low:
            one["error_y"] = {**_bars(line, share), "color": colour}
        made.append(one)
        ends += [end(last, line.name, colour)] if several and last is not None and line.mean[-1] is not None else []
    places = [at for line in lines for at in line.x]
    kind = log_axis(min(places), max(places)) if log else {} if _are_numbers(lines) else {"type": "category"}
    legend: dict[str, Any] = {}
    if several and len(ends) < len(lines):  # a line that stops early has no label at the end, so a legend names all
        ends, legend = [], {"showlegend": True}
    alt = f"{y} against {x}: " + "; ".join(_in_words(line) for line in lines) + "."
    return figure(
        made,
        shown_name(x),
        alt=alt,
        ends=ends,
        xaxis=kind,
        height=360,
        **legend,
    )


def _in_words(line: StudyLine) -> str:
    known = [(value, at) for value, at in zip(line.mean, line.x, strict=True) if value is not None]
    if not known:
        return f"{line.name} has no clean run"
    (low, there), (high, here) = min(known), max(known)
    return f"{line.name} from {low:.4g} at {there} to {high:.4g} at {here}"


def _shown(x: Any) -> Any:
    return shown_name(x) if isinstance(x, str) else x


def _bars(line: StudyLine, share: bool) -> dict[str, Any]:
    """Return the error bars of the intervals; for a ``share``, cut at 0 and 1."""
    most, least = (1.0, 0.0) if share else (float("inf"), float("-inf"))
    up, down = (
        [
            None if bound is None or mean is None else abs(min(most, max(least, bound)) - mean)
            for bound, mean in zip(bounds, line.mean, strict=True)
        ]
        for bounds in (line.high, line.low)
    )
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 1.5, "width": 4}


def _are_numbers(lines: Sequence[StudyLine]) -> bool:
    return all(isinstance(value, int | float) for line in lines for value in line.x)
