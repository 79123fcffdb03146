"""FedAvg on the simulator against its pseudocode (McMahan et al. 2017, Algorithm 1), written out literally."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from crescendo.algorithms.fedavg import FedAvgOptions, FedAvgServer
from crescendo.core.messages import DuplicateUpdate, Update
from crescendo.core.terms import Terms
from crescendo.errors import PeerError
from tests.algorithms.literal import (
    START,
    TROUBLED,
    UNEVEN,
    agreed,
    arrivals,
    local_sgd,
    simulated,
    working_terms,
)
from tests.paper import Vector


def fedavg(working: Terms, rate: float = 1.0, took_part: Mapping[int, set[int]] | None = None) -> Vector:
    """For each round: every client updates from w_t; w_{t+1} = sum n_k / n w_{t+1}^k over those who took part."""
    w = START
    for i in range(working.rounds):
        clients = took_part[i] if took_part is not None else set(range(working.clients))
        n = sum(working.weights[c] for c in clients)
        mean = sum(working.weights[c] / n * local_sgd(working, w, c, i) for c in clients)
        w = w + rate * (mean - w)
    return w


@pytest.mark.parametrize("rate", [1.0, 0.7])
@pytest.mark.parametrize("per", ["slot", "round"])
def test_a_run_is_the_pseudocode(rate: float, per: str) -> None:
    given, terms = {"rate": rate}, agreed(per=per)
    trace = simulated("fedavg", given, terms, UNEVEN)
    np.testing.assert_allclose(trace.model, fedavg(working_terms("fedavg", given, terms), rate), rtol=1e-12)
    assert trace.rounds == trace.broadcasts == 6 and trace.gradients == 72


def test_repeated_and_lost_messages_and_crashes_change_nothing() -> None:
    working = working_terms("fedavg", {}, agreed(rounds=12))
    trace = simulated("fedavg", {}, agreed(rounds=12), replace(TROUBLED, absent_after=None))
    np.testing.assert_allclose(trace.model, fedavg(working), rtol=1e-12)


@pytest.mark.parametrize("deadline", [2.0, 3.0, 5.0])
def test_with_a_deadline_the_mean_is_over_those_who_were_there(deadline: float) -> None:
    given, terms = {"deadline": deadline}, agreed(rounds=12)
    trace = simulated("fedavg", given, terms, UNEVEN)
    took_part: dict[int, set[int]] = {i: set() for i in range(12)}
    for c, i in arrivals(trace):
        took_part[i].add(c)
    np.testing.assert_allclose(trace.model, fedavg(working_terms("fedavg", given, terms), 1.0, took_part), rtol=1e-12)
    made = np.diff([0.0, *trace.tables["broadcasts"]["made_at"]])
    assert made.max() <= max(deadline, 0.91 + 4 / 3.1 + 0.213) + 1e-9, (
        "no round outlasts the deadline once the quick one is there"
    )


def test_the_deadline_leaves_the_slow_client_out() -> None:
    with_it, without = (simulated("fedavg", {"deadline": s}, agreed(rounds=12), UNEVEN) for s in (3.0, 0.0))
    assert np.bincount([c for c, _ in arrivals(with_it)], minlength=3).tolist() == [0, 12, 12]
    assert with_it.virtual_seconds < 0.75 * without.virtual_seconds and with_it.gradients == 2 * 48
    abandoned = with_it.tables["segments"]["client"] == 0
    assert abandoned.sum() == 12, "it begins every round anew, and gives it up"


def test_absent_clients_are_left_out_of_the_mean() -> None:
    trace = simulated("fedavg", {}, agreed(rounds=12), TROUBLED)
    took_part: dict[int, set[int]] = {i: set() for i in range(12)}
    for c, i in arrivals(trace):
        took_part[i].add(c)
    assert any(len(clients) < 3 for clients in took_part.values())
    working = working_terms("fedavg", {}, agreed(rounds=12))
    np.testing.assert_allclose(trace.model, fedavg(working, 1.0, took_part), rtol=1e-12)


def test_what_the_server_refuses_changes_nothing() -> None:
    terms = working_terms("fedavg", {}, agreed())
    server = FedAvgServer(terms, np.zeros(1), FedAvgOptions(deadline=1.0))
    server.receive(Update(0, 0, np.ones(1)))
    with pytest.raises(DuplicateUpdate, match="already sent"):
        server.receive(Update(0, 0, np.ones(1)))
    for ahead in (Update(1, 1, np.ones(1)), Update(0, 3, np.ones(1))):
        with pytest.raises(PeerError, match="cannot have finished"):
            server.receive(ahead)
    assert server.k == 0 and server.expire() and server.k == 1 and server.model.tolist() == [-1.0]
    with pytest.raises(DuplicateUpdate, match="ended without client 2") as found:
        server.receive(Update(0, 2, np.ones(1)))
    assert found.value.void == ((0, 2),) and server.late == 1
    with pytest.raises(DuplicateUpdate, match="already sent"):
        server.receive(Update(0, 0, np.ones(1)))
    assert server.late == 1 and server.model.tolist() == [-1.0]


def test_a_deadline_with_nobody_there_waits_for_the_first() -> None:
    server = FedAvgServer(working_terms("fedavg", {}, agreed()), np.zeros(1), FedAvgOptions(deadline=1.0))
    assert not server.expire() and server.k == 0
    assert server.receive(Update(0, 2, np.ones(1))) and server.k == 1
    assert not server.receive(Update(1, 2, np.ones(1))), "the next round has a deadline of its own"


def test_a_client_that_comes_back_takes_part_from_the_next_round_on() -> None:
    server = FedAvgServer(working_terms("fedavg", {}, agreed()), np.zeros(1), FedAvgOptions())
    assert not server.absent(2) and server.back(2, -1) == 1, "two others are at work: they do not wait for it"
    server.receive(Update(0, 0, np.ones(1)))
    assert server.receive(Update(0, 1, np.ones(1))) and server.k == 1
    for c in (0, 1, 2):
        server.absent(c)
    assert server.back(1, 0) == 1 and server.back(0, 0) == 2, "the first to come back has the round to itself"
    assert server.receive(Update(1, 1, np.ones(1))) and server.k == 2
    assert server.absent(0) is False and server.receive(Update(2, 1, np.ones(1))), (
        "who was away in a round is not waited for"
    )
