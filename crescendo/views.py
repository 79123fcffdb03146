"""Views for notebooks: facts as lines of text and as a plain HTML table, and figures that can be written to files.

Tables have no colours, so they are readable in light and dark.
"""

from __future__ import annotations

import functools
import html
import importlib.util
import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from crescendo.errors import ConfigError

Rows = Sequence[Sequence[str]]


def text_table(rows: Rows) -> str:
    """Return rows as aligned columns; all but the first and the last are numbers, aligned to the right.

    >>> print(text_table([("rounds", "9", "that grow"), ("accuracy", "0.8412", "on the test part")]))
    rounds         9  that grow
    accuracy  0.8412  on the test part
    """
    wide = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    last = len(wide) - 1
    return "\n".join(
        "  ".join(
            cell if at == last and at else f"{cell:<{wide[at]}}" if not at else f"{cell:>{wide[at]}}"
            for at, cell in enumerate(row)
        ).rstrip()
        for row in rows
    )


def html_table(rows: Rows, head: Sequence[str] = ()) -> str:
    """Return rows as an HTML table with escaped cells.

    >>> html_table([("a", "<b>")])
    "<table><tr><td style='text-align:left'>a</td><td style='text-align:left'>&lt;b&gt;</td></tr></table>"
    """
    named = "<tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in head) + "</tr>" if head else ""
    return f"<table>{named}{''.join(map(_html_row, rows))}</table>"


def _html_row(row: Sequence[str]) -> str:
    last = len(row) - 1
    return (
        "<tr>"
        + "".join(
            f"<td style='text-align:{'right' if 0 < at < last else 'left'}'>{html.escape(cell)}</td>"
            for at, cell in enumerate(row)
        )
        + "</tr>"
    )


def html_lines(lines: Iterable[str]) -> str:
    """Return each sentence as an HTML paragraph.

    >>> html_lines(["1 < 2"])
    '<p>1 &lt; 2</p>'
    """
    return "".join(f"<p>{html.escape(line)}</p>" for line in lines)


def plotted(*traces: Any) -> Any:
    """Return a plotly figure of ``traces`` that matplotlib writes as PDF, SVG or PNG if plotly's kaleido is not installed."""
    return _drawable()(data=list(traces))


@functools.cache
def _drawable() -> Any:
    import plotly.graph_objects as go

    class DrawableFigure(go.Figure):  # type: ignore[misc]  # plotly has no types
        def to_image(self, format: str | None = None, **options: Any) -> bytes:
            if importlib.util.find_spec("kaleido") is not None:
                return bytes(super().to_image(format=format, **options))
            return _drawn(self, (format or "png").lower())

        def write_image(self, file: Any, format: str | None = None, **options: Any) -> None:
            named = isinstance(file, str | Path)
            content = self.to_image(format=format or (Path(file).suffix[1:] if named else "png"), **options)
            if named:
                Path(file).write_bytes(content)
            else:
                file.write(content)

    return DrawableFigure


_DRAWN = ("pdf", "svg", "png")


def _drawn(figure: Any, form: str) -> bytes:
    """Draw the lines of a plotly figure with matplotlib."""
    if form not in _DRAWN:
        raise ConfigError(
            f"a figure can be written as {', '.join(_DRAWN)}, not as {form or 'nothing'}; for a page write "
            "figure.write_html('plot.html')"
        )
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ConfigError(
            f"writing a figure as {form} needs matplotlib; install it with pip install 'crescendo-fl[plots]', or write a page: "
            "figure.write_html('plot.html')"
        ) from None
    drawing: Any = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(drawing)
    axes, layout = drawing.subplots(), figure.layout
    for trace in figure.data:
        _draw(axes, trace)
    axes.set(title=layout.title.text or "", xlabel=layout.xaxis.title.text or "", ylabel=layout.yaxis.title.text or "")
    for name, axis in (("x", layout.xaxis), ("y", layout.yaxis)):
        if axis.type == "log":
            getattr(axes, f"set_{name}scale")("log")
    if len(figure.data) > 1:
        axes.legend()
    axes.grid(alpha=0.3)
    made = io.BytesIO()
    drawing.savefig(made, format=form, dpi=200, metadata={"Software": None} if form == "png" else _UNDATED[form])
    return made.getvalue()


_UNDATED = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}


def _draw(axes: Any, trace: Any) -> None:
    y = [math.nan if value is None else value for value in trace.y]
    x = list(range(len(y))) if trace.x is None else list(trace.x)
    style = {"marker": "o"} if "markers" in (trace.mode or "") else {}
    steps = {"drawstyle": "steps-post"} if trace.line.shape == "hv" else {}
    name = html.unescape(trace.name or "")
    up, down = trace.error_y.array, trace.error_y.arrayminus
    if up is None:
        axes.plot(x, y, label=name, **style, **steps)
    else:
        sides = (down if down is not None else up, up)
        bars = [[math.nan if value is None else value for value in side] for side in sides]
        axes.errorbar(x, y, yerr=bars, label=name, capsize=3, **style)
