"""One record more or less, whatever it holds, changes nothing about the others, nor whether the client goes on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crescendo.data import load
from crescendo.data.sound import Sound
from crescendo.federation.own_records import RecordSource
from tests.runs.private_terms import FEATURES, agreed

HEADER = b"a,b,c,late\n"
Rows = list[tuple[bytes, float]]  # of each record its features and its label, bit for bit


def rows_of(own: Sound) -> Rows:
    x = own.records.x
    dense = x if isinstance(x, np.ndarray) else x.toarray()
    assert dense.dtype == np.float64 and dense.shape[1] == FEATURES
    return [(row.tobytes(), label) for row, label in zip(dense, own.records.y.tolist(), strict=True)]


def read_as(name: str, write: Callable[[Path], None], folder: Path) -> Sound:
    path = folder / name
    write(path)
    return RecordSource(str(path)).read(agreed(), 0)


def check_neighbours(less: Sound, more: Sound, at: int) -> None:
    """``more`` was made with one record more, behind the first ``at``: it is there or left out, and the others are as before."""
    before, after = rows_of(less), rows_of(more)
    assert after == before or any(after[:k] + after[k + 1 :] == before for k in range(at + 1))
    used = len(after) - len(before)
    assert more.left_out - less.left_out in ({0, 1} if used == 0 else {0})


PLAIN = b"""0 1 1.5 -2 2 1e308 5e-324 nan NaN inf -inf 1e999 1e-999 0x10 1_0 abc maybe " "" "1" "1 1" "a""b" ' ; # --1 +1 LONG"""
ODD = [b"", b" ", b"\t", b"\x0b", b"\x00", b"\x1a", b"\xff", b"\xc3", b"\xef\xbb\xbf"]
FOREIGN = [
    text.encode() for text in ("é", "\u2028", "\u0661")
]  # a letter, a line break of some editors, an Arabic digit
WORDS = st.sampled_from([*PLAIN.split(), *ODD, *FOREIGN]).map(lambda word: b"9" * 140_000 if word == b"LONG" else word)
SOUND = st.sampled_from([b"0", b"1", b"-1.25", b"3e2", b"0.1", b"1e-5", b"7"])
LABELS = st.sampled_from([b"0", b"1", b"1.0", b" 1 "])
ANY_LINE = st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b""))  # each ends a line
CSV_LINES = st.one_of(
    st.builds(lambda cells, label: b",".join([*cells, label]), st.lists(SOUND, min_size=3, max_size=3), LABELS),
    st.builds(lambda cells: b",".join(cells), st.lists(st.one_of(WORDS, SOUND), min_size=1, max_size=6)),
    st.builds(lambda cells: b",".join(cells), st.lists(st.one_of(WORDS, SOUND), min_size=4, max_size=4)),
    ANY_LINE,
)
PAIRS = st.builds(lambda index, word: b"%d:%s" % (index, word), st.integers(0, 5), st.one_of(SOUND, WORDS))
BAD_SVM = b"""1 2:1 2:1
1 3:1 1:1
1 4:1
1 99999999999999999999:1
1 0:1
1 1:1e999 2:3
1e999 1:1
0 1:272104041512242479e200 2:x
1 qid:3 1:1
1 1:1 # 2:2
# 1 1:1
1 1:2:3
1 1:1,2:1"""
SVM_LINES = st.one_of(
    st.builds(
        lambda label, cells: b" ".join([label, *(b"%d:%s" % (i + 1, c) for i, c in enumerate(cells))]),
        LABELS,
        st.lists(SOUND, max_size=3),
    ),
    st.builds(
        lambda label, cells: b" ".join([label, *cells]),
        st.one_of(LABELS, WORDS),
        st.lists(st.one_of(PAIRS, WORDS), max_size=4),
    ),
    st.sampled_from(BAD_SVM.splitlines()),
    ANY_LINE,
)
many = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def lines_of(lines: list[bytes]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(b"".join(line + b"\n" for line in lines))

    return write


@pytest.mark.slow
@many
@given(st.lists(CSV_LINES, max_size=5), CSV_LINES, st.integers(0, 5))
@example([b"1,2,3,0", b"4,5,6,1"], b'1,"2,3,1', 0)  # a quotation mark that is never closed
@example([b"1,2,3,0", b"4,5,6,1"], b"1,2,3,maybe", 1)  # a third label
@example([b"1,2,3,0", b"4,5,6,1"], b"1,UA,3,0", 2)
def test_a_line_of_a_csv_is_read_alone(tmp_path: Path, lines: list[bytes], extra: bytes, at: int) -> None:
    at = min(at, len(lines))
    less = read_as("mine.csv", lines_of([HEADER[:-1], *lines]), tmp_path)
    more = read_as("mine.csv", lines_of([HEADER[:-1], *lines[:at], extra, *lines[at:]]), tmp_path)
    check_neighbours(less, more, at)


@pytest.mark.slow
@many
@given(st.lists(SVM_LINES, max_size=5), SVM_LINES, st.integers(0, 5))
@example([b"1 1:1", b"0 3:2"], b"2 7:1", 1)
@example(
    [b"1 1:1", b"0 3:2"], b"0 1:272104041512242479e200 2:x", 0
)  # a number that Python reads later, of a line that is left out
def test_a_line_of_libsvm_text_is_read_alone(tmp_path: Path, lines: list[bytes], extra: bytes, at: int) -> None:
    at = min(at, len(lines))
    less = read_as("mine.txt", lines_of(lines), tmp_path)
    more = read_as("mine.txt", lines_of([*lines[:at], extra, *lines[at:]]), tmp_path)
    check_neighbours(less, more, at)


NUMBERS = st.one_of(
    st.integers(-(2**40), 2**40), st.floats(), st.floats(width=32), st.sampled_from([0, 1, np.nan, 1e308])
)
CELLS = st.lists(NUMBERS, min_size=FEATURES, max_size=FEATURES)
NPZ_LABELS = st.one_of(st.sampled_from([0, 1, 0.0, 1.0]), st.sampled_from([2, 0.5, np.nan, np.inf, "1", "x", "x" * 99]))
NPZ_ROWS = st.tuples(CELLS, NPZ_LABELS)


def arrays_of(rows: list[tuple[list[Any], Any]]) -> Callable[[Path], None]:
    """As numpy makes arrays of them: one text makes texts of all labels, one float makes floats of all whole numbers."""
    x = np.array([cells for cells, _ in rows]).reshape(len(rows), FEATURES)
    return lambda path: np.savez(path, x=x, y=np.array([label for _, label in rows]))


@pytest.mark.slow
@many
@given(st.lists(NPZ_ROWS, min_size=1, max_size=5), NPZ_ROWS, st.integers(0, 5))
@example([([1, 2, 3], 0), ([4, 5, 6], 1)], ([1, np.nan, 3], 0), 1)
@example([([1, 2, 3], 0), ([4, 5, 6], 1)], ([1, 2, 3], "x"), 1)
def test_a_row_of_an_npz_is_read_alone(
    tmp_path: Path, rows: list[tuple[list[Any], Any]], extra: tuple[list[Any], Any], at: int
) -> None:
    at = min(at, len(rows))
    less = read_as("mine.npz", arrays_of(rows), tmp_path)
    more = read_as("mine.npz", arrays_of([*rows[:at], extra, *rows[at:]]), tmp_path)
    check_neighbours(less, more, at)


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.float16, np.float32, np.longdouble])
def test_one_wider_number_in_an_npz_changes_none_of_the_others(tmp_path: Path, kind: type) -> None:
    """A float64 among the records, and numpy saves them all as float64."""

    def rows(of: type) -> Rows:
        write = functools.partial(np.savez, x=np.array([[1, 7, 3], [5, 0, 6]], dtype=of), y=np.array([0, 1], dtype=of))
        return rows_of(read_as("mine.npz", lambda path: write(path), tmp_path))

    assert rows(kind) == rows(np.float64)


@pytest.mark.parametrize(
    ("name", "content", "features"),
    [
        ("mine.csv", b"a,b,c,late\n1,2,3,0\n4,5,6,1\n", None),
        ("mine.txt", b"0 1:1 2:2 3:3\n1 1:4 2:5 3:6\n", 3),
    ],
)
def test_files_without_a_fault_are_read_as_without_privacy(
    tmp_path: Path, name: str, content: bytes, features: int | None
) -> None:
    (tmp_path / name).write_bytes(content)
    plain, private = (
        load(str(tmp_path / name), test=0, classes=(0, 1), features=features, private=private)
        for private in (False, True)
    )
    assert rows_of(Sound(plain.train)) == rows_of(Sound(private.train)) and len(plain.train) == 2
    assert plain.train.y.tolist() == [0, 1] and plain.classes == private.classes == (0, 1)
