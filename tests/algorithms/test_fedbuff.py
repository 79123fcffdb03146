"""FedBuff on the simulator against its pseudocode (Nguyen et al. 2022, Algorithms 1 and 2), written out literally."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pytest

from crescendo.algorithms.fedbuff import FedBuffClient, FedBuffServer, StampedUpdate
from crescendo.core.messages import Broadcast, DuplicateUpdate, Settled, Update
from crescendo.core.terms import Terms
from crescendo.data.records import Records
from crescendo.errors import PeerError, UsageError
from crescendo.objectives.logistic.objective import Logistic
from crescendo.privacy.mechanisms.mechanism import Plain
from crescendo.schedules import ConstantSizes, DiminishingSteps
from crescendo.schedules.sizes import CutSizes
from crescendo.simulator.simulation import Simulation
from crescendo.simulator.timing import Constant, Crashes, Exponential, Timing
from crescendo.simulator.trace import Trace
from crescendo.worker import Worker
from tests.paper import Vector, logistic_gradient

FEATURES, SEED = 4, 3
Local = Callable[[Vector, int, int], Vector]  # model, client, round -> displacement


def data() -> Records:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(60, FEATURES))
    return Records(x, np.where(x @ np.arange(1.0, FEATURES + 1) > 0, 1.0, -1.0))


def terms(clients: int = 3, rounds: int = 6) -> Terms:
    sizes = CutSizes(ConstantSizes(4 * clients), 4 * clients * rounds)
    return Terms(
        sizes, DiminishingSteps(0.3, 0.01, per="slot"), weights=(1 / clients,) * clients, rounds=rounds, ahead=1
    )


def rows_of(agreed: Terms, c: int) -> Any:
    return np.arange(c, 60, agreed.clients)


def simulated(agreed: Terms, timing: Timing, buffer: int, rate: float) -> Trace:
    model, records, goal = np.full(FEATURES + 1, 0.1), data(), Logistic(FEATURES)
    workers = [
        Worker(
            agreed, c, model, goal, records, rows_of(agreed, c), SEED, "float64", client=FedBuffClient(agreed, c, model)
        )
        for c in range(agreed.clients)
    ]
    server = FedBuffServer(agreed, model, buffer, rate)
    return Simulation(agreed, workers, server, timing, SEED, wire="float64").run()


def fedbuff_client(agreed: Terms) -> Local:
    """Algorithm 2: y_0 = w; y_q = y_{q-1} - eta g(y_{q-1}); the displacement is y_0 - y_Q."""
    records = data()

    def work(w: Vector, c: int, i: int) -> Vector:
        y, slots = w.copy(), Plain(agreed, c, rows_of(agreed, c), SEED).draw(i, len(w))
        for row, eta in zip(slots.rows, slots.etas, strict=True):
            y = y - eta * logistic_gradient(y, records.x[row], records.y[row], 0.0, True)
        return w - y

    return work


def fedbuff_server(w: Vector, received: list[tuple[int, Vector]], buffer: int, rate: float) -> list[Vector]:
    """Algorithm 1 from the line "if receive client update" on. Received: (model's number, displacement). All models w^t."""
    models, total, k = [w], np.zeros_like(w), 0
    for version, displacement in received:
        t = len(models) - 1
        total = total + displacement / math.sqrt(1 + t - version)
        k = k + 1
        if k == buffer:
            models.append(models[t] - rate * total / buffer)
            total, k = np.zeros_like(w), 0
    return models


def fedbuff(agreed: Terms, timing: Timing, buffer: int, rate: float) -> list[Vector]:
    """Both algorithms on a clock: each client begins anew at once, with the newest model that has reached it."""
    start, work, delay = (
        np.full(FEATURES + 1, 0.1),
        fedbuff_client(agreed),
        timing.latency.draw(np.random.default_rng()),
    )
    received: list[tuple[int, Vector]] = []
    models, newest, order = [start], [0] * agreed.clients, itertools.count()
    events: list[Any] = [(begin, next(order), "begin", c, 0) for c, begin in enumerate(timing.starts)]
    while events:
        now, _, what, c, of = heappop(events)
        if what == "begin" and of < agreed.rounds:
            done = now + agreed.share(of, c) / timing.speeds[c]
            sent = (newest[c], work(models[newest[c]], c, of))
            heappush(events, (done + delay, next(order), "update", c, sent))
            heappush(events, (done, next(order), "begin", c, of + 1))
        elif what == "update":
            received.append(of)
            models = fedbuff_server(start, received, buffer, rate)
            for other in range(agreed.clients):
                heappush(events, (now + delay, next(order), "news", other, len(models) - 1))
        elif what == "news":
            newest[c] = max(newest[c], of)
    return models


@pytest.mark.parametrize(("buffer", "rate"), [(1, 1.0), (2, 0.7), (4, 1.0), (5, 1.3)])
def test_a_run_is_the_pseudocode(buffer: int, rate: float) -> None:
    agreed, timing = terms(), Timing((1.0, 1.713, 3.1), (0.0, 0.37, 0.91), Constant(0.213))
    trace, literal = simulated(agreed, timing, buffer, rate), fedbuff(agreed, timing, buffer, rate)
    assert trace.rounds == len(literal) - 1 == 18 // buffer
    np.testing.assert_allclose(trace.model, literal[-1], rtol=1e-12)


def test_stale_updates_were_among_them() -> None:
    """So that the test above says something about staleness."""
    agreed = terms()
    trace = simulated(agreed, Timing((1.0, 1.713, 3.1), (0.0, 0.37, 0.91), Constant(0.213)), 2, 0.7)
    began, arrived = versions(trace)
    assert max(now - then for now, then in zip(arrived, began, strict=True)) >= 2


def versions(trace: Trace) -> tuple[list[int], list[int]]:
    """Of every update as it was applied: the number of the model it began with, and of the server's at its arrival."""
    updates, broadcasts, segments = (trace.tables[name] for name in ("updates", "broadcasts", "segments"))
    ks = [0, *broadcasts["k"].tolist()]
    basis = {
        (c, i): ks[b + 1] for c, i, b in zip(*(segments[n].tolist() for n in ("client", "round", "basis")), strict=True)
    }
    pairs = zip(updates["client"].tolist(), updates["round"].tolist(), strict=True)
    return [basis[pair] for pair in pairs], [
        int(np.searchsorted(broadcasts["applied"], j, side="right")) for j in range(len(updates["round"]))
    ]


def test_repeated_lost_and_late_messages_and_crashes_change_only_the_order() -> None:
    agreed = terms(rounds=12)
    timing = Timing(
        (1.0, 1.7, 3.1),
        (0.0,) * 3,
        Exponential(1.0),
        duplicate=0.4,
        lose=0.3,
        crashes=Crashes(9.0, 3.0),
        absent_after=1.0,
    )
    trace, work = simulated(agreed, timing, 3, 0.5), fedbuff_client(agreed)
    updates = trace.tables["updates"]
    pairs = list(zip(updates["client"].tolist(), updates["round"].tolist(), strict=True))
    assert sorted(pairs) == [(c, i) for c in range(3) for i in range(12)], "every round arrived once"
    models, received = [np.full(FEATURES + 1, 0.1)], list[tuple[int, Vector]]()
    for version, (c, i) in zip(versions(trace)[0], pairs, strict=True):
        received.append((version, work(models[version], c, i)))
        models = fedbuff_server(models[0], received, 3, 0.5)
    np.testing.assert_allclose(trace.model, models[-1], rtol=1e-12)


def test_a_client_begins_with_the_newest_model_and_is_not_disturbed() -> None:
    client = FedBuffClient(terms(), 0, np.zeros(1))
    client.receive(Broadcast(np.ones(1), 1, Settled(0)))
    assert client.start().tolist() == [1.0]
    client.receive(Broadcast(np.full(1, 3.0), 3, Settled(0)))
    client.receive(Broadcast(np.full(1, 2.0), 2, Settled(0)))
    client.advance(4)
    assert client.frame.tolist() == [1.0] and client.round_is_full
    update = client.finish(np.full(1, 0.5))
    assert isinstance(update, StampedUpdate) and update.version == 1
    assert client.start().tolist() == [3.0], "its own update is not in it"
    assert client.unacknowledged() == [update]


def test_what_the_server_refuses_changes_nothing() -> None:
    server = FedBuffServer(terms(), np.zeros(1), buffer=2)
    server.receive(StampedUpdate(0, 0, np.ones(1)))
    with pytest.raises(DuplicateUpdate):
        server.receive(StampedUpdate(0, 0, np.ones(1)))
    for unknown in (Update(1, 0, np.ones(1)), StampedUpdate(1, 0, np.ones(1), version=1)):
        with pytest.raises(PeerError, match="which of the 1 models"):
            server.receive(unknown)
    assert server.receive(StampedUpdate(0, 1, np.ones(1))) and server.model.tolist() == [-1.0]


@pytest.mark.parametrize("wrong", [{"buffer": 0}, {"rate": 0.0}, {"rate": math.inf}])
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="FedBuff needs"):
        FedBuffServer(terms(), np.zeros(1), **wrong)
