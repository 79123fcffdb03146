"""A start model that a run can reach is certified, and a longer one is shortened: no model that a server sends ends a client."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from crescendo.audit.driving.subject import Draw, Script, Subject, build
from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.core.messages import Broadcast, Settled
from crescendo.core.terms import Terms
from crescendo.data.records import as_records
from crescendo.errors import Refused, UsageError
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.objectives.logistic.objective import Logistic
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.minibatch import FrozenStepper, Minibatch
from crescendo.privacy.mechanisms.noise import SeededSource
from crescendo.privacy.mechanisms.reach import reach
from crescendo.privacy.mechanisms.rounding import MOST_SLACK
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps, DiminishingSteps
from crescendo.worker import Worker
from crescendo_dp.planning.sigmas import Sigmas
from tests.conformance.cases import case

MECHANISMS = pytest.mark.parametrize("mechanism", ["minibatch", "local"])
FEATURES, RECORDS, CLIENTS = 123, 6512, 5


def certificate(mechanism: str, steps: Any, sigma: float = 1.0, rounds: int = 5, l2: float = 0.1) -> Certificate:
    terms = Terms(ConstantSizes(4), steps, (1.0,), rounds, ahead=1, whole_rounds=True)
    return certify(mechanism, terms, Logistic(3, l2=l2), clip=0.5, sigma=sigma, records=(20,), norm_bound=3.0)


def test_rounding_beyond_a_tenth_of_a_percent_is_refused_with_a_sigma_that_passes(mechanism: str = "local") -> None:
    steps = DiminishingSteps(0.1, 1e6)
    with pytest.raises(Refused, match="are reached by the noise alone") as refused:
        certificate(mechanism, steps, sigma=1e6)
    found = re.search(r"sigma = (\S+), ", str(refused.value))
    assert found is not None
    passed = certificate(mechanism, steps, sigma=float(found[1]))
    assert MOST_SLACK / 2 < passed.slack <= MOST_SLACK
    assert certificate(mechanism, ConstantSteps(0.1)).slack < 1e-9


@pytest.mark.slow
@MECHANISMS
def test_the_bound_leaves_room_for_the_models_of_a_sound_run_and_not_much_more(mechanism: str) -> None:
    """Once with noise alone, once with steps that all go one way."""
    made = certificate(mechanism, ConstantSteps(0.1), sigma=4.0, rounds=40, l2=0.0)
    data = as_records(np.tile([2.0, 0.0, 0.0], (20, 1)), np.ones(20))
    longest = 0.0
    for count in (0, 20):
        rows = np.arange(count)
        private = Private(made, 0, rows, SeededSource(1, 0))
        worker = Worker(made.terms, 0, np.zeros(4), made.objective, data, rows, 0, "float64", private)
        model = np.zeros(4)
        for i in range(40):
            worker.run(4)
            model = model - worker.finish().delta
            longest = max(longest, float(np.linalg.norm(model)))
            worker.receive(Broadcast(model, i + 1, Settled(i + 1)))
    assert longest < made.model_bound < 20 * longest


@pytest.mark.slow
def test_with_l2_a_model_is_pulled_back_so_that_a_longer_run_reaches_no_further() -> None:
    def most(rounds: int, l2: float) -> float:
        terms = Terms(ConstantSizes(4), ConstantSteps(0.1), (0.5, 0.5), rounds, ahead=1, whole_rounds=True)
        proposed = Minibatch(terms, Logistic(9, l2=l2), 1.0, Sigmas.constant(1.0), (100, 100), None)
        return reach(terms, 10, proposed.lengths, proposed.sigma, 0.0).most

    assert most(1000, 0.1) < 1.01 * most(200, 0.1) < most(200, 0.0) / 5 < most(1000, 0.0) / 15


@MECHANISMS
@pytest.mark.parametrize("length", [2.0, 1e6, 1e200])
def test_a_round_begins_at_the_model_shortened_to_the_bound_and_is_measured_from_there(
    mechanism: str, length: float
) -> None:
    """With nothing drawn and no noise a round sends its shrink alone, which tells where it began."""
    made = certificate(mechanism, ConstantSteps(0.1))
    subject = Subject(made, made.objective, 0, 3, (-1.0, 1.0), "float64", build).without_noise()
    model = np.array([0.0, length * made.model_bound, 0.0, 0.0])
    [sent] = subject.releases(as_records(np.ones((5, 3)), np.ones(5)), np.arange(5), Script({}), (1,), (model,))
    np.testing.assert_allclose(sent, [0.0, made.model_bound * (1 - (1 - 0.01) ** 4), 0.0, 0.0], rtol=1e-9)


@MECHANISMS
@pytest.mark.parametrize("length", [0.999, 1.001, 1e3])
def test_one_record_moves_a_release_by_no_more_than_the_sensitivity_wherever_a_round_begins(
    mechanism: str, length: float
) -> None:
    made, rng = certificate(mechanism, ConstantSteps(0.2)), np.random.default_rng(5)
    subject = Subject(made, made.objective, 0, 3, (-1.0, 1.0), "float64", build).without_noise()
    for _ in range(30):
        data = as_records(rng.normal(size=(8, 3)), rng.choice([-1.0, 1.0], 8))
        model = rng.normal(size=4)
        model *= length * made.model_bound / np.linalg.norm(model)
        tags = rng.random(8)
        both = [
            subject.releases(data, np.arange(n), Script({1: Draw(np.arange(n), tags[:n])}), (1,), (model,))[0]
            for n in (7, 8)
        ]
        assert np.linalg.norm(both[1] - both[0]) <= made.sensitivity(1, 0)


def test_a_release_from_beyond_the_bound_is_refused() -> None:
    made = certificate("minibatch", ConstantSteps(0.1))
    private = Private(made, 0, np.arange(5), SeededSource(0, 0))
    beyond = np.full(4, made.model_bound)
    stepper = FrozenStepper(made.objective, as_records(np.ones((5, 3)), np.ones(5)))
    stepper.load(np.zeros(4))
    with pytest.raises(UsageError, match="where start"):
        private.release(0, beyond, stepper)
    with pytest.raises(UsageError, match="where start"):
        private.release(0, beyond * np.nan, stepper)
    assert np.isfinite(private.release(0, private.start(beyond), stepper)).all()


# -- a federation whose noise carries the model far ----------------------------------------------------------------------


def _agreed() -> Agreement:
    raw = case(
        run={"wire": "float32"},
        clients={"combine": "sum"},
        objective={"l2": 1e-4},
        schedule={
            "rounds": 50,
            "sizes": {"kind": "power", "scale": 50},
            "steps": {"kind": "diminishing", "eta0": 0.3, "beta": 0.01},
        },
        privacy={
            "mechanism": "local",
            "delta": 1e-6,
            "sigma": 4.0,
            "clip": 0.5,
            "norm_bound": 3.0,
            "records": RECORDS,
        },
        serve={"federation": "far", "features": FEATURES},
    )
    return build_terms(terms_text(read(raw)))


@pytest.mark.slow
def test_neither_sound_clients_nor_a_malicious_one_send_a_model_that_ends_the_others() -> None:
    agreed, rng = _agreed(), np.random.default_rng(0)
    made = agreed.certificate
    assert made is not None
    rows = np.arange(RECORDS)
    records = as_records(rng.normal(size=(RECORDS, FEATURES)) / 12, np.where(rng.random(RECORDS) < 0.5, 1.0, -1.0))

    def worker(c: int) -> Worker:
        private = Private(made, c, rows, SeededSource(3, c))
        return Worker(agreed.terms, c, agreed.initial(), agreed.objective, records, rows, 0, "float32", private)

    model = agreed.initial()
    for c in range(CLIENTS):
        here = worker(c)
        here.run(agreed.terms.share(0, c))
        model = model - here.finish().delta
    assert 10 < np.linalg.norm(model) < made.model_bound
    for sent in (model, model * 1e6):
        here = worker(1)
        here.receive(Broadcast(sent, 1, Settled(0)))
        here.run(agreed.terms.share(0, 1))
        assert np.isfinite(here.finish().delta).all()
