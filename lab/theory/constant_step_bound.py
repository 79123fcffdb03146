"""The theory of constant steps beside runs: how fast they approach w*, and how close they come."""

from __future__ import annotations

from typing import Any

import numpy as np

from crescendo.schedules.steps import ConstantSteps
from crescendo.schedules.theory import ConstantRate
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
from lab.pipeline.summaries import margin
from lab.pipeline.verdicts import inside
from lab.theory.distances import (
    below_curve,
    distances,
    marks,
    over_seeds,
    problem_constants,
    significant,
    slope,
    where_of,
)

SOURCE, L2, AHEAD = "synthetic:rows=2000,features=10", 0.1, 1
SIZES = (10, 100)  # gradients a round, over both clients
FACTORS = (1, 4, 16, 64)  # multiples of the largest step that the theory allows
SEEDS = 8
TIMES = 8.0  # runs are this many times 1 / (eta mu) long
WITHIN = 0.25  # tolerance of the exponent
RULE = (
    "The expectation is the mean over seeds. The bound held if no interval of a mean reaches above it. The rate held if the "
    "distance first falls by (1 - eta mu) a gradient or faster. What stays is the mean over the second half of a run; it "
    f"held to be O(eta) if its exponent in eta is 1 within {WITHIN}, fitted over {len(FACTORS)} steps of which only the "
    "first is within the theory. Rate and exponent are fitted for each seed, and held with their whole interval."
)


def run(size: int, factor: int, seed: int, times: float) -> dict[str, Any]:
    """Run with ``factor`` times the largest step size that the theory allows for a delay of two rounds."""
    smooth, mu = problem_constants(SOURCE, L2)
    tau = (AHEAD + 1) * size
    eta = factor * significant(ConstantSteps.largest(smooth, mu, tau) * (1 - 1e-3), 4)
    gradients = round(times / (eta * mu))
    config = {
        "clients": {"count": 2, "combine": "sum", "weights": "size"},
        "objective": {"l2": L2},
        "schedule": {
            "gradients": gradients,
            "sizes": {"kind": "constant", "size": size},
            "steps": {"kind": "constant", "eta": eta},
            "wait": {"rounds": AHEAD},
        },
        "timing": {"preset": "heterogeneous"},
        "evaluate": {"every": 10**9},
    }
    late = [round(number) for number in np.linspace(gradients / 2, gradients, 60)]
    at = [*marks(max(size, gradients // 1000), gradients // 2), *late]
    return {**distances(SOURCE, config, seed, at), "eta": eta, "tau": tau, "smooth": significant(smooth, 12)}


def jobs(effort: Effort) -> list[Job]:
    shape = {"times": 3.0 if effort.quick else TIMES}
    sizes, factors = ((100,), (1, 16)) if effort.quick else (SIZES, FACTORS)
    return [
        Job(run, {"size": size, "factor": factor, "seed": seed, **shape})
        for size in reversed(sizes)
        for factor in factors
        for seed in effort.seeds_of(SEEDS, quick=2)
    ]


def findings(outcomes: list[Outcome]) -> Findings:
    rows: dict[tuple[int, int], list[Outcome]] = {}
    for one in sorted(outcomes, key=lambda one: (one["size"], one["factor"])):
        rows.setdefault((one["size"], one["factor"]), []).append(one)
    sizes = sorted({size for size, _ in rows})
    plot = Plot(
        "constant-step-bound",
        "Constant steps: the squared distance from the minimiser with the largest step size that the theory allows (first "
        "panels), and what of it stays, against the step size (last panel; only the leftmost steps are within the theory). "
        "Two clients of different speed, bands from the least to the largest of the seeds",
        (*(_panel(rows[size, 1]) for size in sizes), _levels_panel(rows, sizes)),
        across=3,
    )
    statements = tuple(one for size in sizes for one in _statements(rows, size))
    return Findings(RULE, statements, (_table(rows),), (plot,), _remarks(rows))


_RATE = (
    "The paper prints the rate as rho = a L / mu, which can be above 1; Leblond and others, whose theorem it is, have a mu "
    "/ L = eta mu, which is used here."
)


def _remarks(rows: dict[tuple[int, int], list[Outcome]]) -> tuple[str, ...]:
    near = [key for key, runs in rows.items() if np.mean(level(runs)) < 0.1 * runs[0]["start"]]
    settled = min(max((factor for of, factor in near if of == size), default=0) for size, _ in rows)
    beyond = (
        f"The largest step that the theory allows is cautious: on this problem {settled} times as large a step still "
        "settles within a tenth of the first distance. The theory promises nothing about such steps, and how far one can "
        "go depends on the data."
    )
    return _RATE, beyond


def rate(run: Outcome) -> ConstantRate:
    return ConstantRate(run["eta"], run["smooth"], L2, run["tau"], AHEAD)


def level(runs: list[Outcome]) -> list[float]:
    """Return the final distance of each seed: the mean over the second half of its run."""
    return [
        significant(np.mean([y for t, y in zip(one["t"], one["distance"], strict=True) if 2 * t >= one["t"][-1]]))
        for one in runs
    ]


def decay(runs: list[Outcome]) -> float:
    """Return the share of the squared distance that one gradient removes at first, from the start down to a tenth of it."""
    t, mean, _, _ = over_seeds(runs)
    start = runs[0]["start"]
    early = mean >= max(0.1 * start, 4 * mean[-1])
    places = np.concatenate([[0.0], t[early]])
    return float(-np.polyfit(places, np.log(np.concatenate([[start], mean[early]])), 1)[0])


def bound(run: Outcome, t: Any) -> Any:
    return np.array([rate(run).bound(int(one), run["start"], run["G"]) for one in t])


def _statements(rows: dict[tuple[int, int], list[Outcome]], size: int) -> list[PaperStatement]:
    runs = rows[size, 1]
    first, (t, _, _, _) = runs[0], over_seeds(runs)
    under, rates = below_curve(runs, bound(first, t)), [decay([one]) for one in runs]
    etas, levels = _levels(rows, size)
    exponent = slope(etas, np.array([np.mean(one) for one in levels]), 0)
    exponents = [slope(etas, np.array(several), 0) for several in zip(*levels, strict=True)]
    name, rho = f"delay {first['tau']}", rate(first).rho
    return [
        PaperStatement.judged(
            f"{name}: bound",
            "E|w - w*|^2 <= 2 (1 - rho)^t |w_0 - w*|^2 + b",
            f"{where_of(under)} it; b is {rate(first).spread * first['G'] / np.mean(level(runs)):,.0f} times "
            "what stayed",
            [under],
        ),
        PaperStatement.judged(
            f"{name}: rate",
            f"falls by rho = {rho:.2g} a gradient",
            f"{decay(runs):.2g} a gradient",
            [inside(rates, rho)],
        ),
        PaperStatement.judged(
            f"{name}: what stays",
            "O(eta)",
            f"eta^{exponent:.2f}{margin([exponents])}",
            [inside(exponents, 1 - WITHIN, 1 + WITHIN)],
        ),
    ]


def _levels(rows: dict[tuple[int, int], list[Outcome]], size: int) -> tuple[Any, list[list[float]]]:
    several = [runs for (of, _), runs in rows.items() if of == size]
    return np.array([runs[0]["eta"] for runs in several]), [level(runs) for runs in several]


def _table(rows: dict[tuple[int, int], list[Outcome]]) -> TextTable:
    lines = []
    for (_, factor), runs in rows.items():
        first = runs[0]
        found = rate(first)
        lines.append(
            (
                f"{first['tau']}",
                f"{first['eta']:.3g}",
                f"{factor}",
                f"{found.rho:.2g}",
                f"{decay(runs):.2g}",
                f"{found.spread * first['G']:.2g}" if found.holds else "no promise",
                f"{np.mean(level(runs)):.2g}",
            )
        )
    columns = ("delay", "eta", "times the largest", "rho", "measured rate", "b", "what stayed")
    return TextTable("Rate and level", columns, tuple(lines))


def _panel(runs: list[Outcome]) -> Panel:
    first, (t, mean, low, high) = runs[0], over_seeds(runs)
    lines = (
        Line("upper bound", _numbers(t), _numbers(bound(first, t)), colour=1, style="--"),
        Line("runs: mean and range over seeds", _numbers(t), _numbers(mean), _numbers(low), _numbers(high), colour=0),
    )
    title = f"delay {first['tau']} gradients, $\\eta$ = {first['eta']:.2g}"
    return Panel(title, "gradients t, over all clients", "squared distance from w*", lines, "log", "log")


def _levels_panel(rows: dict[tuple[int, int], list[Outcome]], sizes: list[int]) -> Panel:
    lines = []
    for j, size in enumerate(sizes):
        etas, levels = _levels(rows, size)
        tau = rows[size, 1][0]["tau"]
        lines.append(
            Line(
                f"what stays, delay {tau}",
                _numbers(etas),
                _numbers([np.mean(one) for one in levels]),
                _numbers([min(one) for one in levels]),
                _numbers([max(one) for one in levels]),
                colour=2 + j,
                marker="os"[j % 2],
            )
        )
    return Panel(
        "What stays against the step size", "step size $\\eta$", "squared distance from w*", tuple(lines), "log", "log"
    )


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(significant(value) for value in values)


EXPERIMENT = Experiment(
    name="constant-step-bound",
    title="Constant steps beside their theory",
    where="appendix on constant step sizes",
    about=f"Runs with constant steps and rounds of one size on synthetic data (strongly convex, lambda = {L2}), clients up "
    f"to {AHEAD} round ahead, updates summed: the distance from the minimiser beside the bound 2 (1 - rho)^t |w_0 - w*|^2 + "
    "b.",
    jobs=jobs,
    findings=findings,
)
