"""While anything in private terms was read off the records, no output has an epsilon, and what is left of a mark is kept."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import crescendo
from crescendo.cli.main import app
from crescendo.config.loading import read
from crescendo.config.schema import Config
from crescendo.config.to_terms import terms_and_cost
from crescendo.data.tables.feature_schema import Schema
from crescendo.errors import ConfigError, Refused
from crescendo.federation.agreement import build_terms, canonical
from crescendo.privacy.guarantee import Guarantee
from crescendo.projects.stated import Stated
from crescendo.projects.table_project import table_project

HEADER = "age,city,ill"
FEW = ["schedule.rounds=4", "schedule.sizes={kind = 'constant', size = 8}"]
STATED = {"ranges": ["age=0:120"], "values": ["city=Oslo,Rome,Bern", "ill=no,yes"], "records": 100}
COMMANDS = [
    ["run", "--out", "out"],
    ["run", "--json"],
    ["schedule"],
    ["schedule", "--json"],
    ["account"],
    ["account", "--json"],
    ["compare", "--with", "fedavg", "--seeds", "1", "--out", "compared"],
    ["compare", "--with", "fedavg", "--seeds", "1", "--json"],
    ["sweep", "--over", "run.seed=0,1", "--out", "swept"],
    ["sweep", "--over", "run.seed=0,1", "--json"],
]


def table(folder: Path, rows: int = 100) -> Path:
    lines = [
        f"{20 + 7 * i % 60},{('Oslo', 'Rome', 'Bern')[i % 3]},{('no', 'yes')[7 * i % 60 > 30]}" for i in range(rows)
    ]
    (folder / "p.csv").write_text("\n".join([HEADER, *lines, ""]), encoding="utf-8")
    return folder / "p.csv"


def drafted(folder: Path, **stated: Any) -> Path:
    """A project's private run file."""
    table_project(folder / "proj", table(folder), state=lambda header, label: Stated.of(header, **stated))
    return folder / "proj" / "private.toml"


def has_epsilon(text: str) -> list[str]:
    """Numbers behind the word, and those just below the 2 that every run file here asks for; not that one itself."""
    text = re.sub(r"<script.*?</script>", "", text, flags=re.S).replace(
        "</tr>", ";"
    )  # curves, and the heads of columns
    found = re.findall(
        r"(?:\beps|epsilon)[\"']?(?:</?\w+[^>]*>|[\s:=|│,]|of|is|costs|at most)*(\d[\d.e-]*)", text, re.I
    )
    return [number for number in found if float(number.rstrip(".e-")) != 2.0] + re.findall(r"\b1\.9[6-9]\d+", text)


def invoked(arguments: list[str]) -> Any:
    return CliRunner().invoke(app, arguments)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An unedited draft of few rounds."""
    monkeypatch.chdir(tmp_path)
    path = drafted(tmp_path)
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"^rounds = 100", "rounds = 4", text, flags=re.M), encoding="utf-8")
    return path


def test_numbers_behind_the_word_are_found() -> None:
    """The search that the other tests rest on."""
    for text in (
        "epsilon=1.9",
        '"epsilon": 1.9',
        "epsilon │ 1.9",
        "<td>epsilon</td><td>1.9</td>",
        "costs epsilon 1.9 at",
    ):
        assert has_epsilon(text) == ["1.9"]
    assert not has_epsilon("epsilon withheld, epsilon = 2.0")


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_states_an_epsilon_of_an_unedited_draft(small: Path, command: list[str]) -> None:
    found = invoked([command[0], str(small), *command[1:]])
    assert found.exit_code in (0, 4) and not has_epsilon(found.output)
    assert "read off the records" in found.output or command[:1] == ["sweep"]
    written = (path for path in Path().rglob("*") if path.is_file() and "proj" not in path.parts)
    files = [path for path in written if path.suffix not in (".npz", ".js")]
    for path in files:
        assert not has_epsilon(path.read_text(encoding="utf-8")), path
    pages = [path for path in files if path.suffix == ".html"]
    assert all("read off the records" in path.read_text(encoding="utf-8") for path in pages)


@pytest.mark.slow
def test_a_stated_project_is_the_control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same commands on terms that a person stated do say it."""
    monkeypatch.chdir(tmp_path)
    path = drafted(tmp_path, **STATED)
    path.write_text(re.sub("rounds = 100", "rounds = 4", path.read_text()), encoding="utf-8")
    for command in COMMANDS[:6]:
        found = invoked([command[0], str(path), *command[1:]])
        assert found.exit_code in (0, 4) and has_epsilon(found.output), command
    assert has_epsilon(Path("out/report.html").read_text()) and has_epsilon(Path("out/privacy.json").read_text())


def test_the_folder_of_such_a_run_is_not_accounted_for_and_can_be_loaded(small: Path) -> None:
    result = crescendo.simulate(small, out="out")
    shown = [repr(result), result.summary(), result._repr_html_(), json.dumps(result.as_json(), default=str)]
    loaded = crescendo.load("out")
    shown += [repr(loaded), loaded.summary(), loaded._repr_html_(), repr(crescendo.schedule(small))]
    assert result.privacy is not None and result.privacy["epsilon"] is None and not any(map(has_epsilon, shown))
    for command in (["account", "out"], ["account", "out", "--json"], ["account", "out/config.toml"]):
        found = invoked(command)
        assert found.exit_code == 0 and not has_epsilon(found.output) and "read off the records" in found.output
    for command in (["account", "out", "--export", "opacus"], ["account", "out", str(small)], ["audit", str(small)]):
        found = invoked(command)
        assert found.exit_code == 1 and not has_epsilon(found.output) and "read off the records" in found.output
    assert "events" not in (Path("out") / "privacy.json").read_text()


def test_the_copy_in_a_runs_folder_keeps_every_mark(small: Path) -> None:
    asked = read(small)
    crescendo.simulate(small, out="out")
    again = read(Path("out/config.toml"))
    assert again.looked_at == asked.looked_at and len(asked.looked_at) == 6
    assert Schema.of(tomllib.loads(Path("out/schema.toml").read_text())).looked_at
    assert not isinstance(crescendo.schedule(again).privacy, Guarantee)
    assert str(read(tomllib.loads(str(asked)))) == str(asked), "nor are they lost in the short form"


def test_a_schema_that_a_plain_run_looked_for_is_marked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema in the folder of a run without privacy was read off its records."""
    monkeypatch.chdir(tmp_path)
    path = drafted(tmp_path, **STATED)
    crescendo.simulate(path.with_name("run.toml"), overrides=["schedule.gradients=200"], out="plain")
    found = crescendo.schedule(path, overrides=[f"data.schema={Path('plain/schema.toml').resolve()}", *FEW]).privacy
    assert found is not None and not isinstance(found, Guarantee)
    assert [one.where for one in found.looked_at] == ["data.schema.columns.age", "data.schema.columns.city"]


def test_marks_that_were_taken_out_wholesale_are_seen_by_the_digests(small: Path) -> None:
    schema, before = small.with_name("schema.toml"), read(small).looked_at
    schema.write_text(schema.read_text().replace(", looked_at = true", ""), encoding="utf-8")
    text = re.sub(r"looked_at = \[.*?\]", "looked_at = []", small.read_text(), flags=re.S)
    small.write_text(text, encoding="utf-8")
    assert "looked_at = true" not in schema.read_text() and set(read(small).looked_at) == set(before)


def test_an_entry_that_was_changed_is_stated_and_so_is_one_that_a_person_says_is_right(small: Path) -> None:
    schema = small.with_name("schema.toml")
    text = re.sub(r"age = \{.*?\}", "age = {low = 0.0, high = 110.0, missing = 55.0}", schema.read_text())
    schema.write_text(text.replace("looked_at = true", "looked_at = false"), encoding="utf-8")
    assert not any("columns" in one.where for one in read(small).looked_at)
    text = re.sub(r"looked_at = \[.*?\]", "looked_at = []", small.read_text(), flags=re.S)
    text = text.replace("records = 50 ", "records = 80 ").replace("declared = []", 'declared = ["privacy.delta"]')
    small.write_text(text, encoding="utf-8")
    assert [one.where for one in read(small).looked_at] == ["data.classes", "schedule.sizes"]
    stated = read(small, ["data.classes=['no', 'yes']", "schedule.sizes={kind = 'constant', size = 10}"])
    assert stated.draft is None and isinstance(crescendo.schedule(stated).privacy, Guarantee)


def test_an_override_states_a_key_and_none_takes_marks(small: Path) -> None:
    names = [one.where for one in read(small, ["privacy.records=50"]).looked_at]
    assert "privacy.records" not in names and "privacy.delta" in names, "as it was typed, it is stated"
    for override in ("draft=", "draft.looked_at=[]", "draft={}"):
        with pytest.raises(ConfigError, match="cannot change the marks of a draft"):
            read(small, [override])
    kept = crescendo.schedule(small, records=70).privacy
    assert kept is not None and not isinstance(kept, Guarantee)
    assert "privacy.records" not in [one.where for one in kept.looked_at]


def test_a_mark_on_no_key_is_refused(small: Path) -> None:
    for wrong in ("Privacy.records", "privacy.record", "records"):
        small.write_text(small.read_text().replace('"privacy.records"', f'"{wrong}"'), encoding="utf-8")
        with pytest.raises(ConfigError, match="not a key of a run file"):
            read(small)
        small.write_text(small.read_text().replace(f'"{wrong}"', '"privacy.records"'), encoding="utf-8")
    with pytest.raises(ConfigError, match="there is no key Draft"):
        read({**read(small).plain(), "Draft": {}})


def test_a_federation_is_neither_served_nor_joined_on_terms_that_were_looked_at(small: Path) -> None:
    config = read(small)
    with pytest.raises(ConfigError, match="these terms cannot be served: no epsilon is stated"):
        terms_and_cost(config)
    served = invoked(["serve", str(small), "--listen", "127.0.0.1:0", "--state", "served"])
    assert served.exit_code == 1 and not has_epsilon(served.output) and not Path("served").exists()
    bare = config.model_copy(
        update={"draft": None, "data": config.data.model_copy(update={"schema": bare_schema(config)})}
    )
    raw = json.loads(terms_and_cost(bare)[0])
    with pytest.raises(Refused, match="their schema was read off records"):
        build_terms(canonical({**raw, "schema": config.data.schema}))


def bare_schema(config: Config) -> Any:
    schema = config.data.table_schema()
    assert schema is not None
    return schema.marked(False).plain()


def test_a_schema_that_was_looked_at_keeps_its_marks_in_python(small: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    frame = pandas.read_csv(small.parent.parent / "p.csv")
    looked = crescendo.dataset(frame, "ill").schema
    assert looked is not None
    keys: Any = {
        "epsilon": 2.0,
        "records": 80,
        "classes": ["no", "yes"],
        "rounds": 3,
        "clients": 1,
        "sizes": {"kind": "constant", "size": 8},
    }
    for schema in (looked, looked.plain(), json.loads(json.dumps(looked.plain()))):
        data = crescendo.dataset(frame, "ill", schema=schema, classes=["no", "yes"], private=True)
        found = crescendo.schedule(data, **keys).privacy
        assert found is not None and not isinstance(found, Guarantee), "of a data set"
        as_file = crescendo.schedule(read(small, ["data.schema="]), data=data).privacy
        assert as_file is not None and len(as_file.looked_at) == 6, "and beside a run file that has none"  # type: ignore[union-attr]
    found = crescendo.schedule(frame, "ill", schema=looked.plain(), **keys).privacy
    assert found is not None and not isinstance(found, Guarantee), "of a frame"
    found = crescendo.schedule(frame, "ill", schema=looked.marked(False).plain(), **keys).privacy
    assert isinstance(found, Guarantee), "a schema without marks is a person's own"


def test_a_refusal_has_no_epsilon_either(small: Path) -> None:
    """A stated epsilon that the stated noise does not keep is refused with what it costs; not so where terms were looked at."""
    assert crescendo.schedule(small, overrides=["privacy.sigma=0.5"]).privacy is not None
    found = invoked(["schedule", str(small), "--set", "privacy.sigma=0.5"])
    assert found.exit_code == 0 and not has_epsilon(found.output)


def test_numbers_that_a_plain_run_read_off_its_records_are_marked_in_its_config(tmp_path: Path) -> None:
    """A plain run's config.toml with [privacy] put into it rests on counts, and on steps that suit the records."""
    x = np.random.default_rng(0).normal(size=(200, 3))
    result = crescendo.simulate(x, x[:, 0] > 0, clients=2, rounds=8, out=tmp_path / "plain")
    asked: Any = {
        "mechanism": "minibatch",
        "sigma": 2.0,
        "delta": 1e-6,
        "clip": 1.0,
        "records": 2000,
        "classes": [0, 1],
    }
    for config in (result.config, read(tmp_path / "plain" / "config.toml"), read(tomllib.loads(str(result.config)))):
        assert [one.where for one in config.looked_at] == ["schedule.gradients", "schedule.sizes", "schedule.steps"]
        found = crescendo.schedule(config, data=(x, x[:, 0] > 0), **asked).privacy
        assert found is not None and not isinstance(found, Guarantee)
    stated: Any = {
        **asked,
        "rounds": 5,
        "sizes": {"kind": "constant", "size": 8},
        "steps": {"kind": "constant", "eta": 0.1},
    }
    assert isinstance(crescendo.schedule(result.config, data=(x, x[:, 0] > 0), **stated).privacy, Guarantee)


def test_a_run_without_privacy_is_served_whatever_was_looked_at(small: Path) -> None:
    """No epsilon is claimed of it, and the marks of its schema go to the clients."""
    config = read(
        small, ["privacy={mechanism = 'none'}", "schedule.steps={kind = 'constant', eta = 0.1}", "serve.records=50"]
    )
    text, cost = terms_and_cost(config)
    agreed = build_terms(text)
    assert cost is None and agreed.schema is not None and agreed.schema.looked_at


def test_who_sets_one_number_of_several_states_none_of_the_others(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(50, 10, 60), rng.normal(size=60)])
    crescendo.simulate(x, (x[:, 1] > 0).astype(int), clients=2, out=tmp_path / "plain")
    path = tmp_path / "plain" / "config.toml"
    parts = ["schedule.steps.per='round'", "schedule.sizes.offset=0", "schedule.gradients=300"]
    assert [one.where for one in read(path, parts).looked_at] == ["schedule.sizes", "schedule.steps"]
    whole = ["schedule.steps='auto'", "schedule.sizes={kind='constant', size=8}", "schedule.gradients=300"]
    assert read(path, whole).looked_at == ()
    fitted = read(path, ["schedule.sizes.scale=", "schedule.rounds=7"])  # to a number of gradients that was counted
    assert "schedule.sizes" in [one.where for one in read(fitted, ["schedule.gradients=300"]).looked_at]


def test_a_number_of_clients_that_was_counted_is_marked(tmp_path: Path) -> None:
    lines = "".join(f"{k % 7},{'uv'[k % 2]},{k // 2 % 2}\n" for k in range(40))
    (tmp_path / "p.csv").write_text(f"a,c,y\n{lines}", encoding="utf-8")
    raw = {
        "data": {"source": str(tmp_path / "p.csv"), "label": "y", "drop": ["c"]},
        "clients": {"split": "column:c"},
        "schedule": {"rounds": 2, "sizes": {"kind": "constant", "size": 4}, "steps": {"kind": "constant", "eta": 0.1}},
    }
    assert [one.where for one in crescendo.simulate(raw).config.looked_at] == ["clients.count"]


def test_a_flag_beside_a_range_does_not_state_it(small: Path) -> None:
    path = small.parent / "schema.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("looked_at = true", "indicator = true"), encoding="utf-8")
    try:
        found = [one.where for one in read(small).looked_at]
    finally:
        path.write_text(text, encoding="utf-8")
    assert {"data.schema.columns.age", "data.schema.columns.city"} <= set(found)


def test_a_column_that_a_look_left_out_is_marked(tmp_path: Path) -> None:
    """One record more that has something in it would bring it into the schema."""
    lines = "".join(f"{20 + k % 50},{k % 3},0,{k % 2}\n" for k in range(60))
    (tmp_path / "p.csv").write_text(f"age,b,flag,ill\n{lines}", encoding="utf-8")
    out = str(tmp_path / "s.toml")
    assert CliRunner().invoke(app, ["data", "schema", str(tmp_path / "p.csv"), "--out", out]).exit_code == 0
    raw = tomllib.loads(Path(out).read_text(encoding="utf-8"))
    raw["columns"] = {"age": {"low": 0, "high": 120}, "b": {"low": -1, "high": 5}}
    assert [one.where for one in Schema.of(raw).looked_at] == ["data.schema.draft.flag"]
    assert [one.where for one in Schema.of(Schema.of(raw).plain()).looked_at] == ["data.schema.draft.flag"]
    del raw["draft"]["flag"]
    assert Schema.of(raw).looked_at == ()
