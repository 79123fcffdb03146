"""SCAFFOLD on the simulator against its pseudocode (Karimireddy et al. 2020, Algorithm 1, option II), written out literally."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from crescendo.algorithms.fedavg import FedAvgOptions
from crescendo.algorithms.scaffold import ScaffoldClient, ScaffoldServer
from crescendo.core.vectors import message_bytes
from tests.algorithms.literal import (
    FEATURES,
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


def scaffold(rate: float, rounds: int = 6, took_part: Sequence[set[int]] | None = None) -> Vector:
    """Lines 1 to 17; S are all clients, or those who took part."""
    working = working_terms("scaffold", {}, agreed(rounds=rounds))
    x, c, own = START, np.zeros_like(START), [np.zeros_like(START) for _ in range(3)]
    for t in range(working.rounds):
        among = sorted(took_part[t]) if took_part is not None else [0, 1, 2]
        dy, dc, part = np.zeros_like(x), np.zeros_like(x), sum(working.weights[i] for i in among)
        for i in among:
            y = local_sgd(working, x, i, t, lambda y, i=i: c - own[i])  # type: ignore[misc]  # noqa: B023
            plus = own[i] - c + (x - y) / working.etas(t, i).sum()
            dy, dc = dy + working.weights[i] / part * (y - x), dc + working.weights[i] * (plus - own[i])
            own[i] = plus
        x, c = x + rate * dy, c + dc
        if took_part is None:
            np.testing.assert_allclose(c, sum(p * one for p, one in zip(working.weights, own, strict=True)), atol=1e-12)
    return x


@pytest.mark.parametrize("rate", [1.0, 0.6])
def test_a_run_is_the_pseudocode(rate: float) -> None:
    trace = simulated("scaffold", {"rate": rate}, agreed(), UNEVEN)
    np.testing.assert_allclose(trace.model, scaffold(rate), rtol=1e-11)


def test_crashes_and_repeated_messages_change_nothing() -> None:
    trace = simulated("scaffold", {}, agreed(rounds=12), replace(TROUBLED, absent_after=None))
    np.testing.assert_allclose(trace.model, scaffold(1.0, rounds=12), rtol=1e-11)


@pytest.mark.parametrize("case", ["deadline", "absences"])
def test_those_who_are_left_out_keep_their_control_variates(case: str) -> None:
    """An update that came too late was made, but is nowhere: its client must not go on as if it were."""
    given, timing = ({"deadline": 4.3}, UNEVEN) if case == "deadline" else ({}, TROUBLED)
    trace = simulated("scaffold", given, agreed(rounds=12), timing)
    took_part: list[set[int]] = [set() for _ in range(12)]
    for c, i in arrivals(trace):
        took_part[i].add(c)
    assert {len(some) for some in took_part} == ({2, 3} if case == "deadline" else {1, 2, 3})
    np.testing.assert_allclose(trace.model, scaffold(1.0, 12, took_part), rtol=1e-11)


def test_two_vectors_travel_each_way() -> None:
    trace = simulated("scaffold", {}, agreed(), UNEVEN, wire="float32")
    one, two = (message_bytes(n * (FEATURES + 1), "float32") for n in (1, 2))
    assert trace.bytes_up == 6 * 3 * two
    assert trace.bytes_down == 3 * one + 6 * 3 * two, "at the start the control variates are 0 and not sent"


def test_a_client_takes_its_control_variate_when_the_server_has_it() -> None:
    working = working_terms("scaffold", {}, agreed())
    server = ScaffoldServer(working, np.zeros(1), FedAvgOptions(deadline=1.0))
    quick, slow = (ScaffoldClient(working, c, np.zeros(1)) for c in (0, 1))
    for client in (quick, slow):
        client.start()
        client.correction(np.zeros(1), 0.5)
        client.advance(4)
    server.receive(quick.finish(np.ones(1)))
    slow.finish(np.ones(1))
    assert server.expire()
    for client in (quick, slow):
        client.receive(server.broadcast(0 if client is quick else 1))
    assert server.broadcast(0).model.tolist() == [-1.0, 1.0], "half of 1 / 0.5 is the server's"
    assert quick.correction(np.zeros(1), 0.5).tolist() == [-1.0] and slow.correction(np.zeros(1), 0.5).tolist() == [1.0]
