"""Certificates refuse with the value that would pass, and one record moves a noise-free release by no more than they say."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.audit.driving.subject import Draw, Script, Subject, build
from crescendo.core.messages import Broadcast, Settled
from crescendo.core.terms import Terms
from crescendo.data.records import Records, as_records
from crescendo.errors import Refused, UsageError
from crescendo.objectives.base import Slots
from crescendo.objectives.logistic.objective import Logistic
from crescendo.privacy.mechanisms.admission import admitted
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.extremes import Rounds
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.minibatch import FrozenStepper
from crescendo.privacy.mechanisms.noise import SeededSource, SystemSource
from crescendo.privacy.mechanisms.norm_limits import NormLimits
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps, DiminishingSteps
from crescendo.worker import Worker
from tests.objectives.bare import Bare

FEATURES = 3


def terms(eta: float = 0.1, slots: int = 4, **changes: Any) -> Terms:
    given: dict[str, Any] = {"ahead": 1, "whole_rounds": True} | changes
    return Terms(ConstantSizes(slots), ConstantSteps(eta), (1.0,), 5, **given)


def certificate(mechanism: str = "minibatch", made: Terms | None = None, **changes: Any) -> Certificate:
    given: dict[str, Any] = {"clip": 0.5, "sigma": 1.0, "records": (20,), "norm_bound": 3.0} | changes
    objective = given.pop("objective", Logistic(FEATURES, l2=0.1))
    return certify(mechanism, made or terms(), objective, **given)


numbers = st.floats(-4, 4, allow_subnormal=False)
rows = st.lists(st.tuples(*[numbers] * FEATURES), min_size=2, max_size=8)


@settings(deadline=None, max_examples=60)
@given(st.data(), rows, st.sampled_from(["minibatch", "local", "batch-clip"]), st.sampled_from([1, 2]))
def test_adding_one_record_moves_a_noise_free_release_by_no_more_than_the_sensitivity(
    data: st.DataObject, x: list[tuple[float, ...]], mechanism: str, blocks: int
) -> None:
    objective = Logistic(FEATURES, l2=data.draw(st.sampled_from([0.0, 0.1, 1.0])))
    clip, bound = data.draw(st.sampled_from([(0.5, 3.0), (2.0, 3.0), (0.1, 1.5)]))
    smooth = objective.traits.margin
    assert smooth is not None
    limit = 2 / smooth(bound, clip) / blocks
    eta = min(limit, 1 / blocks) * data.draw(st.sampled_from([1.0, 0.3]))
    certified = certify(
        mechanism, terms(eta, blocks=blocks), objective, clip=clip, sigma=1.0, records=(20,), norm_bound=bound
    )
    n = len(x) - 1
    y = np.array(data.draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=n + 1, max_size=n + 1)))
    tags = np.array(data.draw(st.lists(st.floats(0, 0.999), min_size=n + 1, max_size=n + 1)))
    start = np.array(data.draw(st.lists(numbers, min_size=FEATURES + 1, max_size=FEATURES + 1)))
    subject = Subject(certified, objective, 0, FEATURES, (-1.0, 1.0), "float64", build).without_noise()
    records = as_records(np.array(x), y)
    sent = [
        subject.releases(
            records,
            np.arange(count),
            Script({i: Draw(np.arange(count), tags[:count]) for i in (1, 2)}),
            (1, 2),
            (start, start),
        )
        for count in (n, n + 1)
    ]
    for i, without, with_it in zip((1, 2), *sent, strict=True):
        assert np.linalg.norm(with_it - without) <= certified.sensitivity(i, 0)


def suggested(message: str) -> float:
    found = re.search(r"([-+.\de]+) would pass", message.replace(" slots", ""))
    assert found is not None, message
    return float(found.group(1))


def test_a_step_above_the_limit_is_refused_and_the_suggested_one_passes() -> None:
    for blocks in (1, 3):
        with pytest.raises(Refused, match="must be at most 2 / L_eff") as refused:
            certificate("local", terms(50.0, blocks=blocks))
        certificate("local", terms(suggested(str(refused.value)) * (1 - 1e-5), blocks=blocks))
        with pytest.raises(Refused):
            certificate("local", terms(suggested(str(refused.value)) * 1.001, blocks=blocks))


def test_a_shrink_that_overshoots_is_refused_and_the_suggested_step_passes() -> None:
    objective = Logistic(FEATURES, l2=4.0)
    with pytest.raises(Refused, match="times l2") as refused:
        certificate("local", terms(1.0), objective=objective)
    certificate("local", terms(suggested(str(refused.value)) * (1 - 1e-5)), objective=objective)


def test_a_rate_above_one_is_refused_and_the_suggested_size_passes() -> None:
    with pytest.raises(Refused, match="a rate is at most 1") as refused:
        certificate(made=terms(slots=21))
    certificate(made=terms(slots=int(suggested(str(refused.value)))))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"clip": 0.0}, "clip must lie between 1e-60 and 1e+60"),
        ({"clip": math.nan}, "clip must lie between 1e-60 and 1e+60"),
        ({"sigma": 0.0}, "sigma must be above 0"),
        ({"sigma": math.inf}, "sigma must be above 0"),
        ({"sigma": 1e300}, "privacy.sigma must be at most 1e6"),
        ({"records": (20, 20)}, "declare how many records"),
        ({"records": (0,)}, "declare how many records"),
        ({"made": terms(whole_rounds=False)}, "whole_rounds=True"),
        ({"mechanism": "batch-clop"}, "no certified mechanism"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        certificate(**changes)


def test_local_needs_a_bound_on_records_a_scalar_margin_and_double_precision() -> None:
    class Other(Bare):
        size = 4

        def initial(self, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
            return np.zeros(4)

    with pytest.raises(Refused, match="norm_bound"):
        certificate("local", norm_bound=None)
    with pytest.raises(UsageError, match="above 1"):
        certificate("local", norm_bound=1.0)
    with pytest.raises(Refused, match="minibatch is certified for any model"):
        certificate("local", objective=Other())
    with pytest.raises(Refused, match="float64"):
        certificate("local", objective=Logistic(FEATURES, dtype="float32"))
    certificate("minibatch", objective=Other(), norm_bound=None)


class Curious(Bare):
    """Somebody's model: it looks at all that it is shown, and writes into it."""

    size = FEATURES

    def gradient(self, w: Any, data: Any, rows: Any) -> Any:
        found = data.x.sum(axis=0) + w
        data.x[:] += 1.0
        w[:] += 1.0
        return found


def test_under_minibatch_no_model_sees_two_records_or_moves_the_start() -> None:
    """So that one record changes what is sent by its own gradient, whatever the code does with what it is given."""
    records = as_records(np.arange(5.0 * FEATURES).reshape(5, FEATURES), np.ones(5))
    before = records.x.copy()
    slots = Slots(np.array([1, 3]), np.ones(2), ends=np.array([1, 2]), clip=1e9)
    stepper = FrozenStepper(Curious(), records)
    stepper.load(np.full(FEATURES, 0.5))
    stepper.advance(slots, 0, 2)
    np.testing.assert_allclose(stepper.read(), 0.5 - (before[1] + before[3] + 2 * 0.5))
    np.testing.assert_array_equal(records.x, before)


def test_minibatch_takes_one_step_size_a_round() -> None:
    steps = DiminishingSteps(0.1, 0.01, per="slot")
    made = Terms(ConstantSizes(4), steps, (1.0,), 5, ahead=1, whole_rounds=True)
    with pytest.raises(Refused, match=re.escape('schedule.steps.per = "round" would pass')):
        certificate(made=made)
    assert certificate("local", made).sensitivity(2, 0) >= 0.5 * float(made.etas(2, 0).max())


def test_local_is_certified_for_the_largest_step_of_each_client_s_round_as_it_is_taken() -> None:
    """Weights .8/.1/.1: each client's labels are its own, so that one may begin a round with a larger step than others."""
    steps, weights = DiminishingSteps(0.1, 0.05, per="slot"), (0.8, 0.1, 0.1)
    made = Terms(ConstantSizes(20), steps, weights, 12, ahead=1, shares_by="coin", whole_rounds=True)
    certified = certificate("local", made, records=(400, 400, 400))
    limits = NormLimits(certified, FEATURES + 1)
    for c, i in itertools.product(range(3), range(12)):
        taken = Private(certified, c, np.arange(400), SeededSource(0, c)).draw(i, made.share(i, c)).etas
        assert certified.sensitivity(i, c) >= certified.clip * max(taken, default=0.0)
        assert certified.sensitivity(i, c) <= certified.clip * max(taken, default=0.0) * 1.001
        assert limits.longest(i, c) >= certified.clip * sum(taken)
    largest = [max(made.largest_step(i, c) for c in range(3)) for i in range(12)]
    found = np.concatenate([part.steps.max(axis=1) for part in Rounds.all_of(made)])
    assert found.tolist() == largest, "what the reach of models is computed from"


def test_a_client_from_before_labels_were_its_own_is_within_the_norm_limits() -> None:
    """It took the steps of s_0+..+s_{i-1} + n h, with noise to match, and a server that is newer must not refuse them."""
    steps, numbers = DiminishingSteps(0.1, 0.5, per="slot"), 10**6
    made = Terms(ConstantSizes(20), steps, (0.8, 0.1, 0.1), 12, ahead=1, shares_by="coin", whole_rounds=True)
    certified, ratios = certificate("local", made, records=(400, 400, 400)), []
    for c, i in itertools.product(range(3), range(12)):
        if made.share(i, c):
            ratios.append(float(steps.at(20 * i)) / made.largest_step(i, c))
            noise = certified.noise_scale(i, c) * max(1.0, ratios[-1]) * math.sqrt(numbers)
            assert NormLimits(certified, numbers).longest(i, c) >= noise
    assert max(ratios) > 1.05, "some steps were larger then"


def test_rates_and_events_come_from_the_declared_number_of_records() -> None:
    certified = certificate(records=(40,))
    slots = [Private(certified, 0, np.arange(n), SeededSource(0, 0)).draw(0, 4) for n in (1, 1000)]
    rate = math.ceil(0.1 * 2**53) / 2**53
    assert certified.rate(0, 0) == rate and [e.rate for e in certified.events(0)] == [rate] * 5
    assert len(slots[0]) == len(slots[1]) == 4
    assert 50 < len(slots[1].rows) < 160  # of 1000 at a rate of 0.1, though only 40 were declared


def test_a_release_is_as_long_whatever_was_drawn() -> None:
    records = as_records(np.ones((30, FEATURES)), np.ones(30))
    certified, lengths = certificate(made=terms(blocks=2)), set()
    subject = Subject(certified, Logistic(FEATURES, l2=0.1), 0, FEATURES, (-1.0, 1.0), "float32", build)
    for count in (0, 1, 30):
        draw = Draw(np.arange(count), np.linspace(0, 0.9, count))
        sent = subject.releases(records, np.arange(30), Script({1: draw}), (1,), (np.zeros(4),))
        lengths.add(len(sent[0]))
    assert len(lengths) == 1


def test_a_broadcast_in_mid_round_waits_for_the_next_round() -> None:
    records = as_records(np.ones((5, FEATURES)), np.ones(5))
    for mechanism in ("minibatch", "local"):
        certified, sent = certificate(mechanism), []
        for disturbed in (False, True):
            made = Private(certified, 0, np.arange(5), SeededSource(0, 0))
            worker = Worker(
                certified.terms, 0, np.zeros(4), Logistic(FEATURES, l2=0.1), records, np.arange(5), 0, mechanism=made
            )
            worker.run(2)
            if disturbed:
                worker.receive(Broadcast(np.full(4, 9.0), 1, Settled(0)))
            worker.run(2)
            sent.append(worker.finish().delta)
        assert sent[0].tobytes() == sent[1].tobytes()


def test_records_are_bounded_over_x_and_the_one() -> None:
    x = np.array([[30.0, 40.0, 0.0], [0.1, 0.0, 0.0], [1e200, 0.0, 0.0]])
    for matrix in (x, x[:2].astype(np.float32)):
        bounded, sound = admitted(as_records(matrix, np.ones(len(matrix))), norm_bound=3.0, intercept=True)
        assert sound.all() and (bounded.squared_lengths(intercept=True) <= 9.0).all()
        np.testing.assert_allclose(np.asarray(bounded.x)[1], x[1], rtol=1e-6)
        np.testing.assert_allclose(np.asarray(bounded.x)[0] / np.linalg.norm(bounded.x[0]), [0.6, 0.8, 0], rtol=1e-6)


def test_unsound_records_are_left_out_one_by_one() -> None:
    x = np.array([[1.0, 2.0], [np.nan, 0.0], [0.0, np.inf], [1.0, 1.0]])
    _, sound = admitted(Records(x, np.array([1.0, 1.0, 1.0, np.nan])), norm_bound=3.0, intercept=True)
    assert sound.tolist() == [True, False, False, False]
    from scipy.sparse import csr_array

    _, sound = admitted(as_records(csr_array(x), np.array([1.0, 1.0, 1.0, np.nan])), norm_bound=3.0, intercept=True)
    assert sound.tolist() == [True, False, False, False]


def test_a_client_without_records_sends_as_any_other_does() -> None:
    certified, records = certificate(), as_records(np.ones((1, FEATURES)), np.ones(1))
    made = Private(certified, 0, np.arange(0), SystemSource())
    worker = Worker(certified.terms, 0, np.zeros(4), certified.objective, records, np.arange(0), 0, mechanism=made)
    worker.run(4)
    assert np.isfinite(worker.finish().delta).all()


def test_what_was_certified_is_what_runs() -> None:
    certified, records = certificate("local"), as_records(np.ones((1, FEATURES)), np.ones(1))
    made = Private(certified, 0, np.arange(1), SystemSource())
    refresh = replace(certified.terms, whole_rounds=False)
    for its_terms, objective in ((certified.terms, Logistic(FEATURES, l2=50.0)), (refresh, certified.objective)):
        with pytest.raises(UsageError, match="not the terms and the objective that the mechanism was certified for"):
            Worker(its_terms, 0, np.zeros(4), objective, records, np.arange(1), 0, mechanism=made)


def test_a_step_uphill_is_refused() -> None:
    """It would bring models further apart: nothing that is proved of steps downhill holds of it."""

    class Uphill(ConstantSteps):
        def at(self, t: Any) -> Any:
            return -super().at(t)

    for mechanism in ("minibatch", "local"):
        with pytest.raises(Refused, match=re.escape("step sizes reach from -0.5")):
            certificate(mechanism, replace(terms(), steps=Uphill(0.5)))
