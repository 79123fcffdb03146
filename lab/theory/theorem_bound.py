"""The strongly convex theorem beside runs: E|w - w*|^2 with its sizes, steps and delays, up to ten million gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crescendo.config.loading import read
from crescendo.runs.prepare import prepare
from crescendo.schedules.convergence import lower_bound
from crescendo.schedules.theory import Theorem
from lab.experiments.training import dataset
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
from lab.pipeline.summaries import margin, where
from lab.pipeline.verdicts import inside
from lab.theory.distances import (
    below_curve,
    distances,
    marks,
    over_seeds,
    significant,
    slope,
    where_of,
)

SYNTHETIC = "synthetic:rows=2000,features=10"
CASES: dict[str, dict[str, Any]] = {
    "synthetic, lambda = 0.1": {"source": SYNTHETIC, "l2": 0.1, "blocks": 1},
    "synthetic, masks of D = 4": {"source": SYNTHETIC, "l2": 0.1, "blocks": 4},
    "a9a, lambda = 0.01": {"source": "a9a", "l2": 0.01, "blocks": 1},
}
GRADIENTS, SEEDS, M = 10_000_000, 5, 200_000
WITHIN = 0.1  # tolerance of the exponent
RULE = (
    "The expectation is the mean over seeds. The rate held if the exponent of t, fitted for each seed by least squares on "
    f"logarithms over the last decade, is -1 within {WITHIN}, with its whole interval. The bound held if no interval of a mean "
    "reaches above it."
)


def config(l2: float, blocks: int, gradients: int, m: int) -> dict[str, Any]:
    """Return a run file with the theorem's sizes, steps and delay bound, with its m and M1."""
    return {
        "clients": {"count": 2, "combine": "sum", "weights": "size"},
        "objective": {"l2": l2},
        "schedule": {
            "gradients": gradients,
            "sizes": {"kind": "theorem", "d": 0, "m": m},
            "steps": {"kind": "theorem"},
            "wait": {"tau": {"kind": "theorem"}, "d": 0},
            "blocks": blocks,
        },
        "timing": {"preset": "heterogeneous"},
        "evaluate": {"every": 10**9},
    }


def run(source: str, l2: float, blocks: int, gradients: int, m: int, seed: int) -> dict[str, Any]:
    asked = config(l2, blocks, gradients, m)
    found = distances(source, asked, seed, marks(2000, gradients))
    theorem = prepare(read({**asked, "data": {"source": source}}), data=dataset(source)).certificate.theorem
    assert theorem is not None and theorem.bounds
    return {**found, "smooth": significant(theorem.smooth, 12), "m1": significant(theorem.m1, 12)}


def jobs(effort: Effort) -> list[Job]:
    length = {"gradients": 20_000, "m": 10_000} if effort.quick else {"gradients": GRADIENTS, "m": M}
    cases = [one for one in CASES.values() if one["source"] == SYNTHETIC or not effort.quick]
    return [
        Job(run, {**case, **length, "seed": seed}, data=None if case["source"] == SYNTHETIC else case["source"])
        for case in reversed(cases)
        for seed in effort.seeds_of(SEEDS, quick=2)
    ]


def findings(outcomes: list[Outcome]) -> Findings:
    asked = {name: case for name, case in CASES.items() if any(case.items() <= one.items() for one in outcomes)}
    rows = {name: where(outcomes, **case) for name, case in asked.items()}
    known = {name: runs for name, runs in rows.items() if runs}
    plot = Plot(
        "theorem-bound",
        "Squared distance from the minimiser for the theorem's own sizes, steps and delays; two clients of different "
        "speed, the band from the least to the largest of the seeds. The upper bound is proved only from T0 on "
        f"({_t0s(known)}), far beyond the page; the lower bound is a worst case over a class of problems, not a floor for "
        "these",
        tuple(_panel(name, runs) for name, runs in known.items()),
        across=3,
    )
    statements = tuple(one for name in asked for one in _statements(name, rows[name]))
    return Findings(RULE, statements, (_table(known),), (plot,), (*REMARKS, _start(known)))


REMARKS = (
    "T0 is where the theorem's terms of higher order fall below its leading one: exp(2 (1 + 36 (L + mu) / mu)) for dense "
    "data, and later where M1 is larger. No run that anybody will make reaches it. That runs lie below the bound all the "
    "same is an observation about these runs, not a consequence of the theorem.",
    "The lower bound G / (2 mu^2 t) says that no choice of step sizes does better on every problem with this G and mu. "
    "These are particular problems, and a run may come nearer to w* than it.",
    "With masks of D blocks M1 and the upper bound carry the factor D: the bound allows D times the distance, and the "
    "steps begin D times smaller.",
)


def _start(rows: dict[str, list[Outcome]]) -> str:
    """Return the remark about T1 = mu^2 |w_0 - w*|^2 / (36^2 D G).

    Paper [tau1], footnote: from T1 on the term of the start is at most the leading one.
    """
    latest = max(
        runs[0]["l2"] ** 2 * runs[0]["start"] / (36**2 * runs[0]["blocks"] * runs[0]["G"]) for runs in rows.values()
    )
    return f"How far from w* a run begins shows in the bound only up to T1, at most {max(1, math.ceil(latest)):,} gradients here."


def theorem(run: Outcome) -> Theorem:
    return Theorem(run["smooth"], run["l2"], run["m"], run["m1"], run["blocks"], bounds=True)


def _statements(name: str, runs: list[Outcome]) -> list[PaperStatement]:
    rate, below = f"{name}: rate", f"{name}: upper bound"
    if not runs:
        return [PaperStatement(rate, "E|w - w*|^2 falls like 1 / t", "", 0, 0)]
    t, mean, _, _ = over_seeds(runs)
    upper = theorem(runs[0]).upper_bound(t, runs[0]["G"])
    share, under = mean / upper, below_curve(runs, upper)
    slopes = [slope(np.array(one["t"]), np.array(one["distance"]), t[-1] / 10) for one in runs]
    return [
        PaperStatement.judged(
            rate,
            "E|w - w*|^2 falls like 1 / t",
            f"t^{slope(t, mean, t[-1] / 10):.2f}{margin([slopes])}",
            [inside(slopes, -1 - WITHIN, -1 + WITHIN)],
        ),
        PaperStatement.judged(
            below,
            f"8 36^2 D G / mu^2 t / (t + 2 tau(t) - 1)^2 from T0 = {_t0(runs[0])} on",
            f"{where_of(under)} it, at t = {t[-1]:,.0f} by a factor of {_round(1 / share[-1])}",
            [under],
        ),
    ]


def _table(rows: dict[str, list[Outcome]]) -> TextTable:
    columns = (
        *("problem", "L / mu", "M1", "T0", "gradients", "rounds", "measured", "upper bound", "lower bound"),
        *("share of tau used", "exponent"),
    )
    return TextTable("At the end of the runs", columns, tuple(_row(name, runs) for name, runs in rows.items()))


def _row(name: str, runs: list[Outcome]) -> tuple[str, ...]:
    first, (t, mean, _, _) = runs[0], over_seeds(runs)
    upper, lower = (bound[-1] for bound in _bounds(first, t))
    return (
        name,
        f"{first['smooth'] / first['l2']:,.0f}",
        f"{first['m1']:,.0f}",
        _t0(first),
        f"{t[-1]:,.0f}",
        f"{first['rounds']:,}",
        *(f"{value:.2g}" for value in (mean[-1], upper, lower)),
        f"{max(one['delay_used'] for one in runs):.3f}",
        f"{slope(t, mean, t[-1] / 10):.2f}",
    )


def _bounds(run: Outcome, t: Any) -> tuple[Any, Any]:
    return theorem(run).upper_bound(t, run["G"]), lower_bound(t, run["G"], run["l2"])


def _panel(name: str, runs: list[Outcome]) -> Panel:
    t, mean, low, high = over_seeds(runs)
    upper, lower = _bounds(runs[0], t)
    lines = (
        Line("upper bound (proved from T0 on)", *_points(t, upper), colour=1, style="--"),
        Line("runs: mean and range over seeds", *_points(t, mean), _numbers(low), _numbers(high), colour=0),
        Line("lower bound (worst case over a class)", *_points(t, lower), colour=2, style=":"),
    )
    title = f"{name.replace('lambda', chr(955))}: t$^{{{slope(t, mean, t[-1] / 10):.2f}}}$ in the last decade"
    return Panel(title, "gradients t, over all clients", "squared distance from w*", lines, "log", "log")


def _points(t: Any, y: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return _numbers(t), _numbers(y)


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(significant(value) for value in values)


def _t0(run: Outcome) -> str:
    return f"10^{theorem(run).log_t0 / math.log(10):,.0f}"


def _t0s(rows: dict[str, list[Outcome]]) -> str:
    return ", ".join(_t0(runs[0]) for runs in rows.values())


def _round(value: float) -> str:
    """
    >>> _round(12345.6), _round(12.3)
    ('12,000', '12')
    """
    return f"{float(f'{value:.2g}'):,.0f}"


EXPERIMENT = Experiment(
    name="theorem-bound",
    title="The strongly convex theorem beside runs",
    where="section 2.3, theorem of strongly convex problems, and its appendix",
    about="How far from the minimiser w* a run is after t gradients with the theorem's sizes, steps and delay bound, "
    "which clients of speeds 1 to 4 use to the full, beside the theorem's upper and lower bound. Logistic regression with "
    "L2, updates summed.",
    jobs=jobs,
    findings=findings,
)
