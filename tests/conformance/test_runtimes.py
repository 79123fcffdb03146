"""One suite for every runtime: the same invariants, and in step the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.core.terms import Terms
from tests.conformance.cases import CASES, IN_STEP
from tests.conformance.runtimes import RUNTIMES, Outcome, on_the_simulator

pytestmark = pytest.mark.slow


@pytest.fixture(params=CASES, ids=lambda name: name.replace(" ", "-"), scope="module")
def raw(request: pytest.FixtureRequest) -> dict[str, Any]:
    return CASES[request.param]


@pytest.fixture(params=RUNTIMES, scope="module")
def outcome(request: pytest.FixtureRequest, raw: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return RUNTIMES[request.param](raw, tmp_path_factory.mktemp("run"))


def pairs_of(terms: Terms) -> set[tuple[int, int]]:
    return {(i, c) for i in range(terms.rounds) for c in range(terms.clients) if terms.share(i, c)}


def test_every_round_is_completed_and_every_update_applied_exactly_once(outcome: Outcome) -> None:
    assert outcome.k == outcome.terms.rounds
    assert len(outcome.applied) == len(set(outcome.applied))
    assert set(outcome.applied) == pairs_of(outcome.terms)


def test_each_client_sends_its_rounds_in_order(outcome: Outcome) -> None:
    for c in range(outcome.terms.clients):
        own = [i for i, client in outcome.applied if client == c]
        assert own == sorted(own)


def test_nobody_works_further_ahead_than_the_delay_bound_allows(outcome: Outcome) -> None:
    terms, arrived, k = outcome.terms, set[tuple[int, int]](), 0
    for step in outcome.steps:
        for i, c in step:
            assert terms.allowed(i, k, c) == terms.share(i, c), f"client {c} finished round {i} at k={k}"
        arrived.update(step)
        while k < terms.rounds and all((k, c) in arrived or not terms.share(k, c) for c in range(terms.clients)):
            k += 1


def test_the_model_is_finite_and_has_moved(outcome: Outcome) -> None:
    assert np.isfinite(outcome.model).all() and np.abs(outcome.model).max() > 0


@pytest.mark.parametrize("name", IN_STEP)
@pytest.mark.parametrize("over", [name for name in RUNTIMES if name != "simulator"])
def test_in_step_every_runtime_gives_the_simulator_s_model(name: str, over: str, tmp_path: Path) -> None:
    """Also under privacy, when both draw from one seed."""
    here, there = on_the_simulator(IN_STEP[name], tmp_path), RUNTIMES[over](IN_STEP[name], tmp_path)
    np.testing.assert_allclose(there.model, here.model, rtol=0, atol=1e-12 * np.abs(here.model).max())
