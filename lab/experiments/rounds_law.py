"""Rounds against K: the number of rounds that K gradients take if sizes stay constant, grow like i / ln i, or grow like i."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from crescendo.schedules.sizes import LogSizes, PowerSizes
from lab.experiments.training import falling, problem, source_for, trained
from lab.pipeline.experiment import (
    Effort,
    Experiment,
    Findings,
    Job,
    Line,
    Outcome,
    Panel,
    PaperStatement,
    Plot,
    TextTable,
)
from lab.pipeline.summaries import mean, score_line, short

SIZES: dict[str, dict[str, Any]] = {
    "constant": {"kind": "constant", "size": 50},
    "i / ln i": {"kind": "log", "scale": 50.0},
    "linear": {"kind": "power", "scale": 50.0},
}
LAW = {"constant": "K", "i / ln i": "sqrt(K ln K)", "linear": "sqrt(K)"}
FAR = tuple(round(10 ** (6 + j / 4)) for j in range(13))  # K from a million to a thousand million
WITHIN = 0.02
RULE = (
    "A law is about large K, and rounds follow from sizes alone, so its exponent is fitted (least squares on "
    f"logarithms) to the rounds computed for K from 10^6 to 10^9. It held if the exponent is within {WITHIN} of the "
    "law's and all runs, of smaller K, took the rounds computed for them."
)


def run(source: str, kind: str, gradients: int, seeds: Sequence[int]) -> dict[str, Any]:
    config = {
        "clients": {"count": 5, "combine": "sum"},
        "objective": problem("strongly convex"),
        "schedule": {
            "gradients": gradients,
            "sizes": SIZES[kind],
            "steps": falling("strongly convex", 0.01),
            "wait": {"rounds": 1},
        },
        "timing": {"preset": "heterogeneous"},
    }
    return trained(source, config, seeds)


def jobs(effort: Effort) -> list[Job]:
    source, most = source_for("a9a", effort.quick), 5 if effort.quick else 10
    settings = [
        {"source": source, "kind": kind, "gradients": 1000 * 2**j, "seeds": effort.seeds_of(3)}
        for j in reversed(range(most))
        for kind in SIZES
    ]
    return [Job(run, setting, data=source) for setting in settings]


def rounds_of(kind: str, gradients: int) -> int:
    """
    >>> [rounds_of(kind, 20_000) for kind in SIZES]
    [400, 51, 28]
    """
    if kind == "constant":
        return math.ceil(gradients / 50)
    return (LogSizes(50) if kind == "i / ln i" else PowerSizes(50)).rounds_for(gradients)


def fitted(x: Any, y: Any) -> tuple[float, float]:
    """Fit y = factor x^exponent by least squares on the logarithms; return exponent and factor.

    >>> [round(number, 9) for number in fitted(np.array([1.0, 4.0, 16.0]), np.array([3.0, 6.0, 12.0]))]
    [0.5, 3.0]
    """
    exponent, intercept = np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)
    return float(exponent), float(np.exp(intercept))


def findings(outcomes: list[Outcome]) -> Findings:
    rows = {kind: _of(outcomes, kind) for kind in SIZES}
    statements = tuple(_statement(kind, rows[kind]) for kind in SIZES)
    if not all(rows.values()):
        return Findings(RULE, statements)
    plot = Plot(
        "rounds-law",
        "Rounds that K gradients take, as run and as computed beyond (left), and what the runs learned (right); five "
        "clients, heterogeneous timing, bands from the least to the largest of the seeds",
        (
            Panel(
                "Rounds against gradients",
                "gradients K, over all clients",
                "rounds T",
                tuple(line for j, kind in enumerate(SIZES) for line in _lines(j, kind, rows[kind])),
                "log",
                "log",
            ),
            Panel(
                "Accuracy against gradients",
                "gradients K, over all clients",
                "accuracy on the test part",
                tuple(
                    score_line(f"{kind}: runs", _gradients(rows[kind]), rows[kind], colour=j, marker="os^"[j])
                    for j, kind in enumerate(SIZES)
                ),
                "log",
            ),
        ),
    )
    return Findings(RULE, statements, (_table(rows),), (plot,))


def _of(outcomes: list[Outcome], kind: str) -> list[Outcome]:
    found = [one for one in outcomes if one["kind"] == kind and "absent" not in one]
    return sorted(found, key=lambda one: int(one["gradients"]))


def _statement(kind: str, runs: list[Outcome]) -> PaperStatement:
    if not runs:
        return PaperStatement(f"{kind} sizes", f"T grows like {LAW[kind]}", "", 0, 0)
    near = fitted([one["gradients"] for one in runs], [one["rounds"] for one in runs])[0]
    measure, far = _law(kind)
    as_computed = all(one["rounds"] == rounds_of(kind, one["gradients"]) for one in runs)
    held = as_computed and abs(far - (1.0 if kind == "constant" else 0.5)) <= WITHIN
    most = max(one["gradients"] for one in runs)
    return PaperStatement(
        f"{kind} sizes",
        f"T grows like {LAW[kind]}",
        f"T grows like ({measure})^{far:.3f}; runs up to K = {most:,} like K^{near:.3f}"
        + ("" if as_computed else "; a run took other rounds than computed"),
        int(held),
        1,
    )


def _law(kind: str) -> tuple[str, float]:
    """Return the base of a law's power, and its exponent for large K."""
    x = [K * math.log(K) if kind == "i / ln i" else K for K in FAR]
    return "K ln K" if kind == "i / ln i" else "K", fitted(x, [rounds_of(kind, K) for K in FAR])[0]


def _lines(j: int, kind: str, runs: list[Outcome]) -> list[Line]:
    K = (*(one["gradients"] for one in runs), *(one for one in FAR if one > runs[-1]["gradients"]))
    measure, exponent = _law(kind)
    return [
        Line(
            f"{kind}: computed, ({measure})$^{{{exponent:.2f}}}$",
            K,
            tuple(rounds_of(kind, one) for one in K),
            colour=j,
            style="--",
        ),
        Line(
            f"{kind}: runs", _gradients(runs), tuple(one["rounds"] for one in runs), colour=j, style="", marker="os^"[j]
        ),
    ]


def _gradients(runs: list[Outcome]) -> tuple[float, ...]:
    return tuple(one["gradients"] for one in runs)


def _table(rows: dict[str, list[Outcome]]) -> TextTable:
    columns = ("gradients K", *(f"{kind}: {what}" for kind in rows for what in ("rounds", "accuracy")))
    lines = []
    for several in zip(*rows.values(), strict=True):
        cells = [cell for one in several for cell in (f"{one['rounds']:,}", short(mean(one["accuracies"])))]
        lines.append((f"{several[0]['gradients']:,}", *cells))
    return TextTable("Rounds of the runs, and mean accuracy", columns, tuple(lines))


EXPERIMENT = Experiment(
    name="rounds-law",
    title="Rounds against K",
    where="sections 1 and 2.2, figure of communication rounds",
    about="How many rounds T a run of K gradients takes with sizes 50 (constant), 50 i / ln i and 50 i over five clients; "
    "the runs are on a9a, strongly convex, with step sizes 0.01 / (1 + 0.001 t), summed.",
    jobs=jobs,
    findings=findings,
)
