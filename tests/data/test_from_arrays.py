"""Data sets out of what a program has in memory, and what is no data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from crescendo.data.from_arrays import dataset
from crescendo.data.labels import NUMBERS
from crescendo.errors import CrescendoError, DataError


def test_data_frames_and_sparse_matrices_are_the_same_data() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    x, y = np.random.default_rng(0).random((12, 3)), np.arange(12) % 3
    plain = dataset(x, y, test=0.0).train
    frame = dataset(pandas.DataFrame(x), pandas.Series(y), test=0.0).train
    sparse = dataset(csr_array(x), y, test=0.0).train
    assert np.array_equal(frame.x, plain.x) and np.array_equal(frame.y, plain.y)
    filled: Any = sparse.x
    assert sparse.sparse and np.array_equal(filled.toarray(), plain.x) and np.array_equal(sparse.y, plain.y)


def test_data_come_from_arrays_tensors_datasets_and_loaders() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
    x, y = torch.rand(20, 2, 3), torch.arange(20) % 4
    pairs = torch.utils.data.TensorDataset(x, y)
    given = [(x.numpy(), y.numpy()), (x, y), (pairs,), (torch.utils.data.DataLoader(pairs, batch_size=6),)]
    made = [dataset(*each, test=0.0).train for each in given]
    assert all(np.array_equal(one.x, made[0].x) and np.array_equal(one.y, made[0].y) for one in made)
    assert all(one.shape == (2, 3) for one in made)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((np.zeros((3, 2)), [1, 2]), "x has 3 records and its labels have shape"),
        ((np.zeros(3), [1, 2, 1]), r"x has shape \(3,\)"),
        (("file.csv", [1, 2]), "name it as data.source"),
        ((np.array([["a", "b"], ["c", "d"]]), [1, 2]), "rows of numbers are needed"),
        (([[1.0], [2.0]],), "pass x and y"),
        ((3.0, [1]), "x is a single number"),
        (([[1], [1, 2]], [0, 1]), "of several lengths"),
    ],
)
def test_what_are_no_data_is_said_in_a_sentence(given: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        dataset(*given)


@pytest.mark.parametrize("test", ["a", 1.5, -0.1, (1, 2, 3), (np.zeros((2, 3, 2)), [0, 1])])
def test_a_test_part_that_is_none_is_said_in_a_sentence(test: Any) -> None:
    with pytest.raises(DataError, match="test"):
        dataset(np.zeros((4, 2, 3)), [0, 1, 0, 1], test=test)


@pytest.mark.parametrize("kind", [bool, int, float, np.float32])
@pytest.mark.parametrize(
    "odd", ["maybe", None, 1j, 10**5000, [1], float("nan")], ids=["text", "none", "complex", "huge", "list", "nan"]
)
def test_a_label_of_a_private_run_is_read_by_itself(kind: Any, odd: Any) -> None:
    """numpy made texts of all labels beside one text: True became "True", and every other record was left out."""
    x, labels = np.arange(12.0).reshape(6, 2), [kind(one) for one in (1, 0, 1, 1, 0, 0)]
    frame = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra").DataFrame(
        x, columns=["a", "b"]
    )
    schema = {"columns": {"a": {"low": 0, "high": 12}, "b": {"low": 0, "high": 12}}}
    for classes in ([0, 1], NUMBERS):
        said: dict[str, Any] = {"classes": classes, "private": True, "test": 0.0}
        whole, found = dataset(x, labels, **said), dataset(x, [*labels[:5], odd], **said)
        np.testing.assert_array_equal(found.train.y, whole.train.y[:5])
        assert len(whole.train) == 6
    tables = [dataset(frame, y, **{**said, "classes": [0, 1]}, schema=schema) for y in (labels, [*labels[:5], odd])]
    np.testing.assert_array_equal(tables[1].train.y, tables[0].train.y[:5])
    assert len(tables[0].train) == 6


def test_a_schema_is_named_by_its_file(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    frame = pandas.DataFrame({"age": [20.0, 70.0] * 10, "died": ["no", "yes"] * 10})
    stated = {"label": "died", "columns": {"age": {"low": 0, "high": 100}}}
    path = tmp_path / "schema.toml"
    path.write_text('label = "died"\n[columns]\nage = {low = 0, high = 100}\n')
    expected = dataset(frame, schema=stated, test=0)
    for schema in (path, str(path)):
        assert np.array_equal(dataset(frame, schema=schema, test=0).train.x, expected.train.x)
    any_schema: Any = 7
    for schema, says in (
        (tmp_path / "no.toml", "there is no schema file"),
        (any_schema, "schema is the path of a schema"),
    ):
        with pytest.raises(CrescendoError, match=says):
            dataset(frame, schema=schema)
    path.write_text("[columns]\nage = 7\n")
    with pytest.raises(CrescendoError, match="age"):
        dataset(frame, schema=path)
