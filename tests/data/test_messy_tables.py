"""Tables as people have them: text, missing cells, dates, an index, other separators. Without privacy they may be looked at."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.data import load
from crescendo.data.records import Dataset
from crescendo.data.tables.doctor.checked_table import CheckedTable
from crescendo.data.tables.drafting import TableKeys
from crescendo.data.tables.feature_schema import NumberColumn
from crescendo.errors import ConfigError, DataError

MESSY = """,patient_id,age,income,sex,city,visited,note,died
0,481,41,20000,f,Oslo,2024-01-31,slept well,yes
1,112,,31000,m,Bergen,2024-02-11,"no,
complaint",no
2,937,63,55000,,Oslo,2024-03-05,came late,yes
3,205,29,n/a,f,Oslo,2023-11-05,left,no
4,300,50,1e7,m,Bergen,2023-12-24,came early,yes
"""
KEYS = TableKeys()


def write(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return str(path)


def looked_at(path: str, **more: Any) -> Dataset:
    return load(path, test=0, keys=KEYS, **more)


def test_a_messy_table_becomes_features_and_says_how_in_one_line(tmp_path: Path) -> None:
    data = looked_at(write(tmp_path / "a.csv", MESSY))
    assert data.schema is not None and data.looked and data.classes == ("no", "yes")
    assert data.schema.features == (
        *("age", "age is missing", "city = Bergen", "city = Oslo"),
        *("income", "income is missing", "sex = f", "sex = m", "sex is missing"),
    )
    assert isinstance(data.train.x, np.ndarray) and np.abs(data.train.x).max() <= 1
    (says,) = data.notes
    for words in (
        "a.csv: scaled to [-1, 1]: age (45.5 where missing), income (",
        "categories: city (2), sex (2 and missing)",
        "column 1 (an index), patient_id (an index), visited (dates)",
    ):
        assert words in says
    assert "\n" not in says


def test_semicolons_and_decimal_commas_say_the_same_as_commas_and_points(tmp_path: Path) -> None:
    rows = [
        ("size", "city", "late"),
        ("1.5", "Oslo", "0"),
        ("-2.25", "Rome", "1"),
        ("", "Oslo", "1"),
        ("3e1", "Rome", "0"),
    ]
    english = "\n".join(",".join(row) for row in rows)
    german = "\r\n".join(";".join(cell.replace(".", ",") for cell in row) for row in rows)
    tabbed = "\n".join('"' + '"\t"'.join(row) + '"' for row in rows)
    one, two, three = (
        looked_at(write(tmp_path / name, text))
        for name, text in (("a.csv", english), ("b.csv", german), ("c.tsv", tabbed))
    )
    assert np.array_equal(one.train.x, two.train.x) and np.array_equal(one.train.x, three.train.x)
    assert one.train.y.tolist() == two.train.y.tolist() == three.train.y.tolist()


def test_numbers_with_semicolons_and_decimal_commas_are_used_as_written(tmp_path: Path) -> None:
    data = load(write(tmp_path / "a.csv", "a;b;y\n1,5;2;0\n-0,5;3;1\n"), test=0)
    assert data.train.x.tolist() == [[1.5, 2], [-0.5, 3]] and data.schema is None and data.classes == (0, 1)


def test_a_table_of_numbers_alone_is_used_as_written_unless_it_is_to_be_scaled(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "a,b,y\n1,2000,0\n3,2010,1\n2,2020,1\n")
    assert looked_at(path).train.x.tolist() == [[1, 2000], [3, 2010], [2, 2020]] and looked_at(path).schema is None
    scaled = load(path, test=0, keys=TableKeys(scale=True))
    np.testing.assert_allclose(scaled.train.x, [[-1, -1], [1, 0], [0, 1]], atol=0.05)


def test_keys_say_what_is_dropped_what_is_a_category_and_what_missing_becomes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "zip,age,height,y\n10,30,1,0\n20,,2,1\n10,40,3,1\n20,50,4,0\n")
    keys = TableKeys(drop=("height",), categories=("zip",), missing=40.0, indicator=False)
    data = load(path, test=0, keys=keys)
    assert data.schema is not None and data.schema.features == ("age", "zip = 10", "zip = 20")
    assert data.train.x[1].tolist() == [*data.train.x[2][:1].tolist(), 0, 1]
    for bad in (TableKeys(drop=("hight",)), TableKeys(categories=("zap",))):
        with pytest.raises(ConfigError, match=r"data\.\w+ names '(hight|zap)', and the columns of .* are zip, age"):
            load(path, test=0, keys=bad)


def test_records_without_a_label_are_left_out_and_said(tmp_path: Path) -> None:
    data = looked_at(write(tmp_path / "a.csv", "city,y\nOslo,0\nRome,\nRome,1\nOslo,1\n"))
    assert len(data.train) == 3 and "1 records without a label in 'y' are left out" in data.notes[1]


def test_an_outlier_does_not_flatten_its_column(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{value:.3f},{k % 2},{'x' if k % 3 else 'z'}" for k, value in enumerate(rng.normal(size=500))]
    data = looked_at(write(tmp_path / "a.csv", "\n".join(["v,y,c", *lines, "1e9,0,z"])), label="y")
    assert np.std(np.asarray(data.train.x)[:-1, 2]) > 0.1 and np.asarray(data.train.x)[-1, 2] == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b,y\n1,x,0\n1,x\n", "line 3: 2 cells where the header has 3"),
        ('a,b,y\n1,x,0\n1,"2,1\n', "line 3: unexpected end of data"),
        ("when,y\n2024-01-01,0\n2024-01-02,1\n", "no column left for a feature: when is dates"),
        ("a,b,y\nx,1,\ny,2,\n", "the column 'y' is empty"),
    ],
)
def test_what_cannot_be_a_table_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DataError) as error:
        looked_at(write(tmp_path / "a.csv", text))
    assert says in str(error.value) and "\n" not in str(error.value)


def test_without_leave_to_look_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 'age' is empty"):
        load(write(tmp_path / "a.csv", "age,y\n1,0\n,1\n"), test=0)


def frame() -> Any:
    pandas = pytest.importorskip("pandas")
    columns = {"age": [41, None, 63, 29], "sex": ["f", "m", None, "f"], "member": [True, False, True, True]}
    when = pandas.to_datetime(["2024-01-31", "2024-02-01", None, "2024-02-03"])
    return pandas.DataFrame({**columns, "when": when, "died": ["yes", "no", "yes", "no"]})


def test_a_data_frame_and_a_file_with_the_same_cells_give_the_same_features(tmp_path: Path) -> None:
    table = frame()
    table.to_csv(tmp_path / "a.csv", index=False)
    of_file, of_frame = looked_at(str(tmp_path / "a.csv")), crescendo.dataset(table, "died", test=0)
    assert of_file.schema == of_frame.schema and np.array_equal(of_file.train.x, of_frame.train.x)
    apart = crescendo.dataset(table.drop(columns="died"), table["died"].tolist(), test=0)
    assert np.array_equal(apart.train.x, of_frame.train.x) and apart.classes == ("no", "yes")


def test_a_parquet_file_gives_what_its_data_frame_gives(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    table = frame()
    table.to_parquet(tmp_path / "a.parquet")
    data, same = looked_at(str(tmp_path / "a.parquet")), crescendo.dataset(table, "died", test=0)
    assert data.schema == same.schema and np.array_equal(data.train.x, same.train.x)
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    with pytest.raises(DataError, match="not a Parquet file"):
        looked_at(str(tmp_path / "b.parquet"))


def test_a_parquet_file_without_its_packages_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"pip install 'crescendo-fl\[parquet\]'"):
        looked_at(str(tmp_path / "a.parquet"))


@pytest.mark.slow
def test_a_model_of_a_messy_frame_predicts_from_raw_columns() -> None:
    pandas = pytest.importorskip("pandas")
    ages = [20 + k % 60 for k in range(120)]
    table = pandas.DataFrame({"age": ages, "sex": ["f", "m", None] * 40, "old": [age > 50 for age in ages]})
    schedule = {
        "gradients": 4000,
        "sizes": {"kind": "constant", "size": 100},
        "steps": {"kind": "constant", "eta": 0.05},
    }
    data = crescendo.dataset(table, "old")
    result = crescendo.simulate({"clients": {"count": 2}, "schedule": schedule}, data=data)
    assert (result.predict(table) == table["old"]).mean() > 0.9
    assert result.predict(table[["sex", "age"]].iloc[:3]).shape == (3,)
    with pytest.raises(DataError, match="x has no column 'age'"):
        result.predict(table[["sex"]])
    private = {"mechanism": "minibatch", "epsilon": 1.0, "delta": 1e-6, "clip": 1.0, "records": 60}
    with pytest.raises(ConfigError, match="by looking at its records, which a private run must not do"):
        crescendo.simulate({"clients": {"count": 2}, "schedule": schedule, "privacy": private}, data=data)


@pytest.mark.slow
def test_a_runs_folder_says_how_columns_became_features_and_that_it_was_read_off_the_records(tmp_path: Path) -> None:
    lines = "".join(f"{20 + 7 * k % 60},{'fm'[k % 2]},{k // 2 % 2}\n" for k in range(80))
    source = write(tmp_path / "a.csv", "age,sex,died\n" + lines)
    schedule = {"rounds": 2, "sizes": {"kind": "constant", "size": 10}, "steps": {"kind": "constant", "eta": 0.01}}
    config: dict[str, Any] = {"data": {"source": source}, "clients": {"count": 2}, "schedule": schedule}
    first = crescendo.simulate(config, out=tmp_path / "looked")
    text = (tmp_path / "looked" / "schema.toml").read_text()
    assert "Drafted from a.csv" in text and "Note:" in text
    stated = {**config, "data": {"source": source, "schema": str(tmp_path / "looked" / "schema.toml")}}
    second = crescendo.simulate(stated, out=tmp_path / "stated")
    assert second.model.tolist() == first.model.tolist()
    assert "Note:" in (tmp_path / "stated" / "schema.toml").read_text()  # it is the same, and nobody has stated it
    again = crescendo.simulate(tmp_path / "stated" / "config.toml")  # which holds the schema itself
    assert again.model.tolist() == first.model.tolist()


ROWS = "".join(f"{at * 7 % 40}.5,{'m' if at % 3 else 'f'},{'yes' if at % 4 else 'no'}\n" for at in range(60))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"PK\x03\x04\x14\x00\n\xff", "is an Excel workbook or another zip file; save the sheet"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "is an old Excel workbook"),
        (b"\x1f\x8b\x08\n", "is compressed by gzip; let its name end in .csv.gz"),
        (b'{"age": 1.5, "died": "no"}\n{"age": 2.5, "died": "no"}\n', "begins with JSON; write it as csv, with pandas"),
        (b"<table><tr><td>1</td></tr></table>\n", "begins with HTML or XML"),
        (b"# by the laboratory\nage,died\n1,no\n", "begins with a comment; remove the lines above"),
        (b"age|sex|died\n1.5|m|no\n", "and here perhaps a bar"),
        (b"0.5,no,m,no\n1.5,yes,f,no\n", "has no line of names: its first line says 'no' twice and the number 0.5"),
    ],
)
def test_a_file_that_is_no_csv_is_called_what_it_is(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(DataError, match=re.escape(says)):
        looked_at(str(tmp_path / "a.csv"))


def test_a_title_above_the_line_of_names_is_named_where_the_label_is_not_found(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "Visits 2024,,\nage,sex,died\n" + ROWS)
    with pytest.raises(ConfigError, match="remove the lines above it"):
        looked_at(path, label="died")
    named = write(tmp_path / "b.csv", "age,sex,died\n" + ROWS)
    with pytest.raises(ConfigError, match="did you mean 'died'"):
        looked_at(named, label="Died")


def test_a_class_whose_name_says_missing_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "age,sex,risk\n" + ROWS.replace("yes", "None").replace("no\n", "low\n"))
    with pytest.raises(DataError, match="has the label low, but for 45 that say 'None', which count as missing"):
        looked_at(path)
    three = write(tmp_path / "b.csv", "age,sex,risk\n" + ROWS + "1.5,m,NA\n")
    assert "1 records without a label in 'risk' are left out: they say 'NA'" in "\n".join(looked_at(three).notes)


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (["+47 22 33 444", "+44 20 79 461", "+1 55 12 345"], "left out: x (text that never repeats)"),
        (["00e1", "01e2", "10e3"], "x (3 codes)"),
        (["-5", "7", "5-"], "x (numbers with another minus than -)"),
        (["1,500", "20", "1,700-"], "x (numbers with marks between thousands)"),
        (["~5", "~70", "~3"], "the column 'x' holds numbers with '~' before each, which are taken for categories"),
    ],
)
def test_what_only_looks_like_an_amount_is_none(tmp_path: Path, cells: list[str], says: str) -> None:
    def cell(at: int) -> str:
        return cells[at % 3] + (f" {at:03}" if cells[0].startswith("+") else "")

    rows = "".join(f'"{cell(at)}",{row}\n' for at, row in enumerate(ROWS.splitlines()))
    assert says in "\n".join(looked_at(write(tmp_path / "a.csv", "x,age,sex,died\n" + rows)).notes)


def test_a_unit_behind_three_decimals_leaves_the_point_a_decimal_one(tmp_path: Path) -> None:
    rows = "".join(f"{51 + at / 1000:.3f}N,{row}\n" for at, row in enumerate(ROWS.splitlines()))
    data = looked_at(write(tmp_path / "a.csv", "x,age,sex,died\n" + rows))
    assert data.schema is not None
    x = data.schema.columns[-1]
    assert isinstance(x, NumberColumn) and (x.low, x.high) == (51.0, 51.059)


def test_a_parquet_column_of_another_type_says_which(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    columns = {
        "age": [1.5, 2.5, 3.5, 4.5] * 5,
        "tags": [["a"], ["b"], [], ["a"]] * 5,
        "seen": [datetime.datetime(2024, 1, day) for day in range(1, 21)],
        "died": ["yes", "no"] * 10,
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    says = looked_at(str(tmp_path / "a.parquet")).notes[0]
    assert "left out: tags (of the type list<" in says and "seen (dates)" in says


def test_the_check_up_asks_whether_a_few_whole_numbers_are_names(tmp_path: Path) -> None:
    rows = "".join(f"{(101, 205, 990)[at % 3]},{at % 5},{row}\n" for at, row in enumerate(ROWS.splitlines()))
    path = tmp_path / "a.csv"
    says = {
        line.name: line.says for line in CheckedTable.of(Path(write(path, "ward,pain,age,sex,died\n" + rows))).lines
    }
    assert says["ward"].endswith('one of 3 whole numbers; if they are names, write as = "category"')
    assert says["pain"] == "a number from 0 to 4"
