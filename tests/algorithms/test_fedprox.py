"""FedProx on the simulator against its pseudocode (Li et al. 2020, Algorithm 2), written out literally."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.algorithms.literal import START, TROUBLED, UNEVEN, agreed, local_sgd, simulated, working_terms
from tests.paper import Vector


def fedprox(mu: float, rounds: int = 6) -> Vector:
    """Each client takes SGD steps on F_k(w) + mu/2 |w - w^t|^2; the server averages with the weights p_k."""
    working, w = working_terms("fedprox", {"mu": mu}, agreed(rounds=rounds)), START
    for t in range(working.rounds):
        models = [local_sgd(working, w, c, t, lambda y, w=w: mu * (y - w)) for c in range(3)]  # type: ignore[misc]
        w = np.average(models, axis=0, weights=working.weights)
    return w


@pytest.mark.parametrize("mu", [0.0, 0.1, 2.0])
def test_a_run_is_the_pseudocode(mu: float) -> None:
    trace = simulated("fedprox", {"mu": mu}, agreed(), UNEVEN)
    np.testing.assert_allclose(trace.model, fedprox(mu), rtol=1e-12)


def test_crashes_and_repeated_messages_change_nothing() -> None:
    trace = simulated("fedprox", {"mu": 0.5}, agreed(rounds=12), replace(TROUBLED, absent_after=None))
    np.testing.assert_allclose(trace.model, fedprox(0.5, rounds=12), rtol=1e-12)


def test_without_mu_it_is_fedavg_and_with_it_is_not() -> None:
    fedavg, without, held = (
        simulated(name, given, agreed(), UNEVEN).model
        for name, given in (("fedavg", {}), ("fedprox", {"mu": 0.0}), ("fedprox", {"mu": 5.0}))
    )
    np.testing.assert_allclose(without, fedavg, rtol=1e-13)
    assert np.linalg.norm(held - START) < 0.7 * np.linalg.norm(fedavg - START), (
        "clients stay nearer to where they begin"
    )
