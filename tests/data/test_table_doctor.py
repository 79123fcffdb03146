"""What spoils a model in silence is said: leaks, codes for missing cells, dates among numbers, labels without examples."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.data import load
from crescendo.data.records import Dataset
from crescendo.data.tables.cells import Table
from crescendo.data.tables.doctor.checked_table import CheckedTable
from crescendo.data.tables.drafting import TableKeys
from crescendo.data.tables.feature_schema import NumberColumn, Schema
from crescendo.data.tables.written_numbers import Written
from crescendo.errors import ConfigError


def table(path: Path, header: str, row: Callable[[random.Random, int], str], rows: int = 200) -> str:
    draw = random.Random(0)
    path.write_text("\n".join([header, *(row(draw, at) for at in range(rows))]), encoding="utf-8")
    return str(path)


def looked_at(path: str, **more: Any) -> Dataset:
    return load(path, keys=TableKeys(), **more)


def said(data: Dataset) -> str:
    return "\n".join(data.notes)


def yes_or_no(draw: random.Random) -> str:
    return draw.choice(["yes", "no"])


def test_classes_that_training_never_saw_are_said(tmp_path: Path) -> None:
    def row(draw: random.Random, at: int) -> str:
        return f"{draw.random()},{draw.choice('xz')},{f'rare{at}' if at < 8 else yes_or_no(draw)}"

    data = looked_at(table(tmp_path / "a.csv", "a,b,y", row))
    assert data.test is not None
    unseen = set(data.test.y) - set(data.train.y)
    assert unseen and f"'{data.classes[int(min(unseen))]}'" in said(data)
    assert "in no training record" in said(data) and "data.classes" in said(data)


def test_one_label_in_1200_is_no_task(tmp_path: Path) -> None:
    def row(draw: random.Random, at: int) -> str:
        return f"{draw.random()},{draw.choice('xz')},{'yes' if at == 7 else 'no'}"

    data = looked_at(table(tmp_path / "a.csv", "a,b,y", row, rows=1200))
    assert "99.9% of the training records have the label 'no'" in said(data)
    alone = crescendo.dataset(np.eye(40), [0] * 39 + [1], test=(np.eye(40)[:2], [0, 1]), classes=[0, 1])
    assert "training records have the label '0'" in said(alone)
    data = looked_at(str(tmp_path / "a.csv"), seed=13)  # which puts the one record into the test part
    assert "every training record has the label 'no'" in said(data) and "0.9958" in said(data)


def test_a_label_in_fair_shares_is_quiet(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", "a,b,y", lambda draw, _: f"{draw.random()},{draw.choice('xz')},{yes_or_no(draw)}")
    (says,) = looked_at(path).notes
    assert says.startswith("columns of ")


def test_a_repeated_header_is_no_record_and_no_class(tmp_path: Path) -> None:
    def row(draw: random.Random, at: int) -> str:
        return "a,b,y" if at % 70 == 69 else f"{draw.random()},{draw.choice('xz')},{yes_or_no(draw)}"

    data = looked_at(table(tmp_path / "a.csv", "a,b,y", row), test=0)
    assert data.classes == ("no", "yes") and len(data.train) == 198 and "2 lines repeat the header" in said(data)
    numbers = table(
        tmp_path / "n.csv", "a,b,y", lambda draw, at: "a,b,y" if at == 9 else f"{at % 7},{draw.random()},{at % 2}"
    )
    data = looked_at(numbers, test=0)
    assert data.classes == (0, 1) and data.schema is None and "a line repeats the header" in said(data)


def test_a_private_run_leaves_a_repeated_header_out_by_that_line_alone(tmp_path: Path) -> None:
    schema = Schema.of({"label": "y", "columns": {"b": {"values": ["x", "b"]}}})
    path = tmp_path / "a.csv"
    path.write_text("b,y\nx,no\nb,y\nx,y\nb,no\n", encoding="utf-8")
    data = load(str(path), test=0, private=True, classes=["no", "y"], schema=schema)
    assert data.train.x.tolist() == [[1, 0], [1, 0], [0, 1]] and data.left_out == 1


def test_sentinels_are_said_and_missing_counts_them(tmp_path: Path) -> None:
    def row(draw: random.Random, _: int) -> str:
        temperature = -999 if draw.random() < 0.1 else round(draw.gauss(20, 5), 2)
        return f"{temperature},{draw.choice([9999, 1, 2, 3, 4, 5])},{draw.random()},{yes_or_no(draw)}"

    path = table(tmp_path / "a.csv", "temp,grade,a,y", row)
    data = looked_at(path)
    assert (
        "'temp' says -999 in" in said(data)
        and "data.missing = [-999]" in said(data)
        and "'grade' says 9999" in said(data)
    )
    assert "'a' says" not in said(data)
    mended = load(path, keys=TableKeys(codes=(-999.0, 9999.0)))
    assert mended.schema is not None and "-999 as missing" in said(mended) and "says -999" not in said(mended)
    column = mended.schema.columns[2]
    assert isinstance(column, NumberColumn) and column.name == "temp" and column.low > -10 and column.codes == (-999.0,)


def test_a_column_that_says_the_label_is_named(tmp_path: Path) -> None:
    def row(draw: random.Random, _: int) -> str:
        label = draw.choice(["yes", "no", "perhaps"])
        at = ["yes", "no", "perhaps"].index(label)
        return f"{draw.random()},{at + draw.random() / 3:.4f},{label[0]},{at},{draw.choice('xz')},{label}"

    notes = looked_at(table(tmp_path / "a.csv", "a,measure,letter,code_,b,y", row)).notes
    leaking = [note for note in notes if "alone gives the label of 100% of the records" in note]
    assert len(leaking) == 3
    assert [
        name for name in ("measure", "letter", "code_") if any(f"data.drop = ['{name}']" in note for note in leaking)
    ] == [*("measure", "letter", "code_")]


def test_a_leak_among_plain_numbers_and_in_a_frame_is_named_too(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", "a,paid,y", lambda draw, at: f"{draw.random()},{3 * (at % 2)},{at % 2}")
    data = looked_at(path)
    assert data.schema is None and "'paid' alone gives the label" in said(data)
    pandas = pytest.importorskip("pandas")
    assert "'paid' alone gives the label" in said(crescendo.dataset(pandas.read_csv(path), "y"))


def test_money_percent_units_and_thousands_are_numbers(tmp_path: Path) -> None:
    def row(draw: random.Random, _: int) -> str:
        price, people = f'"${draw.randint(100, 99999):,}.50"', f'"{draw.randint(1, 9999999):,}"'
        return f"{price},{draw.randint(1, 99)}%,{draw.randint(1, 99)} kg,{people},{yes_or_no(draw)}"

    data = looked_at(table(tmp_path / "a.csv", "price,share,weight,people,y", row))
    assert data.schema is not None
    found = {one.name: one.written for one in data.schema.columns if isinstance(one, NumberColumn)}
    assert found == {
        "price": Written("money", "USD", "."),
        "share": Written("percent"),
        "weight": Written(unit="kg"),
        "people": Written("thousands", None, "."),
    }
    for words in (
        "price (money in USD)",
        "share (percents)",
        "weight (amounts in kg)",
        "people (numbers with marks between thousands)",
    ):
        assert words in data.notes[0]


def test_german_numbers_mean_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "preis;menge;y\n1.234,56 €;1.200;ja\n950,00 €;950;nein\n12,50 €;2.400;ja\n7 €;1;nein\n", encoding="utf-8"
    )
    data = looked_at(str(path), test=0)
    assert data.schema is not None
    preis, menge = data.schema.columns[1], data.schema.columns[0]
    assert isinstance(preis, NumberColumn) and isinstance(menge, NumberColumn)
    assert (preis.low, preis.high, menge.low, menge.high) == (7, 1234.56, 1, 2400)


def test_codes_are_categories_and_whole_dates_are_left_out(tmp_path: Path) -> None:
    def row(draw: random.Random, at: int) -> str:
        when = f"2024{draw.randint(1, 12):02}{draw.randint(1, 28):02}"
        return (
            f"{draw.choice([10001, 90210, 60601])},{draw.choice(['007', '012', '120'])},{when},{draw.random()},{at % 2}"
        )

    path = table(tmp_path / "a.csv", "zip,shop,day,a,y", row)
    data = looked_at(path)
    assert data.schema is not None and {"shop = 007", "zip = 90210"} <= set(data.schema.features)
    assert "zip (3 codes)" in said(data) and "shop (3 codes)" in said(data) and "day (dates)" in said(data)
    pandas = pytest.importorskip("pandas")
    of_frame = crescendo.dataset(pandas.read_csv(path), "y")
    assert of_frame.schema is not None and "zip = 90210" in of_frame.schema.features
    assert not any(name.startswith("day") for name in of_frame.schema.features)


def test_a_zero_first_shows_codes_although_all_cells_are_numbers(tmp_path: Path) -> None:
    path = table(
        tmp_path / "a.csv", "shop,a,y", lambda draw, at: f"{draw.choice(['007', '120'])},{draw.random()},{at % 2}"
    )
    data = looked_at(path)
    assert data.schema is not None and data.schema.features == ("a", "shop = 007", "shop = 120")


def test_a_line_of_separators_and_old_line_ends_are_read(tmp_path: Path) -> None:
    rows = "\n".join(f"{at / 2};{'xz'[at % 2]};{'no' if at % 3 else 'yes'}".replace(".", ",") for at in range(30))
    plain, other = tmp_path / "a.csv", tmp_path / "b.csv"
    plain.write_text(f"a;b;y\n{rows}", encoding="utf-8")
    want = looked_at(str(plain), test=0)
    for content in (f"sep=;\r\na;b;y\n{rows}", f"\ufeffsep=;\na;b;y\n{rows}", f"a;b;y\n{rows}".replace("\n", "\r")):
        other.write_bytes(content.encode())
        found = looked_at(str(other), test=0)
        assert np.array_equal(found.train.x, want.train.x) and found.schema == want.schema
        private = load(str(other), test=0, private=True, classes=["no", "yes"], schema=want.schema)
        assert np.array_equal(private.train.x, want.train.x) and not private.left_out


def test_the_line_of_a_fault_is_the_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"sep=,\ra,y\r1,0\ra,y\rinf,1\r")
    with pytest.raises(crescendo.DataError, match="line 5: column 'a' is 'inf'"):
        load(str(path), test=0)


@pytest.mark.parametrize("others", ["xz", "12"])
def test_numbers_beyond_measure_warn_of_nothing(tmp_path: Path, others: str) -> None:
    rows = [f"{('1e308', '-1e308', '5')[at % 3]},{others[at % 2]},{at // 2 % 2}" for at in range(60)]
    path = table(tmp_path / "a.csv", "a,b,y", lambda _, at: rows[at], 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert looked_at(path)


def test_rows_that_are_no_records_are_left_out_and_said(tmp_path: Path) -> None:
    lines = [f"{at % 5},{at},{at / 2},{'xz'[at % 2]}{at % 3},{('no', 'yes')[at % 2]}" for at in range(40)]
    (tmp_path / "a.csv").write_text(
        "\n".join(["a,b,c,d,y", "kg,cm,%,,", *lines, "90,780,390,Total,yes"]), encoding="utf-8"
    )
    data = looked_at(str(tmp_path / "a.csv"), test=0)
    assert (
        len(data.train) == 40 and data.schema is not None and not any("Total" in name for name in data.schema.features)
    )
    assert "says 'Total' and is left out" in said(data)
    (tmp_path / "b.csv").write_text("\n".join(["a,b,c,d,y", "kg,cm,%,words,label", *lines]), encoding="utf-8")
    data = looked_at(str(tmp_path / "b.csv"), test=0)
    assert len(data.train) == 40 and data.classes == ("no", "yes") and "says units (kg, cm, %)" in said(data)


def test_copies_of_records_are_said(tmp_path: Path) -> None:
    def row(draw: random.Random, _: int) -> str:
        return f"{draw.random()},{draw.random()},{draw.choice('xz')},{yes_or_no(draw)}"

    path = table(tmp_path / "a.csv", "a,b,c,y", row)
    text = Path(path).read_text(encoding="utf-8")
    assert "copies" not in said(looked_at(path))
    Path(path).write_text(text + "\n" + "\n".join(text.splitlines()[1:41]), encoding="utf-8")
    assert "40 of the 240 records are copies of others" in said(looked_at(path))


def test_words_of_a_schema_say_how_numbers_are_written() -> None:
    words = {"kind": "money", "unit": "€", "decimal": ",", "low": 0, "high": 10, "missing": [-999, 99], "fill": 5}
    schema = Schema.of({"columns": {"a": words, "gone": "drop"}})
    plain = schema.plain()["columns"]
    assert plain == {
        "a": {
            "low": 0.0,
            "high": 10.0,
            "missing": [-999.0, 99.0],
            "fill": 5.0,
            "kind": "money",
            "unit": "EUR",
            "decimal": ",",
        }
    }
    assert Schema.of(schema.plain()) == schema
    cells = np.array(["7,50 €", "-999", "99", "5 $", "EUR 1.000"], dtype=object)
    x, fits = schema.apply(Table("t", {"a": cells}, 5))
    assert x[:, 0].tolist() == [0.5, 0, 0, 0, 1] and fits.all()
    coded = Schema.of({"columns": {"ward": {"low": 1, "high": 3, "as": "category"}}})
    assert coded.features == ("ward = 1", "ward = 2", "ward = 3")


def test_schemas_without_the_new_words_are_written_as_before() -> None:
    raw = {
        "label": "y",
        "columns": {"a": {"low": 0.0, "high": 1.0, "missing": 0.5, "indicator": True}, "b": {"values": ["x"]}},
    }
    assert Schema.of(raw).plain() == raw


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"kind": "mony"}, "write one of number, money, percent, thousands"),
        ({"decimal": ";"}, "the mark before decimals is"),
        ({"unit": "kg", "kind": "percent"}, "leave one of them out"),
        ({"unit": "k9"}, "a short text without digits"),
        ({"unit": "kg", "kind": "money"}, "which is no known currency"),
        ({"missing": []}, "1 to 20 are allowed"),
        ({"missing": ["x"]}, "must be a finite number"),
        ({"missing": [-1], "fill": 5}, "must lie between"),
        ({"fill": 0.5}, "fill but no list"),
        ({"as": "number"}, 'write as = "category"'),
        ({"as": "category", "high": 0.5}, "for up to 1000 whole ones"),
    ],
)
def test_a_word_that_says_nothing_is_one_sentence(words: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match="the schema's column 'a'") as error:
        Schema.of({"columns": {"a": {"low": 0, "high": 1, **words}}})
    assert says in str(error.value) and "\n" not in str(error.value)


def test_a_declared_kind_reads_each_line_alone(tmp_path: Path) -> None:
    """Whatever stands in other lines: the file's header says whether commas are decimal ones."""
    schema = Schema.of({"label": "y", "columns": {"a": {"low": 0, "high": 2000, "kind": "money", "missing": 0}}})
    lines = ["1.234;no", "1,5;yes", "7 €;no", "x;yes", "1.234,5;no"]
    path = tmp_path / "a.csv"

    def read(*some: str) -> list[float]:
        path.write_text("\n".join(["a;y", *some]), encoding="utf-8")
        data = load(str(path), test=0, private=True, classes=["no", "yes"], schema=schema)
        return [float(one) for one in np.asarray(data.train.x)[:, 0]]

    assert read(*lines) == [number for line in lines for number in read(line)]
    assert read("1.234;no") == [pytest.approx(0.234)] and read("1,5;yes") == [pytest.approx(-0.9985)]


def test_numbers_among_a_few_texts_are_said_to_be_categories(tmp_path: Path) -> None:
    path = table(
        tmp_path / "a.csv", "crp,a,y", lambda draw, at: f"{'<0.3' if at % 4 == 0 else at % 50},{draw.random()},{at % 2}"
    )
    assert "'crp' holds numbers in 75% of its cells and texts such as '<0.3'" in said(looked_at(path))


def test_points_between_thousands_are_seen_though_every_cell_is_a_number(tmp_path: Path) -> None:
    path = table(
        tmp_path / "a.csv", "menge;kg;y", lambda draw, at: f"{draw.choice(['950', '1.200'])};{at % 9},5;{at % 2}"
    )
    data = looked_at(path)
    assert data.schema is not None
    (menge,) = (one for one in data.schema.columns if isinstance(one, NumberColumn) and one.name == "menge")
    assert (menge.low, menge.high) == (950, 1200)
    points = table(
        tmp_path / "b.csv", "menge;kg;y", lambda draw, at: f"{draw.choice(['9.5', '1.200'])};{at % 9}.5;{at % 2}"
    )
    assert looked_at(points).schema is None


def test_labels_that_are_amounts_are_numbers(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    path = table(tmp_path / "a.csv", "a,b,price", lambda draw, at: f'{draw.random()},{at % 7},"${1000 + 7 * at:,}"')
    data = load(path, keys=TableKeys(), classes=())
    assert data.train.y.min() >= 1000 and "the labels are amounts" in said(data)
    result = crescendo.simulate(pandas.read_csv(path), "price", clients=2, gradients=200)
    assert not result.prepared.dataset.classes


def test_a_frame_that_repeats_its_header_or_an_index_says_so(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")

    def row(draw: random.Random, at: int) -> str:
        return "a,b,y" if at == 20 else f"{draw.random()},{draw.choice('xz')},{yes_or_no(draw)}"

    data = crescendo.dataset(pandas.read_csv(table(tmp_path / "a.csv", "a,b,y", row)), "y")
    assert data.classes == ("no", "yes") and "a line repeats the header" in said(data)
    numbers = pandas.DataFrame({"nr": range(60), "a": np.linspace(0, 1, 60) ** 2, "y": [at % 2 for at in range(60)]})
    assert "'nr' counts the records" in said(crescendo.dataset(numbers, "y"))


@pytest.mark.slow
def test_a_stored_run_reads_a_new_table_as_it_read_its_own(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")

    def row(draw: random.Random, at: int) -> str:
        return f'"${1000 * (at % 2) + draw.randint(100, 999):,}",{-999 if at % 9 == 0 else at % 40} kg,{at % 2}'

    frame = pandas.read_csv(table(tmp_path / "a.csv", "pay,weight,y", row))
    result = crescendo.simulate(frame, "y", clients=2, gradients=2000, missing=[-999], out=tmp_path / "out")
    asked = frame.drop(columns="y")
    kept = crescendo.load(tmp_path / "out")
    assert np.array_equal(kept.predict(asked), result.predict(asked))
    assert np.array_equal(kept.predict(str(tmp_path / "a.csv")), result.predict(asked))
    assert np.mean(result.predict(asked) == frame["y"]) > 0.9


def test_long_texts_cost_no_more_than_their_letters() -> None:
    """A pattern that tries every split of a long text would take hours for this one."""
    assert Written("money").number("a " * 200_000 + "b") != 0


def test_cells_that_merging_left_empty_are_said(tmp_path: Path) -> None:
    """A spreadsheet shows "Oslo" once for all the rows beside it."""

    def merged(draw: random.Random, at: int) -> str:
        return f"{draw.random()},{'' if at % 5 else ('Oslo', 'Rome', 'Voss')[at // 5 % 3]},{yes_or_no(draw)}"

    def rare(draw: random.Random, at: int) -> str:
        return f"{draw.random()},{draw.choice(['Oslo', 'Rome', '', '', ''])},{yes_or_no(draw)}"

    says = "the column 'city' is empty in 160 of its 200 cells; if an empty cell means the one above it"
    assert says in said(looked_at(table(tmp_path / "a.csv", "a,city,y", merged)))
    assert "cell means the one above" not in said(looked_at(table(tmp_path / "b.csv", "a,city,y", rare)))


def test_one_column_in_two_units_is_said(tmp_path: Path) -> None:
    def row(draw: random.Random, at: int) -> str:
        height = draw.gauss(172, 12)
        return f"{height if at % 3 else height / 100:.2f},{draw.random()},{yes_or_no(draw)}"

    def wide(draw: random.Random, at: int) -> str:
        return f"{draw.lognormvariate(0, 3)},{draw.random()},{yes_or_no(draw)}"

    says = "100 times as large, from 1"
    assert says in said(looked_at(table(tmp_path / "a.csv", "height,b,y", row)))
    assert "two units" not in said(looked_at(table(tmp_path / "b.csv", "height,b,y", wide)))


def test_spellings_of_one_category_and_letters_that_cannot_be_printed_are_said(tmp_path: Path) -> None:
    def row(draw: random.Random, at: int) -> str:
        return f"{draw.random()},{draw.choice(['Yes', 'yes', 'no'])},{draw.choice(['Rome', chr(0) + 'Oslo'])},{yes_or_no(draw)}"

    notes = said(looked_at(table(tmp_path / "a.csv", "a,smokes,city,y", row)))
    assert "'smokes' writes one category in several ways, 'Yes' and 'yes'" in notes
    assert "the column 'city' holds characters that cannot be printed in" in notes


def test_labels_that_lie_far_from_all_others_are_said(tmp_path: Path) -> None:
    def row(draw: random.Random, at: int) -> str:
        a = draw.gauss(0, 1)
        return f"{a},{draw.random()},{2 * a + draw.gauss(0, 0.1) if at else 1e5}"

    def prices(draw: random.Random, at: int) -> str:
        a = draw.gauss(0, 1)
        return f"{a},{draw.random()},{2.718 ** (5 * a + 8)}"

    numbers: dict[str, Any] = {"classes": ()}
    notes = said(looked_at(table(tmp_path / "a.csv", "a,b,y", row), test=0, **numbers))
    assert (
        "labels, such as 100000, lie so far from the others that they make 100%" in notes and "logarithm" not in notes
    )
    assert "predict the logarithm" in said(looked_at(table(tmp_path / "b.csv", "a,b,y", prices), test=0, **numbers))


def test_a_range_that_hardly_tells_the_numbers_apart_is_said(tmp_path: Path) -> None:
    """Ages of 0.2 to 0.9 under a range in years: no number lies outside, and the model sees one age."""

    def row(draw: random.Random, at: int) -> str:
        return f"{draw.gauss(0.5, 0.15)},{yes_or_no(draw)}"

    path = table(tmp_path / "a.csv", "age,y", row)
    schema = Schema((NumberColumn("age", 0.0, 110.0, 50.0),), "y")
    data = load(path, private=True, classes=("no", "yes"), schema=schema)
    assert "a small part of 0 to 110; check their unit" in said(data)
    fits = Schema((NumberColumn("age", 0.0, 1.0, 0.5),), "y")
    assert "check their unit" not in said(load(path, private=True, classes=("no", "yes"), schema=fits))


def test_the_check_up_names_texts_among_numbers(tmp_path: Path) -> None:
    def row(draw: random.Random, at: int) -> str:
        return f"{'forty' if at == 7 else draw.random()},{'inf' if at < 2 else draw.random()},{yes_or_no(draw)}"

    path = Path(table(tmp_path / "a.csv", "age,b,y", row))
    says = {line.name: line.says for line in CheckedTable.of(path).lines}
    assert (
        says["age"]
        == "the column 'age' holds no finite number in 1 of its 200 cells, such as 'forty', which counts as missing"
    )
    assert "2 of its 200 cells, such as 'inf', which count as missing" in says["b"]


def test_a_few_numbers_far_out_that_squeeze_the_others_are_said(tmp_path: Path) -> None:
    def row(draw: random.Random, at: int) -> str:
        age = draw.gauss(50, 15) * (1000 if at % 40 == 0 else 1)
        return f"{age},{draw.lognormvariate(0, 2)},{draw.choice(['m', 'f'])},{yes_or_no(draw)}"

    notes = said(looked_at(table(tmp_path / "a.csv", "age,b,sex,y", row)))
    assert "the column 'age' goes from" in notes and "which scaling makes nearly one" in notes
    assert "the column 'b'" not in notes


def test_years_with_two_and_with_four_digits_are_said(tmp_path: Path) -> None:
    def row(draw: random.Random, at: int) -> str:
        return f"{draw.randint(50, 99) + (1900 if at % 2 else 0)},{draw.randint(1950, 1999)},{yes_or_no(draw)}"

    notes = said(looked_at(table(tmp_path / "a.csv", "born,b,y", row)))
    assert "the column 'born' has years with two digits" in notes and "'b'" not in notes


def test_labels_that_stand_for_no_label_are_said(tmp_path: Path) -> None:
    def unknown(draw: random.Random, at: int) -> str:
        return f"{draw.random()},{draw.random()},{'unknown' if at % 9 == 0 else yes_or_no(draw)}"

    def marked(draw: random.Random, at: int) -> str:
        return f"{draw.random()},{draw.random()},{yes_or_no(draw)}{draw.choice(['', '*'])}"

    def coded(draw: random.Random, at: int) -> str:
        return f"{draw.random()},{draw.random()},{-999 if at % 9 == 0 else draw.gauss(50, 9)}"

    assert "leave it out with data.classes = ['no', 'yes']" in said(
        looked_at(table(tmp_path / "a.csv", "a,b,y", unknown))
    )
    assert "the labels 'no' and 'no*' differ only in how they are written" in said(
        looked_at(table(tmp_path / "b.csv", "a,b,y", marked))
    )
    numbers: dict[str, Any] = {"classes": ()}
    notes = said(looked_at(table(tmp_path / "c.csv", "a,b,y", coded), **numbers))
    assert "labels are -999, far from all others" in notes
