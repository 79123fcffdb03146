"""The grid of a sweep: every option is read as it is written, and every mistake is answered with a sentence."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crescendo.config.loading import toml_value
from crescendo.errors import ConfigError
from crescendo.studies.grid import MOST_POINTS, Axis, axes_of, combinations, overrides_of

# any TOML that is written on one line: numbers, truth values, texts with every letter in them, lists and tables of these
TEXTS = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=8)
PLAIN = st.one_of(st.integers(-99, 99), st.booleans(), st.floats(-1e3, 1e3), TEXTS)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


def as_toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {as_toml(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


@given(st.lists(VALUES, min_size=1, max_size=5, unique_by=as_toml))
def test_values_come_out_as_they_were_written(values: list[object]) -> None:
    axis = Axis.of("objective.options=" + ",".join(map(as_toml, values)))
    assert [toml_value(text, "") for text in axis.values] == values


@given(st.integers(-500, 500), st.integers(0, 60))
def test_a_range_has_both_its_ends(first: int, more: int) -> None:
    axis = Axis.of(f"run.seed={first}..{first + more}")
    assert [int(value) for value in axis.values] == list(range(first, first + more + 1))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_grid_has_every_combination_once(counts: list[int]) -> None:
    axes = axes_of([f"a.k{place}=0..{count - 1}" for place, count in enumerate(counts)])
    points = list(combinations(axes))
    assert len(set(points)) == len(points) == math.prod(counts)
    assert overrides_of(axes, points[0]) == [f"a.k{place}=0" for place in range(len(counts))]


@given(st.text(alphabet="ab.=,[]{}\"'0123 \\-", max_size=14))
def test_any_option_is_read_or_refused_with_a_sentence(option: str) -> None:
    try:
        axis = Axis.of(option)
    except ConfigError as error:
        assert str(error).startswith("--over ") and ";" in str(error)
    else:
        assert axis.values and all(axis.values) and len(set(axis.values)) == len(axis.values)


FORM = "write, for example, --over clients.count=2,5,10 or --over run.seed=0..4"
WRONG = [
    (["clients.count"], f"--over clients.count is not of the form a.b=values; {FORM}"),
    (["clients..count=1"], f"--over clients..count=1 is not of the form a.b=values; {FORM}"),
    (["clients.count="], f"--over clients.count= has no values; {FORM}"),
    (["clients.count=1,,2"], "--over clients.count=1,,2 has an empty value between its commas; leave that comma out"),
    (["clients.count=1,"], "--over clients.count=1, has an empty value between its commas; leave that comma out"),
    (["clients.count=1,2,1"], "--over clients.count=1,2,1 has 1 twice; name each value once"),
    (["clients.count=1..3,2"], "--over clients.count=1..3,2 has 2 twice; name each value once"),
    (["run.seed=4..0"], "--over run.seed=4..0 has the range 4..0, which runs backwards; write 0..4"),
    (["a.b=0.1..0.5"], "--over a.b=0.1..0.5 has the range 0.1..0.5; a range takes whole numbers, so list the values instead"),
    (["a.b=[1,2"], "--over a.b=[1,2 leaves a quote or bracket open; quote the whole option in the shell"),
    (["a.b=1]"], "--over a.b=1] closes a bracket that is not open; quote the whole option in the shell"),
    (["a.b={c=}"], "--over a.b={c=} has a value that is not valid TOML; quote the whole option in the shell"),
    (["a.b=1", "a.b=2"], "--over a.b is given twice; put all its values into one option"),
    ([], f"a sweep needs a key to vary; {FORM}"),
    (["a.b=0..200", "c.d=0..200"], "this grid has 40,401 points, but a sweep has at most 10,000; leave some values out"),
    (["a.b=0..10000"], "--over a.b=0..10000 has a range of 10,001 values; a sweep has at most 10,000 points"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "sentence"), WRONG, ids=[" ".join(options) for options, _ in WRONG])
def test_a_wrong_option_is_answered_with_its_sentence(options: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        axes_of(options)
    assert str(caught.value) == sentence


def test_the_largest_grid_is_taken() -> None:
    assert len(list(combinations(axes_of([f"a.b=1..{MOST_POINTS}"])))) == MOST_POINTS
