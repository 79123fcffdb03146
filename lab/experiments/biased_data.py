"""Biased data: two clients with one digit each, against two clients that have some of both."""

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
    curve_line,
    gap,
    named,
    settings_of,
    spread,
    where,
)
from lab.pipeline.verdicts import differences, inside

SPLITS = {"label": "biased: a digit each", "iid": "unbiased"}
CURVES = "heterogeneous"  # the timing whose curves are drawn
RULE = (
    "There is no difference in a setting (sum or mean, one of three timings) if the interval of the accuracy with biased "
    f"less that with unbiased data, seed by seed, lies within {SAME} of 0; there is one if none of it does."
)


def run(source: str, convexity: str, combine: str, timing: str, split: str, seeds: Sequence[int]) -> dict[str, Any]:
    sizes = {"kind": "power", "scale": 100.0, "per_client": True}
    steps = falling(convexity, 0.01)
    config = federation(convexity, combine, timing, 10_000, sizes, steps, clients=2, split=split)
    return trained(source, config, seeds, every=1 if timing == CURVES else None, classes=(0, 1))


def jobs(effort: Effort) -> list[Job]:
    source = source_for("mnist", effort.quick)
    axes = grid(
        convexity=CONVEXITIES, combine=COMBINATIONS, timing=TIMINGS[2:] if effort.quick else TIMINGS, split=SPLITS
    )
    return [Job(run, {"source": source, **one, "seeds": effort.seeds_of(SEEDS)}, source) for one in axes]


def findings(outcomes: list[Outcome]) -> Findings:
    statements = [_statement(convexity, where(outcomes, convexity=convexity)) for convexity in CONVEXITIES]
    runs = where(outcomes)
    return Findings(RULE, tuple(statements), (_table(runs),), (_plot(runs),) if runs else ())


def _statement(convexity: str, runs: list[Outcome]) -> PaperStatement:
    pairs = []
    for setting in settings_of(runs):
        by_split = {one["split"]: one["accuracies"] for one in where(runs, **setting)}
        pairs.append((by_split["label"], by_split["iid"]))
    verdicts = [inside(differences(*pair), -SAME, SAME) for pair in pairs]
    ours = f"accuracy {gap(pairs)} with biased data" if runs else ""
    return PaperStatement.judged(f"digits 0 and 1, {convexity}", "no significant difference", ours, verdicts)


def _plot(runs: list[Outcome]) -> Plot:
    panels = []
    for combine in COMBINATIONS:
        for convexity in CONVEXITIES:
            found = {one["split"]: one for one in where(runs, convexity=convexity, combine=combine, timing=CURVES)}
            lines = tuple(
                curve_line(SPLITS[split], found[split], colour=j, style=("-", "--")[j], marker="os"[j])
                for j, split in enumerate(SPLITS)
            )
            panels.append(
                Panel(f"{convexity}, {combine}", "gradients, over both clients", "accuracy on the test part", lines)
            )
    caption = f"Accuracy while two clients learn the digits 0 and 1, {CURVES} timing; bands from least to largest of the seeds"
    return Plot("biased-data", caption, tuple(panels))


def _table(runs: list[Outcome]) -> TextTable:
    lines = []
    for convexity in dict.fromkeys(one["convexity"] for one in runs):
        for setting in settings_of(runs):
            found = {one["split"]: one["accuracies"] for one in where(runs, convexity=convexity, **setting)}
            lines.append((convexity, named(setting), *(spread(found[split]) for split in SPLITS)))
    return TextTable(
        "Accuracy, mean ± standard deviation over seeds", ("problem", "setting", *SPLITS.values()), tuple(lines)
    )


EXPERIMENT = Experiment(
    name="biased-data",
    title="Biased data",
    where="section 6 and appendix E.2.4, figures of biased data",
    about="MNIST's digits 0 and 1, two clients, 10,000 gradients, 100 i samples per client in round i, step sizes that "
    "fall once a round from 0.01. The figures are not in the paper's source; its sentence is that biased data make no "
    "significant difference. The experiment on LeNet-5 has its figure.",
    jobs=jobs,
    findings=findings,
)
