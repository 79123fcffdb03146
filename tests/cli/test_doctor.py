"""`crescendo doctor`: each check on a machine that is made to fail it, and `--version`."""

from __future__ import annotations

import json
import resource
import shutil
import socket
import time
from collections import namedtuple
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crescendo.build import build_id
from crescendo.cli import checkup
from crescendo.cli.main import app

Usage = namedtuple("Usage", "total used free")


def state(name: str) -> tuple[str, str]:
    return next((one.state, one.says) for one in checkup.checkup() if one.name == name)


def test_this_machine_is_sound_and_every_check_has_a_sentence() -> None:
    found = CliRunner().invoke(app, ["doctor", "--json"])
    said = json.loads(found.stdout)
    assert (
        found.exit_code == 0
        and said["sound"]
        and {"Python", "packages", "cache", "disk", "port", "clock"} <= {check["name"] for check in said["checks"]}
    )
    words = CliRunner().invoke(app, ["doctor"])
    assert words.exit_code == 0 and "all checks passed" in words.stdout


def test_a_package_that_is_missing_or_too_old_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "requires", lambda name: ["numpy>=99", "no-such-package", "other; extra == 'x'"])
    found, says = state("packages")
    assert found == "bad" and "numpy>=99 is needed" in says and "no-such-package is needed and none" in says
    assert "other" not in says
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1 and "BAD" in result.stdout and "1 of " in result.stdout


def test_an_extra_that_is_not_there_is_a_note_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "_installed", lambda name: None if name == "torch" else "1.0")
    assert state("extra torch") == ("note", "not installed; for torch modules: pip install 'crescendo-fl[torch]'")


def test_a_port_in_use_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        monkeypatch.setattr(checkup, "PORT", held.getsockname()[1])
        assert state("port")[0] == "note"


def test_folders_that_cannot_be_used_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CRESCENDO_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setenv("CRESCENDO_DATA", str(tmp_path / "nowhere"))
    assert state("cache")[0] == "note" and state("data folder")[0] == "bad"


def test_a_full_disk_few_files_and_a_clock_that_is_behind_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(100 * 10**9, 99 * 10**9, 10**9))
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, 256))
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert (state("disk")[0], state("open files")[0], state("clock")[0]) == ("note", "note", "bad")


def test_the_version_names_what_a_report_of_a_bug_needs() -> None:
    line = CliRunner().invoke(app, ["--version"]).stdout
    assert line.startswith("crescendo ") and "numpy " in line and "Python 3" in line and line.count("\n") == 1
    assert f"(build {build_id()}; " in line


def test_a_table_is_looked_at_in_place_of_the_machine(tmp_path: Path) -> None:
    rows = [
        f"{-999 if at % 9 == 0 else at % 40},{['closed', 'open'][at % 2]},${at * at % 97},{['no', 'yes'][at % 2]}"
        for at in range(60)
    ]
    (tmp_path / "a.csv").write_text("\n".join(["temp,status,pay,died", *rows]))
    words = CliRunner().invoke(app, ["doctor", str(tmp_path / "a.csv")])
    assert words.exit_code == 0 and "Python" not in words.stdout
    for says in ("write missing = [-999]", 'write status = "drop"', 'kind = "money", unit = "USD"', "3 to note"):
        assert says in words.stdout
    said = json.loads(CliRunner().invoke(app, ["doctor", str(tmp_path / "a.csv"), "--label", "died", "--json"]).stdout)
    assert said["notes"] == 3 and {"name", "state", "says", "remedy"} == set(said["checks"][0])
    assert {check["remedy"] for check in said["checks"] if check["name"] == "temp"} == {"missing = [-999]"}


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["none.csv"], "there is no file"),
        (["a.csv", "--label", "gone"], "data.label asks for column 'gone'"),
        (["--label", "y"], "--label names a column of a table"),
        (["one.csv"], "every record of one.csv has the label no"),
    ],
)
def test_a_table_that_cannot_be_looked_at_is_one_sentence(
    typed: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("a,y\n1,no\n2,yes\n")
    (tmp_path / "one.csv").write_text("a,y\n1,no\n2,no\n")
    found = CliRunner().invoke(app, ["doctor", *typed])
    assert found.exit_code == 1 and says in found.stderr and found.stderr.count("\n") == 1


def test_a_draft_counts_codes_as_missing_and_says_what_it_found(tmp_path: Path) -> None:
    rows = [f"{-999 if at % 9 == 0 else at % 40},{at % 7},{['no', 'yes'][at % 2]}" for at in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["temp,b,died", *rows]))
    drafted = CliRunner().invoke(app, ["data", "schema", str(tmp_path / "a.csv"), "--public"])
    assert "temp = {low = 0.0, high = 39.0, missing = [-999.0], fill = " in drafted.stdout
    assert "code for a missing cell does: missing = [-999]" in " ".join(drafted.stdout.replace("#  ", "").split())
    said = json.loads(CliRunner().invoke(app, ["data", "schema", str(tmp_path / "a.csv"), "--json"]).stdout)
    assert said["findings"][0]["column"] == "temp" and said["findings"][0]["applied"]


def test_a_stated_kind_lands_in_the_private_schema(tmp_path: Path) -> None:
    rows = [f'"${at % 40 * 100:,}.50",{at % 9} kg,{["no", "yes"][at % 2]}' for at in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["pay,weight,died", *rows]))
    stated = ["--range", "pay=0:5000", "--range", "weight=0:20", "--values", "died=no,yes", "--records", "60"]
    kinds = ["--kind", "pay=money", "--kind", "weight=unit:kg"]
    made = CliRunner().invoke(app, ["new", str(tmp_path / "p"), "--csv", str(tmp_path / "a.csv"), *stated, *kinds])
    schema = (tmp_path / "p" / "schema.toml").read_text()
    assert made.exit_code == 0 and 'kind = "money"' in schema and 'unit = "kg"' in schema and "looked_at" not in schema
    wrong = CliRunner().invoke(
        app, ["new", str(tmp_path / "q"), "--csv", str(tmp_path / "a.csv"), "--kind", "pay=mony"]
    )
    assert wrong.exit_code == 1 and "write one of number, money" in wrong.stderr
