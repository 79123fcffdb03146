"""Known files: found plain or packed, and refused when cut, altered or absent."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from crescendo.data import Records, catalogue, load
from crescendo.data.formats.files import sha256
from crescendo.data.registry import SOURCES
from crescendo.data.sets.from_folder import _libsvm_source
from crescendo.data.sets.known import SETS, KnownFile, KnownSet
from crescendo.errors import DataError
from lab.benchmarks import logistic_kernel

TRAIN, TEST = b"+1 1:1 3:0.5\n-1 2:1\n+1 4:2\n-1\n", b"-1 1:1\n+1 2:1\n"
PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".gz": gzip.compress,
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A known set of four records; its .xz is known by its own hash too. The cache is new."""
    train = KnownFile("tiny", sha256(TRAIN), sha256(lzma.compress(TRAIN)))
    chosen = KnownSet("tiny", "four records", 4, 5, (-1, 1), train, KnownFile("tiny.t", sha256(TEST)))
    monkeypatch.setitem(SETS, "tiny", chosen)
    monkeypatch.setitem(SOURCES, "tiny", _libsvm_source(chosen))
    monkeypatch.setenv("CRESCENDO_CACHE", str(tmp_path / "cache"))


def put(folder: Path, suffix: str, train: bytes = TRAIN, test: bytes = TEST) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"tiny{suffix}").write_bytes(PACK[suffix](train))
    (folder / f"tiny.t{suffix}").write_bytes(PACK[suffix](test))
    return folder


def dense(part: Records) -> list[list[float]]:
    assert not isinstance(part.x, np.ndarray)
    made: list[list[float]] = part.x.toarray().tolist()
    return made


@pytest.mark.parametrize("suffix", PACK)
def test_a_known_set_is_read_plain_or_packed_first_and_from_the_cache(tmp_path: Path, suffix: str) -> None:
    folder = put(tmp_path / "data", suffix)
    for _ in range(2):
        data = load("tiny", folder=folder)
        assert data.test is not None and data.features == data.test.features == 5
        assert dense(data.train) == [[1, 0, 0.5, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 2, 0], [0] * 5]
        assert data.train.y.tolist() == [1, 0, 1, 0] and data.test.y.tolist() == [0, 1] and data.classes == (-1, 1)


@pytest.mark.parametrize("suffix", PACK)
def test_one_altered_digit_is_refused_by_checksum_even_when_the_right_file_is_in_the_cache(
    tmp_path: Path, suffix: str
) -> None:
    load("tiny", folder=put(tmp_path / "data", suffix))
    put(tmp_path / "data", suffix, train=TRAIN.replace(b"0.5", b"0.6"))
    for _ in range(2):
        with pytest.raises(
            DataError, match=r"is not the tiny that is known here: the sha256 .* replace it .* unaltered"
        ):
            load("tiny", folder=tmp_path / "data")


def test_a_cut_text_is_refused_by_checksum_though_every_line_is_good(tmp_path: Path) -> None:
    put(tmp_path / "data", "", test=TEST[:7])
    with pytest.raises(DataError, match=r"tiny\.t is not the tiny\.t that is known here"):
        load("tiny", folder=tmp_path / "data")


@pytest.mark.parametrize("suffix", [".xz", ".bz2", ".gz"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_cut_archive_is_one_sentence(tmp_path: Path, suffix: str, share: float) -> None:
    path = tmp_path / f"other{suffix}"
    packed = PACK[suffix](TRAIN * 50)
    path.write_bytes(packed[: int(share * len(packed))])
    with pytest.raises(DataError, match=r"cut short or damaged|has no records") as error:
        load(str(path))
    assert "\n" not in str(error.value) and str(path) in str(error.value)


def test_a_file_that_only_claims_to_be_packed_is_one_sentence(tmp_path: Path) -> None:
    for suffix in (".xz", ".bz2", ".gz"):
        (tmp_path / f"other{suffix}").write_bytes(TRAIN)
        with pytest.raises(DataError, match="cannot be unpacked"):
            load(str(tmp_path / f"other{suffix}"))


def test_an_absent_file_says_what_was_looked_for_where_and_how_to_give_the_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        load("tiny", folder=tmp_path)
    for words in ("tiny is not in", str(tmp_path), "tiny.xz", "tiny.bz2", "data.folder", "CRESCENDO_DATA"):
        assert words in str(error.value)
    with pytest.raises(
        DataError, match="no data folder was given; get it with crescendo data get tiny, or give the folder"
    ):
        load("tiny")
    with pytest.raises(DataError, match="which is not a folder"):
        load("tiny", folder=tmp_path / "nowhere")


def test_the_folder_may_come_from_the_environment_and_an_argument_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRESCENDO_DATA", str(put(tmp_path / "data", ".xz")))
    assert len(load("tiny").train) == 4
    assert {info.name for info in catalogue() if info.comes_from.startswith("crescendo data get") and info.here} == {
        "tiny"
    }
    with pytest.raises(DataError, match="tiny is not in"):
        load("tiny", folder=tmp_path)


def test_the_benchmark_of_steps_looks_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a9a.xz", "a9a.t.xz"):
        (tmp_path / name).write_bytes(lzma.compress(TRAIN))
    monkeypatch.setenv("CRESCENDO_DATA", str(tmp_path))
    with pytest.raises(DataError, match="a9a"):  # a file of that name, found, and of other bytes than a9a's
        logistic_kernel.parts()
    monkeypatch.setenv("CRESCENDO_DATA", str(tmp_path / "nowhere"))
    assert logistic_kernel.parts()[0] == "generated"


def test_a_known_file_given_by_path_is_read_unchecked_and_keeps_its_number_of_features(tmp_path: Path) -> None:
    folder = put(tmp_path / "data", ".bz2")
    data = load(str(folder / "tiny.bz2"))
    assert data.features == 5 and data.test is not None and len(data.test) == 2
    put(folder, ".bz2", train=TRAIN + b"+1 9:1\n")
    altered = load(str(folder / "tiny.bz2"))
    assert altered.features == 9 and altered.test is not None and altered.test.features == 9


def test_a_path_may_be_relative_to_the_data_folder(tmp_path: Path) -> None:
    put(tmp_path / "data", ".xz")
    np.testing.assert_array_equal(load("tiny.xz", folder=tmp_path / "data").train.y, [1, 0, 1, 0])


def test_the_wider_of_two_parts_says_how_many_features_there_are(tmp_path: Path) -> None:
    for train, test in ((b"1 2:1\n0 1:1\n", b"1 7:1\n"), (b"1 7:1\n0 1:1\n", b"1 2:1\n")):
        (tmp_path / "own").write_bytes(train)
        (tmp_path / "own.t").write_bytes(test)
        data = load(str(tmp_path / "own"))
        assert data.test is not None and data.features == data.test.features == 7
    assert load(str(tmp_path / "own"), features=9).features == 9
