from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from crescendo.data.records import Records
from crescendo.errors import ConfigError, UsageError
from crescendo.objectives import Logistic, Optimum
from tests.objectives.bare import Bare
from tests.objectives.textbook import drawn, extended, record_gradient


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_the_optimum_is_scikit_learns_with_a_gradient_of_nothing(sparse: bool, intercept: bool, weighted: bool) -> None:
    data, objective = drawn(1, rows=300, sparse=sparse), Logistic(6, l2=0.02, intercept=intercept)
    weights = np.random.default_rng(2).random(300) if weighted else np.ones(300)
    best = Optimum.of(objective, data, weights if weighted else None)
    assert best.gradient_norm <= 1e-14
    peer = LogisticRegression(C=1 / (0.02 * weights.sum()), fit_intercept=False, tol=1e-10, solver="newton-cholesky")
    peer.fit(extended(data, intercept), data.y, sample_weight=weights)
    np.testing.assert_allclose(best.model, peer.coef_[0], atol=1e-7)
    assert best.loss == objective.evaluate(best.model, data, weights)["loss"]


@pytest.mark.parametrize("weighted", [False, True])
def test_g_is_twice_the_mean_squared_gradient_of_a_record(weighted: bool) -> None:
    data, objective = drawn(3, rows=50), Logistic(6, l2=0.02)
    weights = np.random.default_rng(2).random(50) if weighted else np.ones(50)
    best, x = Optimum.of(objective, data, weights), extended(data, True)
    each = [record_gradient(best.model, x[r], data.y[r], None) + 0.02 * best.model for r in range(50)]
    expected = 2 * np.average([float(g @ g) for g in each], weights=weights)
    assert expected == pytest.approx(best.G, rel=1e-12)


def test_large_models_are_solved_without_a_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    data, objective = drawn(4, rows=300), Logistic(6, l2=0.01)
    exact = Optimum.of(objective, data)
    monkeypatch.setattr(importlib.import_module("crescendo.objectives.optimum"), "LARGEST_HESSIAN", 1)
    iterative = Optimum.of(objective, data)
    assert iterative.gradient_norm <= 1e-12
    np.testing.assert_allclose(iterative.model, exact.model, atol=1e-10)


def test_without_l2_a_singular_hessian_is_no_obstacle() -> None:
    data = drawn(5, rows=300, sparse=False)
    doubled = Records(np.hstack([data.x, data.x]), data.y)  # every column twice: minimisers form a subspace
    best = Optimum.of(Logistic(12), doubled)
    assert best.gradient_norm <= 1e-12
    np.testing.assert_allclose(best.model[:6], best.model[6:12], atol=1e-9)


@pytest.mark.parametrize("rows", [[[1.0], [2.0], [-1.0]], [[1.0], [0.0], [0.0]]])
def test_records_that_a_plane_separates_have_no_minimum_without_l2(rows: list[list[float]]) -> None:
    data = Records(np.array(rows), np.array([1.0, 1.0, -1.0]))
    with pytest.raises(UsageError, match=r"no minimum was found.*set objective.l2 above 0"):
        Optimum.of(Logistic(1), data)
    assert Optimum.of(Logistic(1, l2=1e-3), data).gradient_norm < 1e-10


def test_only_logistic_regression_has_a_known_optimum() -> None:
    with pytest.raises(ConfigError, match=r"evaluate\.optimum needs"):
        Optimum.of(Bare(), drawn())


def test_the_optimum_is_found_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    module = importlib.import_module("crescendo.objectives.optimum")
    data, objective = drawn(6), Logistic(6, l2=0.1)
    first = Optimum.of(objective, data, folder=tmp_path / "new" / "folder")
    monkeypatch.setattr(module, "_minimiser", None)
    again = Optimum.of(objective, data, folder=tmp_path / "new" / "folder")
    np.testing.assert_array_equal(again.model, first.model)
    assert (again.loss, again.G, again.gradient_norm) == (first.loss, first.G, first.gradient_norm)
    assert [path.suffix for path in (tmp_path / "new" / "folder").iterdir()] == [".npz"]


def test_other_records_weights_or_settings_are_kept_apart(tmp_path: Path) -> None:
    data, objective = drawn(6), Logistic(6, l2=0.1)
    for settings in (objective, Logistic(6, l2=0.2), Logistic(6, l2=0.1, intercept=False)):
        Optimum.of(settings, data, folder=tmp_path)
    Optimum.of(objective, drawn(6, sparse=False), folder=tmp_path)
    Optimum.of(objective, drawn(7), folder=tmp_path)
    Optimum.of(objective, data, np.arange(60), folder=tmp_path)
    Optimum.of(objective, data, np.arange(60) * 2.0, folder=tmp_path)  # the same weights but for a factor
    assert len(list(tmp_path.iterdir())) == 6


def spoil_nothing_left(path: Path) -> None:
    path.write_bytes(b"")


def spoil_cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:300])


def spoil_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(b"\x93NUMPY") + 140] ^= 0x40
    path.write_bytes(content)


def spoil_wrong_model(path: Path) -> None:
    np.savez(path, model=np.ones(7), numbers=np.array([0.1, 0.1, 0.0]))


def spoil_wrong_numbers(path: Path) -> None:
    with np.load(path) as file:
        model, numbers = file["model"], file["numbers"]
    np.savez(path, model=model, numbers=numbers * [1.0, 1.5, 1.0])


def spoil_wrong_shape(path: Path) -> None:
    np.savez(path, model=np.ones(3), numbers=np.zeros(3))


def spoil_pickled(path: Path) -> None:
    np.savez(path, model=np.array([{}], dtype=object), numbers=np.zeros(3))


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_nothing_left,
        spoil_cut_off,
        spoil_a_bit,
        spoil_wrong_model,
        spoil_wrong_numbers,
        spoil_wrong_shape,
        spoil_pickled,
    ],
    ids=lambda f: f.__name__,
)
def test_a_spoilt_file_is_made_again(tmp_path: Path, spoil: object) -> None:
    data, objective = drawn(6), Logistic(6, l2=0.1)
    first = Optimum.of(objective, data, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    spoil(path)  # type: ignore[operator]
    again = Optimum.of(objective, data, folder=tmp_path)
    np.testing.assert_array_equal(again.model, first.model)
    assert path.read_bytes() == whole
