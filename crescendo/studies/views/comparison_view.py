"""Views of a comparison: a repr line, a notebook table, a plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crescendo.errors import UsageError
from crescendo.report.numbers import size
from crescendo.studies.contestants import Contestant, course
from crescendo.studies.views.sweep_view import interval_text
from crescendo.views import html_lines, html_table, plotted, text_table

if TYPE_CHECKING:
    from crescendo.studies.comparing import Comparison

_AXES = {"gradients": "gradients over all clients", "seconds": "virtual seconds", "bytes": "bytes sent and received"}


def in_a_line(found: Comparison) -> str:
    rivals = ", ".join(one.name for one in found.rivals)
    score = found.ours.mean("score")
    ours = "none" if score is None else f"{score.mean:.4f}"
    return f"Comparison({found.name!r} with {rivals}: {found.score.name}={ours}, seeds={len(found.seeds)}, equal={found.equal!r})"


def _row(one: Contestant) -> tuple[str, str, str, str]:
    sent, rounds = one.mean("bytes"), one.mean("rounds")
    return (
        one.name,
        interval_text(one.mean("score")),
        "none" if rounds is None else f"{rounds.mean:,.0f}",
        "none" if sent is None else size(sent.mean),
    )


def _statements(found: Comparison) -> list[str]:
    said = [
        f"{what} against {one.rival}: {told.says}"
        for one in found.verdicts()
        for what, told in ((found.score.words, one.score), ("time", one.seconds), ("bytes", one.bytes))
    ]
    return said if (total := found.total) is None else [*said, total.sentence()]


def as_html(found: Comparison) -> str:
    rows = [(*_row(one), one.about) for one in found.contestants]
    head = ("algorithm", f"{found.score.words} over {len(found.seeds)} seeds", "rounds", "bytes", "")
    return html_table(rows, head) + html_lines(_statements(found))


def summary(found: Comparison) -> str:
    rows = [
        (name, f"{found.score.words} {score}", f"{rounds} rounds", sent)
        for name, score, rounds, sent in map(_row, found.contestants)
    ]
    return "\n".join([text_table(rows), *_statements(found)])


def plot(found: Comparison, against: str) -> Any:
    if against not in _AXES:
        raise UsageError(f"a comparison is plotted against one of {', '.join(_AXES)}, not {against!r}")
    import plotly.graph_objects as go

    figure = plotted()
    for one in found.contestants:
        x, means = course(one.outcomes, against)
        y = [None if mean is None else mean.mean for mean in means]
        figure.add_trace(go.Scatter(x=x, y=y, mode="lines", name=one.name))
    figure.update_layout(
        title=found.name, xaxis_title=_AXES[against], yaxis_title=f"{found.score.words}, mean over seeds"
    )
    return figure
