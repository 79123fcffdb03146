"""A private run made of what a person stated: no record has a part in its terms, whichever two are taken out."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import crescendo
from crescendo.cli.main import app
from crescendo.config.loading import read
from crescendo.config.to_terms import terms_and_cost
from crescendo.data.tables.feature_schema import Schema
from crescendo.data.tables.stated_columns import PublicRange
from crescendo.errors import ConfigError
from crescendo.privacy.guarantee import Guarantee
from crescendo.projects.stated import Stated
from crescendo.projects.table_project import table_project

OPTIONS = ["--range", "age=0:120", "--values", "city=Oslo,Rome,Bern", "--records", "300"]
PRICES = [*OPTIONS, "--range", "price=0:1000"]
CLASSES = [*OPTIONS, "--values", "price=low,high"]


def lines(classes: bool) -> list[str]:
    """Two extreme records come last: one alone in its category and oldest, one with the largest label."""
    rng, found = np.random.default_rng(2), ["id,age,city,price"]
    for i in range(300):
        age, city = int(rng.integers(18, 90)), str(rng.choice(["Oslo", "Rome", "Bern"]))
        price = 30 + 4 * age + 20 * (city == "Oslo") + 5 * rng.normal()
        found.append(f"{i + 1},{age},{city},{('low', 'high')[int(price > 250)] if classes else f'{price:.2f}'}")
    return [*found, f"301,140,Nuuk,{'dear' if classes else 990.0}", f"302,17,Rome,{'free' if classes else 3000}"]


def twice(folder: Path, options: list[str], classes: bool) -> tuple[Path, Path]:
    """The same project for a table and for that table less its two extreme records."""
    whole, made = lines(classes), []
    for name, rows in (("all", whole), ("less", whole[:-2])):
        (folder / name).mkdir()
        (folder / name / "p.csv").write_text("\n".join([*rows, ""]), encoding="utf-8")
        found = CliRunner().invoke(
            app, ["new", str(folder / name / "m"), "--csv", str(folder / name / "p.csv"), *options]
        )
        assert found.exit_code == 0, found.output
        made.append(folder / name / "m")
    return made[0], made[1]


@pytest.mark.parametrize(("options", "classes"), [(PRICES, False), (CLASSES, True)], ids=["numbers", "classes"])
def test_two_extreme_records_move_nothing_in_terms_that_were_stated(
    tmp_path: Path, options: list[str], classes: bool
) -> None:
    one, other = twice(tmp_path, options, classes)
    for name in ("private.toml", "schema.toml", "policy.toml"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    terms = [terms_and_cost(read(folder / "private.toml")) for folder in (one, other)]
    assert terms[0][0] == terms[1][0] and terms[0][1] is not None and terms[0][1].epsilon <= 2.0
    for folder in (one, other):
        found = crescendo.schedule(folder / "private.toml")
        assert not found.config.looked_at and isinstance(found.privacy, Guarantee)


@pytest.mark.parametrize("classes", [False, True], ids=["numbers", "classes"])
def test_two_extreme_records_move_a_draft_and_no_epsilon_is_stated_of_it(tmp_path: Path, classes: bool) -> None:
    one, other = twice(tmp_path, [], classes)
    for name in ("private.toml", "schema.toml"):
        assert (one / name).read_bytes() != (other / name).read_bytes(), name
    for folder in (one, other):
        assert not isinstance(crescendo.schedule(folder / "private.toml").privacy, Guarantee)
        with pytest.raises(ConfigError, match="cannot be served"):
            terms_and_cost(read(folder / "private.toml"))


def test_each_part_that_nobody_stated_is_marked(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("\n".join([*lines(False), ""]), encoding="utf-8")
    of_records = {"schedule.sizes", "privacy.delta", "privacy.records"}
    of_labels = {"objective.label_range", "privacy.clip"}
    of_columns = {"privacy.norm_bound", "data.schema.columns.age", "data.schema.columns.city", "data.schema.draft.id"}
    parts = {"records": of_records, "price": of_labels, "age": of_columns}
    for k, missing in enumerate(parts):
        ranges = [text for text in ("age=0:120", "price=0:1000") if not text.startswith(missing)]
        records = None if missing == "records" else 300
        state = lambda header, label, ranges=ranges, records=records: Stated.of(header, ranges, (), records)  # noqa: E731
        made = table_project(tmp_path / f"m{k}", tmp_path / "p.csv", state=state)
        assert (
            set(made.looked_at) == parts[missing] == {one.where for one in read(made.folder / "private.toml").looked_at}
        )


def test_a_schema_file_states_all_columns_and_keeps_its_marks(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("\n".join([*lines(False), ""]), encoding="utf-8")
    drafted = CliRunner().invoke(app, ["data", "schema", str(tmp_path / "p.csv"), "--out", str(tmp_path / "s.toml")])
    public = CliRunner().invoke(
        app, ["data", "schema", str(tmp_path / "p.csv"), "--public", "--out", str(tmp_path / "t.toml")]
    )
    assert (
        drafted.exit_code == public.exit_code == 0
        and "looked_at" in drafted.output
        and "looked_at" not in public.output
    )
    for name, marked in (("s", True), ("t", False)):
        options = ["--schema", str(tmp_path / f"{name}.toml"), "--range", "price=0:1000", "--records", "300"]
        found = CliRunner().invoke(
            app, ["new", str(tmp_path / f"of {name}"), "--csv", str(tmp_path / "p.csv"), *options]
        )
        assert found.exit_code == 0 and ("were read off the table" in found.output) == marked
        schema = read(tmp_path / f"of {name}" / "private.toml").data.table_schema()
        assert schema is not None and bool(schema.looked_at) == marked


def test_answers_state_what_options_would() -> None:
    answers = iter(["0:120", "Oslo, Rome", "", "-5:5", "300"])
    found = Stated.asked(["age", "city", "id", "price"], "price", lambda question: next(answers))
    assert found.records == 300 and found.labels("price") == PublicRange(-5, 5)
    schema = found.schema_but("price")
    assert schema is not None and [one.name for one in schema.columns] == ["age", "city"]
    assert Schema.of(schema.plain()).width == 2 + 4
    nothing = Stated.asked(["age", "price"], "price", lambda question: "")
    assert nothing == Stated() and nothing.schema_but("price") is None and nothing.labels("price") is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--range", "age"], "names no column of the table; write COLUMN=LOW:HIGH"),
        (["--range", "Age=0:1"], "where the columns are id, age, city, price"),
        (["--range", "age=9:1"], "the lower number comes first"),
        (["--range", "age=0:inf"], "both are finite"),
        (["--range", "age=old"], "write two numbers as LOW:HIGH"),
        (["--values", "city=Oslo,,Rome"], "names an empty value"),
        (["--values", "city=Oslo,Oslo"], "lists the category 'Oslo' twice"),
        (["--values", "price=low"], "at least two classes"),
        (["--range", "age=0:1", "--values", "age=a,b"], "stated twice"),
        (["--records", "1"], "from 2 on, not 1"),
        (["--schema", "nowhere.toml"], "there is no schema file nowhere.toml"),
        (["--schema", "s.toml", "--range", "age=0:1"], "--schema defines all columns"),
        (["--schema", "s.toml"], "no column 'height'"),
    ],
)
def test_what_states_nothing_is_refused_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_text("\n".join([*lines(False), ""]), encoding="utf-8")
    Path("s.toml").write_text("[columns]\nheight = {low = 0, high = 250}\n", encoding="utf-8")
    found = CliRunner().invoke(app, ["new", "mine", "--csv", "p.csv", *options])
    assert found.exit_code == 1 and says in found.output and found.output.count("\n") == 1, found.output
    assert not Path("mine").exists()
    assert re.search("give --csv", CliRunner().invoke(app, ["new", "mine", *options]).output)
