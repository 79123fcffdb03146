"""Tables as people have them: text, missing cells, dates, an index, other separators. Without privacy they may be looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.data import load
from crescendo.data.records import Dataset
from crescendo.data.tables.drafting import TableKeys
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
    with pytest.raises(DataError, match="no whole Parquet file"):
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
    with pytest.raises(ConfigError, match="by a look at its records, which a private run must not have"):
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
