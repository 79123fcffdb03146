"""Classes and features that are stated or public, never counted: what private runs are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crescendo
from crescendo.data import catalogue, load, split
from crescendo.data.labels import Classes
from crescendo.data.partition import client_names
from crescendo.data.records import Raw
from crescendo.data.registry import SOURCES, register, stated_classes
from crescendo.data.sets.named_source import NamedSource
from crescendo.errors import ConfigError, CrescendoError, UsageError

SCHEDULE = {"rounds": 2, "sizes": {"kind": "constant", "size": 5}, "steps": {"kind": "constant", "eta": 0.1}}


@pytest.mark.parametrize("name", ["breast_cancer", "digits", "iris", "wine", "synthetic:rows=200,features=7"])
def test_what_is_said_of_a_source_is_what_its_records_say(name: str) -> None:
    data = load(name, test=0)
    assert stated_classes(name, None) == data.classes
    assert name not in SOURCES or SOURCES[name].features == data.features


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a9a", "w8a", "phishing", "ijcnn1", "covtype.binary", "mnist"])
def test_what_is_said_of_a_public_file_is_what_its_records_say(shared_data: Path, name: str) -> None:
    found, data = SOURCES[name], load(name, folder=shared_data)
    assert (found.classes, found.features) == (data.classes, data.features)
    private = load(name, folder=shared_data, private=True)
    assert private.classes == data.classes and private.left_out == 0
    np.testing.assert_array_equal(private.train.y, data.train.y)


def test_every_name_has_its_classes() -> None:
    assert all(stated_classes(info.name, None) for info in catalogue())


def test_a_source_from_outside_the_package_is_loaded_listed_and_used_like_ours() -> None:
    x = np.linspace(-1, 1, 40).reshape(20, 2)
    read = NamedSource(
        "twenty", "points on a line", 20, 2, (0, 1), "a test", lambda folder, test: Raw(x, (x[:, 0] > 0).astype(int))
    )
    register(read)
    try:
        data = load("twenty", test=0.25, private=True)
        assert (data.classes, data.features, len(data.train), data.test is not None) == ((0, 1), 2, 15, True)
        assert "twenty" in [info.name for info in catalogue()]
        raw = {"data": {"source": "twenty"}, "clients": {"count": 2}, "schedule": SCHEDULE}
        assert crescendo.simulate(raw).rounds == 2
        with pytest.raises(UsageError, match="called 'twenty' already"):
            register(read)
    finally:
        del SOURCES["twenty"]


@pytest.mark.parametrize(
    ("classes", "says"),
    [
        ([1], "at least two"),
        ([1, 1.0], "at least two"),
        ([0, 1, "1"], "one class twice"),
        ([0, True], "not a valid label"),
        ([0, float("nan")], "not a valid label"),
        ([0, float("inf")], "not a valid label"),
        ([0, 2**60], "not a valid label"),
        ([0, 10**400], "not a valid label"),
        ([0, None], "not a valid label"),
        ([0, [1]], "not a valid label"),
        (["a", ""], "not a valid label"),
        (["a", " b"], "not a valid label"),
        (["a", "b\n"], "not a valid label"),
        (["a", "\udc80"], "not a valid label"),
        (list(range(1001)), "1000 are allowed"),
    ],
)
def test_what_are_no_classes_is_refused_in_one_sentence(classes: list[Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        Classes.stated(classes)
    assert str(error.value).isprintable()


LABELS = st.one_of(st.integers(-9, 9), st.floats(-9, 9), st.text("ab1.0", min_size=1, max_size=3))


@given(
    st.lists(LABELS, min_size=2, max_size=6), st.lists(st.text("ab10. -n", max_size=4), max_size=6), st.text(max_size=3)
)
def test_the_class_of_a_label_depends_on_no_other_label(classes: list[Any], cells: list[str], extra: str) -> None:
    try:
        known = Classes.stated(classes)
    except CrescendoError:
        return
    assert known == Classes.stated(classes[::-1]) == Classes.stated(known)
    alone = [int(known.places(np.array([cell], dtype=object))[0]) for cell in cells]
    assert known.places(np.array([*cells, extra], dtype=object))[: len(cells)].tolist() == alone


@given(st.lists(st.floats(), max_size=6), st.lists(st.integers(-3, 3), min_size=2, max_size=4, unique=True))
def test_numbers_are_read_as_the_texts_that_say_them(values: list[float], classes: list[int]) -> None:
    known = Classes.stated([*classes, "other"])
    texts = np.array([repr(value) for value in values], dtype=object)
    assert known.places(np.array(values, dtype=np.float64)).tolist() == known.places(texts).tolist()


def test_numbers_come_before_texts_and_rise() -> None:
    assert Classes.stated(["b", 10, "a", 9.5]) == (9.5, 10, "a", "b")
    assert Classes((9.5, 10, "a", "b")).encode(np.array(["10", "b", "9.50"], dtype=object), "mixed").tolist() == [
        1,
        3,
        0,
    ]


def test_a_file_needs_its_classes_stated_and_a_name_does_not() -> None:
    assert stated_classes("flights", None) == (0, 1)
    with pytest.raises(ConfigError, match=r"data\.classes is missing; in a private run"):
        stated_classes("mine.csv", None)
    with pytest.raises(ConfigError, match="asks for 7, but the labels of iris are 0, 1, 2"):
        stated_classes("iris", (0, 7))


def test_a_private_libsvm_file_needs_its_features_stated(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 1:1\n1 2:1\n1 9:1\n")
    with pytest.raises(ConfigError, match=r"data\.features is missing; .* in a private run"):
        load(str(tmp_path / "a.txt"), classes=(0, 1), private=True)
    found = load(str(tmp_path / "a.txt"), test=0, classes=(0, 1), features=4, private=True)
    assert found.train.x.shape == (2, 4) and found.left_out == 1


def test_one_strange_owner_does_not_put_the_other_clients_into_another_order(tmp_path: Path) -> None:
    lines = ["a,b,owner,late", "1,2,10,0", "3,4,9,1", "5,6,9.5,1", "7,8,,0"]
    for more, names in (([], ("9", "9.5", "10")), (["0,0,zoe,1"], ("9", "9.5", "10", "zoe"))):
        (tmp_path / "a.csv").write_text("\n".join(lines + more))
        data = load(str(tmp_path / "a.csv"), test=0, classes=(0, 1), column="owner", private=True)
        assert client_names(data, len(names), "column:owner") == names and data.left_out == 1
        assert [part.tolist() for part in split(data, None, "column:owner", seed=0)][:3] == [[1], [2], [0]]


def test_the_records_of_a_private_client_are_not_kept_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRESCENDO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.txt").write_text("0 1:1\n1 2:1\n")
    load(str(tmp_path / "a.txt"), test=0, classes=(0, 1), features=2, private=True)
    assert not (tmp_path / "cache").exists()
    load(str(tmp_path / "a.txt"), test=0, classes=(0, 1), features=2)
    assert (tmp_path / "cache").exists()
