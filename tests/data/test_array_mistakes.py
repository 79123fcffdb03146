"""Arrays as newcomers give them: each mistake has a sentence that names it, and what only looks odd a caution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import crescendo
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
        assert not crescendo.dataset(X, quiet).notes
    assert not crescendo.dataset(np.tile(X, (10, 1)), np.tile(ages, 10)).notes


@pytest.mark.parametrize("as_given", [np.asarray, csr_array])
def test_a_private_run_cautions_of_arrays_that_are_not_scaled(as_given: Any) -> None:
    assert "x is not scaled: it goes up to" in simulate(as_given(X * 1e5), Y, **PRIVATE).summary()
    assert "not scaled" not in simulate(as_given(X), Y, **PRIVATE).summary()
