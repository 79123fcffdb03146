"""What the tests of rival algorithms share: a small problem, and local SGD written out as every paper's pseudocode has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from crescendo.algorithms.algorithm_kinds import ALGORITHMS
from crescendo.algorithms.corrected_steps import CorrectedObjective, CorrectingClient
from crescendo.core.terms import Terms
from crescendo.data.records import Records
from crescendo.objectives.logistic.objective import Logistic
from crescendo.privacy.mechanisms.mechanism import Plain
from crescendo.schedules import ConstantSizes, DiminishingSteps
from crescendo.schedules.sizes import CutSizes
from crescendo.simulator.simulation import Simulation
from crescendo.simulator.timing import Constant, Crashes, Exponential, Timing
from crescendo.simulator.trace import Trace
from crescendo.worker import Worker
from tests.paper import Vector, logistic_gradient

FEATURES, SEED, L2 = 4, 3, 0.02
START = np.full(FEATURES + 1, 0.1)
Local = Callable[[Vector, int, int], Vector]  # model, client, round -> displacement
Correction = Callable[[Vector], Vector]  # what a local step adds to the gradient

UNEVEN = Timing((1.0, 1.713, 3.1), (0.0, 0.37, 0.91), Constant(0.213))
TROUBLED = Timing(
    (1.0, 1.7, 3.1),
    (0.0,) * 3,
    Exponential(1.0),
    duplicate=0.4,
    lose=0.3,
    crashes=Crashes(9.0, 3.0),
    absent_after=1.0,
)


def data() -> Records:
    """Three clients whose records differ: client c has the rows c, c + 3, ..."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(60, FEATURES)) + np.arange(60)[:, None] % 3
    return Records(x, np.where(x @ np.arange(1.0, FEATURES + 1) > 9 + rng.normal(size=60), 1.0, -1.0))


def agreed(weights: tuple[float, ...] = (0.5, 0.2, 0.3), rounds: int = 6, per: Any = "slot") -> Terms:
    """Terms as a run file gives them: 12 gradients a round over three clients."""
    sizes = CutSizes(ConstantSizes(12), 12 * rounds)
    return Terms(sizes, DiminishingSteps(0.3, 0.01, per=per), weights=weights, rounds=rounds, ahead=1)


def rows_of(c: int) -> Any:
    return np.arange(c, 60, 3)


def simulated(name: str, given: Mapping[str, Any], terms: Terms, timing: Timing, wire: str = "float64") -> Trace:
    """A run of the algorithm of this name on the simulator."""
    algorithm, goal = ALGORITHMS[name], Logistic(FEATURES, l2=L2)
    options = algorithm.made(given)
    working = algorithm.terms(terms, options)
    sides = algorithm.sides(working, START, options, wire)
    workers = []
    for c, client in enumerate(sides.clients):
        local = CorrectedObjective(goal, client) if isinstance(client, CorrectingClient) else goal
        workers.append(Worker(working, c, START, local, data(), rows_of(c), SEED, wire, client=client))
    trace = Simulation(working, workers, sides.server, timing, SEED, wire=wire).run()
    assert sides.server.finished and sides.server.k == sides.moves
    return trace


def working_terms(name: str, given: Mapping[str, Any], terms: Terms) -> Terms:
    algorithm = ALGORITHMS[name]
    return algorithm.terms(terms, algorithm.made(given))


def local_sgd(working: Terms, w: Vector, c: int, i: int, correction: Correction | None = None) -> Vector:
    """y = w; for each step y = y - eta (g(y) + correction(y)); the model y, on the records and steps of the simulated client."""
    records, slots = data(), Plain(working, c, rows_of(c), SEED).draw(i, len(w))
    y = w.copy()
    for row, eta in zip(slots.rows, slots.etas, strict=True):
        g = logistic_gradient(y, records.x[row], records.y[row], L2, True)
        y = y - eta * (g if correction is None else g + correction(y))
    return y


def basis(trace: Trace) -> dict[tuple[int, int], int]:
    """Of every pair (client, round): the number of the model that its last attempt began with."""
    segments, ks = trace.tables["segments"], [0, *trace.tables["broadcasts"]["k"].tolist()]
    columns = (segments[name].tolist() for name in ("client", "round", "basis"))
    return {(c, i): ks[b + 1] for c, i, b in zip(*columns, strict=True)}


def arrivals(trace: Trace) -> list[tuple[int, int]]:
    """The pairs (client, round) in the order in which the server took them."""
    updates = trace.tables["updates"]
    return list(zip(updates["client"].tolist(), updates["round"].tolist(), strict=True))
