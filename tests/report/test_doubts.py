"""A run does not look like a success that is not one: scores stand beside a constant answer's and a pooled fit's."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import crescendo
from crescendo.cli.common import DIVERGED
from crescendo.cli.main import app

sklearn = pytest.importorskip("sklearn.datasets")
untyped: Any = crescendo.simulate


def wine() -> tuple[Any, Any]:
    x, y = sklearn.load_wine(return_X_y=True)
    return x, y


def test_every_output_has_the_commonest_class_and_the_pooled_fit() -> None:
    result = crescendo.simulate(*wine())
    data = result.prepared.dataset
    assert data.test is not None
    commonest = np.bincount(data.test.y.astype(int)).max() / len(data.test)
    said = result.as_json()["references"]
    assert said["commonest class"]["accuracy"] == pytest.approx(commonest) and said["pooled"]["accuracy"] > 0.9
    for shown in (result.summary(), result._repr_html_()):
        assert "commonest class" in shown and "pooled fit" in shown
    assert f"commonest class={commonest:.4f}" in repr(result)
    assert result.trouble is None


def test_regression_stands_beside_the_mean_label() -> None:
    result = crescendo.simulate(*sklearn.load_diabetes(return_X_y=True))
    assert result.as_json()["references"]["mean label"]["r2"] == 0.0 and "mean label" in result.summary()


def test_unscaled_features_are_named_as_the_cause() -> None:
    result = crescendo.simulate(*wine(), scale=False, seed=0)
    assert result.doubt is not None and "scale=True" in result.doubt.says
    assert f"Note: {result.doubt.says}." in result.summary()


def test_a_run_below_the_commonest_class_fails_with_exit_code_4(tmp_path: Path) -> None:
    x, y = sklearn.load_wine(return_X_y=True)
    lines = [",".join([*(f"c{i}" for i in range(x.shape[1])), "kind"])]
    lines += [",".join(map(str, [*row, label])) for row, label in zip(x, y, strict=True)]
    (tmp_path / "wine.csv").write_text("\n".join(lines))
    (tmp_path / "run.toml").write_text(
        '[data]\nsource = "wine.csv"\nscale = false\n[clients]\ncount = 3\ncombine = "mean"\n[objective]\nkind = "softmax"\n'
        '[schedule]\ngradients = 700\nrounds = 10\nsteps = {kind = "constant", eta = 1e-7}\n'
    )
    command = ["run", str(tmp_path / "run.toml"), "--out", str(tmp_path / "out"), "--json", "--seed"]
    for seed in range(5):
        found = CliRunner().invoke(app, [*command, str(seed), "--out", str(tmp_path / f"out{seed}")])
        said = json.loads(found.stdout)
        below = said["accuracy"] < said["references"]["commonest class"]["accuracy"]
        assert found.exit_code == (DIVERGED if below else 0)
        if below:
            assert "below the" in said["doubt"] and "of the commonest class" in said["doubt"]
            return
    pytest.fail("no seed of five was below the commonest class")


def test_a_private_run_may_stay_below_the_pooled_fit() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 5))
    result = untyped(x, x[:, 0] > 0, epsilon=0.3, records=600, classes=[0, 1], clients=3)
    assert result.accuracy > 0.55 and (result.doubt is None or result.doubt.fails)


@pytest.mark.parametrize(
    ("keys", "cause"),
    [
        ({"steps": {"kind": "constant", "eta": 1e-3}}, "the step sizes could be .* times as large"),
        ({"gradients": 700, "rounds": 20}, "passes over the records; try more gradients"),
    ],
)
def test_a_run_surely_below_the_pooled_fit_says_so_and_does_not_fail(keys: dict[str, Any], cause: str) -> None:
    result = untyped(*sklearn.load_digits(return_X_y=True), **keys)
    assert result.accuracy > 0.6  # far above the commonest class, and more than half of the way to the fit
    assert re.search(rf"is below the 0.9\d+ of a pooled fit: .*{cause}", result.doubt.says) and not result.doubt.fails


def test_the_five_line_call_on_digits_is_not_doubted() -> None:
    assert all(untyped(*sklearn.load_digits(return_X_y=True), seed=seed).trouble is None for seed in range(3))


def test_labels_far_from_zero_are_named_as_the_cause() -> None:
    x = np.random.default_rng(0).normal(size=(600, 2))
    result = untyped(x, 300 + x[:, 0], gradients=1500, rounds=10)
    assert "the labels lie far from 0" in result.doubt.says and "subtract a number near their mean" in result.doubt.says


def test_scores_on_very_few_records_are_doubted() -> None:
    x, y = wine()
    few, more = untyped(x, y, test=(x[:4], y[:4])), untyped(x, y, test=(x[::30], y[::30]))
    assert few.accuracy > 0.7 and "rest on 4 test records alone" in few.doubt.says and not few.doubt.fails
    assert more.doubt is None


class Motionless:
    """A model whose gradient is zero, or what a subclass says."""

    accuracy = 1.0

    def initial(self, rng: np.random.Generator) -> Any:
        return np.zeros(3)

    def gradient(self, w: Any, data: Any, rows: Any) -> Any:
        return np.zeros(3)

    def evaluate(self, w: Any, data: Any) -> dict[str, float]:
        return {"loss": 1.0, "accuracy": self.accuracy}


def few_records() -> tuple[Any, Any]:
    return np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2


def test_a_model_that_does_not_move_did_not_learn() -> None:
    result = untyped(*few_records(), objective=Motionless())
    assert result.doubt.fails and "the model did not move" in result.doubt.says and "did not learn" in repr(result)


def test_an_accuracy_in_percent_is_refused() -> None:
    model = Motionless()
    model.accuracy = 97.0
    with pytest.raises(crescendo.ConfigError, match="accuracy = 97; it is a share from 0 to 1"):
        untyped(*few_records(), objective=model)


def test_a_gradient_that_writes_to_the_model_is_refused() -> None:
    class Writer(Motionless):
        def gradient(self, w: Any, data: Any, rows: Any) -> Any:
            w += 1.0
            return np.zeros(3)

    with pytest.raises(crescendo.CrescendoError, match="read-only"):
        untyped(*few_records(), objective=Writer())


def test_a_label_range_that_cuts_the_labels_is_the_cause() -> None:
    result = untyped(*sklearn.load_diabetes(return_X_y=True), label_range=(0, 1))
    assert result.doubt.fails and "state a range that contains them" in result.doubt.says


def test_a_private_run_of_unlike_columns_is_told_of_their_size_and_of_no_number() -> None:
    x, y = sklearn.load_breast_cancer(return_X_y=True)
    result = untyped(x, y, clients=3, epsilon=8.0, records=140, classes=[0, 1], rounds=20)
    assert "the features differ in size, which no step size suits" in result.diverged
    assert "scale=True" not in result.diverged  # which a private run refuses
