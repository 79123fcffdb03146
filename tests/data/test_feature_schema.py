"""A schema is an adversary's input, and what it makes of a record is a function of that record and the schema alone."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crescendo.config.schema_file import DraftedSchema, in_round_numbers, schema_text, write_schema
from crescendo.data.tables.cells import Table, objects
from crescendo.data.tables.drafting import TableKeys, drafted
from crescendo.data.tables.feature_schema import MOST_FEATURES, Schema
from crescendo.data.tables.table_files import csv_table
from crescendo.errors import ConfigError, CrescendoError, DataError

HUGE = (0.0, -0.0, 5e-324, -5e-324, 2.2e-308, 1.7e308, -1.7e308, 1e-300, 1.0, 2.0**53, math.inf, -math.inf, math.nan)
NUMBERS = st.one_of(
    st.sampled_from(HUGE), st.floats(), st.integers(-(2**70), 2**70), st.booleans(), st.text(max_size=3)
)
ODD_NAMES = st.sampled_from(
    ["age", "Age", "\uff21ge", "e\u0301", "\u00e9", "a\nb", "a\u202eb", "", " ", "x" * 300, "\ud800"]
)
NAMES = st.one_of(ODD_NAMES, st.text(max_size=5))
NUMBER_COLUMNS = st.fixed_dictionaries(
    {}, optional={"low": NUMBERS, "high": NUMBERS, "missing": NUMBERS, "indicator": st.one_of(st.booleans(), NUMBERS)}
)
VALUES = st.lists(st.one_of(NAMES, NUMBERS, st.sampled_from(["1", "1.0", "nan", "yes"])), max_size=4)
CATEGORY_COLUMNS = st.fixed_dictionaries(
    {"values": st.one_of(VALUES, NUMBERS)}, optional={"other": NUMBERS, "indicator": st.booleans(), "low": NUMBERS}
)
HOSTILE = st.fixed_dictionaries(
    {"columns": st.dictionaries(NAMES, st.one_of(NUMBER_COLUMNS, CATEGORY_COLUMNS, NUMBERS), max_size=4)},
    optional={"label": st.one_of(NAMES, NUMBERS), "more": NUMBERS},
)
CELLS = st.one_of(
    st.sampled_from(
        ["", " ", "na", "?", "1", "1.0", "-3.5", "1e999", "-inf", "nan", "yes", "True", "1,5", "\x00", "9" * 400]
    ),
    st.floats().map(repr),
    st.text(max_size=5),
)


def table_of(schema: Schema, rows: list[list[str]]) -> Table:
    names = [column.name for column in schema.columns]
    columns = {name: objects(row[at % len(row)] for row in rows) for at, name in enumerate(names)}
    return Table("t", columns, len(rows))


def dense(x: Any) -> Any:
    return x if isinstance(x, np.ndarray) else x.toarray()


ROWS = st.lists(st.lists(CELLS, min_size=4, max_size=4), min_size=1, max_size=6)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(HOSTILE, ROWS)
@example({"columns": {"a": {"low": -1.7e308, "high": 1.7e308}}}, [["1.7e308"] * 4, ["-1e999"] * 4])
@example({"columns": {"a": {"low": 0.0, "high": 5e-324}}}, [["1"] * 4])
@example({"columns": {"a": {"low": 1e308, "high": 1.7e308, "missing": 1.7e308, "indicator": True}}}, [[""] * 4])
def test_whatever_a_schema_says_it_is_refused_in_a_sentence_or_its_features_lie_in_range(
    raw: dict[str, Any], rows: list[list[str]]
) -> None:
    try:
        schema = Schema.of(raw)
    except ConfigError as error:
        assert 10 < len(str(error)) < 400 and str(error).isprintable()
        return
    x, fits = schema.apply(table_of(schema, rows))
    found = dense(x)
    assert found.shape == (len(rows), schema.width) and fits.shape == (len(rows),)
    assert np.isfinite(found).all() and np.abs(found).max() <= 1
    lengths = np.sqrt((found**2).sum(axis=1) + 1)
    assert (lengths <= schema.norm_bound()).all() and math.isfinite(schema.norm_bound())
    assert Schema.of(json.loads(json.dumps(schema.plain()))) == schema and len(set(schema.features)) <= schema.width


def test_limits_of_a_schema_hold_before_it_is_unfolded() -> None:
    many = {"columns": {"a": {"values": [str(k) for k in range(MOST_FEATURES + 1)]}}}
    with pytest.raises(ConfigError, match="20001 values, and 20000 are allowed"):
        Schema.of(many)
    halves = {name: {"values": [str(k) for k in range(MOST_FEATURES * 2 // 3)]} for name in "ab"}
    with pytest.raises(ConfigError, match="features, and 20000 are allowed"):
        Schema.of({"columns": halves})
    with pytest.raises(ConfigError, match="1 to 5000 columns, not 5001"):
        Schema.of({"columns": {f"c{k}": {"low": 0, "high": 1} for k in range(5001)}})


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"a": {"low": 1, "high": 1}}, "low must be below high"),
        ({"a": {"low": 2, "high": 1}}, "low must be below high"),
        ({"a": {"low": 0, "high": math.inf}}, "must be a finite number"),
        ({"a": {"low": math.nan, "high": 1}}, "must be a finite number"),
        ({"a": {"low": 0, "high": 10**400}}, "must be a finite number"),
        ({"a": {"low": True, "high": 2}}, "must be a finite number"),
        ({"a": {"low": 0, "high": 1, "missing": 2}}, "must lie between"),
        ({"a": {"low": 0, "high": 1, "indicator": True}}, "say which number an empty cell becomes"),
        ({"a": {"low": 0, "hihg": 1}}, "has no key 'hihg'"),
        ({"a": {"low": 0}}, "has no high"),
        ({"a": 3}, "is no table"),
        ({"a": {"values": []}}, "values that are no list"),
        ({"a": {"values": ["1", "1.0"]}}, "lists the category '1' twice"),
        ({"a": {"values": ["\u00e9", "e\u0301"]}}, "twice"),
        ({"a": {"values": ["a\nb"]}}, "is not a category"),
        ({"a\u200bb": {"values": ["x"]}}, "is no name of a column"),
        ({"\uff21": {"low": 0, "high": 1}, "A": {"low": 0, "high": 1}}, "looks like the column"),
        ({"y": {"low": 0, "high": 1}}, "named twice"),
    ],
)
def test_what_a_schema_must_not_say(columns: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        Schema.of({"label": "y", "columns": columns})
    assert says in str(error.value) and str(error.value).isprintable()


SCHEMA = Schema.of(
    {
        "columns": {
            "age": {"low": 0, "high": 100, "missing": 40, "indicator": True},
            "size": {"low": -1, "high": 1},
            "city": {"values": ["Oslo", "Zürich", "1"], "other": True, "indicator": True},
        }
    }
)
WIDE = Schema.of({"columns": {**SCHEMA.plain()["columns"], "zip": {"values": [f"z{k}" for k in range(600)]}}})
LINE_CELLS = st.one_of(
    CELLS.map(str.encode), st.sampled_from([b"Oslo", b'"', b'"a', b'"1","2', b"\xff", b"\r", b"z7", b"z599"])
)
LINES = st.one_of(
    st.lists(LINE_CELLS, min_size=5, max_size=5).map(b",".join),
    st.lists(LINE_CELLS, max_size=7).map(b",".join),
    st.builds(lambda *cells: b",".join(cells), *(st.sampled_from([b"1", b"0.5", b"Oslo", b"z1"]) for _ in range(5))),
).map(lambda line: line.replace(b"\n", b""))


def rows_of(lines: list[bytes], schema: Schema) -> list[bytes]:
    content = b"\n".join([b"age,size,city,zip,other", *lines]) + b"\n"
    table = csv_table(content, "t", alone=True)
    x, fits = schema.apply(table)
    return [row.tobytes() for row in dense(x)[fits]]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(LINES, max_size=6), st.randoms(use_true_random=False), st.sampled_from([SCHEMA, WIDE]))
@example([b"1,0,Oslo,z1,a", b'2,0,"Oslo,z1,a', b"3,0,Oslo,z1,a"], Random(0), SCHEMA)
@example([b"1,0,Oslo,z1,a", b"2,0,Oslo,z1,a,7,8", b"3,0,Oslo,z1,a"], Random(0), WIDE)
def test_a_record_is_its_line_and_the_schema_whatever_lines_stand_beside_it(
    lines: list[bytes], rng: Any, schema: Schema
) -> None:
    """So lines may come, go and change places, and every record that is left is bit for bit what it is alone."""
    alone = [rows_of([line], schema) for line in lines]
    assert rows_of(lines, schema) == [row for rows in alone for row in rows]
    order = list(range(len(lines)))
    rng.shuffle(order)
    kept = order[: rng.randint(0, len(order))]
    assert rows_of([lines[at] for at in kept], schema) == [row for at in kept for row in alone[at]]


FRAME_CELLS = st.sampled_from([1, 2.5, 2**53 + 1, None, math.nan, math.inf, True, False, "1", "1.0", "Oslo", "", "x"])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(FRAME_CELLS, FRAME_CELLS, FRAME_CELLS), min_size=1, max_size=5))
@example([(1, 0.5, True), (None, 0.5, None)])
@example([(2**53 + 1, 1, 1), (None, 1, None)])
def test_a_record_of_a_data_frame_is_itself_whatever_types_pandas_makes_of_the_others(
    rows: list[tuple[Any, ...]],
) -> None:
    pandas = pytest.importorskip("pandas")
    from crescendo.data.tables.table_files import frame_table

    def features(some: list[tuple[Any, ...]]) -> list[bytes]:
        x, fits = SCHEMA.apply(frame_table(pandas.DataFrame(some, columns=["age", "size", "city"]), "t"))
        return [row.tobytes() if fit else b"" for row, fit in zip(x, fits, strict=True)]

    assert features(rows) == [features([row])[0] for row in rows]


SAMPLE_CELLS = st.one_of(CELLS, st.sampled_from(["a", "b", "c"]), st.integers(-5, 500).map(str))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(SAMPLE_CELLS, SAMPLE_CELLS, st.sampled_from(["a", "b"])), min_size=2, max_size=12))
def test_a_draft_survives_its_file_and_fits_every_record_that_it_was_drafted_from(rows: list[tuple[str, ...]]) -> None:
    table = Table("t", {f"c{at}": objects(row[at] for row in rows) for at in range(3)}, len(rows))
    try:
        draft = in_round_numbers(drafted(table, [], TableKeys()))
    except DataError:
        return
    again = Schema.of(tomllib.loads(schema_text(draft.schema, draft, "t")))
    assert again == draft.schema
    x, fits = again.apply(table)
    assert fits.all() and np.abs(dense(x)).max() <= 1
    assert "\n" not in draft.says("t")


def test_a_draft_counts_cells_of_a_numeric_column_that_are_no_numbers() -> None:
    doses = objects(["<0.3", "", *(str(at / 2) for at in range(20))])
    table = Table("t", {"dose": doses, "age": objects(str(at % 9) for at in range(22))}, 22)
    draft = in_round_numbers(drafted(table, [], TableKeys()))
    assert (
        draft.says("t") == "columns of t: scaled to [-1, 1]: age, dose (4.8 where missing or no number, as 1 cell is)"
    )


def test_a_schema_file_is_drafted_from_a_sample_and_warns_that_it_leaks(tmp_path: Path) -> None:
    sample = tmp_path / "sample.csv"
    sample.write_text(
        "id,age,sex,died\n" + "".join(f"{k},{20 + 7 * k % 40},{'fm'[k % 2]},{k % 2}\n" for k in range(40))
    )
    found = DraftedSchema.of(sample)
    assert "so this schema discloses them to its readers" in " ".join(found.text.split("\n# "))
    assert "#   id: an index" in found.text and found.classes == (0, 1)
    assert "age = {low = 20.0, high = 59.0, missing = 40.0, looked_at = true}  # what is the public range" in found.text
    public = DraftedSchema.of(sample, public=True)
    assert "age = {low = 20.0, high = 59.0, missing = 40.0}" in public.text and "looked_at" not in public.text
    write_schema(tmp_path / "s.toml", found.text)
    with pytest.raises(ConfigError, match="exists already"):
        write_schema(tmp_path / "s.toml", "")
    assert Schema.of(tomllib.loads((tmp_path / "s.toml").read_text())) == found.schema
    for bad in ("none.csv", "a.txt"):
        (tmp_path / "a.txt").write_text("1 1:1\n")
        with pytest.raises(CrescendoError):
            DraftedSchema.of(tmp_path / bad)


def test_a_table_that_lacks_a_column_is_refused_by_its_header() -> None:
    with pytest.raises(
        DataError, match="t has no column 'city' and 1 more, which the schema names; its columns are age"
    ):
        SCHEMA.apply(csv_table(b"age,b\n1,2\n", "t", alone=True))
