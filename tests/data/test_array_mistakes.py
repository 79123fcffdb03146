"""Arrays as newcomers give them: each mistake has a sentence that names it, and what only looks odd a caution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from scipy.sparse import csr_array, dok_array, dok_matrix

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


MASKED = np.ma.masked_array(np.where(X > 1, 1e6, X), mask=X > 1)


def test_what_is_under_a_mask_is_not_learned_from() -> None:
    with pytest.raises(DataError, match="numbers that are not finite are in"):
        simulate(MASKED, Y, clients=2)
    with pytest.raises(DataError, match="7 of the 120 labels of arrays are not finite"):
        simulate(X, np.ma.masked_array(Y.astype(int), mask=np.arange(120) < 7), clients=2)
    with pytest.raises(DataError, match="neither all numbers nor all texts"):
        simulate(X, np.ma.masked_array(np.where(Y > 0, "a", "b"), mask=np.arange(120) < 7), clients=2)
    private = crescendo.dataset(MASKED, Y, private=True, classes=[0, 1], test=0)
    assert private.left_out == np.count_nonzero((X > 1).any(axis=1))
    whole = crescendo.dataset(np.ma.masked_array(X, mask=False), Y)
    assert np.array_equal(whole.train.x, crescendo.dataset(X, Y).train.x)


@pytest.mark.parametrize("form", [dok_matrix, dok_array])
def test_a_sparse_matrix_by_keys_is_no_dictionary(form: Any) -> None:
    assert str(simulate(form(X), Y, clients=2)) == str(simulate(csr_array(X), Y, clients=2))


@pytest.mark.slow
def test_tensors_of_every_layout_are_read() -> None:
    torch = pytest.importorskip("torch")
    numbers = torch.tensor(np.round(X, 1), dtype=torch.float32)
    halved = crescendo.dataset(numbers.bfloat16(), Y).train.x
    assert np.allclose(halved, crescendo.dataset(numbers, Y).train.x, rtol=0.01)
    for given in (numbers.to_sparse(), numbers.clone().requires_grad_()):
        assert np.array_equal(crescendo.dataset(given, Y).train.x, crescendo.dataset(numbers, Y).train.x)
    with pytest.raises(DataError, match="this Tensor makes none"):
        crescendo.dataset(numbers.to(torch.float8_e4m3fn), Y)


def test_labels_in_a_table_of_their_own_are_refused_with_the_call_that_mends_it() -> None:
    frame = pandas.DataFrame({"a": X[:, 0], "b": np.where(Y > 0, "x", "z")})
    for x, y, says in (
        (frame, iter(Y), "a list, an array or a series, not a"),
        (frame.to_records(), "b", r"pandas.DataFrame\(x\)"),
        (X, Y[:, None], r"y.ravel\(\)"),
        (X, np.eye(2)[Y.astype(int)], r"y.argmax\(axis=1\)"),
        (frame, pandas.DataFrame({"y": Y}), r"y.ravel\(\)"),
        ({"a": X[:, 0], "y": Y}, "y", r"pandas.DataFrame\(x\)"),
        ([{"a": 1.0, "y": 0}], "y", r"pandas.DataFrame\(x\)"),
    ):
        with pytest.raises(DataError, match=says):
            simulate(x, y, clients=2)


def test_labels_in_another_order_than_the_records_are_refused() -> None:
    frame, labels = pandas.DataFrame(X, columns=list("abc")), pandas.Series(Y)
    with pytest.raises(DataError, match=r"another order.*y.loc\[x.index\]"):
        simulate(frame, labels[::-1], clients=2)
    shuffled = frame[::-1]
    assert str(simulate(shuffled, labels[::-1], clients=2)) == str(simulate(shuffled, Y[::-1], clients=2))
    assert simulate(shuffled, labels.set_axis(labels.index + 7), clients=2)  # an index of its own says nothing


def test_a_label_may_be_named_by_a_number_or_by_several_levels() -> None:
    frame = pandas.DataFrame({0: X[:, 0], 1: np.where(X[:, 1] > 0, "x", "z"), 2: np.where(Y > 0, "late", "on time")})
    numbered = simulate(frame, 2, clients=2, test=frame[:40])
    assert (
        numbered.predict(frame[:3]).tolist()
        == simulate(frame, frame[2], clients=2, test=(frame[:40], frame[2][:40])).predict(frame[:3]).tolist()
    )
    with pytest.raises(DataError, match="y names the column '7', which x does not have"):
        simulate(frame, 7, clients=2)
    levels = frame.set_axis(pandas.MultiIndex.from_tuples([("in", "a"), ("in", "b"), ("out", "y")]), axis=1)
    result = simulate(levels, ("out", "y"), clients=2)
    assert result.predict(levels[:3]).tolist() == result.predict(levels.drop(columns=[("out", "y")])[:3]).tolist()


def test_a_column_without_a_name_is_called_by_its_place() -> None:
    frame = pandas.DataFrame({"a": X[:, 0], "": np.where(X[:, 1] > 0, "x", "z"), "y": Y})
    (says,) = (note for note in crescendo.dataset(frame, "y").notes if note.startswith("columns of"))
    assert "column 2 (2)" in says


def test_a_column_that_became_the_index_is_said() -> None:
    frame = pandas.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "x", "z"), "town": np.arange(120) % 3, "y": Y})
    notes = crescendo.dataset(frame.set_index("town"), "y").notes
    assert "the index of x, 'town', is no feature; x.reset_index() makes it a column" in notes
    assert not any("index of x" in note for note in crescendo.dataset(frame, "y").notes)
    numbers = frame.drop(columns="b").set_index("town")
    assert any("'town', is no feature" in note for note in crescendo.dataset(numbers, "y").notes)
