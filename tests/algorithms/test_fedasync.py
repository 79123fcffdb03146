"""FedAsync on the simulator against its pseudocode (Xie et al. 2019, Algorithm 1), written out literally."""

from __future__ import annotations

import itertools
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pytest

from crescendo.core.terms import Terms
from tests.algorithms.literal import (
    START,
    TROUBLED,
    UNEVEN,
    agreed,
    arrivals,
    basis,
    local_sgd,
    simulated,
    working_terms,
)
from tests.paper import Vector

EQUAL = (1 / 3,) * 3


def mixed(x: Vector, new: Vector, alpha: float, a: float, staleness: int) -> Vector:
    """The updater's line: alpha_t = alpha s(t - tau); x_t = (1 - alpha_t) x_{t-1} + alpha_t x_new."""
    alpha_t = float(alpha * (staleness + 1) ** (-a))
    return (1 - alpha_t) * x + alpha_t * new


def worker(working: Terms, x: Vector, c: int, task: int, rho: float) -> Vector:
    """The worker's process: SGD on f(y) + rho/2 |y - x_tau|^2."""
    return local_sgd(working, x, c, task, lambda y: rho * (y - x))


def fedasync(working: Terms, alpha: float, a: float, rho: float) -> list[Vector]:
    """Server and workers on the clock of UNEVEN. All models x_t."""
    delay, order, coming = 0.213, itertools.count(), itertools.count(3)
    models, events = [START], [(begin, next(order), c, c, 0, None) for c, begin in enumerate(UNEVEN.starts)]
    queue: list[Any] = events
    while queue:
        now, _, c, task, tau, new = heappop(queue)
        if new is None:
            found = worker(working, models[tau], c, task, rho)
            arrives = now + working.share(task, c) / UNEVEN.speeds[c] + delay
            heappush(queue, (arrives, next(order), c, task, tau, found))
        else:
            new = models[tau] + 3 * working.weights[c] * (new - models[tau])
            models.append(mixed(models[-1], new, alpha, a, len(models) - 1 - tau))
            upcoming = next(coming)
            if upcoming < working.rounds:
                heappush(queue, (now + delay, next(order), c, upcoming, len(models) - 1, None))
    return models


@pytest.mark.parametrize("weights", [EQUAL, (0.5, 0.2, 0.3)])
@pytest.mark.parametrize(("alpha", "a", "mu"), [(0.6, 0.5, 0.0), (0.9, 0.0, 0.3), (0.3, 2.0, 0.0)])
def test_a_run_is_the_pseudocode(alpha: float, a: float, mu: float, weights: tuple[float, ...]) -> None:
    given, terms = {"alpha": alpha, "a": a, "mu": mu}, agreed(weights)
    trace = simulated("fedasync", given, terms, UNEVEN)
    literal = fedasync(working_terms("fedasync", given, terms), alpha, a, mu)
    assert trace.rounds == len(literal) - 1 == 18
    np.testing.assert_allclose(trace.model, literal[-1], rtol=1e-12)


@pytest.mark.parametrize("wire", ["float64", "float32"])
def test_repeated_lost_and_late_messages_and_crashes_change_only_the_order(wire: str) -> None:
    """Also with a coarser wire: the model that is mixed in is the one that the client reached, from what it was sent."""
    terms = agreed(rounds=12)
    working = working_terms("fedasync", {}, terms)
    trace = simulated("fedasync", {}, terms, TROUBLED, wire)
    began, order, models = basis(trace), arrivals(trace), [START]
    assert sorted(i for _, i in order) == list(range(36)), "every task was done once"
    for t, (c, i) in enumerate(order):
        start = models[began[c, i]].astype(wire).astype(float) if began[c, i] else START
        moved = (start - local_sgd(working, start, c, i)).astype(wire).astype(float)
        new = start - 3 * working.weights[c] * moved
        models.append(mixed(models[-1], new, 0.6, 0.5, t - began[c, i]))
    np.testing.assert_allclose(trace.model, models[-1], rtol=1e-12)
