"""Softmax regression: compiled steps and sums are those of the textbook, its numbers those of scikit-learn."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss

import crescendo
from crescendo.config.loading import read
from crescendo.core.arrays import Floats
from crescendo.data import load
from crescendo.data.records import Records, as_records
from crescendo.errors import ConfigError, DataError, Refused, UsageError
from crescendo.federation.agreement import build_terms
from crescendo.objectives import LoopStepper, Slots, Softmax, mean_gradient
from tests.config.small import small


def drawn(seed: int, classes: int, sparse: bool, rows: int = 40, dtype: str = "float64") -> Records:
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(rows, 6)) * (rng.random((rows, 6)) < 0.6)).astype(dtype)
    return as_records(csr_array(x) if sparse else x, rng.integers(0, classes, rows))


def textbook(w: Floats, x: Floats, y: int, clip: float | None, intercept: bool) -> Floats:
    """One record's gradient, written out."""
    x = np.append(x, 1.0) if intercept else x
    z = w.reshape(len(x), -1).T @ x
    p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    p[y] -= 1
    gradient = np.outer(x, p).ravel()
    norm = float(np.linalg.norm(gradient))
    return gradient if clip is None or norm <= clip else gradient * clip / norm


kinds = st.tuples(st.integers(0, 500), st.sampled_from([2, 3, 4, 5, 10]), st.booleans(), st.booleans())


@settings(deadline=None, max_examples=40)
@given(kinds, st.sampled_from([None, 0.3]))
def test_a_sum_of_gradients_is_the_sum_of_each(kind: tuple[int, int, bool, bool], clip: float | None) -> None:
    seed, classes, sparse, intercept = kind
    data, objective = drawn(seed, classes, sparse), Softmax(6, classes=classes, intercept=intercept)
    rng = np.random.default_rng(seed)
    w, rows = 2 * rng.normal(size=objective.size), rng.integers(0, 40, 17)
    x = data.x if isinstance(data.x, np.ndarray) else data.x.toarray()
    due = sum((textbook(w, x[r], int(data.y[r]), clip, intercept) for r in rows), np.zeros(objective.size))
    np.testing.assert_allclose(objective.gradient(w, data, rows, clip), due, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(objective.gradient(w, data, rows, clip, (2, 5)), due[2:5], rtol=1e-12, atol=1e-13)
    fine = objective.gradient(w, data, rows, clip, unit=2.0**-30)
    assert np.array_equal(
        fine, objective.gradient(w, data, rows[::-1], clip, unit=2.0**-30)
    )  # exact, so without an order
    assert np.array_equal(fine * 2.0**30, np.rint(fine * 2.0**30))
    np.testing.assert_allclose(fine, due, atol=17 * 2.0**-31 + 1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_the_gradient_is_the_slope_of_the_loss(sparse: bool, intercept: bool) -> None:
    data, objective = drawn(3, 4, sparse), Softmax(6, 0.1, intercept, classes=4)
    rng = np.random.default_rng(1)
    w, weights = rng.normal(size=objective.size), rng.random(40)
    gradient = mean_gradient(objective, w, data, weights)
    for j, along in enumerate(np.eye(objective.size)):
        up, down = (objective.evaluate(w + s * 1e-5 * along, data, weights)["loss"] for s in (1, -1))
        assert gradient[j] == pytest.approx((up - down) / 2e-5, abs=1e-9)
    sums = objective.gradient(w, data, np.arange(40)) / 40 + 0.1 * w
    np.testing.assert_allclose(sums, objective.mean_gradient(w, data), rtol=1e-12, atol=1e-15)


def rounds(objective: Softmax, seed: int, grouped: bool, masked: bool, clip: float | None) -> Slots:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 4, 30) if grouped else np.ones(30, dtype=np.int64)
    rows = rng.integers(0, 40, int(sizes.sum()))
    block = (3, objective.size - 4) if masked else None
    etas: Floats = np.asarray(0.5 / (1 + 0.1 * np.arange(30)), dtype=np.float64)
    return Slots(rows, etas, np.cumsum(sizes) if grouped else None, block, 2.0 if masked else 1.0, clip)


@settings(deadline=None, max_examples=60)
@given(kinds, st.booleans(), st.booleans(), st.sampled_from([None, 0.4]), st.sampled_from([0.0, 0.1, 2.0, 2.5]))
def test_compiled_steps_are_those_of_the_loop_over_gradients_cut_anywhere(
    kind: tuple[int, int, bool, bool], grouped: bool, masked: bool, clip: float | None, l2: float
) -> None:
    seed, classes, sparse, intercept = kind
    data, objective = drawn(seed, classes, sparse), Softmax(6, l2, intercept, classes=classes)
    slots, start = (
        rounds(objective, seed, grouped, masked, clip),
        np.random.default_rng(seed).normal(size=objective.size),
    )
    steppers: list[Any] = [objective.stepper(data), LoopStepper(objective, data), objective.stepper(data)]
    for stepper, cuts in zip(steppers, ([0, 30], [0, 30], [0, 1, 7, 7, 30]), strict=True):
        stepper.load(start)
        for h0, h1 in itertools.pairwise(cuts):
            stepper.advance(slots, h0, h1)
    whole, loop, cut = (stepper.read() for stepper in steppers)
    np.testing.assert_allclose(whole, loop, atol=1e-11 * max(1.0, float(np.abs(loop).max())))
    assert np.array_equal(whole, cut)
    if masked:
        assert np.array_equal(whole[:3], start[:3]) and np.array_equal(whole[-4:], start[-4:])


def test_a_model_in_float32_takes_the_same_steps_but_for_rounding() -> None:
    data = drawn(0, 5, sparse=False, dtype="float32")
    models = []
    for dtype in ("float64", "float32"):
        objective = Softmax(6, 0.1, dtype=dtype, classes=5)
        stepper = objective.stepper(data)
        stepper.load(np.ones(objective.size))
        stepper.advance(rounds(objective, 0, False, False, None), 0, 30)
        models.append(stepper.read())
    np.testing.assert_allclose(models[0], models[1], atol=1e-5)
    assert not np.array_equal(models[0], models[1])


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_scikit_learn_for_one_model_and_for_many(sparse: bool, weighted: bool) -> None:
    data, objective = drawn(2, 4, sparse, rows=9000), Softmax(6, 0.01, classes=4)
    rng = np.random.default_rng(3)
    models = rng.normal(size=(3, objective.size))
    weights = rng.choice([1.0, 2.0, 5.0], 9000) if weighted else None
    together = objective.evaluate(models, data, weights)
    x = data.x if isinstance(data.x, np.ndarray) else data.x.toarray()
    for w, loss, accuracy in zip(models, together["loss"], together["accuracy"], strict=True):
        z = np.hstack([x, np.ones((9000, 1))]) @ w.reshape(7, 4)
        p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        assert loss == pytest.approx(log_loss(data.y, p, sample_weight=weights) + 0.005 * float(w @ w), rel=1e-12)
        assert accuracy == pytest.approx(accuracy_score(data.y, z.argmax(axis=1), sample_weight=weights), rel=1e-12)
        assert objective.evaluate(w, data, weights) == {"loss": loss, "accuracy": accuracy}
        assert np.array_equal(objective.decide(w, data), z.argmax(axis=1))


@pytest.mark.slow
def test_a_run_comes_to_the_optimum_of_scikit_learn() -> None:
    data, l2 = load("wine", test=0, seed=0), 0.01
    scale = np.abs(data.train.x).max(axis=0)
    scaled = dataclasses.replace(data, train=as_records(data.train.x / scale, data.train.y))
    x = np.hstack([scaled.train.x, np.ones((len(data.train), 1))])
    best = LogisticRegression(C=1 / (l2 * len(x)), fit_intercept=False, tol=1e-10, max_iter=5000).fit(x, data.train.y)
    objective = Softmax(13, l2, classes=3)
    due = best.coef_.T.ravel()
    due = (due.reshape(-1, 3) - due.reshape(-1, 3).mean(axis=1, keepdims=True)).ravel()
    assert np.linalg.norm(objective.mean_gradient(due, scaled.train)) < 1e-6
    config = small(
        "data.source=wine", "data.test=0", "objective.kind=softmax", f"objective.l2={l2}", "schedule.rounds=200",
        "schedule.steps.eta0=0.5", "schedule.steps.beta=0.001",
    )  # fmt: skip
    found = crescendo.simulate(config, data=scaled)
    assert found.loss == pytest.approx(objective.evaluate(due, scaled.train)["loss"], rel=4e-3)


def test_the_stated_smoothness_is_reached_and_not_passed() -> None:
    """At two classes of probability 1/2 each the Hessian in the margins has the eigenvalue 1/2."""
    objective = Softmax(2, 0.05, intercept=False, classes=3)
    assert objective.traits.smoothness is not None
    x, rng = np.array([[3.0, 4.0]]), np.random.default_rng(0)
    data, smooth, most = as_records(x, [0.0]), objective.traits.smoothness(25.0), 0.0
    far = np.outer(x[0], [1.0, 1.0, -1.0]).ravel()  # the third class has no part
    along = np.outer(x[0], [1.0, -1.0, 0.0]).ravel()
    for w, by in [(far, along), *((rng.normal(size=6), rng.normal(size=6)) for _ in range(300))]:
        by = 1e-5 * by / np.linalg.norm(by)
        change = objective.mean_gradient(w + by, data) - objective.mean_gradient(w - by, data)
        most = max(most, float(np.linalg.norm(change)) / 2e-5)
    assert smooth == 12.55 and 0.999 * smooth < most <= smooth * (1 + 1e-6)


def spoilt(value: float, sparse: bool) -> Records:
    x = np.array([[1.0, 2.0, 0.5], [1.0, value, 0.5]])
    return as_records(csr_array(x) if sparse else x, [0.0, 2.0])


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e221])
def test_with_a_clip_a_gradient_that_is_not_finite_counts_as_nothing(value: float, sparse: bool) -> None:
    objective = Softmax(3, classes=3)
    summed = objective.gradient(np.zeros(12), spoilt(value, sparse), np.array([0, 1]), 0.5, unit=2.0**-40)
    assert np.array_equal(
        summed, objective.gradient(np.zeros(12), spoilt(0, sparse), np.array([0]), 0.5, unit=2.0**-40)
    )
    stepper = objective.stepper(spoilt(value, sparse))
    stepper.advance(Slots(np.array([1]), np.array([1.0]), clip=0.5), 0, 1)
    assert np.array_equal(stepper.read(), np.zeros(12))


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.floats(-1e219, 1e219), min_size=3, max_size=3),
    st.lists(st.floats(-1e150, 1e150) | st.floats(-9, 9), min_size=12, max_size=12),
    st.sampled_from([1e-60, 1e-3, 1.0, 1e60]),
    st.booleans(),
)
def test_no_record_has_a_gradient_longer_than_its_clip(
    x: list[float], w: list[float], clip: float, sparse: bool
) -> None:
    """At every size that a float can have; small probabilities too, whose squares are no floats."""
    row = np.array([x])
    for y in range(3):
        data = as_records(csr_array(row) if sparse else row, [float(y)])
        found = Softmax(3, classes=3).gradient(np.array(w), data, np.array([0]), clip)
        largest = float(np.abs(found).max())
        length = largest and largest * float(np.linalg.norm(found / largest))
        assert length <= clip * (1 + 20 * 2.0**-53)


def test_a_record_that_the_model_is_sure_of_is_clipped_by_its_true_length() -> None:
    """q is about 1e-200 here: its square is 0, and its gradient is 1e19 long."""
    data, objective = as_records([[1e219]], [0.0]), Softmax(1, intercept=False, classes=2)
    w = np.array([0.0, -460.517 / 1e219])
    assert np.abs(objective.gradient(w, data, np.array([0]))).max() > 1e18
    assert np.linalg.norm(objective.gradient(w, data, np.array([0]), 1.0)) == pytest.approx(1.0, rel=1e-12)


def test_clipped_steps_can_bring_two_models_further_apart_so_that_local_is_refused() -> None:
    """A search finds two models for which the clipped gradient of one record falls where it should rise."""
    objective, data, rng = Softmax(1, intercept=False, classes=3), as_records([[5.0]], [0.0]), np.random.default_rng(0)
    row, worst = np.array([0]), 0.0
    for _ in range(3000):
        a = rng.normal(size=3)
        b = a + 0.2 * rng.normal(size=3)
        change = objective.gradient(a, data, row, 0.5) - objective.gradient(b, data, row, 0.5)
        worst = min(worst, float(change @ (a - b)) / float((a - b) @ (a - b)))
    assert worst < -1e-3
    private = {"mechanism": "local", "sigma": 2.0, "delta": 1e-5, "clip": 0.5, "norm_bound": 2.0, "records": 100}
    config = small("data.source=iris", "objective.kind=softmax", "schedule.steps.per=round").model_dump(
        exclude_none=True
    )
    with pytest.raises(Refused, match=r"softmax has a margin for each class.*minibatch is certified for any model"):
        crescendo.simulate({**config, "privacy": private})


def test_a_run_file_names_it_for_any_number_of_classes_and_predicts_labels_as_written() -> None:
    rng = np.random.default_rng(0)
    names = np.array(["ham", "jam", "spam"])
    y = rng.integers(0, 3, 300)
    x = np.eye(3)[y] + 0.1 * rng.normal(size=(300, 3))
    config = small("objective.kind=softmax", "schedule.steps.eta0=0.5").model_dump(exclude_none=True)
    found = crescendo.simulate(config, data=crescendo.dataset(x, names[y]))
    assert found.accuracy is not None and found.accuracy > 0.95
    assert found.predict(np.eye(3)).tolist() == names.tolist()


def test_terms_hold_its_classes_and_a_model_beyond_all_bounds_is_refused() -> None:
    asked: dict[str, Any] = small("data.source=iris", "objective.kind=softmax").model_dump(
        mode="json", exclude_none=True
    )
    asked["data"]["classes"], asked["serve"] = [0, 1, 2], {"federation": "iris", "features": 4, "records": 40}
    text = crescendo.config.to_terms.terms_text(read(asked))
    made = build_terms(text)
    assert made.objective == Softmax(4, asked["objective"]["l2"], classes=3) and made.learns == ("softmax",)
    with pytest.raises(Refused, match="too large"):
        build_terms(text.replace('"features":4', '"features":50000000'))
    with pytest.raises(ConfigError, match=r"data.classes is missing; softmax regression has weights for each class"):
        asked["data"].pop("classes")
        crescendo.config.to_terms.terms_text(read(asked))


def test_mistakes_are_refused_in_one_sentence() -> None:
    with pytest.raises(UsageError, match="at least two classes"):
        Softmax(3, classes=1)
    with pytest.raises(DataError, match="class numbers 0 to 2"):
        Softmax(6, classes=3).stepper(drawn(0, 5, sparse=False))
    with pytest.raises(UsageError, match="no metric 'auc'"):
        Softmax(6, classes=3).evaluate(np.zeros(21), drawn(0, 3, sparse=False), metrics=("auc",))
    with pytest.raises(ConfigError, match=r"evaluate.auc .*logistic"):
        crescendo.simulate(small("data.source=iris", "objective.kind=softmax", "evaluate.auc=true"))
    with pytest.raises(ConfigError, match=r"did you mean \"softmax\""):
        small("objective.kind=jax:softmax")
