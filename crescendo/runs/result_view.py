"""A result as people look at it: a few lines, a table in a notebook, a history, a plot. No record is ever shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crescendo.core.arrays import Array
from crescendo.data.from_arrays import records_of
from crescendo.errors import UsageError
from crescendo.federation.divergence import LEARNED_NOTHING
from crescendo.report.numbers import number, size
from crescendo.views import html_lines, html_table, text_table

if TYPE_CHECKING:
    from crescendo.runs.result import Result

_PLOTTED = ("gradients", "k", "seconds", "bytes")
_AXES = {"gradients": "gradients over all clients", "k": "rounds completed", "seconds": "virtual seconds"}


def facts(result: Result) -> list[tuple[str, str, str]]:
    """What it is, its value, and what that means."""
    terms, data = result.prepared.terms, result.prepared.dataset
    rows = [
        ("data", data.name, f"{len(data.train):,} training records, {terms.clients:,} clients"),
        ("model", *_trained(result)),
        ("loss", number(result.loss), "on the training records"),
        ("rounds", f"{result.rounds:,}", f"{result.gradients:,} gradients over all clients"),
        ("sent and received", size(result.bytes_up + result.bytes_down), f"in {result.broadcasts:,} broadcasts"),
        ("virtual time", f"{result.virtual_seconds:,.4g} s", f"simulated in {result.wall_seconds:.2f} s"),
    ]
    if (mapping := result.prepared.label_mapping) is not None:
        rows.insert(1, ("labels", f"{len(data.classes):,}", f"{mapping}, as the model sees them"))
    rows[1:1] = tested(result)
    if result.privacy is not None:
        epsilon, delta = result.privacy["epsilon"], result.privacy["delta"]
        rows.insert(
            2, ("epsilon", f"{epsilon:.4g}", f"at delta {delta:g}, in a real federation; this run was simulated")
        )
    return rows


def _trained(result: Result) -> tuple[str, str]:
    """What was trained, and on what: a column of numbers that was taken for classes is seen at once."""
    data, kind = result.prepared.dataset, result.trained
    name = result.prepared.config.objective.kind if kind == "own" else kind
    labels = f"{len(data.classes):,} classes" if data.classes else "numbers"
    return name, f"on {data.features:,} feature{'s' if data.features != 1 else ''}, for {labels}"


def tested(result: Result) -> list[tuple[str, str, str]]:
    """What the last model is worth on the test part: its accuracy or, where numbers are predicted, its error and R^2."""
    last = result.metrics[-1]
    known = ("accuracy", "rmse", "r2")
    means = {
        "rmse": "root of the mean squared error, on the test part",
        "r2": "share of the labels' variance explained there",
    }
    return [
        (name, number(last[name]), means.get(name, "on the test part")) for name in known if last.get(name) is not None
    ]


def in_a_line(result: Result) -> str:
    """What ``repr`` gives."""
    accuracy = "".join(f"{name}={value}, " for name, value, _ in tested(result))
    epsilon = "" if result.privacy is None else f", epsilon={result.privacy['epsilon']:.4g} (simulated)"
    clients = result.prepared.terms.clients
    says = result.diverged
    diverged = "" if says is None else ", did not learn" if says.startswith(LEARNED_NOTHING) else ", diverged"
    return f"Result({accuracy}loss={number(result.loss)}, rounds={result.rounds}, clients={clients}{epsilon}{diverged})"


def summary(result: Result) -> str:
    """Plain text, a line for each fact, whether the run diverged, and what became of a table's columns."""
    return "\n".join([text_table(facts(result)), *_mind(result), *result.prepared.dataset.notes])


def as_html(result: Result) -> str:
    """What a notebook shows."""
    meant = [] if result.privacy is None or result.prepared.privacy is None else result.prepared.privacy.sentences()
    return html_table(facts(result)) + html_lines([*_mind(result), *result.prepared.dataset.notes, *meant])


def _mind(result: Result) -> list[str]:
    return [] if result.diverged is None else [f"Mind: {result.diverged}."]


def history(rows: Sequence[dict[str, Any]]) -> Any:
    """The measured models, one a row: a pandas DataFrame where pandas is installed, else a list of dictionaries."""
    try:
        import pandas
    except ImportError:
        return [dict(row) for row in rows]
    return pandas.DataFrame(list(rows))


def plot(result: Result, against: str = "gradients") -> Any:
    """Accuracy, or the loss where there is none, as a plotly figure."""
    if against not in _PLOTTED:
        raise UsageError(f"a plot is against {', '.join(_PLOTTED)}, not {against!r}")
    import plotly.graph_objects as go

    rows, shown = result.metrics, next((name for name, *_ in tested(result)), "loss")
    x = [row["bytes_up"] + row["bytes_down"] if against == "bytes" else row[against] for row in rows]
    figure = go.Figure(go.Scatter(x=x, y=[row[shown] for row in rows], mode="lines+markers", name=shown))
    figure.update_layout(
        title=result.prepared.dataset.name, xaxis_title=_AXES.get(against, "bytes sent and received"), yaxis_title=shown
    )
    return figure


def predicted(result: Result, x: Any) -> Array:
    """The label, as written, or the number that the trained model gives each row of ``x``."""
    answers = getattr(result.prepared.objective, "answers", None)
    if answers is not None:
        return np.asarray(answers(result.model, records_of(x, result.prepared.dataset.train)))
    decide = getattr(result.prepared.objective, "decide", None)
    if decide is None:
        raise UsageError(f"{result.prepared.objective.traits.name} does not say which class a record is of")
    data = result.prepared.dataset
    records, classes = records_of(x, data.train, data.schema), data.classes
    places = decide(result.model, records)
    if len(places) != len(records) or (len(places) and not 0 <= int(places.min()) <= int(places.max()) < len(classes)):
        raise UsageError(f"the model gave no class from 0 to {len(classes) - 1} for each of {len(records)} records")
    return np.asarray(np.array(classes)[places])
