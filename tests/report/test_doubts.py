"""A run does not look like a success that is not one: scores stand beside a constant answer's and a pooled fit's."""

import json
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
