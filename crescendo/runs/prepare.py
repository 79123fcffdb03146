"""From a checked config to the parts of a run: data, objective, schedule with its certificate, terms and privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crescendo.config.schema import Config
from crescendo.federation.objective_terms import check_own_keys, made_up
from crescendo.runs.guarantee import Guarantee, admit, check_counts, declared, guarantee
from crescendo.runs.make_schedule import Theorem, at, certificate_of, make_delay, make_steps, needs_data, run_sizes
from crescendo.core.terms import Terms
from crescendo.data import Dataset, Records, client_names, load, split, weights
from crescendo.data.public import stated_classes
from crescendo.data.records import FloatArray, IntArray
from crescendo.errors import ConfigError
from crescendo.objectives import Logistic, OwnModel, load_objective, weights_of_rows
from crescendo.privacy.accounting.accountant import Progress
from crescendo.schedules import Certificate, CutSizes


@dataclass(frozen=True, eq=False)
class Prepared:
    """A run that may start: everything is made and the certificates hold."""

    config: Config
    dataset: Dataset
    parts: list[IntArray]
    names: tuple[str, ...]
    weights: FloatArray
    objective: Any
    terms: Terms
    sizes: CutSizes
    certificate: Certificate
    smoothness: float | None
    convexity: float | None
    privacy: Guarantee | None


def prepare(
    config: Config, objective: Any = None, data: Dataset | None = None, progress: Progress | None = None
) -> Prepared:
    """Load, split and certify. What the run file alone can decide is decided before any data are read."""
    count, private = config.clients.count, config.privacy.mechanism != "none"
    if count is not None and not needs_data(config):
        certificate_of(config, run_sizes(config, count), None)
    if private and data is None:
        stated_classes(config.data.source, config.data.classes)
    dataset = data if data is not None else load_data(config)
    parts = split_data(config, dataset)
    clients = len(parts)
    config = config.model_copy(update={"clients": config.clients.model_copy(update={"count": clients})})
    # in a private run nothing that others see may be counted from the records: how many there are is typed in
    counts = declared(config, clients) if private else tuple(len(part) for part in parts)
    # nor may a record decide whether the model is made at all: one of the user's own is tried on made-up records
    sample = made_up(dataset.features, len(dataset.classes)) if private else dataset.train
    goal = (
        make_objective(config, dataset, sum(counts), sample)
        if objective is None
        else given_objective(objective, sample)
    )
    if private:
        check_counts(counts, [len(part) for part in parts])
        dataset, parts = admit(dataset, parts, config, goal)
    smooth, convex = curvature(goal, None if private else dataset.train, config.privacy.norm_bound)
    sizes = run_sizes(config, clients)
    theorem = Theorem(config, sizes(0), smooth, convex)
    shares = weights(config.clients.weights, [range(records) for records in counts])
    with at("schedule"):
        terms = Terms(
            sizes=sizes,
            steps=make_steps(config, theorem),
            weights=tuple(float(share) for share in shares),
            rounds=sizes.rounds,
            ahead=config.schedule.wait.rounds,
            tau=make_delay(config, theorem),
            shares_by=config.clients.shares,
            seed=config.run.seed,
            blocks=config.schedule.blocks,
            whole_rounds=private,
        )
    certificate = certificate_of(config, sizes, theorem)
    if config.schedule.blocks > goal.size:
        raise ConfigError(
            f"schedule.blocks must be at most the model's {goal.size} numbers, not {config.schedule.blocks}"
        )
    return Prepared(
        config=config,
        dataset=dataset,
        parts=parts,
        names=client_names(dataset, clients, config.clients.split),
        weights=shares,
        objective=goal,
        terms=terms,
        sizes=sizes,
        certificate=certificate,
        smoothness=smooth,
        convexity=convex,
        privacy=guarantee(config, terms, goal, progress) if private else None,
    )


def load_data(config: Config) -> Dataset:
    asked, split_by = config.data, config.clients.split
    return load(
        asked.source,
        folder=asked.folder,
        test=asked.test,
        seed=config.run.seed,
        classes=asked.classes,
        label=asked.label,
        column=split_by.removeprefix("column:") if split_by.startswith("column:") else None,
        features=asked.features,
        private=config.privacy.mechanism != "none",
    )


def split_data(config: Config, dataset: Dataset) -> list[IntArray]:
    asked = config.clients
    return split(dataset, asked.count, asked.split, seed=config.run.seed, alpha=asked.alpha, sizes=asked.sizes)


def make_objective(config: Config, dataset: Dataset, records: int, sample: Records) -> Any:
    """The objective of a run file; a model of the user's own is tried on the first records of ``sample``."""
    asked = config.objective
    if asked.kind != "logistic":
        check_own_keys(config)
        return load_objective(asked.kind, sample, **asked.options)
    if len(dataset.classes) != 2:
        raise ConfigError(
            f"{dataset.name} has {len(dataset.classes)} classes and logistic regression tells two apart; "
            "choose two with data.classes"
        )
    l2 = 1.0 / records if asked.l2 == "1/N" else float(asked.l2)
    return Logistic(dataset.features, l2=l2, intercept=asked.intercept, dtype=np.dtype(asked.dtype))


def given_objective(objective: Any, sample: Records) -> Any:
    """An objective passed in by a program: one of ours as it is, any other checked on ``sample`` and completed."""
    return objective if isinstance(objective, Logistic | OwnModel) else OwnModel(objective, sample)


def curvature(objective: Any, data: Records | None, norm_bound: float | None) -> tuple[float | None, float | None]:
    """L and mu where the objective knows them; mu = 0 is none. Without data to look at, L follows from the norm bound."""
    smooth = None
    if data is not None and hasattr(objective, "smoothness"):
        smooth = float(objective.smoothness(data))
    elif norm_bound is not None and isinstance(objective, Logistic):
        smooth = norm_bound * norm_bound / 4 + objective.l2
    convex = float(getattr(objective, "strong_convexity", 0.0))
    return smooth, convex if convex > 0 else None


def row_weights(prepared: Prepared) -> FloatArray | None:
    """The weight of every training record in F = sum_c p_c F_c; None where all are equal."""
    weights = weights_of_rows(prepared.parts, prepared.weights, len(prepared.dataset.train))
    return None if np.ptp(weights) <= 1e-13 * weights.max() else weights
