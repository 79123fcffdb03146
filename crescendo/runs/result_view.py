"""Views of a result: a few lines, a table in a notebook, a history, a plot. No view shows a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.data import Records
from crescendo.data.records import Label
from crescendo.errors import UsageError
from crescendo.federation.divergence import DIVERGED, LEARNED_NOTHING
from crescendo.objectives import Objective
from crescendo.objectives.objective_kinds import OBJECTIVES
from crescendo.privacy.protection import HIDDEN
from crescendo.report.numbers import number, size
from crescendo.report.references import GUESSES, References
from crescendo.views import html_lines, html_table, plotted, text_table
from crescendo_dp.planning.cautions import about_delta

if TYPE_CHECKING:
    from crescendo.runs.result import Result

_ENDS = ((LEARNED_NOTHING, ", did not learn"), (DIVERGED, ", diverged"))
_MEANT = {
    "commonest class": "accuracy of always answering the class that most test records have",
    "mean label": "r2 of always answering the mean",
}
_PLOTTED = ("gradients", "k", "seconds", "bytes")
_AXES = {"gradients": "gradients over all clients", "k": "rounds completed", "seconds": "virtual seconds"}


def facts(result: Result) -> list[tuple[str, str, str]]:
    """Return the facts of a result: the name, value and meaning of each."""
    terms, data = result.prepared.terms, result.prepared.dataset
    kind = result.prepared.config.objective.kind  # not used for a model that a program passed in
    kind = result.trained if result.trained != "own" or kind in OBJECTIVES else kind
    rows = [
        ("data", data.name, f"{len(data.train):,} training records, {terms.clients:,} clients"),
        *worth(result.metrics[-1], result.privacy, result.references),
        ("model", kind, learned(data.features, len(data.classes))),
        ("loss", number(result.loss), "on the training records"),
        ("rounds", f"{result.rounds:,}", f"{result.gradients:,} gradients over all clients"),
        ("sent and received", size(result.bytes_up + result.bytes_down), f"in {result.broadcasts:,} broadcasts"),
        ("virtual time", f"{result.virtual_seconds:,.4g} s", f"simulated in {result.wall_seconds:.2f} s"),
    ]
    if (mapping := result.prepared.label_mapping) is not None:
        at = [name for name, *_ in rows].index("model")
        rows.insert(at, ("labels", f"{len(data.classes):,}", f"{mapping}, as the model sees them"))
    return rows


def stored_facts(
    last: Mapping[str, Any],
    privacy: Mapping[str, Any] | None,
    data: str,
    model: tuple[str, str],
    clients: int,
    references: References,
) -> list[tuple[str, str, str]]:
    """Return the facts of a stored run, as far as its folder holds them."""
    return [
        ("data", data, f"{clients:,} client{'s' if clients != 1 else ''}"),
        *worth(last, privacy, references),
        ("model", *model),
        ("loss", number(last["loss"]), "on the training records"),
        ("rounds", f"{last['k']:,}", f"{last['gradients']:,} gradients over all clients"),
        ("sent and received", size(last["bytes_up"] + last["bytes_down"]), "over all clients"),
        ("virtual time", f"{last['seconds']:,.4g} s", "simulated"),
    ]


def held_against(references: References) -> list[tuple[str, str, str]]:
    """Return a row for each reference score."""
    measure = next((name for name in GUESSES if references.of(name)), None)
    words = {"pooled": "pooled fit", "regression": "plain regression"}
    at_one_place = f"{measure} with all training records at one place, without privacy"
    means = {"pooled": at_one_place, "regression": f"{at_one_place}, on standardised features", **_MEANT}
    return (
        []
        if measure is None
        else [
            (words.get(name, name), number(value), means.get(name, measure)) for name, value in references.of(measure)
        ]
    )


def worth(
    last: Mapping[str, Any], privacy: Mapping[str, Any] | None, references: References | None = None
) -> list[tuple[str, str, str]]:
    """Return the rows on the last model's scores, the reference scores and the privacy cost."""
    rows = tested(last)
    rows += [] if references is None else held_against(references)
    if privacy is not None:
        says = f"at delta {privacy['delta']:g}, in a real federation; this run was simulated"
        known = privacy["epsilon"] is not None
        rows.append(
            ("epsilon", f"{privacy['epsilon']:.4g}", says) if known else ("epsilon", "withheld", privacy["withheld"])
        )
    return rows


def learned(features: int, classes: int) -> str:
    """Return the number of features and the kind of labels, so that numbers mistaken for classes are seen at once."""
    labels = f"{classes:,} classes" if classes else "numbers"
    return f"on {features:,} feature{'s' if features != 1 else ''}, for {labels}"


def tested(last: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the rows on a model's test scores: its accuracy or, if it predicts numbers, its error and R^2."""
    known = ("accuracy", "rmse", "r2")
    means = {
        "rmse": "root of the mean squared error, on the test part",
        "r2": "share of the labels' variance explained there",
    }
    return [
        (name, number(last[name]), means.get(name, "on the test part")) for name in known if last.get(name) is not None
    ]


def in_a_line(result: Result) -> str:
    """Return the text for ``repr``."""
    clients = result.prepared.terms.clients
    fails = result.doubt is not None and result.doubt.fails
    told = result.trouble if fails else result.diverged
    said = numbers_in_a_line(result.metrics[-1], result.rounds, clients, result.privacy, told, result.references)
    return f"Result({said})"


def numbers_in_a_line(
    last: Mapping[str, Any],
    rounds: int,
    clients: int,
    privacy: Mapping[str, Any] | None,
    told: str | None,
    references: References | None = None,
) -> str:
    """Return a run's outcome on one line, from the metrics of its last model."""
    accuracy = "".join(f"{name}={value}, " for name, value, _ in tested(last))
    if references is not None and (guess := dict(references.of("accuracy")).get(GUESSES["accuracy"])) is not None:
        accuracy += f"commonest class={number(guess)}, "
    spent = None if privacy is None else privacy["epsilon"]
    epsilon = "" if privacy is None else f", {HIDDEN}" if spent is None else f", epsilon={spent:.4g} (simulated)"
    ended = (
        "" if told is None else next((word for start, word in _ENDS if told.startswith(start)), ", worse than a guess")
    )
    return f"{accuracy}loss={number(last['loss'])}, rounds={rounds}, clients={clients}{epsilon}{ended}"


def summary(result: Result) -> str:
    """Return plain text: a line for each fact, a note on trouble, and notes on a table's columns."""
    return "\n".join([text_table(facts(result)), *_mind(result), *result.prepared.dataset.notes])


def as_html(result: Result) -> str:
    """Return the HTML that a notebook shows."""
    meant = [] if result.privacy is None or result.prepared.privacy is None else result.prepared.privacy.sentences()
    return html_table(facts(result)) + html_lines([*_mind(result), *result.prepared.dataset.notes, *meant])


def _mind(result: Result) -> list[str]:
    told, made = result.trouble, result.prepared.privacy
    small = [] if made is None else about_delta(made.delta, min(made.certificate.records))
    return [*([] if told is None else [f"Note: {told}."]), *(f"Caution: {one}." for one in small)]


def history(rows: Sequence[dict[str, Any]]) -> Any:
    """Return the measured models, a row each: a pandas DataFrame, or a list of dictionaries if pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return [dict(row) for row in rows]
    return pandas.DataFrame(list(rows))


def plot(rows: Sequence[Mapping[str, Any]], title: str, against: str = "gradients") -> Any:
    """Plot the accuracy of measured models, or their loss without one, as a plotly figure."""
    if against not in _PLOTTED:
        raise UsageError(f"a plot is against {', '.join(_PLOTTED)}, not {against!r}")
    import plotly.graph_objects as go

    shown = next((name for name, *_ in tested(rows[-1])), "loss")
    x = [row["bytes_up"] + row["bytes_down"] if against == "bytes" else row[against] for row in rows]
    figure = plotted(go.Scatter(x=x, y=[row[shown] for row in rows], mode="lines+markers", name=shown))
    figure.update_layout(title=title, xaxis_title=_AXES.get(against, "bytes sent and received"), yaxis_title=shown)
    return figure


def predicted(objective: Objective, model: Floats, records: Records, classes: tuple[Label, ...]) -> Array:
    """Predict the label, as written, or the number of each of ``records``."""
    decide, answers = (getattr(objective, name, None) for name in ("decide", "answers"))
    if decide is None and answers is None:
        raise UsageError(f"{objective.traits.name} has no method that predicts a record's class")
    if answers is not None:
        return np.asarray(answers(model, records))
    assert decide is not None
    places = decide(model, records)
    if len(places) != len(records) or (len(places) and not 0 <= int(places.min()) <= int(places.max()) < len(classes)):
        raise UsageError(f"the model must give a class from 0 to {len(classes) - 1} for each of {len(records)} records")
    return np.asarray(np.array(classes)[places])
