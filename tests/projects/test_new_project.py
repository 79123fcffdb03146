"""`crescendo new`: every file that it writes works at once, and nothing is left of a project that cannot be written."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import crescendo
from crescendo.cli.main import app
from crescendo.config.loading import read, read_either
from crescendo.config.to_terms import terms_and_cost
from crescendo.drafter.payment import Payment
from crescendo.errors import ConfigError
from crescendo.federation.agreement import build_terms
from crescendo.federation.policy import Policy
from crescendo.projects.project import new_project
from crescendo.projects.stated import Stated
from crescendo.projects.table_project import Stating, table_project
from crescendo.projects.whole_folder import write_folder

TABLE = """id;age;city;visited;ill
{}
"""
KINDS = ["own", "csv", "numbers", pytest.param("torch", marks=pytest.mark.slow)]


def made(tmp_path: Path, kind: str, name: str = "mine") -> Path:
    if kind == "torch":
        pytest.importorskip("torch", reason="torch is not installed: the torch extra")
    if kind == "csv":
        table_project(
            tmp_path / name, messy_table(tmp_path), state=stated("age=0:110", "city=Oslo,Rome,Bern", "ill=no,yes")
        )
    elif kind == "bought":
        (tmp_path / "policy.toml").write_text('epsilon = 12.0\ndelta = 1e-4\nledger = "ledger.sqlite"\n')
        payment = Payment.of(8.0, None, tmp_path / "policy.toml", None)
        table_project(tmp_path / name, messy_table(tmp_path), payment=payment)
    elif kind == "numbers":
        table_project(
            tmp_path / name, price_table(tmp_path), state=stated("rooms=0:12", "town=Oslo,Rome", "price=0:1000")
        )
    else:
        new_project(tmp_path / name, torch=kind == "torch")
    return tmp_path / name


def stated(*columns: str) -> Stating:
    """What a person who did not look would say."""
    ranges, values = ([one for one in columns if (":" in one) == numbers] for numbers in (True, False))
    return lambda header, label: Stated.of(header, ranges, values, 600)


def messy_table(folder: Path) -> Path:
    """An index, a missing cell, text, dates and columns of several scales."""
    rng, lines = np.random.default_rng(0), []
    for i in range(600):
        age, city = int(rng.integers(18, 90)), str(rng.choice(["Oslo", "Rome", "Bern"]))
        ill = "yes" if age / 50 + (city == "Bern") + rng.normal() / 4 > 1.5 else "no"
        lines.append(f"{i + 1};{'' if i == 3 else age};{city};2024-01-{i % 28 + 1:02};{ill}")
    path = folder / "my patients.csv"
    path.write_text(TABLE.format("\n".join(lines)), encoding="utf-8")
    return path


def price_table(folder: Path, low: float = 120.5) -> Path:
    """Labels that are numbers, beside a category and a missing cell."""
    rng, lines = np.random.default_rng(1), ["rooms,town,price"]
    for i in range(600):
        rooms, town = int(rng.integers(1, 9)), str(rng.choice(["Oslo", "Rome"]))
        price = low + 40 * rooms + 60 * (town == "Oslo") + 10 * rng.normal()
        lines.append(f"{'' if i == 3 else rooms},{town},{price:.2f}")
    path = folder / "prices.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_both_run_files_of_a_new_project_run_and_learn(tmp_path: Path, kind: str) -> None:
    folder = made(tmp_path, kind)
    few = kind == "torch"  # whose rounds take seconds
    plain = crescendo.simulate(folder / "run.toml", overrides=["schedule.gradients=3000"] if few else [])
    private = crescendo.simulate(folder / "private.toml", overrides=["schedule.rounds=20"] if few else [])
    if kind == "numbers":
        assert plain.accuracy is None and plain.metrics[-1]["r2"] > 0.9 and private.metrics[-1]["r2"] > 0.5
        assert private.privacy is not None and private.privacy["epsilon"] <= 2.0
        return
    assert plain.accuracy is not None and plain.accuracy > (0.6 if few else 0.85)
    assert private.privacy is not None and private.privacy["epsilon"] <= 2.0
    assert private.accuracy is not None and private.accuracy > (0.4 if few else 0.8)


@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_of_a_new_project_allows_its_private_run_and_no_other_federation(tmp_path: Path, kind: str) -> None:
    folder = made(tmp_path, kind)
    text, cost = terms_and_cost(read_either(folder / "private.toml"))
    agreed, policy = build_terms(text), Policy.read(folder / "policy.toml")
    policy.check_terms(agreed)
    assert cost is not None and policy.max_epsilon is not None
    policy.check_epsilon(agreed, cost.epsilon)
    other, _ = terms_and_cost(read(folder / "private.toml", ["serve.federation=another"]))
    with pytest.raises(crescendo.Refused, match="another"):
        policy.check_terms(build_terms(other))


@pytest.mark.parametrize("kind", KINDS)
def test_the_readme_names_every_file_and_commands_that_exist(tmp_path: Path, kind: str) -> None:
    folder = made(tmp_path, kind)
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert {f"`{path.name}`" for path in folder.iterdir()} - {"`README.md`"} <= set(re.findall(r"`[\w.]+`", text))
    commands = re.findall(r"^crescendo (\w+) (.*)$", text, re.M)
    assert [name for name, _ in commands] == ["run", "run", "compare", "serve", "join", "join"]
    for name, rest in commands:
        assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0
        for file in re.findall(r"[\w]+\.toml", rest):
            assert (folder / file).is_file()
    assert "$" not in "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())


def test_the_command_says_what_it_made_and_what_to_type_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["new", "my first"])
    assert found.exit_code == 0 and "  crescendo run 'my first/run.toml'" in found.output
    assert read("my first/private.toml").serve.federation == "my first"
    again = CliRunner().invoke(app, ["new", "my first"])
    assert again.exit_code == 1 and "my first exists already" in again.output


@pytest.mark.parametrize("name", ['say "hi"', "back\\slash", "$HOME", "Größe", "a'b"])
def test_whatever_a_project_is_called_its_files_can_be_read(tmp_path: Path, name: str) -> None:
    folder = made(tmp_path, "own", name)
    assert read(folder / "private.toml").serve.federation == name
    assert Policy.read(folder / "policy.toml").federations == (name,)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing/mine", "there is no folder .*missing to make mine in"),
        ("x" * 61, "1 to 60 letters"),
        ("line\nbreak", "1 to 60 letters"),
        ("there", "exists already"),
        ("dangling", "exists already"),
        ("file/mine", "there is no folder"),
        ("-mine", "would be taken for an option"),
    ],
)
def test_a_name_that_cannot_be_is_refused_in_a_sentence(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ConfigError, match=says):
        new_project(tmp_path / name)
    assert sorted(tmp_path.iterdir()) == before


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []

    def full(handle: int) -> None:
        synced.append(handle)
        if len(synced) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="mine cannot be written: no space left on device; nothing was left behind"):
        new_project(tmp_path / "mine")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "mine", {"a": "b"})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_came_meanwhile_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(self: Path, target: Path) -> Any:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "theirs").write_text("kept")
        return self.replace(target)

    monkeypatch.setattr(Path, "rename", meanwhile)
    with pytest.raises(ConfigError, match="exists already"):
        write_folder(tmp_path / "mine", {"a": "b"})
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["theirs"]
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_project_has_the_rights_that_a_folder_of_ones_own_has(tmp_path: Path) -> None:
    made(tmp_path, "own")
    (tmp_path / "like").mkdir()
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == stat.S_IMODE((tmp_path / "like").stat().st_mode)


def test_an_own_model_that_says_how_smooth_it_is_takes_automatic_steps(tmp_path: Path) -> None:
    folder = made(tmp_path, "own")
    assert read(folder / "run.toml").schedule.is_auto
    schedule = crescendo.schedule(folder / "run.toml", gradients=500)
    assert schedule.steps[0] > schedule.steps[-1] > 0
    model = (folder / "model.py").read_text(encoding="utf-8")
    for wrong, says in (
        ("return -square", "smoothness.* must be a number of at least 0"),
        ("pass", "must be a number"),
    ):
        (folder / "model.py").write_text(model.replace("return square / 2", wrong), encoding="utf-8")
        with pytest.raises(ConfigError, match=says):
            crescendo.schedule(folder / "run.toml")
    (folder / "model.py").write_text(model.partition("    def smoothness")[0], encoding="utf-8")
    with pytest.raises(ConfigError, match="write the steps"):
        crescendo.schedule(folder / "run.toml")


def test_a_table_project_says_what_each_column_becomes(tmp_path: Path) -> None:
    folder = made(tmp_path, "csv")
    asked = read(folder / "run.toml")
    assert asked.data.drop == ("id", "visited") and asked.data.label == "ill" and asked.schedule.is_auto
    text = (folder / "run.toml").read_text(encoding="utf-8")
    assert (
        "#   age: a number from" in text and "#   city: one of Bern, Oslo, Rome" in text and "visited is dates" in text
    )
    private = (folder / "private.toml").read_text(encoding="utf-8")
    assert "A person stated their contents" in private and read(folder / "private.toml").data.classes == ("no", "yes")
    assert len(read(folder / "private.toml").data.table_schema().columns) == 2  # type: ignore[union-attr]


def test_new_says_which_columns_it_left_out_and_what_is_odd_about_the_labels(tmp_path: Path) -> None:
    """Text that never repeats is left out: without a word the best column would be missing."""
    rows = [f"from {1000 + 7 * i},{i % 50},{i % 9},{('yes', 'no', 'YES')[i % 3]}" for i in range(300)]
    (tmp_path / "money.csv").write_text("\n".join(["income,age,\x1b[2J,late", *rows]))
    found = CliRunner().invoke(app, ["new", str(tmp_path / "mine"), "--csv", str(tmp_path / "money.csv")])
    assert found.exit_code == 0 and "'income' is left out: it is text of 300 different values" in found.stdout
    assert "'YES' and 'yes' differ only in how they are written" in found.stdout and "\x1b" not in found.stdout


def test_a_project_for_numbers_predicts_them_and_an_unstated_range_is_to_be_edited(tmp_path: Path) -> None:
    folder = made(tmp_path, "numbers")
    plain, private = read(folder / "run.toml"), read(folder / "private.toml")
    assert plain.objective.kind == private.objective.kind == "least-squares" and private.data.classes is None
    assert private.objective.label_range == (0.0, 1000.0) and private.privacy.clip == 500.0
    drafted = table_project(tmp_path / "drafted", price_table(tmp_path)).folder / "private.toml"
    low, high = read(drafted).objective.label_range or (0.0, 0.0)
    assert low <= 150 and 500 <= high <= 700 and low % 10 == high % 10 == 0, "round numbers around what was seen"
    assert re.search(
        r"^label_range = .*LOOKED AT: between which two numbers do labels lie\?$", drafted.read_text(), re.M
    )
    longest = private.data.table_schema().norm_bound()  # type: ignore[union-attr]
    assert private.schedule.is_auto and longest <= (private.privacy.norm_bound or 0.0) < longest + 0.002
    assert "a number from" in (folder / "run.toml").read_text(encoding="utf-8")


def test_whole_numbers_are_classes_where_they_are_few_and_amounts_where_they_are_many(tmp_path: Path) -> None:
    for many, kind in ((7, "softmax"), (150, "least-squares")):
        path = tmp_path / f"{many}.csv"
        path.write_text("a,b\n" + "".join(f"{i % 11},{i * 11 % many}\n" for i in range(300)), encoding="utf-8")
        table_project(tmp_path / f"of {many}", path)
        assert read(tmp_path / f"of {many}" / "run.toml").objective.kind == kind


def test_names_in_a_table_cannot_write_into_a_run_file(tmp_path: Path) -> None:
    """A column called like a table of the run file stays a name."""
    rows = "\n".join(f'"{i % 7}",{i % 5},{"a" if i % 3 else "b"}' for i in range(60))
    path = tmp_path / "odd.csv"
    path.write_text(f'"x"" [privacy] # y","q = 1","lab""el"\n{rows}\n', encoding="utf-8")
    table_project(tmp_path / "mine", path)
    found = crescendo.simulate(tmp_path / "mine" / "run.toml")
    assert found.config.data.label == 'lab"el' and found.privacy is None
    read(tmp_path / "mine" / "private.toml")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--csv", "nowhere.csv"], "there is no file nowhere.csv"),
        (["--csv", "digits"], "digits is not a table"),
        (["--csv", "t.csv", "--label", "nothing"], "nothing"),
        (["--csv", "t.csv", "--torch"], "choose one of them"),
        (["--label", "ill"], "give --csv, too"),
        (["--csv", "same.csv"], "same.csv has"),
        (["--csv", "empty.csv"], "empty.csv"),
        (["--csv", "far.csv"], "have no usable scale; write them in another unit"),
    ],
)
def test_a_table_that_cannot_be_learned_from_makes_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n")
    (tmp_path / "same.csv").write_text("a,b\n1,x\n1,y\n1,x\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "far.csv").write_text("a,b\n1,1e308\n7,0.5\n3,-1e308\n")
    found = CliRunner().invoke(app, ["new", "mine", *arguments])
    assert found.exit_code == 1 and says in found.output and found.output.count("\n") == 1
    assert not (tmp_path / "mine").exists()
