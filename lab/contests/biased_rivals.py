"""Biased data against other algorithms: equal data, gradients, rounds, clock, and number of trials for tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from crescendo.core.random import Purpose, stream
from crescendo.data import Dataset
from crescendo.errors import PeerError, UsageError
from crescendo.runs.simulate import simulate
from lab.contests.entrants import difference
from lab.experiments.training import SEEDS, Config, dataset, falling, federation, grid, rounded, source_for
from lab.pipeline.experiment import (
    TRIAL_SEED,
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
from lab.pipeline.summaries import SAME, best_of, gap, mean, score_line, short, spread, where
from lab.pipeline.verdicts import Scores, differences, inside

SOURCES = ("a9a", "phishing")
ALPHAS = (0.1, 0.3, 1.0, 10.0)
SPLITS = ("label", *(f"dirichlet {alpha:g}" for alpha in ALPHAS), "iid")
OURS = ("sum", "mean")
RIVALS = ("fedavg", "fedprox", "scaffold")
# of the step sizes; FedProx tries half of them with two values of its mu
SCALES = (1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32)
PROX = (0.01, 0.1)
ETA0 = 0.01
TUNING_SEEDS = (TRIAL_SEED, TRIAL_SEED + 1)
HELD_OUT = 0.2  # the share of the training records for tuning
RULE = (
    f"Every algorithm gets {len(SCALES)} trials of its options with two seeds, on a fifth of the training records that is "
    "held out; the best is then trained on all of them with other seeds and scored on the test part, which nothing was "
    "tuned on. There is no difference by bias if the interval of the accuracy with the most biased less that with unbiased "
    f"data, seed by seed, lies within {SAME} of 0; there is one if none of it does."
)


def run(source: str, split: str, contestant: str, gradients: int, trials: int, seeds: Sequence[int]) -> dict[str, Any]:
    config = _config(split, contestant, gradients)
    held_out = _held_out(source)
    tried = _trials(contestant)[:trials]
    scores = [
        mean([_accuracy(held_out, config, contestant, options, seed) for seed in TUNING_SEEDS]) for options in tried
    ]
    best = max(range(len(tried)), key=lambda j: scores[j] or -1.0)  # a run that broke off is worse than any
    accuracies = [_accuracy(dataset(source), config, contestant, tried[best], seed) for seed in seeds]
    return {"accuracies": accuracies, "options": tried[best]}


def _config(split: str, contestant: str, gradients: int) -> Config:
    """Return rounds of 100 i samples for each of five clients; rivals make as many rounds of equal size."""
    rule, _, alpha = split.partition(" ")
    combine = contestant if contestant in OURS else "sum"
    sizes = {"kind": "power", "scale": 100.0, "per_client": True}
    steps = falling("strongly convex", ETA0)
    config = federation("strongly convex", combine, "heterogeneous", gradients, sizes, steps, split=rule)
    config["clients"] |= {"weights": "size"} | ({"alpha": float(alpha)} if alpha else {})
    return {**config, "evaluate": {"every": 10**9}}


def _trials(contestant: str) -> list[dict[str, float]]:
    """Return the options to try, the same number for each contestant."""
    if contestant == "fedprox":
        return [{"step_scale": scale, "mu": mu} for scale in SCALES[1::2] for mu in PROX]
    return [{"step_scale": float(scale)} for scale in SCALES]


def _accuracy(data: Dataset, config: Config, contestant: str, options: dict[str, float], seed: int) -> float | None:
    algorithm = "crescendo" if contestant in OURS else contestant
    try:
        found = simulate({**config, "run": {"seed": seed}}, data=data, algorithm=algorithm, options=options, cores=1)
    except UsageError as error:
        if isinstance(error.__cause__, PeerError):  # the model has left all bounds: an outcome, not a mistake
            return None
        raise
    return rounded(found.accuracy)


@lru_cache(maxsize=2)
def _held_out(source: str) -> Dataset:
    """Return the training records of a source, a part of them held out as its test part."""
    data = dataset(source)
    order = stream(0, Purpose.SPLIT, round=3).permutation(len(data.train))
    many = round(HELD_OUT * len(order))
    return replace(data, train=data.train.take(np.sort(order[many:])), test=data.train.take(np.sort(order[:many])))


def jobs(effort: Effort) -> list[Job]:
    splits, contestants = (SPLITS[:2], ("sum", "fedavg", "scaffold")) if effort.quick else (SPLITS, (*OURS, *RIVALS))
    length = {"gradients": 2000, "trials": 2} if effort.quick else {"gradients": 20_000, "trials": len(SCALES)}
    sources = [source_for(source, effort.quick) for source in (SOURCES[:1] if effort.quick else SOURCES)]
    return [
        Job(run, {**one, **length, "seeds": effort.seeds_of(SEEDS)}, one["source"])
        for one in grid(source=sources, split=splits, contestant=contestants)
    ]


def findings(outcomes: list[Outcome]) -> Findings:
    sources = list(dict.fromkeys(one["source"] for one in outcomes))
    statements = [one for source in sources for one in _statements(source, where(outcomes, source=source))]
    known = [source for source in sources if where(outcomes, source=source)]
    plot = Plot(
        "biased-rivals",
        "Accuracy against how biased the clients' data are: labels spread over five clients by draws from "
        "Dirichlet(alpha), small alpha being most biased; every algorithm tuned with as many trials, bands from the least "
        "to the largest of the seeds",
        tuple(_panel(source, where(outcomes, source=source)) for source in known),
    )
    tables = tuple(made(source, where(outcomes, source=source)) for source in known for made in (_table, _chosen))
    return Findings(RULE, tuple(statements), tables, (plot,) if known else (), _remarks(outcomes, known))


def _statements(source: str, runs: list[Outcome]) -> list[PaperStatement]:
    if not runs:
        return [PaperStatement(source, "no significant difference", "", 0, 0)]
    found = []
    present = list(dict.fromkeys(one["split"] for one in runs))
    for contestant in (one for one in OURS if where(runs, contestant=one)):
        first, last = (_scores(runs, split, contestant) for split in (present[0], present[-1]))
        held = inside(differences(first, last), -SAME, SAME)
        ours = f"accuracy {gap([(first, last)])} ({present[0]} against {present[-1]})"
        found.append(PaperStatement.judged(f"{source}, {contestant}", "no significant difference", ours, [held]))
    return found


def _scores(runs: list[Outcome], split: str, contestant: str) -> Scores:
    found: Scores = where(runs, split=split, contestant=contestant)[0]["accuracies"]
    return found


def _panel(source: str, runs: list[Outcome]) -> Panel:
    lines = []
    for j, contestant in enumerate(dict.fromkeys(one["contestant"] for one in runs)):
        drawn = [one for one in where(runs, contestant=contestant) if one["split"].startswith("dirichlet")]
        alphas = [float(one["split"].partition(" ")[2]) for one in drawn]
        lines.append(score_line(_name(contestant), alphas, drawn, colour=j, marker="os^Dv"[j % 5]))
    return Panel(
        source, "alpha of the Dirichlet split (small: biased)", "accuracy on the test part", tuple(lines), "log"
    )


def _table(source: str, runs: list[Outcome]) -> TextTable:
    contestants = list(dict.fromkeys(one["contestant"] for one in runs))
    rows = tuple(
        (split, *(spread(where(runs, split=split, contestant=one)[0]["accuracies"]) for one in contestants))
        for split in dict.fromkeys(one["split"] for one in runs)
    )
    return TextTable(
        f"{source}: accuracy, mean ± standard deviation over seeds", ("split", *map(_name, contestants)), rows
    )


def _chosen(source: str, runs: list[Outcome]) -> TextTable:
    contestants = list(dict.fromkeys(one["contestant"] for one in runs))
    rows = tuple(
        (split, *(_options(where(runs, split=split, contestant=one)[0]["options"]) for one in contestants))
        for split in dict.fromkeys(one["split"] for one in runs)
    )
    return TextTable(f"{source}: the options that tuning chose", ("split", *map(_name, contestants)), rows)


def _options(chosen: dict[str, float]) -> str:
    """
    >>> _options({"step_scale": 0.25, "mu": 0.1})
    'eta0 = 0.0025, mu = 0.1'
    """
    others = {name: value for name, value in chosen.items() if name != "step_scale"}
    named = {"eta0": ETA0 * chosen["step_scale"], **others}
    return ", ".join(f"{name} = {value:g}" for name, value in named.items())


def _remarks(outcomes: list[Outcome], sources: list[str]) -> tuple[str, ...]:
    """Return the highest mean in every split, and its difference from the best of ours with the interval."""
    said = []
    for source in sources:
        runs = where(outcomes, source=source)
        contestants = list(dict.fromkeys(one["contestant"] for one in runs))
        places = []
        for split in dict.fromkeys(one["split"] for one in runs):
            scores = {one: _scores(runs, split, one) for one in contestants}
            best, own = best_of(list(scores.values())), best_of([scores[one] for one in contestants if one in OURS])
            name = next(one for one in contestants if scores[one] is best)
            lead = "" if name in OURS else f", {difference(best, own)[0]} over the best of ours"
            places.append(f"{split}: {_name(name)} ({short(mean(best))}{lead})")
        said.append(
            f"Highest mean on {source}: {'; '.join(places)}. In brackets behind a difference is its 95% interval; choosing "
            "the highest of several favours it."
        )
    return tuple(said)


def _name(contestant: str) -> str:
    names = {"fedavg": "FedAvg", "fedprox": "FedProx", "scaffold": "SCAFFOLD"}
    return names.get(contestant, f"ours, {contestant}")


EXPERIMENT = Experiment(
    name="biased-rivals",
    title="Biased data against other algorithms",
    where="section 6 and appendix E.2.4, sentence on biased data; the other algorithms are not in the paper",
    about="Logistic regression on a9a and phishing, strongly convex, five clients of different speeds, 20,000 gradients, 100 i "
    "samples per client in round i; FedAvg, FedProx and SCAFFOLD do as many gradients in as many rounds of equal size. Labels "
    "are spread evenly, by Dirichlet draws, or so that each client has one label. Steps are tried from eta0 = 0.0025 to 0.32; "
    "where the tables of options show 0.32, a still larger step might do better.",
    jobs=jobs,
    findings=findings,
)
