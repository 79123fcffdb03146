"""Runs of LeNet-5, scored on the test part alone: the loss over all training records takes longer than most of the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from crescendo.config.loading import read
from crescendo.core.server import Server
from crescendo.data import Dataset
from crescendo.errors import Diverged, PeerError
from crescendo.objectives import ModelFile, OwnModel
from crescendo.privacy.guarantee import Guarantee
from crescendo.runs.prepare import Prepared, prepare
from crescendo.simulator.simulation import Moment, Simulation
from crescendo.simulator.timing import Timing
from crescendo.worker import Worker
from lab.experiments.training import Config, dataset, rounded


@lru_cache(maxsize=1)
def lenet(source: str) -> OwnModel:
    """Return LeNet-5 for these data; its programs are compiled once per process."""
    data = dataset(source)
    return ModelFile.read("lenet").made(data.train, {"classes": len(data.classes)})


@lru_cache(maxsize=1)
def some_of(source: str, records: int) -> Dataset:
    """Return the data with this many training records, the same in every run, and the whole test part."""
    data = dataset(source)
    rows = np.random.default_rng(0).permutation(len(data.train))[:records]
    return replace(data, train=data.train.take(rows))


def trained_net(
    source: str, config: Config, seeds: Sequence[int], points: int = 0, records: int | None = None
) -> Config:
    """Train as `training.trained` does, for a config without an objective, and follow the accuracy at ``points`` moments.

    ``records`` limits the number of training records that the clients share.
    """
    data = dataset(source) if records is None else some_of(source, records)
    runs = [_run(source, data, config, seed, points) for seed in seeds]
    prepared = runs[0][0]
    found: Config = {
        "rounds": prepared.terms.rounds,
        "accuracies": [rounded(curve[-1][1]) if curve else None for _, curve in runs],
    }
    whole = [np.array(curve) for _, curve in runs if curve]
    if points and whole:
        x, y = (np.array([one[:, column] for one in whole]) for column in (0, 1))
        columns = {"gradients": x.mean(axis=0), "mean": y.mean(axis=0), "low": y.min(axis=0), "high": y.max(axis=0)}
        found["curve"] = {name: [rounded(value) for value in values] for name, values in columns.items()}
    elif points:
        found["curve"] = {name: [] for name in ("gradients", "mean", "low", "high")}
    if isinstance(prepared.privacy, Guarantee):
        found["epsilon"] = rounded(prepared.privacy.epsilon)
    return found


def _run(
    source: str, data: Dataset, config: Config, seed: int, points: int
) -> tuple[Prepared, list[tuple[float, float]]]:
    """Return gradients and accuracy of the followed models and of the last one; an empty list for a run that broke off."""
    goal = lenet(source)
    prepared = prepare(read({**config, "data": {"source": source}, "run": {"seed": seed}}), goal, data)
    agreed, privacy, terms = prepared.agreement, prepared.privacy, prepared.terms
    assert data.test is not None
    test, curve = data.test, list[tuple[float, float]]()
    due = [*(range(0, terms.rounds, max(1, terms.rounds // points)) if points else ()), terms.rounds]

    def observe(moment: Moment) -> None:
        passed = sum(k <= moment.k for k in due[len(curve) :])  # late messages may complete several rounds at once
        if passed:
            with np.errstate(all="ignore"):
                point = (moment.gradients, goal.evaluate(moment.model, test)["accuracy"])
            curve.extend([point] * passed)

    model, wire, records = agreed.initial(), agreed.wire, prepared.dataset.train
    hidden = [None if privacy is None else privacy.mechanism(c, rows, seed) for c, rows in enumerate(prepared.parts)]
    workers = [
        Worker(terms, c, model, goal, records, rows, seed, wire, hidden[c]) for c, rows in enumerate(prepared.parts)
    ]
    timing = Timing.preset(prepared.config.timing.preset, terms)
    try:
        Simulation(terms, workers, Server(terms, model), timing, seed, wire=wire, observe=observe).run()
    except (PeerError, Diverged):  # the model has left all bounds
        return prepared, []
    return prepared, curve
