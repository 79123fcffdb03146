"""Sums are exact, draws are bounded, and what rounding can add is certified for as many records as a data set has."""

from __future__ import annotations

import re
import threading
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.stats import binom

from crescendo.core.terms import Terms
from crescendo.data.records import as_records
from crescendo.errors import Refused, UsageError
from crescendo.objectives.base import Slots
from crescendo.objectives.logistic.objective import Logistic
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.minibatch import FrozenStepper
from crescendo.privacy.mechanisms.minibatch import _unit as unit
from crescendo.privacy.mechanisms.rounding import UNDECLARED, most_drawn
from crescendo.schedules import ConstantSizes, ConstantSteps, DiminishingSteps
from crescendo_dp.planning.sigmas import Sigmas
from crescendo_dp.sampling_rate import rate_of
from tests.objectives.bare import Bare

FEATURES = 5


def certified(mechanism: str = "minibatch", **changes: Any) -> Certificate:
    given: dict[str, Any] = {"clip": 0.5, "sigma": 1.0, "records": (20,), "norm_bound": 3.0, "l2": 0.1, "eta": 0.1}
    given |= {"slots": 4, "rounds": 5, "features": FEATURES, "steps": None, "blocks": 1} | changes
    steps = given.pop("steps") or ConstantSteps(given["eta"])
    sizes = ConstantSizes(given.pop("slots"))
    terms = Terms(sizes, steps, (1.0,), given.pop("rounds"), ahead=1, whole_rounds=True, blocks=given.pop("blocks"))
    objective = Logistic(given.pop("features"), l2=given.pop("l2"))
    del given["eta"]
    return certify(mechanism, terms, objective, **given)


# -- exact sums ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("clip", [1e-50, 0.3, 7e20])
def test_the_sum_of_clipped_gradients_is_exact_and_has_no_order(sparse: bool, clip: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, FEATURES)) * 10.0 ** rng.integers(-3, 4, (300, 1))
    data = as_records(csr_array(x) if sparse else x, rng.choice([-1.0, 1.0], 300))
    model, start, rows = Logistic(FEATURES), rng.normal(size=FEATURES + 1), np.arange(300)
    step = unit(clip, 300)
    alone = [model.gradient(start, data, rows[r : r + 1], clip, unit=step) for r in rows]
    for gradient in alone:
        assert (gradient / step == np.rint(gradient / step)).all()
        assert np.linalg.norm(gradient) <= clip * (1 + 1e-14) + np.sqrt(FEATURES + 1) / 2 * step
    exact = [sum(Fraction(float(gradient[j])) for gradient in alone) for j in range(FEATURES + 1)]
    for order in (rows, rows[::-1], rng.permutation(rows)):
        total = model.gradient(start, data, order, clip, unit=step)
        assert [Fraction(float(number)) for number in total] == exact


def test_a_model_of_ones_own_is_added_exactly_too() -> None:
    class Own(Bare):
        size = 3

        def gradient(self, w: Any, data: Any, rows: Any) -> Any:
            return np.resize(data.x[0], 3) * 1.1

    data, rows = as_records(np.random.default_rng(1).normal(size=(50, 2)), np.ones(50)), np.arange(50)
    totals = []
    for order in (rows, rows[::-1]):
        slots = Slots(order, np.array([0.1]), ends=np.array([50]), clip=0.4, unit=unit(0.4, 50))
        stepper = FrozenStepper(Own(), data)
        stepper.load(np.zeros(3))
        stepper.advance(slots, 0, 1)
        totals.append(stepper.gradients())
    np.testing.assert_array_equal(totals[0], totals[1])


def test_the_start_model_is_no_part_of_what_noise_hides() -> None:
    """The shrink of L2 is added after the release: a long start model cannot drown the noise."""
    data = as_records(np.ones((2, 2)), np.ones(2))
    stepper = FrozenStepper(Logistic(2, l2=0.5), data)
    stepper.load(np.array([1e300, 0.0, 0.0]))
    stepper.advance(Slots(np.array([], np.int64), np.full(3, 1.0), ends=np.zeros(3, np.int64), clip=1.0), 0, 3)
    assert (stepper.gradients() == 0).all()
    np.testing.assert_allclose(stepper.decay(), [1e300 * (1 - 0.5**3), 0, 0])
    np.testing.assert_allclose(stepper.read(), [1e300 * 0.5**3, 0, 0])


# -- draws ---------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**7), st.integers(1, 10**8))
def test_a_draw_exceeds_its_bound_with_a_chance_below_1e_60(slots: int, records: int) -> None:
    slots = min(slots, records)
    bound = float(most_drawn(slots, records))
    assert binom.logsf(bound, UNDECLARED * records, slots / records) < -60 * np.log(10)


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_a_rate_is_a_multiple_of_what_uniforms_are_and_never_below_the_stated_one(slots: int, records: int) -> None:
    slots = min(slots, records)
    rate = Fraction(rate_of(slots, records))
    assert (rate * 2**53).denominator == 1 and Fraction(slots, records) <= rate < Fraction(slots, records) + Fraction(
        1, 2**53
    )


# -- how many records --------------------------------------------------------------------------------------------------


def test_a_hundred_million_records_are_certified_for_minibatch() -> None:
    for slots in (100, 10**6, 10**8):
        found = certified(records=(10**8,), slots=slots, features=300, eta=1e-9)
        assert found.slack < 1e-3 and 0 <= found.failure < 1e-50


def test_ten_million_records_and_draws_of_fifty_thousand_are_certified_for_local() -> None:
    found = certified(
        "local", records=(10**7,), slots=50_000, features=165, norm_bound=4.0, eta=0.9, l2=1e-7, rounds=100
    )
    assert 1e-5 < found.slack <= 1e-3 and 0 < found.failure < 1e-50


# -- finding 1: terms that switch the noise off --------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["minibatch", "local"])
def test_a_shrink_that_would_enlarge_the_model_is_refused_and_the_suggested_step_passes(mechanism: str) -> None:
    with pytest.raises(Refused, match=re.escape("times l2 is 2.1434 and must be at most 1; eta = 0.466548 would pass")):
        certified(mechanism, eta=1.0, l2=2.1434, slots=20, norm_bound=1.5)
    certified(mechanism, eta=0.466548, l2=2.1434, slots=20, norm_bound=1.5)
    with pytest.raises(Refused, match="times 3 blocks times l2"):
        certified(mechanism, eta=0.2, l2=2.1434, norm_bound=1.5, blocks=3)


# -- finding 4: scales that carry no noise ---------------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [1e-323, 1e-61, 0.0, 1e61, 1e308, float("nan")])
@pytest.mark.parametrize("mechanism", ["minibatch", "local"])
def test_steps_that_noise_cannot_be_scaled_by_are_refused(mechanism: str, eta: float) -> None:
    class Steps:
        per = "round"

        def at(self, t: Any) -> Any:
            return np.where(np.asarray(t) < 8, 0.01, eta)

    with pytest.raises(Refused, match="noise is scaled by them: steps from 1e-60 to 1e"):
        certified(mechanism, steps=Steps(), l2=0.0)


@pytest.mark.parametrize(
    ("name", "value"), [(n, v) for n in ("clip", "norm_bound") for v in (5e-324, 1e-61, 1e61, 1e200)]
)
def test_a_clip_or_bound_at_the_edge_of_the_floats_is_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"privacy.{name} must lie between 1e-60 and 1e"):
        certified("minibatch", **{name: value})


def test_every_round_of_extreme_terms_has_noise_that_can_be_drawn() -> None:
    extremes: tuple[dict[str, Any], ...] = (
        {"clip": 1e-60, "eta": 1e-60},
        {"clip": 1e60, "eta": 1e60, "l2": 0.0},
        {"steps": DiminishingSteps(1.0, 1e40)},
    )
    for changes in extremes:
        found = certified("minibatch", **{"l2": 1e-60, **changes})
        for i in range(5):
            assert 1e-190 < found.noise_scale(i, 0) < 1e190
            assert found.noise_scale(i, 0) >= found.sigma(i) * abs(float(found.terms.etas(i, 0)[0])) * found.clip


def test_noise_too_small_for_its_grid_is_refused_with_a_sigma_that_passes() -> None:
    with pytest.raises(Refused, match="steps of the grid that noise is rounded to") as refused:
        certified(sigma=1e-9)
    certified(sigma=float(str(refused.value).split("sigma = ")[1].split()[0]))


# -- noise that differs by round -----------------------------------------------------------------------------------------


def test_noise_may_differ_by_round() -> None:
    found = certified(sigma=Sigmas(((2, 4.0), (3, 1.0))))
    assert [event.sigma for event in found.events(0)] == [4.0, 4.0, 1.0, 1.0, 1.0]
    assert found.noise_scale(0, 0) == 4 * found.noise_scale(4, 0)
    with pytest.raises(UsageError, match="lists the noise of 4 rounds and the run has 5"):
        certified(sigma=Sigmas(((2, 4.0), (2, 1.0))))
    with pytest.raises(UsageError, match="above 0"):
        certified(sigma=Sigmas(((2, 4.0), (3, 0.0))))


# -- what a hostile reading found ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("clip", [1e-60, 2.5e-16, 0.5])
def test_no_record_however_long_has_a_clipped_gradient_above_the_clip(sparse: bool, clip: float) -> None:
    """A slope of clip / 1e308 is subnormal: its rounding made gradients of up to four times the clip."""
    rng, model = np.random.default_rng(3), Logistic(4, intercept=False)
    lengths = np.concatenate([[1.0119e308], 10.0 ** rng.uniform(140, 308, 300)])
    x = rng.uniform(-1, 1, (301, 4)) * lengths[:, None]
    x[0] = np.array([1.0, 1.0, 1.0, 0.99]) * 1.0119e308
    data = as_records(csr_array(x) if sparse else x, np.ones(301))
    step = unit(clip, 10)
    for r in range(301):
        gradient = model.gradient(np.zeros(4), data, np.array([r]), clip, unit=step)
        assert np.linalg.norm(gradient) <= clip * (1 + 1e-9) + step


def test_numbers_of_numpy_do_not_make_the_noise_narrower() -> None:
    found = certified(clip=np.float32(1e-30), eta=2.1e-15, l2=0.0, norm_bound=None)
    assert type(found.noise_scale(0, 0)) is float and found.noise_scale(0, 0) >= 2.1e-15 * float(np.float32(1e-30))
    assert certified(records=(np.int32(20),)).rate(0, 0) == rate_of(4, 20)


@pytest.mark.parametrize(
    "sigma", [[[1, 8.0], [4, float("nan")]], [[4, 8.0], [1, float("inf")]], [[1, float("nan")], [4, 1.0]]]
)
def test_every_sigma_of_a_list_is_looked_at(sigma: Any) -> None:
    with pytest.raises(UsageError, match="must be above 0"):
        certified(sigma=Sigmas.of(sigma))


@given(st.floats(0.01, 100), st.sampled_from(["minibatch", "local"]), st.floats(0.001, 10), st.integers(1, 3))
def test_a_suggested_step_passes(eta: float, mechanism: str, l2: float, blocks: int) -> None:
    try:
        certified(mechanism, eta=eta, l2=l2, blocks=blocks)
    except Refused as error:
        suggested = re.search(r"eta = (\S+) would pass", str(error))
        if suggested is not None:
            certified(mechanism, eta=float(suggested[1]), l2=l2, blocks=blocks)


def test_a_model_that_sets_numpy_to_raise_stops_nothing() -> None:
    class Strict(Bare):
        size = 3

        def gradient(self, w: Any, data: Any, rows: Any) -> Any:
            np.seterr(all="raise")
            if data.x[0, 0] > 0.5:
                raise SystemExit(3)
            return np.array([1e300, 1e-300, 0.0])

    with np.errstate(all="warn"):  # restores what the model changes
        slots = Slots(np.arange(2), np.array([0.1]), ends=np.array([2]), clip=0.4, unit=unit(0.4, 50))
        stepper = FrozenStepper(Strict(), as_records(np.array([[0.0], [1.0]]), np.ones(2)))
        stepper.load(np.zeros(3))
        stepper.advance(slots, 0, 1)
        np.testing.assert_allclose(stepper.gradients(), [0.04, 0.0, 0.0])
        assert set(np.geterr().values()) == {"warn"}, "what the model sets ends with its call"


def test_a_model_that_writes_into_what_it_is_given_spoils_no_other_record() -> None:
    class Writes(Bare):
        size = 1

        def gradient(self, w: Any, data: Any, rows: Any) -> Any:
            found = data.x[rows][0]
            w += 7
            data.x[:] = 9
            rows += 1
            return found

    stepper = FrozenStepper(Writes(), as_records(np.array([[0.1], [0.2], [0.3]]), np.ones(3)))
    for _ in range(2):
        stepper.load(np.zeros(1))
        stepper.advance(Slots(np.arange(3), np.ones(1), ends=np.array([3]), clip=1.0, unit=unit(1.0, 1)), 0, 1)
        np.testing.assert_allclose(stepper.gradients(), [0.6], rtol=1e-9)


def test_only_a_person_s_interrupt_ends_a_private_round() -> None:
    class Interrupts(Bare):
        size = 1

        def gradient(self, w: Any, data: Any, rows: Any) -> Any:
            raise KeyboardInterrupt

    stepper = FrozenStepper(Interrupts(), as_records(np.ones((1, 1)), np.ones(1)))
    stepper.load(np.zeros(1))
    slots = Slots(np.arange(1), np.ones(1), ends=np.array([1]), clip=1.0, unit=unit(1.0, 1))
    with pytest.raises(KeyboardInterrupt):
        stepper.advance(slots, 0, 1)
    elsewhere = threading.Thread(target=stepper.advance, args=(slots, 0, 1))
    elsewhere.start()
    elsewhere.join()
    assert stepper.gradients().tolist() == [0.0]


def test_steps_by_slot_and_blocks_beyond_reason_are_refused_before_memory_is_asked_for() -> None:
    with pytest.raises(Refused, match="slots of one client"):
        certified("local", slots=10**11, records=(10**12,), steps=DiminishingSteps(0.1, 0.01, per="slot"))
    with pytest.raises(UsageError, match="at most the model's 6 numbers, not 99"):
        certified(blocks=99)
