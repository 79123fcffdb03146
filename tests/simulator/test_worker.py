"""One client's work against SGD: in the frame of the round bit for bit, and the textbook loop to 1e-12."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from crescendo.core.server import Server
from crescendo.core.terms import Terms
from crescendo.data.records import Records
from crescendo.errors import CrescendoError
from crescendo.objectives.base import Slots
from crescendo.objectives.logistic.objective import Logistic
from crescendo.schedules import ConstantSizes, ConstantSteps, DiminishingSteps, PowerSizes
from crescendo.schedules.sizes import CutSizes
from crescendo.simulator.simulation import Simulation
from crescendo.simulator.timing import Constant, Timing
from crescendo.worker import Worker
from tests.objectives.bare import Bare
from tests.paper import Vector, logistic_gradient, textbook_sgd

FEATURES = 5


def data(count: int = 60) -> Records:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(count, FEATURES))
    return Records(x, np.where(x @ np.arange(1.0, FEATURES + 1) + rng.normal(size=count) > 0, 1.0, -1.0))


@dataclass
class Watched:
    """An objective whose stepper writes down which records every slot of every round used."""

    inner: Any
    rows: list[int] = field(default_factory=list)
    etas: list[float] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def stepper(self, records: Records) -> Any:
        stepper = self.inner.stepper(records)

        def watched(slots: Slots, h0: int, h1: int) -> None:
            self.rows += slots.rows[h0:h1].tolist()
            self.etas += slots.etas[h0:h1].tolist()
            stepper.advance(slots, h0, h1)

        return Facade(stepper, watched)


@dataclass
class Facade:
    inner: Any
    advance: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Plainly(Bare):
    """Logistic regression as a user would write it: no stepper, no cleverness."""

    size = FEATURES + 1

    def gradient(self, w: Any, records: Any, rows: Any) -> Any:
        total = np.zeros(self.size)
        for row in np.atleast_1d(rows):
            total += logistic_gradient(w, records.x[row], records.y[row], 0.0, True)
        return total


def one_client(steps: Any = None, gradients: int = 200, **more: Any) -> Terms:
    sizes = CutSizes(PowerSizes(3.0), gradients)
    steps = steps if steps is not None else DiminishingSteps(0.3, 0.01, per="slot")
    return Terms(sizes, steps, weights=(1.0,), rounds=sizes.rounds, ahead=0, **more)


def run(
    terms: Terms,
    objective: Any,
    records: Records,
    wire: str = "float64",
    rows: Any = None,
    seed: int = 5,
    worker_class: Any = Worker,
) -> Vector:
    model = np.full(objective.size, 0.1)
    rows = np.arange(len(records)) if rows is None else rows
    worker = worker_class(terms, 0, model, objective, records, rows, seed=seed, wire=wire)
    trace = Simulation(terms, [worker], Server(terms, model), Timing((3.0,), (0.0,), Constant(0.1)), 0, wire=wire).run()
    assert trace.gradients == terms.before(terms.rounds)
    return trace.model


def is_sgd_in_the_frame_of_the_round(worker_class: Any, l2: float = 0.0, per: Any = "slot") -> None:
    """v <- v - (v - w_end), round after round, bit for bit."""
    records, objective = data(), Watched(Logistic(FEATURES, l2=l2))
    terms = one_client(DiminishingSteps(0.3, 0.01, per=per))
    ours = run(terms, objective, records, worker_class=worker_class)
    v = np.full(objective.size, 0.1)
    stepper = Logistic(FEATURES, l2=l2).stepper(records)
    rows, etas = np.array(objective.rows), np.array(objective.etas)
    assert len(rows) == 200
    for i in range(terms.rounds):
        lo, hi = terms.before(i), terms.before(i + 1)
        stepper.load(v)
        stepper.advance(Slots(rows[lo:hi], etas[lo:hi]), 0, hi - lo)
        v = v - (v - stepper.read())
    assert ours.tobytes() == v.tobytes()


def is_the_textbook_loop(worker_class: Any, l2: float = 0.0, intercept: bool = True) -> None:
    """w <- w - eta gradient, record after record, to 1e-12 relative; eta at label t = s_0+..+s_{i-1} + n h."""
    records, objective = data(), Watched(Logistic(FEATURES, l2=l2, intercept=intercept))
    ours = run(one_client(), objective, records, worker_class=worker_class)
    x: Any = records.x
    etas = [0.3 / (1.0 + 0.01 * t) for t in range(200)]
    w = textbook_sgd(np.full(objective.size, 0.1), x, records.y, objective.rows, etas, l2, intercept)
    assert np.abs(w - 0.1).max() > 0.1, "it went somewhere"
    assert np.linalg.norm(ours - w) <= 1e-12 * np.linalg.norm(w)


@pytest.mark.parametrize("l2", [0.0, 0.01])
@pytest.mark.parametrize("per", ["slot", "round"])
def test_one_synchronous_client_is_sgd_in_the_frame_of_the_round_bit_for_bit(l2: float, per: Any) -> None:
    is_sgd_in_the_frame_of_the_round(Worker, l2, per)


@pytest.mark.parametrize("l2", [0.0, 0.01])
@pytest.mark.parametrize("intercept", [True, False])
def test_one_synchronous_client_is_the_textbook_loop_to_1e_12(l2: float, intercept: bool) -> None:
    is_the_textbook_loop(Worker, l2, intercept)


def test_a_user_s_own_objective_without_a_stepper_is_the_same_loop_bit_for_bit() -> None:
    records, terms = data(), one_client()
    watched = Watched(Logistic(FEATURES))
    run(terms, watched, records)
    v = np.full(FEATURES + 1, 0.1)
    x: Any = records.x
    for i in range(terms.rounds):
        lo, hi = terms.before(i), terms.before(i + 1)
        v = v - (v - textbook_sgd(v, x, records.y, watched.rows[lo:hi], watched.etas[lo:hi], 0.0))
    assert run(terms, Plainly(), records).tobytes() == v.tobytes()


@pytest.mark.parametrize("wire", ["float32", "float16"])
def test_a_client_moves_by_what_it_sent_as_the_wire_rounds_it(wire: str) -> None:
    """The server keeps float64; the model and the displacements are rounded only as they travel."""
    records, terms = data(), one_client()
    watched = Watched(Logistic(FEATURES))
    ours = run(terms, watched, records, wire)
    v = start = np.full(FEATURES + 1, 0.1)
    x: Any = records.x
    for i in range(terms.rounds):
        lo, hi = terms.before(i), terms.before(i + 1)
        end = textbook_sgd(start, x, records.y, watched.rows[lo:hi], watched.etas[lo:hi], 0.0)
        v = v - (start - end).astype(wire)
        start = v.astype(wire).astype(np.float64)
    np.testing.assert_allclose(ours, v, rtol=1e-9, atol=1e-9)
    assert np.abs(ours - run(terms, Logistic(FEATURES), records)).max() > 1e-9, "rounding shows"


def test_a_masked_run_moves_one_block_a_round_with_the_gradient_times_d() -> None:
    records, terms = data(), one_client(blocks=3, seed=4)
    watched = Watched(Logistic(FEATURES, l2=0.01))
    ours = run(terms, watched, records)
    w, x = np.full(FEATURES + 1, 0.1), records.x
    for i in range(terms.rounds):
        low, high = terms.block(i, len(w))
        for t in range(terms.before(i), terms.before(i + 1)):
            row: int = watched.rows[t]
            g = logistic_gradient(w, x[row], records.y[row], 0.01, True)
            w[low:high] -= watched.etas[t] * 3.0 * g[low:high]
    assert np.linalg.norm(ours - w) <= 1e-12 * np.linalg.norm(w)


def test_records_are_drawn_uniformly_with_replacement_from_the_client_s_own_rows() -> None:
    sizes = CutSizes(ConstantSizes(500), 5000)
    terms = Terms(sizes, ConstantSteps(0.001), weights=(1.0,), rounds=sizes.rounds, ahead=0)
    own, watched = np.array([3, 5, 8, 13, 21]), Watched(Logistic(FEATURES))
    run(terms, watched, data(), rows=own)
    counts = np.array([watched.rows.count(row) for row in own.tolist()])
    assert counts.sum() == 5000, "only own rows"
    assert ((counts - 1000) ** 2 / 1000).sum() < 23.5, "chi square with 4 degrees of freedom, 1 in 10,000"
    beside = np.mean([one == two for one, two in zip(watched.rows, watched.rows[1:], strict=False)])
    assert 0.17 < beside < 0.23, "with replacement: one in five follows itself"
    again, other = Watched(Logistic(FEATURES)), Watched(Logistic(FEATURES))
    run(terms, again, data(), rows=own)
    run(terms, other, data(), rows=own, seed=6)
    assert again.rows == watched.rows != other.rows
    assert watched.rows[:500] != watched.rows[500:1000], "another round, another draw"


def test_a_round_started_again_draws_the_same_records() -> None:
    watched = Watched(Logistic(FEATURES))
    worker = Worker(one_client(), 0, np.zeros(FEATURES + 1), watched, data(), np.arange(60), seed=1)
    worker.run(2)
    worker.restart_round()
    worker.run(3)
    assert worker.round_is_full and watched.rows[:2] == watched.rows[2:4]
    update = worker.finish()
    assert update.round == 0 and update.delta.dtype == np.float32


def test_a_worker_needs_records_and_does_not_run_ahead() -> None:
    terms, model = one_client(), np.zeros(FEATURES + 1)
    with pytest.raises(CrescendoError):
        Worker(terms, 0, model, Logistic(FEATURES), data(), np.array([], dtype=np.int64), seed=1)
    worker = Worker(terms, 0, model, Logistic(FEATURES), data(), np.arange(60), seed=1)
    with pytest.raises(CrescendoError):
        worker.run(4)
    with pytest.raises(CrescendoError):
        worker.finish()


def test_a_run_that_diverges_is_told_not_sent() -> None:
    with pytest.raises(CrescendoError):
        run(one_client(ConstantSteps(1e200)), Logistic(FEATURES, l2=1.0), data())
