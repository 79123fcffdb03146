"""The LIBSVM parser against files it did not write, and against scikit-learn's."""

from __future__ import annotations

import io
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from crescendo.core.random import Purpose, stream
from crescendo.data.formats.libsvm import parse
from crescendo.errors import DataError

finite = st.floats(-1e300, 1e300)  # rounding to fewer digits must not overflow
FORMATS = [
    repr,
    lambda v: f"{v:+.17g}",
    lambda v: f"{v:.3e}",
    lambda v: f"{v:.0f}",
    lambda v: f"{v:.25E}",
    lambda v: "0.000",
]
values = st.builds(lambda v, style: style(v), st.one_of(finite, st.floats(-10, 10)), st.sampled_from(FORMATS))
labels = st.sampled_from(["1", "+1", "-1", "0", "2.0", "1e0", "-1.", ".5", "123456789012345678901"])
gaps = st.sampled_from([" ", "  ", "\t", " \t "])
ends = st.sampled_from(
    ["\n", "\r\n", " \n", "\t\r\n", " # words 3:x\n", "#\n", "\n\n", "\n  \n", "\n# a line of words\n"]
)


@st.composite
def texts(draw: Any) -> tuple[str, list[dict[int, float]], list[float]]:
    """A file in odd but lawful formatting, with the cells and labels that it says."""
    text, cells, said = draw(st.sampled_from(["", "\n", "# head\n"])), [], []
    for _ in range(draw(st.integers(1, 8))):
        row = draw(st.dictionaries(st.integers(1, 40), values, max_size=6))
        label = draw(labels)
        words = [f"{index}:{row[index]}" for index in sorted(row)]
        text += draw(gaps).join([label, *words]) + draw(ends)
        cells.append({index - 1: float(word) for index, word in row.items()})
        said.append(float(label))
    return (text if draw(st.booleans()) else text.rstrip("\n")), cells, said


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(texts())
def test_every_value_is_the_one_that_python_reads(case: tuple[str, list[dict[int, float]], list[float]]) -> None:
    text, cells, said = case
    x, y = parse(text.encode(), "generated", features=40)
    assert y.tolist() == said
    assert x.shape == (len(said), 40) and x.indices.dtype == np.int32 and x.has_sorted_indices
    for row, cell in zip(x.toarray(), cells, strict=True):
        assert {j: v for j, v in enumerate(row) if v} == {j: v for j, v in cell.items() if v}


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(texts())
def test_scikit_learn_reads_the_same(case: tuple[str, list[dict[int, float]], list[float]]) -> None:
    text = case[0].encode()
    x, y = parse(text, "generated", features=40)
    theirs, labels = load_svmlight_file(io.BytesIO(text), n_features=40, zero_based=False)
    np.testing.assert_array_equal(x.toarray(), theirs.toarray())
    np.testing.assert_array_equal(y, labels)


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(finite, st.integers(0, 30))
def test_a_number_of_any_length_is_rounded_once(value: float, digits: int) -> None:
    word = f"{value:.{digits}e}"
    x, _ = parse(f"1 1:{word}".encode(), "one number")
    assert x.toarray()[0, 0] == float(word)


NEAR_TIES = (  # 18 digits within 2**-115 of the middle between two floats: closer than double-double arithmetic can tell
    "272104041512242479e200 544208083024484958e200 792644927852378159e79 929167076892018333e187 829937656239290033e134 "
    "826510177854146491e69 612122514014014207e230 330339033883061469e136"
)


@pytest.mark.parametrize("word", NEAR_TIES.split())
def test_a_number_too_near_a_tie_is_left_to_python(word: str) -> None:
    assert parse(f"1 1:{word}".encode(), "near")[0].toarray()[0, 0] == float(word)


@pytest.mark.slow
def test_thousands_of_awkward_numbers_are_those_of_python() -> None:
    """Every exponent, 18 digits, and numbers as near to the middle between two floats as 18 digits can say."""
    rng = stream(0, Purpose.INIT)
    anything = rng.integers(0, 2**63, 5000).view(np.float64)
    words = [repr(float(v)) for v in anything[np.isfinite(anything)]]
    words += [f"{m}e{e}" for m, e in zip(rng.integers(1, 10**18, 5000), rng.integers(-330, 280, 5000), strict=True)]
    for value in np.exp(rng.normal(size=5000) * 5).tolist():
        middle = (Fraction(value) + Fraction(math.nextafter(value, math.inf))) / 2
        places = 17 - math.ceil(math.log10(value))
        words += [f"{int(middle * Fraction(10) ** places)}e{-places}", f"{int(middle * 10**6) + 1}e-6"]
    x, _ = parse("".join(f"1 1:{word}\n" for word in words).encode(), "awkward", features=1)
    np.testing.assert_array_equal(x.toarray()[:, 0], [float(word) for word in words])


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_with_a_line_number(content: bytes) -> None:
    try:
        x, y = parse(content, "noise")
    except DataError as error:
        assert "noise, line " in str(error) or "no records" in str(error)
    else:
        assert x.shape[0] == len(y) > 0 and np.isfinite(y).all() and np.isfinite(x.data).all()


def test_zeros_that_are_written_out_take_no_room() -> None:
    x, _ = parse(b"1 1:0 2:0.0 3:-0e5 4:1\n", "zeros")
    assert x.nnz == 1 and x.shape == (1, 4)


def test_the_number_of_features_is_inferred_only_when_it_is_not_given() -> None:
    assert parse(b"1 2:1\n", "two")[0].shape == (1, 2)
    assert parse(b"1 2:1\n", "two", features=123)[0].shape == (1, 123)


BAD = [
    ("1 1:1\nx 1:1\n", "line 2: 'x' is not a label"),
    ("1,2 1:1\n", "line 1: '1,2' is not a label"),
    ("1:2 2:1\n", "line 1: '1:2' is not a label"),
    ("-\n", "line 1: '-' is not a label"),
    ("\ufeff1 1:1\n", "is not a label"),
    ("1e 1:1\n", "'1e' is not a label"),
    ("1 1:1\n\n# words\n1 qid:3 1:1\n", "line 4: 'qid:3' is not index:value"),
    ("1 3\n", "'3' is not index:value"),
    ("1 1:1 2\n", "'2' is not index:value"),
    ("1 :5\n", "':5' is not index:value"),
    ("1 -1:5\n", "'-1:5' is not index:value"),
    ("1 1 :5\n", "'1' is not index:value"),
    ("1 1.5:5\n", "'1.5:5' is not index:value"),
    ("1 0:5\n", "'0:5' has index 0, but LIBSVM indices start at 1"),
    ("1 2:5 2:6\n", "'2:6' repeats"),
    ("1 2:5 1:6\n", "'1:6' repeats or goes back"),
    ("1 2:0 1:6\n", "'1:6' repeats or goes back"),
    ("1 8:5\n", "'8:5' has an index above 7, the number of features"),
    ("1 99999999999999999999999:5\n", "has an index above 7"),
    ("1 1:\n", "the value of '1:' is not a number"),
    ("1 1: 5\n", "the value of '1:' is not a number"),
    ("1 1:.\n", "the value of '1:.' is not a number"),
    ("1 1:5x\n", "the value of '1:5x' is not a number"),
    ("1 1:5e\n", "the value of '1:5e' is not a number"),
    ("1 1:5e+\n", "the value of '1:5e+' is not a number"),
    ("1 1:1_0\n", "the value of '1:1_0' is not a number"),
    ("1 1:0x10\n", "the value of '1:0x10' is not a number"),
    ("1 1:--5\n", "the value of '1:--5' is not a number"),
    ("1 1:2:3\n", "the value of '1:2:3' is not a number"),
    ("1 1:nan\n", "'1:nan' is not finite"),
    ("1 1:-Inf\n", "'1:-Inf' is not finite"),
    ("inf 1:1\n", "'inf' is not finite"),
    ("1 1:1\n1 1:1e999\n", "line 2: '1e999' is not finite"),
    ("", "has no records"),
    ("\n \n# only words\n", "has no records"),
]


@pytest.mark.parametrize(("text", "says"), BAD)
def test_a_bad_line_is_refused_with_its_number(text: str, says: str) -> None:
    with pytest.raises(DataError) as error:
        parse(text.encode(), "bad.txt", features=7)
    assert says in str(error.value) and str(error.value).startswith("bad.txt") and "\n" not in str(error.value)
