from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from crescendo.core.arrays import Floats
from crescendo.data.records import Records, as_records
from crescendo.errors import UsageError
from crescendo.objectives import Logistic, LoopStepper, Slots
from crescendo.objectives.base import clipped
from tests.objectives.textbook import Case, run, sigmoid

# 1: no L2; then mild, strong, zero, negative and diverging shrinks, and one that must be folded at every step.
SHRINKS = (1.0, 0.999, 0.5, 0.0, -0.5, -1.5, 1e-12)
cases = st.builds(
    Case,
    seed=st.integers(0, 2**32),
    sparse=st.booleans(),
    intercept=st.booleans(),
    dtype=st.sampled_from(["float64", "float32"]),
    shrink=st.sampled_from(SHRINKS),
    masked=st.booleans(),
    clip=st.sampled_from([None, 0.3, 100.0]),
    grouped=st.booleans(),
    features=st.integers(1, 9),
).flatmap(lambda case: st.sampled_from([case, replace(case, values=case.dtype)]))  # a9a in float32, say, mixes the two


def after(case: Case, cuts: list[int] | None = None) -> Floats:
    objective, data, w, slots = case.build()
    stepper = objective.stepper(data)
    stepper.load(w)
    edges = [0, *sorted(cuts or []), len(slots)]
    for h0, h1 in pairwise(edges):
        stepper.advance(slots, h0, h1)
        stepper.read()
    return stepper.read()


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(cases)
def test_compiled_steps_are_the_textbook_steps(case: Case) -> None:
    objective, data, w, slots = case.build()
    expected, largest = run(objective, data, w.astype(case.dtype).astype(np.float64), slots)
    tolerance = 1e-12 if case.dtype == "float64" else 1e-4
    np.testing.assert_allclose(after(case), expected, rtol=0, atol=tolerance * (1 + largest))


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(cases.map(lambda case: replace(case, dtype="float64")))
def test_the_loop_over_gradients_takes_the_same_steps(case: Case) -> None:
    objective, data, w, slots = case.build()
    stepper = LoopStepper(objective, data)
    stepper.load(w)
    stepper.advance(slots, 0, 11)
    stepper.advance(slots, 11, len(slots))
    expected, largest = run(objective, data, w, slots)
    np.testing.assert_allclose(stepper.read(), expected, rtol=0, atol=1e-12 * (1 + largest))


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(cases, st.lists(st.integers(0, 30), max_size=6))
def test_a_segment_cut_anywhere_gives_the_same_bits(case: Case, cuts: list[int]) -> None:
    assert after(case).tobytes() == after(case, cuts).tobytes()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("features", [1, 4, 7, 10])
def test_without_l2_the_bits_are_those_of_a_python_loop(dtype: str, sparse: bool, features: int) -> None:
    case = Case(seed=3, dtype=dtype, sparse=sparse, features=features, slots=300)
    _, data, start, slots = case.build()
    x, w = data.x, start.astype(dtype)
    for r, eta in zip(slots.rows.tolist(), slots.etas.tolist(), strict=True):
        if isinstance(x, np.ndarray):
            columns, values = range(features), x[r].tolist()
            lanes = [0.0] * 4
            for j in columns:
                lanes[j % 4] += values[j] * float(w[j])
            margin = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
        else:
            of_row = slice(x.indptr[r], x.indptr[r + 1])
            columns, values = x.indices[of_row].tolist(), x.data[of_row].tolist()
            margin = 0.0
            for j, v in zip(columns, values, strict=True):
                margin += v * float(w[j])
        margin += float(w[features])
        step = eta * (-data.y[r] * sigmoid(-data.y[r] * margin))
        for j, v in zip(columns, values, strict=True):
            w[j] = float(w[j]) - step * v
        w[features] = float(w[features]) - step
    assert after(case).tobytes() == w.astype(np.float64).tobytes()


@pytest.mark.parametrize("sparse", [True, False])
def test_coordinates_outside_the_block_keep_their_bits(sparse: bool) -> None:
    objective, data, w, slots = Case(seed=1, sparse=sparse, shrink=0.5).build()
    stepper = objective.stepper(data)
    stepper.load(w)
    stepper.advance(replace(slots, block=(2, 5), factor=2.0), 0, 30)
    moved = np.flatnonzero(stepper.read() != w)
    assert set(moved) == {2, 3, 4}


@pytest.mark.parametrize("sparse", [True, False])
def test_rounds_with_other_blocks_follow_each_other_as_in_the_textbook(sparse: bool) -> None:
    objective, data, w, slots = Case(seed=2, sparse=sparse, shrink=0.9).build()
    stepper = objective.stepper(data)
    stepper.load(w)
    for block in [(0, 4), (4, 8), (0, 8), (7, 8), (0, 4)]:
        masked = replace(slots, block=block, factor=2.0)
        stepper.advance(masked, 0, 30)
        w, _ = run(objective, data, w, masked)
    np.testing.assert_allclose(stepper.read(), w, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["compiled", "loop"])
def test_a_translation_adds_to_the_model_and_the_work_goes_on(kind: str) -> None:
    objective, data, w, slots = Case(seed=5, shrink=0.9).build()
    stepper = objective.stepper(data) if kind == "compiled" else LoopStepper(objective, data)
    by = np.linspace(-1, 1, 8)
    stepper.load(w)
    stepper.advance(slots, 0, 10)
    before = stepper.read()
    stepper.translate(by)
    np.testing.assert_array_equal(stepper.read(), before + by)
    stepper.advance(slots, 10, 30)
    half, _ = run(objective, data, w, Slots(slots.rows[:10], slots.etas[:10]))
    expected, _ = run(objective, data, half + by, Slots(slots.rows[10:], slots.etas[10:]))
    np.testing.assert_allclose(stepper.read(), expected, rtol=0, atol=1e-12)


def test_what_is_read_is_a_copy_and_what_is_loaded_is_copied() -> None:
    objective, data, w, _ = Case().build()
    stepper, start = objective.stepper(data), w.copy()
    stepper.load(w)
    w[:] = 7
    stepper.read()[:] = 9
    np.testing.assert_array_equal(stepper.read(), start)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("grouped", [True, False])
def test_a_thousand_folds_later_the_model_is_still_that_of_the_textbook(sparse: bool, grouped: bool) -> None:
    case = Case(seed=8, sparse=sparse, shrink=0.2, grouped=grouped, slots=5000)
    objective, data, w, slots = case.build()
    expected, _ = run(objective, data, w, slots)
    np.testing.assert_allclose(after(case), expected, rtol=1e-12, atol=1e-14)


def spoilt(value: float, sparse: bool) -> Records:
    """Record 0 is good; record 1 has one bad number."""
    x = np.array([[1.0, 0.5, 0.0], [2.0, value, 1.0]])
    return as_records(csr_array(x) if sparse else x, np.array([1.0, -1.0]))


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", ["compiled", "loop", "gradient"])
def test_with_a_clip_a_gradient_that_is_not_finite_counts_as_nothing(value: float, sparse: bool, kind: str) -> None:
    data, objective, w = spoilt(value, sparse), Logistic(3), np.zeros(4)
    rows = np.array([1, 0])
    if kind == "gradient":
        np.testing.assert_array_equal(
            objective.gradient(w, data, rows, clip=1.0), objective.gradient(w, data, rows[1:], clip=1.0)
        )
        return
    stepper = objective.stepper(data) if kind == "compiled" else LoopStepper(objective, data)
    stepper.load(w)
    with np.errstate(invalid="ignore"):
        stepper.advance(Slots(rows, np.ones(2), clip=1.0), 0, 1)
        np.testing.assert_array_equal(stepper.read(), w)
        stepper.advance(Slots(rows, np.ones(2), clip=1.0), 1, 2)
    assert np.all(np.isfinite(stepper.read())) and np.any(stepper.read())


@pytest.mark.parametrize("sparse", [True, False])
def test_without_a_clip_nothing_is_repaired(sparse: bool) -> None:
    data = spoilt(math.nan, sparse)
    stepper = Logistic(3).stepper(data)
    stepper.advance(Slots(np.array([1]), np.ones(1)), 0, 1)
    assert np.isnan(stepper.read()).any()


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("kind", ["compiled", "loop", "gradient"])
def test_a_gradient_whose_square_overflows_is_clipped_and_not_lost(sparse: bool, kind: str) -> None:
    data, objective = spoilt(-1e200, sparse), Logistic(3)
    slots = Slots(np.array([1]), np.ones(1), clip=0.25)
    if kind == "gradient":
        moved = objective.gradient(np.zeros(4), data, slots.rows, clip=0.25)
    else:
        stepper = objective.stepper(data) if kind == "compiled" else LoopStepper(objective, data)
        stepper.load(np.zeros(4))
        stepper.advance(slots, 0, 1)
        moved = stepper.read()
    np.testing.assert_allclose(np.abs(moved), [0, 0.25, 0, 0], atol=1e-15)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("kind", ["compiled", "loop", "gradient"])
def test_a_short_gradient_of_a_huge_record_is_left_as_it_is(sparse: bool, kind: str) -> None:
    data, objective = spoilt(-1e200, sparse), Logistic(3)
    w, slots = (
        np.array([0, 5e-198, 0, 0]),
        Slots(np.array([1]), np.ones(1), clip=0.25),
    )  # a margin of 500, rightly signed
    if kind == "gradient":
        moved = -objective.gradient(w, data, slots.rows, clip=0.25)
    else:
        stepper = objective.stepper(data) if kind == "compiled" else LoopStepper(objective, data)
        stepper.load(w)
        stepper.advance(slots, 0, 1)
        moved = stepper.read()
    assert moved[1] == pytest.approx(math.exp(-500) * 1e200, rel=1e-10, abs=0)


@settings(deadline=None, max_examples=100)
@given(cases.map(lambda case: replace(case, clip=0.3, masked=False, shrink=1.0, dtype="float64", grouped=False)))
def test_no_record_moves_a_model_by_more_than_its_clip(case: Case) -> None:
    objective, data, w, slots = case.build()
    stepper = objective.stepper(data)
    for h in range(len(slots)):
        stepper.load(w)
        stepper.advance(slots, h, h + 1)
        moved = stepper.read() - w
        assert np.linalg.norm(moved) <= 0.3 * slots.etas[h] * (1 + 1e-12) + 1e-15 * np.linalg.norm(w)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=5), st.floats(1e-3, 1e3))
def test_clipping_keeps_direction_and_bounds_the_norm(values: list[float], limit: float) -> None:
    gradient = np.array(values)
    short = clipped(gradient, limit)
    assert math.hypot(*short) <= limit * (1 + 1e-12)
    if math.hypot(*values) <= limit:
        np.testing.assert_array_equal(short, gradient)


def test_an_empty_slot_shrinks_the_model_and_an_empty_segment_does_nothing() -> None:
    objective, data, w, _ = Case(shrink=0.5).build()
    stepper = objective.stepper(data)
    stepper.load(w)
    slots = Slots(np.empty(0, dtype=np.int64), np.array([0.5, 0.5]), ends=np.array([0, 0]))
    stepper.advance(slots, 0, 0)
    np.testing.assert_array_equal(stepper.read(), w)
    stepper.advance(slots, 0, 2)
    np.testing.assert_array_equal(stepper.read(), w / 4)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Slots(np.array([1, 2]), np.ones(3)), "2 slots needs as many step sizes, got 3"),
        (lambda: Slots(np.array([1, 2]), np.ones(1), ends=np.array([1])), "ends must rise"),
        (lambda: Slots(np.array([1, 2]), np.ones(2), ends=np.array([3, 2])), "ends must rise"),
        (lambda: Slots(np.array([1]), np.ones(1), clip=0.0), "clip must be positive"),
        (lambda: Slots(np.array([1]), np.ones(1), block=(3, 3)), "block must be"),
    ],
)
def test_a_round_that_does_not_fit_together_is_refused(build: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        build()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("slots", "h0", "h1", "says"),
    [
        (Slots(np.array([20]), np.ones(1)), 0, 1, "outside 0..19"),
        (Slots(np.array([-1]), np.ones(1)), 0, 1, "outside 0..19"),
        (Slots(np.array([1, -1]), np.ones(2)), 0, 2, "outside 0..19"),
        (Slots(np.array([1]), np.ones(1)), 0, 2, "not all in a round of 1"),
        (Slots(np.array([1]), np.ones(1)), -1, 1, "not all in a round of 1"),
        (Slots(np.array([1]), np.ones(1), block=(0, 9)), 0, 1, "beyond a model of 8"),
    ],
)
def test_compiled_code_never_sees_a_row_or_coordinate_that_is_not_there(
    slots: Slots, h0: int, h1: int, says: str
) -> None:
    objective, data, w, _ = Case().build()
    stepper = objective.stepper(data)
    stepper.load(w)
    with pytest.raises(UsageError, match=says):
        stepper.advance(slots, h0, h1)
    np.testing.assert_array_equal(stepper.read(), w)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("rows", [[20], [3, 20], [-1], [19, -1]])
def test_no_gradient_is_summed_of_a_row_that_is_not_there(rows: list[int], sparse: bool) -> None:
    objective, data, w, _ = Case(sparse=sparse).build()
    with pytest.raises(UsageError, match=r"outside 0\.\.19"):
        objective.gradient(w, data, np.array(rows))


def test_a_model_of_another_length_is_refused() -> None:
    objective, data, _, _ = Case().build()
    with pytest.raises(UsageError, match="8 coordinates was due"):
        objective.stepper(data).load(np.zeros(7))
