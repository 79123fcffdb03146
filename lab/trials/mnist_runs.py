"""Runs on MNIST for several trials: networks that are compiled once, and models scored on the test part alone.

`crescendo.simulate` measures the loss over all 60,000 training records as well, which takes longer than most of these runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from crescendo.config.loading import read
from crescendo.core.server import Server
from crescendo.data import Dataset
from crescendo.errors import CrescendoError
from crescendo.objectives import ModelFile, OwnModel
from crescendo.privacy.guarantee import Guarantee
from crescendo.runs.prepare import prepare
from crescendo.simulator.simulation import Moment, Simulation
from crescendo.simulator.timing import Timing
from crescendo.worker import Worker

Values = dict[str, Any]


@cache
def _net(kind: str, options: str, data: Dataset) -> OwnModel:
    return ModelFile.read(kind).made(data.train, json.loads(options))


def net(kind: str, options: Values, data: Dataset) -> OwnModel:
    """Return one of our networks. The same options give the same object, whose programs are compiled once."""
    return _net(kind, json.dumps(options, sort_keys=True), data)


def run(config: Values, goal: OwnModel, data: Dataset, shown: Callable[[int, int], bool]) -> Values:
    """Run, and return the test scores of the models for which ``shown(k, rounds)`` holds, and of the last one.

    A run that diverges and breaks off has the reason in place of a score.
    """
    prepared = prepare(read({**config, "data": {"source": data.name}}), goal, data)
    agreed, privacy, seed = prepared.agreement, prepared.privacy, prepared.config.run.seed
    terms, model, curve = agreed.terms, agreed.initial(), list[list[float | None]]()

    def observe(moment: Moment) -> None:
        if shown(moment.k, terms.rounds) or moment.k == terms.rounds:
            curve.append([moment.gradients, *_scores(goal, moment.model, data)])

    hidden = [None if privacy is None else privacy.mechanism(c, rows, seed) for c, rows in enumerate(prepared.parts)]
    workers = [
        Worker(terms, c, model, goal, prepared.dataset.train, rows, seed, agreed.wire, hidden[c])
        for c, rows in enumerate(prepared.parts)
    ]
    timing = Timing.preset(prepared.config.timing.preset, terms)
    found: Values = {"rounds": terms.rounds, "curve": curve}
    if isinstance(privacy, Guarantee):
        found |= {"epsilon": privacy.epsilon, "delta": privacy.delta, "sigma": privacy.certificate.sigma.to_json()}
    try:
        Simulation(terms, workers, Server(terms, model), timing, seed, wire=agreed.wire, observe=observe).run()
    except CrescendoError as error:
        return {**found, "accuracy": None, "loss": None, "why": str(error)}
    return {**found, "accuracy": curve[-1][1], "loss": curve[-1][2]}


def _scores(goal: OwnModel, model: Any, data: Dataset) -> tuple[float, float | None]:
    assert data.test is not None
    with np.errstate(all="ignore"):
        scores = goal.evaluate(model, data.test)
    loss = scores["loss"]
    return scores["accuracy"], loss if np.isfinite(loss) else None
