"""LeNet-5 on MNIST: the table's last row, and the figures of step sizes and biased data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.experiments.net_training import trained_net
from lab.experiments.training import falling, grid
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
from lab.pipeline.summaries import (
    COMBINATIONS,
    SAME,
    TIMINGS,
    curve_line,
    gap,
    look_of,
    margin,
    mean,
    named,
    score_line,
    settings_of,
    short,
    span,
    spread,
    where,
)
from lab.pipeline.verdicts import Scores, differences, inside

SOURCE, CLIENTS, SEEDS, ONE = "mnist", 4, 3, "heterogeneous"
PAPER = {50: 0.9450, 100: 0.9470, 200: 0.9180, 500: 0.8740, 700: 0.8700, 1000: 0.7080}
GOOD = 0.9
LINEAR = {"kind": "power", "scale": 100.0, "per_client": True}
SCHEMES = ("constant", "diminishing_1", "diminishing_2")
RULE = (
    f"A number of the table held in a setting (sum or mean, one of three timings) if the interval of our mean lies within "
    f"{SAME} of it. The rest is tried with sum and mean under {ONE} timing: diminishing step sizes do as well if no more "
    f"than {SAME} below constant ones; biased data leave a good accuracy if it is at least {GOOD}; both by intervals."
)


def run(part: str, combine: str, timing: str, case: Any, seeds: Sequence[int], gradients: int) -> dict[str, Any]:
    """``case`` is a size, a scheme or a split, depending on the ``part``; ``gradients`` counts those of all clients."""
    config = _config(part, combine, timing, case, gradients)
    return trained_net(SOURCE, config, seeds, points=0 if part == "table" else 10)


def _config(part: str, combine: str, timing: str, case: Any, gradients: int) -> dict[str, Any]:
    convexity = "not convex"
    sizes: dict[str, Any] = LINEAR
    steps: dict[str, Any] = falling(convexity, 0.1)
    if part == "table" or case == "constant":
        size = case if part == "table" else 200
        sizes, steps = {"kind": "constant", "size": size, "per_client": True}, {"kind": "constant", "eta": 0.0025}
    elif part == "steps":
        steps = falling(convexity, 0.1, per="slot" if case == "diminishing_1" else "round")
    else:
        steps = falling(convexity, 0.01)
    config: dict[str, Any] = {
        "clients": {"count": CLIENTS, "combine": combine, "weights": "uniform"},
        "schedule": {"gradients": gradients, "sizes": sizes, "steps": steps, "wait": {"rounds": 1}},
        "timing": {"preset": timing},
    }
    if part == "biased":
        config["clients"]["split"] = case
    return config


def jobs(effort: Effort) -> list[Job]:
    rest = {"seeds": effort.seeds_of(SEEDS), "gradients": 1_000 if effort.quick else 20_000}
    cells: list[dict[str, Any]] = [
        *grid(part=["table"], combine=COMBINATIONS, timing=TIMINGS, case=PAPER),
        *grid(part=["steps"], combine=COMBINATIONS, timing=[ONE], case=SCHEMES),
        *grid(part=["biased"], combine=COMBINATIONS, timing=[ONE], case=("label", "iid")),
    ]
    return [Job(run, {**one, **rest}, SOURCE) for one in cells]


def findings(outcomes: list[Outcome]) -> Findings:
    parts = {part: where(outcomes, part=part) for part in ("table", "steps", "biased")}
    statements = [
        *(_number(size, where(parts["table"], case=size)) for size in PAPER),
        *(_against_constant(parts["steps"], scheme) for scheme in SCHEMES[1:]),
        _biased(parts["biased"]),
    ]
    plots = [
        *_table_plot(parts["table"]),
        *(_curves(name, runs) for name, runs in parts.items() if name != "table" and runs),
    ]
    return Findings(RULE, tuple(statements), tuple(_tables(parts)), tuple(plots))


def _number(size: int, runs: list[Outcome]) -> PaperStatement:
    scores = [one["accuracies"] for one in runs]
    verdicts = [inside(one, PAPER[size] - SAME, PAPER[size] + SAME) for one in scores]
    return PaperStatement.judged(f"table: {size} per client", short(PAPER[size]), _means(scores), verdicts)


def _against_constant(runs: list[Outcome], scheme: str) -> PaperStatement:
    pairs = []
    for setting in settings_of(runs):
        by_case = {one["case"]: one["accuracies"] for one in where(runs, **setting)}
        pairs.append((by_case[scheme], by_case["constant"]))
    verdicts = [inside(differences(*pair), -SAME) for pair in pairs]
    ours = f"accuracy {gap(pairs)}" if runs else ""
    return PaperStatement.judged(f"step sizes: {scheme} against constant", "works effectively", ours, verdicts)


def _biased(runs: list[Outcome]) -> PaperStatement:
    scores = [one["accuracies"] for one in where(runs, case="label")]
    verdicts = [inside(one, GOOD) for one in scores]
    what = "biased data: each client has digits of its own"
    return PaperStatement.judged(what, "a good accuracy", _means(scores), verdicts)


def _means(scores: list[Scores]) -> str:
    whole = [one for one in scores if None not in one]
    return span([mean(one) for one in scores]) + margin(whole)


def _table_plot(runs: list[Outcome]) -> list[Plot]:
    panels = []
    for combine in COMBINATIONS:
        lines = [Line("the paper", tuple(PAPER), tuple(PAPER.values()), colour=6, style="", marker="D")]
        for setting in settings_of(where(runs, combine=combine)):
            found = sorted(where(runs, **setting), key=lambda one: int(one["case"]))
            look = look_of(setting) | {"colour": TIMINGS.index(setting["timing"])}
            lines.append(score_line(setting["timing"], [one["case"] for one in found], found, **look))
        panels.append(
            Panel(combine, "samples per client and round", "accuracy, test part", tuple(lines), "log", y_from=0.0)
        )
    caption = "LeNet-5 after 20,000 gradients with constant sample sizes, eta = 0.0025; bands from least to largest of the seeds"
    return [Plot("lenet-table", caption, tuple(panels))] if runs else []


_CAPTIONS = {
    "steps": "LeNet-5 while training with constant and with diminishing step sizes",
    "biased": "LeNet-5 while training on biased data, each client with digits of its own (label), and on unbiased data (iid)",
}


def _curves(part: str, runs: list[Outcome]) -> Plot:
    panels = []
    for combine in COMBINATIONS:
        lines = [
            curve_line(str(one["case"]), one, colour=j, style=("-", "--", ":")[j % 3])
            for j, one in enumerate(where(runs, combine=combine))
        ]
        panels.append(Panel(combine, "gradients, over all clients", "accuracy, test part", tuple(lines), y_from=0.0))
    return Plot(
        f"lenet-{part}", f"{_CAPTIONS[part]}; {ONE} timing, bands from least to largest of the seeds", tuple(panels)
    )


def _tables(parts: dict[str, list[Outcome]]) -> list[TextTable]:
    found = []
    for part, runs in parts.items():
        cases = list(dict.fromkeys(one["case"] for one in runs))
        rows = []
        for setting in settings_of(runs):
            by_case = {one["case"]: one for one in where(runs, **setting)}
            rows.append((named(setting), *(spread(by_case[case]["accuracies"]) for case in cases)))
        if runs:
            rounds = {one["case"]: one["rounds"] for one in runs}
            names = (f"{case}, {rounds[case]} rounds" for case in cases)
            found.append(
                TextTable(
                    f"{part.capitalize()}: accuracy, mean ± deviation over seeds",
                    ("setting", *names),
                    tuple(rows),
                )
            )
    return found


EXPERIMENT = Experiment(
    name="lenet",
    title="LeNet-5",
    where="appendix E: the table's last row, figures of non-convex problems",
    about="MNIST, four clients, 20,000 gradients of one record each. Step sizes fall like 1 / (1 + 0.01 sqrt(t)) from 0.1 "
    "(step sizes) and 0.01 (biased data), and sizes grow like 100 i per client. [Sum or mean](sum_or_mean.md) has the "
    "other influences on this network, above all its first weights. `all` leaves it out, because it takes long and needs "
    "jax or torch.",
    jobs=jobs,
    findings=findings,
    long=True,
)
