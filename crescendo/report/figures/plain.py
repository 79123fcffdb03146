"""Parts of all figures: escaped names, lines with labels at their ends, axes, and the thinning of many points."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from crescendo.core.arrays import Array

Figure = dict[str, Any]


def shown_name(name: str) -> str:
    """Escape a name for plotly, which reads ``<b>`` and ``&amp;`` in texts as markup."""
    return html.escape(name, quote=False)


def figure(data: list[Figure], x: str, *, alt: str, ends: Sequence[Figure] = (), **layout: Any) -> Figure:
    """Return a figure whose x axis has the title ``x``; the page's heading names the y axis."""
    xaxis = {"title": {"text": x}, **layout.pop("xaxis", {})}
    return {"data": data, "layout": {"xaxis": xaxis, **layout}, "ends": list(ends), "alt": alt}


def line(x: Sequence[Any], y: Sequence[Any], name: str, colour: str, hover: str, **more: Any) -> Figure:
    """Return a line; ``dash``, ``width`` and ``shape`` go to its pen, all other keywords to the trace."""
    pen: Figure = {
        "color": colour,
        "width": 2,
        **{key: more.pop(key) for key in ("dash", "width", "shape") if key in more},
    }
    return {
        "type": "scatter", "mode": "lines", "x": list(x), "y": list(y), "name": shown_name(name), "line": pen,
        "hovertemplate": f"{hover}<extra></extra>", **more,
    }  # fmt: skip


def end(at: float, text: str, colour: str) -> Figure:
    """Return a label at the height ``at``, to the right of its line's end."""
    return {"at": at, "text": shown_name(text), "color": colour}


def log_axis(low: float, high: float) -> dict[str, Any]:
    """Return a logarithmic axis that reaches a little beyond ``low`` and ``high``; the page writes its ticks.

    >>> log_axis(1, 1000)
    {'type': 'log', 'range': [-0.15, 3.15]}
    """
    bottom, top = math.log10(low), math.log10(high)
    more = max(0.05 * (top - bottom), 0.1)
    return {"type": "log", "range": [round(bottom - more, 4), round(top + more, 4)]}


def rounds_axis(last: int) -> dict[str, Any]:
    """Return an axis of rounds from 0 to ``last``, with whole numbers as ticks.

    >>> rounds_axis(0), rounds_axis(100)
    ({'range': [-0.5, 0.5], 'dtick': 1}, {'range': [-2.0, 102.0]})
    """
    more = 0.02 * last if last else 0.5
    return {"range": [-more, last + more], **({"dtick": 1} if last <= 8 else {})}


def evenly(count: int, most: int) -> list[int]:
    """Return at most ``most`` of ``count`` places, evenly chosen, first and last included.

    >>> evenly(3, 5), evenly(9, 3)
    ([0, 1, 2], [0, 4, 8])
    """
    if count <= most:
        return list(range(count))
    chosen: list[int] = np.unique(np.linspace(0, count - 1, most).astype(np.int64)).tolist()
    return chosen


def telling(columns: Sequence[Sequence[float | None]], most: int) -> list[int]:
    """Return about ``most`` places that keep the look of curves: the highest and the lowest of each column in each stretch.

    Stretches are short at the start of a run and even later on, which suits both a linear and a logarithmic axis.

    >>> len(telling([[1.0] * 5], 100)), telling([[0.0, 0.0, 9.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0]], 8)
    (5, [0, 1, 2, 3, 5, 7, 9])
    """
    count = len(columns[0])
    if count <= most:
        return list(range(count))
    parts = max(1, most // (4 * len(columns)))
    edges = np.unique(
        np.concatenate([np.linspace(0, count, parts + 1), np.geomspace(1, count, parts + 1), [0]]).astype(np.int64)
    )
    kept = {0, count - 1}
    for first, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        for column in columns:
            known = [i for i in range(first, stop) if column[i] is not None]
            if known:
                kept |= {min(known, key=lambda i: column[i] or 0.0), max(known, key=lambda i: column[i] or 0.0)}
    return sorted(kept)


def largest_of_stretches(rows: Array, column: int, most: int) -> Array:
    """Return, for each of ``most`` stretches of rows, the row whose ``column`` is largest.

    >>> largest_of_stretches(np.array([[0, 1], [1, 5], [2, 3], [3, 4]]), 1, 2).tolist()
    [[1, 5], [3, 4]]
    """
    if len(rows) <= most:
        return rows
    parts = np.array_split(np.arange(len(rows)), most)
    return rows[[part[np.argmax(rows[part, column])] for part in parts]]
