"""Arrays as newcomers give them: each mistake has a sentence that names it, and what only looks odd a caution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import crescendo
from crescendo.data import load
from crescendo.data.tables.drafting import TableKeys
from crescendo.errors import DataError

X = np.random.default_rng(0).normal(size=(120, 3))
Y = (X[:, 0] > 0).astype(float)
PRIVATE: dict[str, Any] = {"epsilon": 1.0, "records": 50, "classes": [0, 1], "clients": 2, "gradients": 200}
simulate: Any = crescendo.simulate


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (X[:0], Y[:0], "has no records"),
        (X, np.where(np.arange(120) < 5, np.nan, Y), "5 of the 120 labels of arrays are not finite numbers"),
        (X, np.where(np.arange(120) < 2, np.inf, Y), "2 of the 120 labels"),
        (X, np.array([None, 1] * 60, dtype=object), "neither all numbers nor all texts"),
        (X, np.array([np.nan, "a"] * 60, dtype=object), "neither all numbers nor all texts"),
        (X, np.arange(120).astype("datetime64[s]"), "neither all numbers nor all texts"),
        (3, 4, "x is a single number"),
        (object(), Y, "x is no array"),
    ],
)
def test_a_mistake_has_a_sentence_that_names_it(x: Any, y: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        simulate(x, y, clients=2)


def test_a_path_is_no_record_to_predict() -> None:
    result = crescendo.simulate(X, Y, clients=2, gradients=100)
    with pytest.raises(DataError, match="x is a text; rows of numbers are needed"):
        result.predict("new.csv")


def test_many_whole_numbers_are_classes_with_a_caution() -> None:
    """Ages, say, of which a softmax regression tells 60 apart and learns nothing."""
    ages = np.arange(120) % 60
    assert any("60 different whole numbers" in note for note in crescendo.dataset(X, ages).notes)
    for quiet in (ages % 10, np.array([f"town {age}" for age in ages])):
        assert not any("whole numbers" in note for note in crescendo.dataset(X, quiet).notes)
    assert not crescendo.dataset(np.tile(X, (10, 1)), np.tile(ages, 10)).notes


@pytest.mark.parametrize("as_given", [np.asarray, csr_array])
def test_a_private_run_cautions_of_arrays_that_are_not_scaled(as_given: Any) -> None:
    assert "x is not scaled: it goes up to" in simulate(as_given(X * 1e5), Y, **PRIVATE).summary()
    assert "not scaled" not in simulate(as_given(X), Y, **PRIVATE).summary()
    least = np.full((120, 2), np.iinfo(np.int64).min)  # whose absolute value is no int64
    assert "not scaled" in simulate(as_given(least), Y, **PRIVATE).summary()


def test_one_label_in_two_spellings_is_cautioned_about() -> None:
    labels = np.array(["yes", "no", "YES", "no "])[np.arange(120) % 4]
    assert any("differ only in how they are written" in note for note in crescendo.dataset(X, labels).notes)
    assert not crescendo.dataset(X, np.array(["yes", "no"])[np.arange(120) % 2]).notes


def test_a_table_without_a_line_of_names_is_cautioned_about(tmp_path: Path) -> None:
    rows = [f"{a:.3f},{b:.3f},{'late' if a > 0 else 'early'}" for a, b, _ in X]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(rows) + "\n")
    assert any("look like a record" in note for note in load(str(path), keys=TableKeys()).notes)
    path.write_text("\n".join(["a,b,y", *rows]) + "\n")
    assert not any("look like a record" in note for note in load(str(path), keys=TableKeys()).notes)


def test_a_private_regression_takes_a_data_frame_by_its_label_range_and_schema() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    frame = pandas.DataFrame({"a": X[:, 0], "town": np.array(["x", "y"])[np.arange(120) % 2], "spend": 100 * X[:, 0]})
    schema = {"columns": {"a": {"low": -3, "high": 3}, "town": {"values": ["x", "y"]}}}
    keys: dict[str, Any] = {"epsilon": 2.0, "records": 50, "clients": 2, "gradients": 200, "norm_bound": 2.0}
    for y in ("spend", frame.spend):
        found = simulate(frame, y, schema=schema, label_range=(-300, 300), **keys)
        assert found.config.objective.kind == "least-squares" and found.privacy is not None
    named = simulate(frame, "spend", schema=schema, objective="least-squares", label_range=(-300, 300), **keys)
    assert named.loss == found.loss
