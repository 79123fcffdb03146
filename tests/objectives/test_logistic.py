from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from crescendo.core.arrays import Floats
from crescendo.data.records import Records, as_records
from crescendo.errors import DataError, UsageError
from crescendo.objectives import Logistic, weights_of_rows
from crescendo.objectives.weighting import shares
from tests.objectives.textbook import drawn, extended, record_gradient


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_the_gradient_is_the_slope_of_the_loss(sparse: bool, intercept: bool) -> None:
    data, objective = drawn(sparse=sparse), Logistic(6, l2=0.1, intercept=intercept)
    rng = np.random.default_rng(1)
    w, weights = rng.normal(size=objective.size), rng.random(60)
    gradient = objective.mean_gradient(w, data, weights)
    for j, along in enumerate(np.eye(objective.size)):
        up, down = (objective.evaluate(w + s * 1e-5 * along, data, weights)["loss"] for s in (1, -1))
        assert gradient[j] == pytest.approx((up - down) / 2e-5, abs=1e-9)
    sums = objective.gradient(w, data, np.arange(60)) / 60 + objective.l2 * w
    np.testing.assert_allclose(sums, objective.mean_gradient(w, data), rtol=1e-12, atol=1e-15)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 1000), st.booleans(), st.booleans(), st.sampled_from([None, 0.3]), st.sampled_from([None, (1, 4)])
)
def test_a_sum_of_gradients_is_the_sum_of_each(
    seed: int, sparse: bool, intercept: bool, clip: float | None, block: tuple[int, int] | None
) -> None:
    data, objective = drawn(seed, sparse=sparse), Logistic(6, l2=0.1, intercept=intercept)
    rng = np.random.default_rng(seed)
    w, rows = rng.normal(size=objective.size), rng.integers(0, 60, 17)
    x = extended(data, intercept)
    expected = sum((record_gradient(w, x[r], data.y[r], clip) for r in rows), np.zeros(objective.size))
    found = objective.gradient(w, data, rows, clip, block)
    np.testing.assert_allclose(found, expected[slice(*(block or (0, None)))], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_scores_are_those_of_scikit_learn(sparse: bool, weighted: bool, dtype: str) -> None:
    data, objective = drawn(2, rows=2000, sparse=sparse, dtype=dtype), Logistic(6, l2=0.01)
    rng = np.random.default_rng(3)
    w = rng.normal(size=7)
    weights = rng.choice([1.0, 2.0, 5.0], 2000) if weighted else None
    z = extended(data, True) @ w
    p, y = 1 / (1 + np.exp(-z)), data.y > 0
    scores = objective.evaluate(w, data, weights, metrics=("loss", "accuracy", "auc"))
    assert scores["loss"] == pytest.approx(log_loss(y, p, sample_weight=weights) + 0.005 * float(w @ w), rel=1e-12)
    assert scores["accuracy"] == pytest.approx(accuracy_score(y, z >= 0, sample_weight=weights), rel=1e-12)
    assert scores["auc"] == pytest.approx(roc_auc_score(y, z, sample_weight=weights), rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse", [True, False])
def test_a_stack_of_models_scores_bit_for_bit_as_one_by_one(sparse: bool, weighted: bool) -> None:
    data, objective = drawn(4, rows=12_000, sparse=sparse), Logistic(6, l2=0.01)  # many chunks to add up
    stack = np.random.default_rng(5).normal(size=(9, 7))
    weights = np.random.default_rng(6).choice([1.0, 3.0], 12_000) if weighted else None
    together = objective.evaluate(stack, data, weights)
    alone = [objective.evaluate(w, data, weights) for w in stack]
    for name in ("loss", "accuracy"):
        np.testing.assert_array_equal(together[name], [scores[name] for scores in alone])


def test_the_number_of_threads_does_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    data, objective = drawn(7, rows=12_000), Logistic(6)
    stack = np.random.default_rng(8).normal(size=(41, 7))
    found = []
    for threads in (1, 2, 7):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=threads: set(range(n)), raising=False)
        found.append(objective.evaluate(stack, data)["loss"].tobytes())
    assert found[0] == found[1] == found[2]


def one(x: float, y: float) -> Records:
    return Records(np.array([[x]]), np.array([y]))


@pytest.mark.parametrize(
    ("w", "y", "loss", "accuracy"),
    [
        (0.0, 1.0, math.log(2), 1.0),
        (0.0, -1.0, math.log(2), 0.0),
        (40.0, 1.0, math.exp(-40), 1.0),
        (1000.0, 1.0, 0.0, 1.0),
        (1000.0, -1.0, 1000.0, 0.0),
        (-math.inf, 1.0, math.inf, 0.0),
        (math.nan, 1.0, math.nan, 0.0),
        (math.nan, -1.0, math.nan, 0.0),
    ],
)
def test_extreme_margins_score_as_mathematics_has_it(w: float, y: float, loss: float, accuracy: float) -> None:
    scores = Logistic(1, intercept=False).evaluate(np.array([w]), one(1.0, y))
    assert scores["loss"] == pytest.approx(loss, rel=1e-14, abs=0, nan_ok=True) and scores["accuracy"] == accuracy


def test_small_losses_are_summed_without_losing_them() -> None:
    data = Records(np.full((5000, 1), 1.0), np.ones(5000))
    scores = Logistic(1, intercept=False).evaluate(np.array([25.0]), data)
    assert scores["loss"] == pytest.approx(math.log1p(math.exp(-25)), rel=1e-12, abs=0)


def test_large_losses_do_not_overflow_the_product() -> None:
    data = Records(np.zeros((5000, 1)), np.ones(5000))
    assert Logistic(1).evaluate(np.zeros(2), data)["loss"] == pytest.approx(math.log(2), rel=1e-13)


def test_auc_is_not_a_number_where_it_has_no_meaning() -> None:
    assert math.isnan(Logistic(1).evaluate(np.zeros(2), one(1.0, 1.0), metrics=("auc",))["auc"])
    two = Records(np.array([[1.0], [2.0]]), np.array([1.0, -1.0]))
    assert math.isnan(Logistic(1).evaluate(np.array([math.nan, 0]), two, metrics=("auc",))["auc"])


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 1000), st.booleans(), st.booleans())
def test_gradients_of_a_record_are_lipschitz_with_the_stated_constant(seed: int, sparse: bool, intercept: bool) -> None:
    data, objective = drawn(seed, rows=5, sparse=sparse), Logistic(6, l2=0.05, intercept=intercept)
    rng = np.random.default_rng(seed)
    a = rng.normal(size=objective.size) * 0.1
    x = extended(data, intercept)
    widest = x[np.argmax((x * x).sum(axis=1))]
    b = -a + 1e-4 * widest
    a = -b + 2e-4 * widest
    assert objective.traits.smoothness is not None
    smooth = objective.traits.smoothness(float(data.squared_lengths(intercept).max()))
    assert smooth == pytest.approx(float((x * x).sum(axis=1).max()) / 4 + 0.05)
    for r in range(5):
        change = record_gradient(a, x[r], data.y[r], None) - record_gradient(b, x[r], data.y[r], None) + 0.05 * (a - b)
        assert np.linalg.norm(change) <= smooth * np.linalg.norm(a - b) * (1 + 1e-12)


def test_row_weights_spread_each_clients_weight_over_its_records() -> None:
    weights = weights_of_rows([np.array([0, 3]), np.array([1, 2, 4, 5])], [0.3, 0.7], 6)
    np.testing.assert_allclose(weights, [0.15, 0.175, 0.175, 0.15, 0.175, 0.175])
    assert shares(weights_of_rows([np.arange(3), np.arange(3, 10)], [0.3, 0.7], 10), 10) is None


def malformed(**change: Any) -> Records:
    matrix = csr_array(np.array([[1.0, 2.0], [0.0, 3.0]]))
    data = as_records(matrix, np.array([1.0, -1.0]))
    for name, value in change.items():
        setattr(data.x, name, value)
    return data


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: Logistic(0), UsageError, "at least one feature"),
        (lambda: Logistic(1, l2=-0.1), UsageError, "l2 must be"),
        (lambda: Logistic(1, l2=math.nan), UsageError, "l2 must be"),
        (lambda: Logistic(1, dtype="float16"), UsageError, "float32 or float64"),
        (lambda: Logistic(2).stepper(one(1.0, 1.0)), DataError, "2 features and the data 1"),
        (lambda: Logistic(1).stepper(one(1.0, 3.0)), DataError, "takes two classes"),
        (lambda: Logistic(1).evaluate(np.zeros(2), one(1.0, math.nan)), DataError, "takes two classes"),
        (lambda: Logistic(1).evaluate(np.zeros(3), one(1.0, 1.0)), UsageError, "2 coordinates was due"),
        (lambda: Logistic(1).evaluate(np.zeros(2), one(1.0, 1.0), metrics=("f1",)), UsageError, "no metric 'f1'"),
        (lambda: Logistic(1).evaluate(np.zeros(2), one(1.0, 1.0), [1, 2]), UsageError, "1 records need 1 row weights"),
        (lambda: Logistic(1).evaluate(np.zeros(2), one(1.0, 1.0), [-1]), UsageError, "not negative"),
        (lambda: Logistic(1).evaluate(np.zeros(2), one(1.0, 1.0), [0]), UsageError, "not all zero"),
        (
            lambda: Logistic(1).evaluate(np.zeros(2), Records(np.empty((0, 1)), np.empty(0))),
            UsageError,
            "no records to average",
        ),
        (lambda: Logistic(2).stepper(malformed(indices=np.array([0, 1, 2], np.int32))), DataError, "outside 0..1"),
        (lambda: Logistic(2).stepper(malformed(indices=np.array([0, -1, 1], np.int32))), DataError, "outside 0..1"),
        (lambda: Logistic(2).stepper(malformed(indices=np.array([1, 1, 0], np.int32))), DataError, "repeated columns"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()


@pytest.mark.slow
@pytest.mark.parametrize("heavy", ["numba", "scipy", "sklearn"])
def test_importing_the_objectives_does_not_import(heavy: str) -> None:
    code = f"import sys, crescendo.objectives; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_models_print_and_compare() -> None:
    assert Logistic(3, 0.1) == Logistic(3, 0.1, dtype=np.float64) != Logistic(3, 0.2)
    assert repr(Logistic(3)) == "Logistic(features=3, l2=0.0, intercept=True, dtype=dtype('float64'))"
    start: Floats = Logistic(3).initial(np.random.default_rng(0))
    np.testing.assert_array_equal(start, np.zeros(4))
