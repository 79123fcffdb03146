"""Tables and arrays as they come: features of any size are learned from, and answers are about features as they were given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.data.scaling import Scaling
from crescendo.errors import CrescendoError

sklearn = pytest.importorskip("sklearn.datasets")
TABLES = {"wine": sklearn.load_wine, "breast cancer": sklearn.load_breast_cancer, "iris": sklearn.load_iris}
untyped: Any = crescendo.simulate
untyped_sweep: Any = crescendo.sweep


def fitted_elsewhere(name: str, train: Any, test: Any) -> float:
    """What scikit-learn's own fit of the same kind of model scores on the same test part."""
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = LinearRegression() if name == "diabetes" else LogisticRegression(max_iter=2000)
    return float(make_pipeline(StandardScaler(), model).fit(train.x, train.y).score(test.x, test.y))


@pytest.mark.parametrize("as_frame", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_five_lines_are_near_a_plain_fit_of_the_same_model(name: str, as_frame: bool) -> None:
    x, y = TABLES[name](return_X_y=True, as_frame=as_frame)
    runs = [crescendo.simulate(x, y, seed=seed) for seed in range(3)]
    ours = np.mean([run.accuracy for run in runs])
    parts = [run.prepared.dataset for run in runs]
    assert ours > np.mean([fitted_elsewhere(name, part.train, part.test) for part in parts]) - 0.03


def test_whole_numbers_of_many_values_are_amounts_and_not_classes() -> None:
    x, y = sklearn.load_diabetes(return_X_y=True)
    runs = [crescendo.simulate(x, y.astype(int), seed=seed) for seed in range(3)]
    assert runs[0].trained == "least-squares"
    parts = [run.prepared.dataset for run in runs]
    due = np.mean([fitted_elsewhere("diabetes", part.train, part.test) for part in parts])
    assert np.mean([run.metrics[-1]["r2"] for run in runs]) > due - 0.05


def prices(seed: int) -> tuple[Any, Any]:
    """Prices of homes by columns of few deviations from 0 (rooms), of many (square feet), and of large numbers."""
    rng = np.random.default_rng(seed)
    rooms, age, floor = (rng.integers(*ends, 600) for ends in ((1, 8), (0, 90), (0, 12)))
    feet = 300 + 220 * rooms + rng.normal(0, 150, 600)
    price = 40_000 + 21_000 * rooms + 95 * feet - 900 * age + rng.normal(0, 30_000, 600)
    return np.column_stack([rooms, feet, age, floor]).astype(float), price


def shares(seed: int) -> tuple[Any, Any]:
    """Labels that a column of shares from 0.9 to 1 decides, beside truth values that are mostly true."""
    rng = np.random.default_rng(seed)
    share, true = rng.uniform(0.9, 1.0, 600), rng.random(600) < 0.97
    return np.column_stack([share, true, rng.normal(size=600)]), 100 * (share - 0.95) + rng.normal(size=600)


@pytest.mark.parametrize("table", [prices, shares])
def test_columns_a_few_deviations_from_zero_cost_a_regression_no_r2(table: Any) -> None:
    runs = [crescendo.simulate(*table(seed), seed=seed) for seed in range(3)]
    due = [fitted_elsewhere("diabetes", run.prepared.dataset.train, run.prepared.dataset.test) for run in runs]
    assert np.mean([run.metrics[-1]["r2"] for run in runs]) > np.mean(due) - 0.05


@pytest.fixture(scope="module")
def wine() -> tuple[Any, Any]:
    x, y = sklearn.load_wine(return_X_y=True)
    return x, y


def test_the_run_says_what_it_did_and_can_be_asked_not_to(wine: tuple[Any, Any]) -> None:
    assert "12 of 13 features were standardised" in crescendo.simulate(*wine, rounds=3).summary()
    plain = crescendo.simulate(*wine, rounds=3, scale=False)
    assert plain.prepared.dataset.scaling is None and "standardised" not in plain.summary()


def test_answers_are_about_features_as_they_were_given(wine: tuple[Any, Any], tmp_path: Path) -> None:
    x, _ = wine
    made = crescendo.simulate(*wine, out=tmp_path / "run")
    data = made.prepared.dataset
    assert data.scaling is not None and data.test is not None
    given = data.test.x * data.scaling.width + data.scaling.centre
    assert made.accuracy == pytest.approx(np.mean(made.predict(given) == data.test.y))
    assert (crescendo.load(tmp_path / "run").predict(x) == made.predict(x)).all()
    assert (made.sklearn_model().predict(x) == made.predict(x)).all()


def test_an_exported_regression_is_about_features_as_they_were_given(wine: tuple[Any, Any], tmp_path: Path) -> None:
    import joblib

    from crescendo.runs.export import export

    made = crescendo.simulate(*wine, out=tmp_path / "run")
    found = joblib.load(export(tmp_path / "run", "sklearn").path)
    assert (found.predict(wine[0]) == made.predict(wine[0])).all()


def test_a_run_file_beside_arrays_scales_as_the_arrays_alone_do(wine: tuple[Any, Any], tmp_path: Path) -> None:
    made = crescendo.simulate(*wine)
    (tmp_path / "run.toml").write_text(made.config.to_toml())
    assert (crescendo.simulate(tmp_path / "run.toml", data=wine).model == made.model).all()


def test_a_table_of_numbers_in_a_run_file_is_scaled(wine: tuple[Any, Any], tmp_path: Path) -> None:
    x, y = wine
    lines = [",".join([*(f"c{i}" for i in range(x.shape[1])), "kind"])]
    lines += [",".join(map(str, [*row, label])) for row, label in zip(x, y, strict=True)]
    (tmp_path / "wine.csv").write_text("\n".join(lines))
    raw = {
        "data": {"source": str(tmp_path / "wine.csv")},
        "clients": {"count": 3, "combine": "mean"},
        "objective": {"kind": "softmax"},
        "schedule": {"gradients": 3000, "rounds": 20, "steps": "auto"},
    }
    assert (crescendo.simulate(raw).accuracy or 0) > 0.9
    assert (crescendo.simulate(raw, overrides=["data.scale=false"]).accuracy or 0) < 0.8


def test_features_of_the_usual_size_stay_as_they_are() -> None:
    rng = np.random.default_rng(0)
    truths = rng.random((2, 400)) < [[0.1], [0.99]]
    x = np.column_stack([rng.normal(size=400), *truths, rng.random(400), np.zeros(400)])
    assert crescendo.simulate(x, x[:, 0] > 0, rounds=2).prepared.dataset.scaling is None


def test_a_sparse_matrix_keeps_its_zeros() -> None:
    from scipy import sparse

    rng = np.random.default_rng(0)
    x = sparse.random_array((300, 20), density=0.1, rng=rng, format="csr") * 1000.0
    x.sum_duplicates()
    made = crescendo.simulate(x, np.asarray(x.sum(axis=1)).ravel() > 1000, rounds=10)
    scaled: Any = made.prepared.dataset.train.x
    assert made.prepared.dataset.scaling is not None and scaled.nnz <= x.nnz and abs(scaled).max() < 30
    assert len(made.predict(x)) == 300


@pytest.mark.parametrize("column", [np.full(300, 1e308), np.r_[np.full(299, 1e308), -1e308], np.full(300, 5e-324)])
def test_numbers_at_the_ends_of_floats_are_not_scaled_into_nonsense(column: Any) -> None:
    from crescendo.data.records import as_records

    rng = np.random.default_rng(1)
    found = Scaling.of(as_records(np.column_stack([column, 100 * rng.normal(size=300)]), np.zeros(300)))
    assert found is not None and found.width[0] == 1.0 and found.centre[0] == 0.0 and found.width[1] > 50


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_tiny_and_huge_units_cost_nothing(unit: float) -> None:
    from crescendo.data.records import as_records

    rng = np.random.default_rng(1)
    x = rng.normal([3.0, 0.0], size=(300, 2))
    for given in (x, _sparse(x)):
        found = Scaling.of(as_records(given * [[unit, 1.0]], np.zeros(300)))
        assert found is not None and found.width == pytest.approx([x[:, 0].std() * unit, 1.0])
        made: Any = found.apply(given * [[unit, 1.0]])
        assert np.std(made.toarray() if given is not x else made, axis=0) == pytest.approx([1.0, x[:, 1].std()])


def _sparse(x: Any) -> Any:
    from scipy import sparse

    return sparse.csr_array(x)


def test_features_whose_squares_are_no_floats_are_refused_in_a_sentence() -> None:
    x = np.random.default_rng(1).normal(size=(100, 2)) * [1.0, 1e200]
    with pytest.raises(
        CrescendoError, match=r"the features go up to 2\..*e\+200.* divide the features by a power of ten"
    ):
        crescendo.simulate(x, x[:, 0] > 0, scale=False)


def test_a_private_run_is_never_scaled_by_looking() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 3)) * [1.0, 50.0, 1000.0]
    private = {"epsilon": 1.0, "records": 100, "classes": [0, 1], "clients": 2, "rounds": 50}
    assert untyped(x, x[:, 0] > 0, **private).prepared.dataset.scaling is None
    with pytest.raises(CrescendoError, match="scale=True looks at the records"):
        untyped(x, x[:, 0] > 0, scale=True, **private)


def test_a_frame_of_nullable_numbers_is_as_good_as_an_array() -> None:
    pandas = pytest.importorskip("pandas")
    x = np.random.default_rng(0).normal(size=(200, 2))
    nullable = crescendo.simulate(pandas.DataFrame(x, columns=["a", "b"]).convert_dtypes(), x[:, 0] > 0, rounds=5)
    assert (nullable.model == crescendo.simulate(x, x[:, 0] > 0, rounds=5).model).all()


def test_a_fresh_result_scores_records_as_the_loaded_run_does(wine: tuple[Any, Any], tmp_path: Path) -> None:
    made = crescendo.simulate(*wine, rounds=10, out=tmp_path / "run")
    assert made.score(*wine) == crescendo.load(tmp_path / "run").score(*wine)
    with pytest.raises(CrescendoError, match="none of these records has a label"):
        made.score(wine[0])


def test_the_summary_cautions_about_a_large_delta() -> None:
    x = np.random.default_rng(2).normal(size=(300, 3))
    private = {"epsilon": 1.0, "records": 100, "classes": [0, 1], "clients": 2, "rounds": 50}
    assert "Caution: " in untyped(x, x[:, 0] > 0, delta=0.02, **private).summary()
    assert "Caution: " not in untyped(x, x[:, 0] > 0, delta=1e-5, **private).summary()


def test_one_key_cannot_be_swept_and_set(wine: tuple[Any, Any]) -> None:
    for over, override in (
        ("clients.count=2,3", "clients.count=5"),
        ("schedule.steps={kind = 'constant', eta = 0.1}", "schedule.steps.eta=1"),
    ):
        with pytest.raises(CrescendoError, match="leave one of the two out"):
            untyped_sweep(*wine, [over], overrides=[override])
    found = untyped_sweep(*wine, ["clients.count=2,100000"])
    assert "1 failed, such as clients.count=100000: " in found.summary()


def test_a_seed_stated_twice_is_refused(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from crescendo.cli.main import app

    found = CliRunner().invoke(app, ["run", str(tmp_path / "run.toml"), "--seed", "1", "--set", "run.seed=2"])
    assert found.exit_code and "the seed is stated twice" in found.output
