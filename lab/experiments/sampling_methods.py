"""Sampling methods: rounds and accuracy with sizes 50 i^c, for c from 0 to 1, and 50 i / ln i."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.experiments.training import CONVEXITIES, SEEDS, falling, federation, grid, source_for, trained
from lab.pipeline.experiment import (
    Effort,
    Experiment,
    Findings,
    Job,
    Outcome,
    Panel,
    PaperStatement,
    Plot,
    TextTable,
)
from lab.pipeline.summaries import (
    COMBINATIONS,
    SAME,
    TIMINGS,
    commonest_class,
    gap,
    look_of,
    named,
    score_line,
    settings_of,
    spread,
    where,
)
from lab.pipeline.verdicts import differences, inside

METHODS: dict[str, dict[str, Any]] = {
    **{f"c = {c:g}": {"kind": "power", "scale": 50.0, "power": c} for c in (0.0, 0.25, 0.5, 0.75)},
    "i / ln i": {"kind": "log", "scale": 50.0},
    "c = 1": {"kind": "power", "scale": 50.0, "power": 1.0},
}
SOURCES = ("a9a", "covtype.binary")
RULE = (
    "A method maintains accuracy in a setting (sum or mean, one of three timings) if the interval of its accuracy less that "
    f"of constant sizes (c = 0), seed by seed, lies above -{SAME}; it does not if all of it lies below."
)


def run(
    problem: str, source: str, convexity: str, combine: str, timing: str, method: str, seeds: Sequence[int]
) -> dict[str, Any]:
    config = federation(convexity, combine, timing, 20_000, METHODS[method], falling(convexity, 0.01))
    return trained(source, config, seeds)


def jobs(effort: Effort) -> list[Job]:
    found = []
    for problem in SOURCES:
        source, seeds = source_for(problem, effort.quick), effort.seeds_of(SEEDS)
        for one in grid(
            convexity=CONVEXITIES[:1] if effort.quick else CONVEXITIES,
            combine=COMBINATIONS,
            timing=TIMINGS[2:] if effort.quick else TIMINGS,
            method=("c = 0", "i / ln i", "c = 1") if effort.quick else METHODS,
        ):
            found.append(Job(run, {"problem": problem, "source": source, **one, "seeds": seeds}, source))
    return found


def findings(outcomes: list[Outcome]) -> Findings:
    problems = list(dict.fromkeys((one["problem"], one["convexity"]) for one in outcomes))
    statements = [
        _statement(problem, convexity, method, where(outcomes, problem=problem, convexity=convexity))
        for problem, convexity in problems
        for method in ("c = 1", "i / ln i")
    ]
    panels = [
        _panel(problem, convexity, where(outcomes, problem=problem, convexity=convexity))
        for problem, convexity in problems
        if where(outcomes, problem=problem, convexity=convexity)
    ]
    caption = (
        "Accuracy after 20,000 gradients against the rounds that they took, from linear sizes (left) to constant sizes of "
        "50 (right); bands from least to largest of the seeds"
    )
    plots = (Plot("sampling-methods", caption, tuple(panels)),) if panels else ()
    return Findings(RULE, tuple(statements), (_table(outcomes),), plots, commonest_class(outcomes))


def _statement(problem: str, convexity: str, method: str, runs: list[Outcome]) -> PaperStatement:
    paper = "fewer rounds, good accuracy"
    if not runs:
        return PaperStatement(f"{problem}, {convexity}: {method}", paper, "", 0, 0)
    pairs = []
    for setting in settings_of(runs):
        by_method = {one["method"]: one["accuracies"] for one in where(runs, **setting)}
        pairs.append((by_method[method], by_method["c = 0"]))
    rounds = {one["method"]: one["rounds"] for one in runs}
    verdicts = [inside(differences(*pair), -SAME) for pair in pairs]
    ours = f"{rounds[method]} rounds instead of {rounds['c = 0']}; accuracy {gap(pairs)}"
    return PaperStatement.judged(f"{problem}, {convexity}: {method}", paper, ours, verdicts)


def _panel(problem: str, convexity: str, runs: list[Outcome]) -> Panel:
    lines = []
    for setting in settings_of(runs):
        found = sorted(where(runs, **setting), key=lambda one: int(one["rounds"] or 0))
        lines.append(score_line(named(setting), [one["rounds"] for one in found], found, **look_of(setting)))
    return Panel(f"{problem}, {convexity}", "rounds", "accuracy on the test part", tuple(lines), "log")


def _table(outcomes: list[Outcome]) -> TextTable:
    lines = []
    for problem, convexity in dict.fromkeys((one["problem"], one["convexity"]) for one in where(outcomes)):
        runs = where(outcomes, problem=problem, convexity=convexity)
        for setting in settings_of(runs):
            found = {one["method"]: one for one in where(runs, **setting)}
            cells = (spread(found[method]["accuracies"]) if method in found else "" for method in METHODS)
            lines.append((f"{problem}, {convexity}", named(setting), *cells))
    rounds = {one["method"]: one["rounds"] for one in where(outcomes)}
    columns = (
        "problem",
        "setting",
        *(f"{name}: {rounds[name]} rounds" if name in rounds else name for name in METHODS),
    )
    return TextTable("Accuracy by sampling method, mean ± standard deviation over seeds", columns, tuple(lines))


EXPERIMENT = Experiment(
    name="sampling-methods",
    title="Sampling methods",
    where="appendix E.2.2, figures of sampling methods",
    about="Rounds of 50 i^c and 50 i / ln i samples over all five clients, 20,000 gradients, step sizes that fall once "
    "a round from 0.01. The paper's figures are not in its source; its sentence is that c = 1 and i / ln i take fewer "
    "rounds and keep a good accuracy.",
    jobs=jobs,
    findings=findings,
)
