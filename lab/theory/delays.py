"""Robustness to delays: the accuracy of runs on ever older models, up to and beyond the delay for which a rate is promised."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from crescendo.config.loading import read
from crescendo.core.arrays import Floats
from crescendo.data.records import Records
from crescendo.federation.stability import Stability
from crescendo.objectives.logistic.objective import Logistic
from crescendo.runs.prepare import Prepared, prepare
from crescendo.runs.simulate import run_prepared
from crescendo.schedules.steps import ConstantSteps
from crescendo.simulator.consistency import Consistency
from lab.experiments.training import dataset, grid, rounded, source_for
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
from lab.pipeline.summaries import COMBINATIONS, best_of, mean, score_line, short
from lab.pipeline.verdicts import Verdict, above, differences
from lab.theory.distances import optimum, problem_constants, significant

CLIENTS, GRADIENTS, SEEDS = 5, 20_000, 8
ETAS = (0.0025, 0.01)
SIZES = (1, 5, 10, 20, 50, 100, 200)  # of a round, for each client; clients up to a round ahead
AHEADS = (0, 1, 2, 3, 5, 8, 13)  # rounds; rounds of 50 for each client
SIZE = 50
MODELS = (
    24  # measured in a run, at least; accuracy is the mean over those of its second half, as a run may swing to and fro
)
KEPT = 0.01  # of accuracy that may be lost before a delay counts as too long
RULE = (
    f"A delay costs accuracy if from it on every mean over seeds is more than {KEPT} below the best of its row. The theory "
    "held if no delay within what it promises for the step size costs accuracy. The stability formula, which is ours and a "
    "heuristic, held if no delay shorter than the one it names costs accuracy. The intervals of the losses, seed by seed, say "
    "which delays surely cost accuracy and which may: a verdict must be the same for both."
)


def run(source: str, family: str, combine: str, eta: float, value: int, seeds: Sequence[int]) -> dict[str, Any]:
    """Run with messages so slow that clients use the whole delay that they are allowed."""
    size, ahead = (value, 1) if family == "sizes" else (SIZE, value)
    config = {
        "clients": {"count": CLIENTS, "combine": combine, "weights": "size"},
        "objective": {"l2": "1/N"},
        "schedule": {
            "gradients": GRADIENTS,
            "sizes": {"kind": "constant", "size": size * CLIENTS},
            "steps": {"kind": "constant", "eta": eta},
            "wait": {"rounds": ahead},
        },
        "timing": {"latency": {"kind": "constant", "value": size * (ahead + 1) / 2}},
        "evaluate": {"every": max(1, GRADIENTS // (size * CLIENTS) // MODELS)},
    }
    data, accuracies, delays = dataset(source), [], []
    for seed in seeds:
        prepared = prepare(read({**config, "data": {"source": source}, "run": {"seed": seed}}), data=data)
        result = run_prepared(prepared, cores=1)
        late = [row["accuracy"] for row in result.metrics if 2 * row["gradients"] >= GRADIENTS]
        accuracies.append(rounded(np.mean(late)))
        delays.append(Consistency.of(result.trace, prepared.terms).delay)
    limit = Stability(prepared.terms).limits[-1].curvature
    return {
        "accuracies": accuracies,
        "delay": max(delays),
        "limit": significant(limit),
        "steepest": significant(steepest(prepared)),
        "certified": certified_delay(source, prepared.objective.traits.l2, eta),
    }


def steepest(prepared: Prepared) -> float:
    """Return the largest eigenvalue of the Hessian of F at w*, by power iteration."""
    objective, train = prepared.objective, prepared.dataset.train
    assert isinstance(objective, Logistic)
    _, g = objective.margins_and_slopes(optimum(prepared).model, train)
    curvature = np.abs(g) * (1 - np.abs(g)) / len(train)
    return largest_eigenvalue(objective, train, curvature)


def largest_eigenvalue(objective: Logistic, train: Records, curvature: Floats) -> float:
    direction, value = np.ones(objective.size) / math.sqrt(objective.size), 0.0
    for _ in range(200):
        image = objective.pulled(train.x, curvature * objective.margins(direction, train.x)) + objective.l2 * direction
        before, value = value, float(np.linalg.norm(image))
        direction = image / value
        if abs(value - before) <= 1e-9 * value:
            break
    return value


def certified_delay(source: str, l2: float, eta: float) -> int:
    """Return the longest delay for which Paper [appconst] promises a rate with this step; 0 if it promises no rate."""
    smooth, mu = problem_constants(source, l2)
    low, high = 0, 1
    while ConstantSteps.largest(smooth, mu, high) >= eta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ConstantSteps.largest(smooth, mu, middle) >= eta else (low, middle)
    return low


def jobs(effort: Effort) -> list[Job]:
    source = source_for("a9a", effort.quick)
    values = {"sizes": SIZES[4::2], "rounds": AHEADS[1::3]} if effort.quick else {"sizes": SIZES, "rounds": AHEADS}
    return [
        Job(run, {"source": source, "family": family, **one, "seeds": effort.seeds_of(SEEDS)}, source)
        for family, several in values.items()
        for one in grid(eta=ETAS[1:] if effort.quick else ETAS, combine=COMBINATIONS, value=several)
    ]


Row = tuple[str, float, str]  # family, eta, combination


def findings(outcomes: list[Outcome]) -> Findings:
    rows: dict[Row, list[Outcome]] = {}
    for one in outcomes:
        if "absent" not in one:
            rows.setdefault((one["family"], one["eta"], one["combine"]), []).append(one)
    if not rows:
        return Findings(RULE, (PaperStatement("stability of the sum and the mean", "no formula", "", 0, 0),))
    panels = tuple(_panel(family, eta, rows) for family, eta in dict.fromkeys(key[:2] for key in rows))
    plot = Plot(
        "delays",
        f"Accuracy after {GRADIENTS:,} gradients against the longest delay of a gradient, in gradients that its model "
        "lacked; messages take so long that clients use all the delay they are allowed. Dashed lines are where the "
        "stability formula says that the steepest direction of F begins to grow, for the sum and for the mean; bands from "
        "the least to the largest of the seeds",
        panels,
    )
    promises = [_promise(several) for (family, _, _), several in rows.items() if family == "sizes"]
    formulas = [_formula(key, several) for key, several in rows.items()]
    statements = tuple(one for one in (*promises, *formulas) if one is not None)
    return Findings(RULE, statements, (_table(rows),), (plot,), _remarks(rows))


def predicted(several: list[Outcome]) -> float | None:
    """Return the delay of the first run whose limit of curvature is below the steepest direction; None for no such run."""
    return next((float(one["delay"]) for one in several if one["limit"] < one["steepest"]), None)


def crossing(several: list[Outcome]) -> float | None:
    """Return the delay at which the limit of curvature passes the steepest direction, between two runs on a log scale."""
    for before, after in itertools.pairwise(several):
        if before["limit"] >= before["steepest"] and after["limit"] < after["steepest"]:
            high, low = (math.log(one["limit"] / one["steepest"]) for one in (before, after))
            part = high / (high - low)
            return significant(before["delay"] * (after["delay"] / before["delay"]) ** part, 4)
    return None


def measured(several: list[Outcome]) -> float | None:
    """Return the delay of the first run after which the mean accuracy is lost for good."""
    scores = [mean(one["accuracies"]) or 0.0 for one in several]
    return _first_lost(several, [score < max(scores) - KEPT for score in scores])


def earliest_and_latest(several: list[Outcome]) -> tuple[float, float]:
    """Return the delays from which accuracy may be, and surely is, lost for good, by intervals; inf for never."""
    best = best_of([one["accuracies"] for one in several])
    lost = [above(differences(best, one["accuracies"]), KEPT) for one in several]
    may, surely = (_first_lost(several, [one in states for one in lost]) for states in ((True, None), (True,)))
    return (math.inf if may is None else may), (math.inf if surely is None else surely)


def _first_lost(several: list[Outcome], lost: list[bool]) -> float | None:
    first = next((j for j in range(len(lost)) if all(lost[j:])), None)
    return None if first is None else float(several[first]["delay"])


def _no_earlier(several: list[Outcome], delay: float) -> Verdict:
    """Judge whether every delay shorter than ``delay`` keeps the accuracy."""
    earliest, latest = earliest_and_latest(several)
    return True if earliest >= delay else False if latest < delay else None


def _promise(several: list[Outcome]) -> PaperStatement | None:
    """Judge the theory of constant steps, if a row has a delay short enough for its promise."""
    first, within = several[0], [one for one in several if one["delay"] <= one["certified"]]
    if not within:
        return None
    promised = math.nextafter(within[-1]["delay"], math.inf)
    return PaperStatement.judged(
        f"{first['combine']}, eta = {first['eta']:g}: delays within the theory",
        f"a rate is promised up to a delay of {first['certified']}",
        f"{short(mean(within[-1]['accuracies']))} at a delay of {within[-1]['delay']}, best {short(_best(several))}",
        [_no_earlier(several, promised)],
    )


def _formula(key: Row, several: list[Outcome]) -> PaperStatement:
    family, eta, combine = key
    said, seen = predicted(several), measured(several)
    held = _no_earlier(several, math.inf if said is None else said)
    what = f"{combine}, eta = {eta:g}, {'larger rounds' if family == 'sizes' else 'more rounds ahead'}: formula"
    return PaperStatement.judged(what, f"(ours) {_gradients(said)}", _gradients(seen), [held])


def _best(several: list[Outcome]) -> float:
    return max(mean(one["accuracies"]) or 0.0 for one in several)


def _gradients(delay: float | None) -> str:
    return "no delay tried costs accuracy" if delay is None else f"from a delay of {delay:,.0f} on"


def _table(rows: dict[Row, list[Outcome]]) -> TextTable:
    columns = ("delay by", "eta", "combined", "delay", "accuracy", "limit of curvature", "steepest at w*")
    lines = [
        (
            "size of rounds" if family == "sizes" else "rounds ahead",
            f"{eta:g}",
            combine,
            f"{one['delay']:,}",
            short(mean(one["accuracies"])),
            f"{one['limit']:.3g}",
            f"{one['steepest']:.3g}",
        )
        for (family, eta, combine), several in rows.items()
        for one in several
    ]
    return TextTable("Every setting", columns, tuple(lines))


def _remarks(rows: dict[Row, list[Outcome]]) -> tuple[str, ...]:
    delays = {eta: several[0]["certified"] for (_, eta, _), several in rows.items()}
    promised = "; ".join(f"eta = {eta:g}: {delay}" for eta, delay in delays.items())
    named = sum(predicted(several) == measured(several) for several in rows.values())
    growth = math.sqrt(GRADIENTS / math.log(GRADIENTS))
    return (
        "What is promised is far less. For a constant step the theory promises a rate up to a delay, in gradients, of "
        f"{promised}; and where steps fall, delays may grow like sqrt(t / ln t), which is {growth:.0f} at t = {GRADIENTS:,}.",
        f"The formula names the very run from which on accuracy is lost, or rightly none, in {named} of {len(rows)} rows. "
        "It is a heuristic: it takes every update as late, while a client's own are in its model at once, and near its "
        "limit directions shrink so slowly that a run may be over before they have.",
        "The formula is about the steepest direction near w*; a direction that grows does not at once cost accuracy, which "
        "is the share of records on the right side and not a distance.",
    )


def _panel(family: str, eta: float, rows: dict[Row, list[Outcome]]) -> Panel:
    lines: list[Line] = []
    known = {combine: rows[family, eta, combine] for combine in COMBINATIONS if (family, eta, combine) in rows}
    scores = [
        score for several in known.values() for one in several for score in one["accuracies"] if score is not None
    ]
    bottom, top = min(scores), max(scores)
    for j, (combine, several) in enumerate(known.items()):
        delays = [float(one["delay"]) for one in several]
        lines.append(score_line(combine, delays, several, colour=j, marker="os"[j]))
        if (said := crossing(several)) is not None:
            lines.append(Line(f"{combine}: limit of the formula", (said, said), (bottom, top), colour=j, style="--"))
    how = "larger rounds, one ahead" if family == "sizes" else f"rounds of {CLIENTS} x {SIZE}, more ahead"
    return Panel(
        f"$\\eta$ = {eta:g}, {how}",
        "longest delay of a gradient (gradients)",
        "test accuracy, second half",
        tuple(lines),
        "log",
    )


EXPERIMENT = Experiment(
    name="delays",
    title="Robustness to delays",
    where="sections 2.1 and 2.2 (delay function), appendix on constant step sizes",
    about="Five clients on a9a, strongly convex with lambda = 1/N, constant steps, 20,000 gradients. The delay is made "
    "longer in two ways: by rounds that grow while clients run one round ahead, and by more rounds ahead. Messages take "
    "so long that clients use the whole delay that they are allowed.",
    jobs=jobs,
    findings=findings,
)
