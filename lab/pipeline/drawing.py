"""Draws plots as SVG and PNG: the same bytes every time, in colours that colour-blind readers can distinguish."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.errors import ConfigError
from lab.pipeline.experiment import Line, Panel, Plot

# Okabe and Ito's colours, the ones that are plain to see on white first
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_STYLE: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "legend.fontsize": 9.5,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "svg.hashsalt": "crescendo",  # matplotlib draws ids at random without it
    "svg.fonttype": "path",  # letters look the same wherever the file is opened
    "savefig.dpi": 200,
}
_PANEL = (4.6, 3.3)  # inches
_NAMES = 1.4  # extra inches for names below an axis
_DASHES = {"": "none", "-": "-", "--": (0, (5, 2)), ":": (0, (1.5, 1.5))}


def check_drawing() -> None:
    """Raise ConfigError if matplotlib is missing: better before the runs than after them."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "the figures are drawn by matplotlib; install it with pip install 'crescendo-fl[plots]'"
        ) from error


def draw(plot: Plot, folder: Path) -> list[Path]:
    """Write NAME.svg and NAME.png, the same bytes in every run."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = min(plot.across, len(plot.panels))
    down = math.ceil(len(plot.panels) / across)
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_STYLE, "backend": "agg"}):
        height = _PANEL[1] + (_NAMES if any(panel.x_names for panel in plot.panels) else 0.0)
        figure = Figure(figsize=(_PANEL[0] * across, height * down), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(down, across, squeeze=False)
        for axes, panel in zip(grid.flat, plot.panels, strict=False):
            _panel(axes, panel)
        for axes in list(grid.flat)[len(plot.panels) :]:
            axes.set_visible(False)
        _legend(figure, list(grid.flat)[: len(plot.panels)])
        svg, png = folder / f"{plot.name}.svg", folder / f"{plot.name}.png"
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
        figure.savefig(png, metadata={"Software": None})
    return [svg, png]


def _panel(axes: Any, panel: Panel) -> None:
    for line in panel.lines:
        _line(axes, line)
    axes.set(title=panel.title, xlabel=panel.x_axis, ylabel=panel.y_axis, xscale=panel.x_scale, yscale=panel.y_scale)
    if panel.y_from is not None:
        tops = [value for line in panel.lines for value in (*line.y, *line.high) if value is not None]
        highest = max(tops, default=1.0)
        axes.set_ylim(panel.y_from, highest + 0.05 * (highest - panel.y_from))
    if panel.x_names:
        axes.set_xticks(range(len(panel.x_names)), panel.x_names, rotation=30, ha="right", rotation_mode="anchor")
        axes.set_xlim(-0.5, len(panel.x_names) - 0.5)
    elif panel.x_scale == "linear":
        axes.locator_params(axis="x", nbins=5)
        axes.xaxis.set_major_formatter("{x:,g}")
    else:
        _ticks_at_points(axes, panel)


def _ticks_at_points(axes: Any, panel: Panel) -> None:
    """Give a short logarithmic axis a tick at every point that has room for one; powers of ten would be too few."""
    points = sorted({x for line in panel.lines for x in line.x if x > 0})
    if not points or points[-1] > 500 * points[0] or len(points) > 20:
        return
    apart = 0.09 * math.log(points[-1] / points[0])
    kept = points[:1]
    for x in points[1:]:
        if math.log(x / kept[-1]) > apart:
            kept.append(x)
    axes.set_xticks(kept, [f"{x:,g}" for x in kept])
    axes.minorticks_off()


def _line(axes: Any, line: Line) -> None:
    colour = COLOURS[line.colour % len(COLOURS)]
    y = _numbers(line.y)
    if line.low:
        low, high = _numbers(line.low), _numbers(line.high)
        if line.style:
            axes.fill_between(line.x, low, high, color=colour, alpha=0.18, linewidth=0)
        else:
            axes.errorbar(line.x, y, (y - low, high - y), color=colour, fmt="none", capsize=2.5, linewidth=1.2)
    axes.plot(line.x, y, color=colour, linestyle=_DASHES[line.style], marker=line.marker or None, label=line.label)


def _numbers(values: tuple[float | None, ...]) -> Any:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _legend(figure: Any, panels: list[Any]) -> None:
    """Draw one legend below all panels, with each label once."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if len(found) > 1:
        across = min(len(found), 3 if len(panels) > 1 else 2)
        figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=across, frameon=False)
