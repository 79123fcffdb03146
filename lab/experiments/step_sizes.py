"""Step sizes: 9 rounds that grow, with step sizes that fall, against 20 constant rounds with a constant step size."""

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
    curve_line,
    gap,
    named,
    settings_of,
    spread,
    where,
)
from lab.pipeline.verdicts import differences, inside

SOURCES = ("phishing", "ijcnn1", "a9a")
SCHEMES = ("constant", "diminishing_1", "diminishing_2")
RULE = (
    "A scheme's accuracy is the same or better in a setting (sum or mean, one of three timings) if the interval of its "
    f"accuracy less that of constant steps and sizes, seed by seed, lies above -{SAME}; it is worse if all of it lies below. "
    "Rounds must be the numbers stated."
)


def run(
    problem: str, source: str, convexity: str, combine: str, timing: str, scheme: str, seeds: Sequence[int]
) -> dict[str, Any]:
    if scheme == "constant":
        sizes, steps = {"kind": "constant", "size": 200, "per_client": True}, {"kind": "constant", "eta": 0.0025}
    else:
        sizes = {"kind": "power", "scale": 100.0, "per_client": True}
        steps = falling(convexity, 0.1, per="slot" if scheme == "diminishing_1" else "round")
    return trained(
        source,
        federation(convexity, combine, timing, 20_000, sizes, steps),
        seeds,
        every=1 if timing == CURVES else None,
    )


CURVES = "heterogeneous"  # the timing whose curves are drawn


def jobs(effort: Effort) -> list[Job]:
    found = []
    for problem in SOURCES:
        source, seeds = source_for(problem, effort.quick), effort.seeds_of(SEEDS)
        timings = TIMINGS[2:] if effort.quick else TIMINGS
        for one in grid(convexity=CONVEXITIES, combine=COMBINATIONS, timing=timings, scheme=SCHEMES):
            found.append(Job(run, {"problem": problem, "source": source, **one, "seeds": seeds}, source))
    return found


def findings(outcomes: list[Outcome]) -> Findings:
    problems = list(dict.fromkeys((one["problem"], one["convexity"]) for one in outcomes))
    statements = [_rounds(where(outcomes))]
    for problem, convexity in problems:
        runs = where(outcomes, problem=problem, convexity=convexity)
        statements += [_statement(f"{problem}, {convexity}: {scheme}", scheme, runs) for scheme in SCHEMES[1:]]
    plots = tuple(
        _plot(problem, where(outcomes, problem=problem)) for problem in SOURCES if where(outcomes, problem=problem)
    )
    return Findings(RULE, tuple(statements), (_table(where(outcomes)),), plots, commonest_class(outcomes))


def _rounds(runs: list[Outcome]) -> PaperStatement:
    found = {scheme: {one["rounds"] for one in runs if one["scheme"] == scheme} - {None} for scheme in SCHEMES}
    grown = found["diminishing_1"] | found["diminishing_2"]
    ours = f"{', '.join(map(str, found['constant']))} and {', '.join(map(str, grown))}" if runs else ""
    held = found["constant"] == {20} and grown == {9}
    return PaperStatement("rounds with constant and with growing sizes", "20 and 9", ours, int(held), int(bool(runs)))


def _statement(what: str, scheme: str, runs: list[Outcome]) -> PaperStatement:
    paper = "the same accuracy as constant steps and sizes, or better"
    if not runs:
        return PaperStatement(what, paper, "", 0, 0)
    pairs = []
    for setting in settings_of(runs):
        by_scheme = {one["scheme"]: one["accuracies"] for one in where(runs, **setting)}
        pairs.append((by_scheme[scheme], by_scheme["constant"]))
    verdicts = [inside(differences(*pair), -SAME) for pair in pairs]
    return PaperStatement.judged(what, paper, f"accuracy {gap(pairs)}", verdicts)


def _plot(problem: str, runs: list[Outcome]) -> Plot:
    panels = []
    for combine in COMBINATIONS:
        for convexity in CONVEXITIES:
            found = {one["scheme"]: one for one in where(runs, convexity=convexity, combine=combine, timing=CURVES)}
            lines = tuple(
                curve_line(
                    f"{scheme}, {found[scheme]['rounds']} rounds",
                    found[scheme],
                    colour=j,
                    style=("-", "--", ":")[j],
                    marker="os^"[j],
                )
                for j, scheme in enumerate(SCHEMES)
            )
            panels.append(
                Panel(f"{convexity}, {combine}", "gradients, over all clients", "accuracy on the test part", lines)
            )
    caption = f"Accuracy on {problem} while training with each scheme, {CURVES} timing; bands from least to largest of the seeds"
    return Plot(f"step-sizes-{problem}", caption, tuple(panels))


def _table(runs: list[Outcome]) -> TextTable:
    lines = []
    for problem, convexity in dict.fromkeys((one["problem"], one["convexity"]) for one in runs):
        for setting in settings_of(runs):
            found = where(runs, problem=problem, convexity=convexity, **setting)
            by_scheme = {one["scheme"]: one["accuracies"] for one in found}
            lines.append(
                (f"{problem}, {convexity}", named(setting), *(spread(by_scheme[scheme]) for scheme in SCHEMES))
            )
    return TextTable(
        "Accuracy by scheme, mean ± standard deviation over seeds", ("problem", "setting", *SCHEMES), tuple(lines)
    )


EXPERIMENT = Experiment(
    name="step-sizes",
    title="Constant against diminishing step sizes",
    where="section 6 and appendix E.2.3, figures of step sizes",
    about="Five clients, 20,000 gradients. Constant: 200 samples per client and round with step size 0.0025 (the paper's "
    "table). Growing: 100 i samples per client in round i, step sizes falling from 0.1 at every gradient (diminishing_1) or "
    "once a round (diminishing_2). The paper's figures are not in its source; its sentences are that growing rounds reach "
    "the same accuracy or better, and take 9 rounds instead of 20. a9a, which is not in those figures, is tried too. "
    "The experiment on LeNet-5 has its figure.",
    jobs=jobs,
    findings=findings,
)
