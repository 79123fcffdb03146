"""Least squares: labels are numbers, steps and sums those of the textbook, private with a range of labels in the terms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score, root_mean_squared_error
from typer.testing import CliRunner

import crescendo
from crescendo.cli.main import app
from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.core.arrays import Floats
from crescendo.data import load
from crescendo.data.records import Records, as_records
from crescendo.errors import ConfigError, CrescendoError, DataError, Refused, UsageError
from crescendo.federation.agreement import build_terms, canonical
from crescendo.federation.own_records import RecordSource
from crescendo.objectives import LeastSquares, LoopStepper, Optimum, Slots

RANGE = (-2.0, 3.0)


def drawn(seed: int, sparse: bool, rows: int = 40) -> Records:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 5)) * (rng.random((rows, 5)) < 0.6)
    y = x @ [1.0, -2.0, 0.5, 0.0, 1.0] + 1.5 + rng.normal(size=rows)
    return as_records(csr_array(x) if sparse else x, y)


def textbook(w: Floats, x: Floats, y: float, clip: float | None, intercept: bool) -> Floats:
    x = np.append(x, 1.0) if intercept else x
    gradient = (float(w @ x) - y) * x
    norm = float(np.linalg.norm(gradient))
    return gradient if clip is None or norm <= clip else gradient * clip / norm


kinds = st.tuples(st.integers(0, 500), st.booleans(), st.booleans(), st.sampled_from([None, RANGE]))


@settings(deadline=None, max_examples=40)
@given(kinds, st.sampled_from([None, 0.3]))
def test_a_sum_of_gradients_is_the_sum_of_each_with_labels_in_their_range(kind: Any, clip: float | None) -> None:
    seed, sparse, intercept, bounds = kind
    data, objective = drawn(seed, sparse), LeastSquares(5, intercept=intercept, label_range=bounds)
    rng = np.random.default_rng(seed)
    w, rows = rng.normal(size=objective.size), rng.integers(0, 40, 17)
    x = data.x if isinstance(data.x, np.ndarray) else data.x.toarray()
    y = data.y if bounds is None else np.clip(data.y, *bounds)
    due = sum((textbook(w, x[r], y[r], clip, intercept) for r in rows), np.zeros(objective.size))
    np.testing.assert_allclose(objective.gradient(w, data, rows, clip), due, rtol=1e-12, atol=1e-12)
    fine = objective.gradient(w, data, rows, clip or 9.0, unit=2.0**-30)
    assert np.array_equal(fine, objective.gradient(w, data, rows[::-1], clip or 9.0, unit=2.0**-30))


@settings(deadline=None, max_examples=40)
@given(kinds, st.booleans(), st.sampled_from([None, 0.4]), st.sampled_from([0.0, 0.1]))
def test_compiled_steps_are_those_of_the_loop_over_gradients(
    kind: Any, masked: bool, clip: float | None, l2: float
) -> None:
    seed, sparse, intercept, bounds = kind
    data, objective = drawn(seed, sparse), LeastSquares(5, l2, intercept, label_range=bounds)
    rng = np.random.default_rng(seed)
    slots = Slots(rng.integers(0, 40, 30), np.full(30, 0.05), block=(1, 4) if masked else None, clip=clip)
    models = []
    for stepper in (objective.stepper(data), LoopStepper(objective, data)):
        stepper.load(np.ones(objective.size))
        stepper.advance(slots, 0, 30)
        models.append(stepper.read())
    np.testing.assert_allclose(models[0], models[1], atol=1e-11)


@pytest.mark.parametrize("sparse", [True, False])
def test_the_gradient_is_the_slope_of_the_loss(sparse: bool) -> None:
    data, objective = drawn(3, sparse), LeastSquares(5, 0.1, label_range=RANGE)
    rng = np.random.default_rng(1)
    w, weights = rng.normal(size=6), rng.random(40)
    gradient = objective.mean_gradient(w, data, weights)
    for j, along in enumerate(np.eye(6)):
        up, down = (objective.evaluate(w + s * 1e-5 * along, data, weights)["loss"] for s in (1, -1))
        assert gradient[j] == pytest.approx((up - down) / 2e-5, abs=1e-8)


@pytest.mark.parametrize("sparse", [True, False])
def test_scores_and_the_minimiser_are_those_of_scikit_learn(sparse: bool) -> None:
    data, l2 = drawn(2, sparse, rows=300), 0.05
    objective = LeastSquares(5, l2)
    x = data.x if isinstance(data.x, np.ndarray) else data.x.toarray()
    whole = np.hstack([x, np.ones((300, 1))])
    ridge = Ridge(alpha=l2 * 300, fit_intercept=False, tol=1e-12).fit(whole, data.y)  # the intercept is regularised too
    best = Optimum.of(objective, data)
    np.testing.assert_allclose(best.model, ridge.coef_, atol=1e-9)
    models = np.stack([best.model, np.ones(6)])
    together = objective.evaluate(models, data)
    for w, rmse, r2 in zip(models, together["rmse"], together["r2"], strict=True):
        assert rmse == pytest.approx(root_mean_squared_error(data.y, whole @ w), rel=1e-12)
        assert r2 == pytest.approx(r2_score(data.y, whole @ w), rel=1e-12)
    assert objective.evaluate(models[1], data)["loss"] == together["loss"][1]


def test_no_two_models_come_further_apart_by_clipped_steps_up_to_the_limit_and_some_do_beyond() -> None:
    """What `local` rests on: L_eff = R^2, searched for two models and a record that break it."""
    rng, margin = np.random.default_rng(0), LeastSquares(3).traits.margin
    assert margin is not None
    worst = {0.999: 0.0, 1.05: 0.0}
    for _ in range(1500):
        radius, clip = float(rng.uniform(1.1, 5)), float(10 ** rng.uniform(-2, 1))
        x = rng.normal(size=(1, 3))
        x *= np.sqrt(radius**2 - 1) / np.linalg.norm(x) * rng.choice([1.0, 0.5])
        data = as_records(x, [float(rng.normal())])
        a = rng.normal(size=4)
        along = np.append(x[0], 1.0) if rng.random() < 0.7 else rng.normal(size=4)
        b = a + along * float(10 ** rng.uniform(-3, 0.5))
        if rng.random() < 0.5:  # both where nothing is clipped
            shift = (float(np.append(x[0], 1.0) @ a) - data.y[0]) / (float(x[0] @ x[0]) + 1)
            a, b = (w - shift * np.append(x[0], 1.0) for w in (a, b))
        goal, row = LeastSquares(3), np.array([0])
        for share in worst:
            step = share * 2 / margin(radius, clip)
            moved = [w - step * goal.gradient(w, data, row, clip) for w in (a, b)]
            worst[share] = max(worst[share], float(np.linalg.norm(moved[0] - moved[1]) / np.linalg.norm(a - b)))
    assert worst[0.999] <= 1 + 1e-9 < 1.05 <= worst[1.05]


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.floats(-1e219, 1e219), min_size=3, max_size=3),
    st.lists(st.floats(-1e150, 1e150) | st.floats(-9, 9), min_size=4, max_size=4),
    st.floats(-1e60, 1e60),
    st.sampled_from([1e-60, 1e-3, 1.0, 1e60]),
)
def test_no_record_has_a_gradient_longer_than_its_clip(x: list[float], w: list[float], y: float, clip: float) -> None:
    data = as_records([x], [y])
    found = LeastSquares(3).gradient(np.array(w), data, np.array([0]), clip)
    largest = float(np.abs(found).max())
    assert (largest and largest * float(np.linalg.norm(found / largest))) <= clip * (1 + 12 * 2.0**-53)


# -- run files, tables and terms ---------------------------------------------------------------------------------------


def run_file(folder: Path, **more: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2)) / 2
    y = 3 * x[:, 0] - x[:, 1] + 1 + 0.1 * rng.normal(size=400)
    lines = ["a,b,price", *(f"{a},{b},{c}" for (a, b), c in zip(x, y, strict=True))]
    (folder / "houses.csv").write_text("\n".join(lines) + "\n")
    return {
        "data": {"source": str(folder / "houses.csv")},
        "clients": {"count": 2, "combine": "mean"},
        "objective": {"kind": "least-squares"},
        "schedule": {
            "rounds": 12,
            "sizes": {"kind": "constant", "size": 300},
            "steps": {"kind": "constant", "eta": 0.04},
        },
        **more,
    }


PRIVATE = {"sigma": 1.0, "delta": 1e-5, "clip": 1.0, "records": 200}


def test_a_csv_of_numbers_is_learned_and_predicted(tmp_path: Path) -> None:
    found = crescendo.simulate(run_file(tmp_path))
    last = found.metrics[-1]
    assert found.accuracy is None and last["rmse"] < 0.2 and last["r2"] > 0.97
    np.testing.assert_allclose(found.predict([[0.0, 0.0], [1.0, 0.0]]), [1, 4], atol=0.2)
    assert "rmse" in found.summary() and "accuracy" not in found.summary() and "rmse=" in repr(found)
    found.plot()


def test_the_terminal_and_the_page_tell_the_error_and_no_accuracy(tmp_path: Path) -> None:
    import tomli_w

    asked = run_file(tmp_path, privacy={"mechanism": "minibatch", **PRIVATE}, evaluate={"without_noise": True})
    asked["objective"]["label_range"] = [-5, 7]
    asked["schedule"]["sizes"]["size"] = 60
    (tmp_path / "run.toml").write_text(tomli_w.dumps(asked))
    told = CliRunner().invoke(app, ["run", str(tmp_path / "run.toml"), "--out", str(tmp_path / "out")])
    assert told.exit_code == 0 and "rmse" in told.output and "accuracy" not in told.output, told.output
    assert "R²" in (tmp_path / "out" / "report.html").read_text()
    as_json = CliRunner().invoke(app, ["run", str(tmp_path / "run.toml"), "--json"])
    assert json.loads(as_json.stdout)["accuracy"] is None


def test_labels_that_are_no_classes_name_least_squares(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r'not classes; to predict numbers write objective.kind = "least-squares"'):
        crescendo.simulate({**run_file(tmp_path), "objective": {"kind": "logistic"}})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"clients": {"count": 2, "split": "label"}}, "by their classes, and these labels are numbers"),
        (
            {"evaluate": {"auc": True}},
            r"evaluate.auc is for two classes and logistic regression, not for least squares",
        ),
        ({"objective": {"kind": "least-squares", "label_range": [3, 1]}}, "lowest < highest"),
        ({"objective": {"kind": "logistic", "label_range": [0, 1]}}, "label_range is for least-squares"),
        ({"privacy": {"mechanism": "minibatch", **PRIVATE}}, "label_range is missing"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(CrescendoError, match=says):
        crescendo.simulate({**run_file(tmp_path), **change})


def test_text_among_the_labels_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a,b\n1,2.5\n2,many\n3,4\n")
    with pytest.raises(DataError, match="'many', which is no finite number"):
        load(str(tmp_path / "mine.csv"), classes=())
    kept = load(str(tmp_path / "mine.csv"), classes=(), private=True, test=0)
    assert kept.train.y.tolist() == [2.5, 4.0] and kept.left_out == 1 and kept.classes == ()


def served(folder: Path, mechanism: str, **more: Any) -> dict[str, Any]:
    asked = run_file(folder, privacy={"mechanism": mechanism, **PRIVATE, **more})
    asked["objective"]["label_range"] = list(RANGE)
    asked["schedule"]["sizes"]["size"] = 60
    return {**asked, "serve": {"federation": "houses", "features": 2}}


@pytest.mark.parametrize("mechanism", ["minibatch", "batch-clip", "local"])
def test_it_is_private_by_every_mechanism_and_the_range_is_in_the_terms(tmp_path: Path, mechanism: str) -> None:
    asked = served(tmp_path, mechanism, **({"norm_bound": 2.0} if mechanism == "local" else {}))
    found = crescendo.simulate(asked)
    assert found.privacy is not None and found.privacy["epsilon"] > 0
    text = terms_text(read(asked))
    made = build_terms(text)
    assert made.objective == LeastSquares(2, label_range=RANGE) and made.classes == () and made.certificate is not None
    raw = json.loads(text)
    assert raw["objective"]["label_range"] == list(RANGE) and raw["objective"]["classes"] is None
    part = tmp_path / "part.csv"  # a client's own
    part.write_text("\n".join((tmp_path / "houses.csv").read_text().splitlines()[:251]) + "\n")
    own = RecordSource(str(part)).read(made, 0)
    assert len(own.records) == 250 and own.records.y.max() > RANGE[1]  # the loss brings labels into their range
    del raw["objective"]["label_range"]
    with pytest.raises(Refused, match="private and state no label_range"):
        build_terms(canonical(raw))
    for wrong in ([3, 1], [0, 1e300], [0, 1, 2], "all"):
        with pytest.raises((Refused, UsageError)):
            build_terms(canonical({**raw, "objective": {**raw["objective"], "label_range": wrong}}))


def test_local_is_refused_beyond_two_over_the_square_of_the_norm_bound(tmp_path: Path) -> None:
    asked = served(tmp_path, "local", norm_bound=2.0)
    asked["schedule"]["steps"]["eta"] = 0.51
    with pytest.raises(Refused, match=r"2 / L_eff = 0.5"):
        crescendo.simulate(asked)


def test_terms_of_other_objectives_are_the_text_they_were(tmp_path: Path) -> None:
    asked = {**served(tmp_path, "minibatch"), "objective": {"kind": "logistic"}}
    asked["data"] = {**asked["data"], "classes": [0, 1]}
    raw = json.loads(terms_text(read(asked)))
    assert sorted(raw["objective"]) == ["classes", "dtype", "features", "intercept", "kind", "l2"]
    with pytest.raises(Refused, match="label_range"):
        build_terms(canonical({**raw, "objective": {**raw["objective"], "label_range": [0, 1]}}))


def test_mistakes_of_a_program_are_refused() -> None:
    with pytest.raises(UsageError, match="no metric 'accuracy'"):
        LeastSquares(5).evaluate(np.zeros(6), drawn(0, False), metrics=("accuracy",))
    with pytest.raises(DataError, match="finite numbers"):
        LeastSquares(1).stepper(as_records([[1.0]], [np.nan]))
    with pytest.raises(ConfigError, match=r"the labels of iris are classes|predicts numbers"):
        crescendo.simulate(
            {
                "data": {"source": "synthetic:rows=200,features=3"},
                "clients": {"count": 2},
                "objective": {"kind": "least-squares"},
                "schedule": {
                    "rounds": 2,
                    "sizes": {"kind": "constant", "size": 9},
                    "steps": {"kind": "constant", "eta": 0.1},
                },
            }
        )


def test_no_epsilon_without_a_range_of_labels() -> None:
    """The square of a record of length 1e-163 is 0, so that a label of 1e300 gave a gradient of 1e137 under a clip of 1."""
    tiny, model = Records(np.array([[1e-163, 0.0]]), np.array([1e300])), np.zeros(2)
    goal = LeastSquares(2, intercept=False)
    assert np.abs(goal.gradient(model, tiny, np.array([0]), clip=1.0)).max() > 1e100
    ranged = LeastSquares(2, intercept=False, label_range=(-1e60, 1e60))
    assert np.linalg.norm(ranged.gradient(model, tiny, np.array([0]), clip=1.0)) <= 1e-60
    x = np.random.default_rng(0).normal(size=(200, 2))
    public: dict[str, Any] = {"epsilon": 2.0, "records": 80, "clients": 2, "gradients": 200}
    for mechanism in ("minibatch", "local"):
        with pytest.raises(Refused, match="has no label_range"):
            crescendo.simulate(x, x[:, 0], objective=goal, mechanism=mechanism, norm_bound=3.0, **public)
    assert crescendo.simulate(x, x[:, 0], objective=ranged, norm_bound=3.0, **public).privacy is not None
