"""FedBuff on the simulator against its pseudocode (Nguyen et al. 2022, Algorithms 1 and 2), written out literally."""

from __future__ import annotations

import itertools
import math
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pytest

from crescendo.algorithms.fedbuff import FedBuffOptions, FedBuffServer
from crescendo.algorithms.task_sides import StampedUpdate, Task, TaskClient
from crescendo.core.messages import DuplicateUpdate, Settled, Update
from crescendo.core.terms import Terms
from crescendo.errors import PeerError
from crescendo.simulator.timing import Timing
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
Received = list[tuple[int, int, Vector]]  # model's number, client, displacement


def fedbuff_server(w: Vector, received: Received, buffer: int, rate: float, terms: Terms) -> list[Vector]:
    """Algorithm 1 from the line "if receive client update" on, with weights and the last buffer applied. All models w^t."""
    models, total, k = [w], np.zeros_like(w), 0
    for number, (version, c, displacement) in enumerate(received, start=1):
        t = len(models) - 1
        total = total + 3 * terms.weights[c] * displacement / math.sqrt(1 + t - version)
        k = k + 1
        if k == buffer or number == terms.rounds:
            models.append(models[t] - rate * total / buffer)
            total, k = np.zeros_like(w), 0
    return models


def fedbuff(working: Terms, timing: Timing, buffer: int, rate: float) -> list[Vector]:
    """Both algorithms on a clock: a client that has sent is given the next task and the server's model of that moment."""
    delay = timing.latency.draw(np.random.default_rng())
    received, models, order, coming = Received(), [START], itertools.count(), itertools.count(3)
    events: list[Any] = [(begin, next(order), "begin", c, (c, 0)) for c, begin in enumerate(timing.starts)]
    while events:
        now, _, what, c, of = heappop(events)
        if what == "begin":
            task, version = of
            moved = models[version] - local_sgd(working, models[version], c, task)
            done = now + working.share(task, c) / timing.speeds[c]
            heappush(events, (done + delay, next(order), "update", c, (version, c, moved)))
        else:
            received.append(of)
            models = fedbuff_server(START, received, buffer, rate, working)
            task = next(coming)
            if task < working.rounds:
                heappush(events, (now + delay, next(order), "begin", c, (task, len(models) - 1)))
    return models


@pytest.mark.parametrize("weights", [EQUAL, (0.5, 0.2, 0.3)])
@pytest.mark.parametrize(("buffer", "rate"), [(1, 1.0), (2, 0.7), (4, 1.0), (5, 1.3)])
def test_a_run_is_the_pseudocode(buffer: int, rate: float, weights: tuple[float, ...]) -> None:
    given = {"buffer": buffer, "rate": rate}
    working = working_terms("fedbuff", given, agreed(weights))
    trace, literal = simulated("fedbuff", given, agreed(weights), UNEVEN), fedbuff(working, UNEVEN, buffer, rate)
    assert trace.rounds == len(literal) - 1 == math.ceil(18 / buffer)
    np.testing.assert_allclose(trace.model, literal[-1], rtol=1e-12)


def test_stale_updates_and_unequal_work_were_among_them() -> None:
    """So that the test above says something about staleness and about the clients' own pace."""
    trace = simulated("fedbuff", {"buffer": 1}, agreed(), UNEVEN)
    began, order = basis(trace), arrivals(trace)
    assert max(t - began[pair] for t, pair in enumerate(order)) >= 2
    done = np.bincount([c for c, _ in order])
    assert done[0] < done[1] < done[2] and done[2] >= 2 * done[0], "the quick client did more of the tasks"


def test_repeated_lost_and_late_messages_and_crashes_change_only_the_order() -> None:
    given, terms = {"buffer": 3, "rate": 0.5}, agreed(rounds=12)
    working = working_terms("fedbuff", given, terms)
    trace = simulated("fedbuff", given, terms, TROUBLED)
    began, order = basis(trace), arrivals(trace)
    assert sorted(i for _, i in order) == list(range(36)), "every task was done once"
    models, received = [START], Received()
    for c, i in order:
        version = began[c, i]
        received.append((version, c, models[version] - local_sgd(working, models[version], c, i)))
        models = fedbuff_server(START, received, 3, 0.5, working)
    np.testing.assert_allclose(trace.model, models[-1], rtol=1e-12)


def test_in_lock_step_a_buffer_of_all_clients_is_fedavg() -> None:
    """Updates that arrive in one instant are taken in before any of them is answered, so that nothing is stale."""
    working, lock_step = working_terms("fedbuff", {}, agreed()), Timing((1.0,) * 3, (0.0,) * 3)
    w = START
    for first in range(0, working.rounds, 3):
        w = np.average([local_sgd(working, w, c, first + c) for c in range(3)], axis=0, weights=working.weights)
    np.testing.assert_allclose(simulated("fedbuff", {"buffer": 3}, agreed(), lock_step).model, w, rtol=1e-12)


def test_a_client_begins_with_the_model_of_its_task_and_is_not_disturbed() -> None:
    working = working_terms("fedbuff", {}, agreed())
    client = TaskClient(working, 0, np.zeros(1))
    assert client.start().tolist() == [0.0]
    assert not client.is_news(Task(np.ones(1), 1, Settled(0), task=0)), "the task in hand goes on from its own model"
    client.advance(4)
    update = client.finish(np.full(1, 0.5))
    assert isinstance(update, StampedUpdate) and update.version == 0 and client.unacknowledged() == [update]
    client.receive(Task(np.full(1, 3.0), 3, Settled(4), task=4))
    client.receive(Task(np.full(1, 2.0), 2, Settled(3), task=3))
    assert client.start().tolist() == [3.0] and client.round == 4 and client.unacknowledged() == []


def test_what_the_server_refuses_changes_nothing() -> None:
    server = FedBuffServer(working_terms("fedbuff", {}, agreed(EQUAL)), np.zeros(1), FedBuffOptions(buffer=2))
    server.receive(StampedUpdate(0, 0, np.ones(1)))
    assert server.called() == [0] and server.broadcast(0).yours == Settled(3)
    with pytest.raises(DuplicateUpdate):
        server.receive(StampedUpdate(0, 0, np.ones(1)))
    for unknown in (Update(1, 1, np.ones(1)), StampedUpdate(1, 1, np.ones(1), version=1)):
        with pytest.raises(PeerError, match="does not name the sent model"):
            server.receive(unknown)
    with pytest.raises(PeerError, match="never given task 5"):
        server.receive(StampedUpdate(5, 1, np.ones(1)))
    assert server.receive(StampedUpdate(1, 1, np.ones(1)))
    assert server.called() == [1] and server.called() == []
    assert server.broadcast(1).k == 1
    with pytest.raises(PeerError, match="does not name the sent model"):
        server.receive(StampedUpdate(4, 1, np.ones(1), version=0))  # the model of its task before
    np.testing.assert_allclose(server.model, [-1.0])
