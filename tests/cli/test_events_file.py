"""`crescendo account EVENTS.json` and `--export`: from another library, to another library, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import PoissonGaussian, from_json
from crescendo_dp.interchange import Foreign
from crescendo_dp.ledger.budget import Budget

runner = CliRunner()
PRIVATE: dict[str, Any] = {
    "data": {"source": "synthetic:rows=200,features=3"},
    "clients": {"count": 2},
    "schedule": {
        "rounds": 3,
        "sizes": {"kind": "power", "scale": 2, "per_client": True},
        "steps": {"kind": "constant", "eta": 0.01},
    },
    "privacy": {"mechanism": "minibatch", "delta": 1e-5, "sigma": 2.0, "clip": 1.0, "records": [80, 90]},
}
EVENTS = (PoissonGaussian(0.01, 1.1), 30), (PoissonGaussian(1.0, 9.0), 1)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def json_of(*arguments: str) -> dict[str, Any]:
    found = runner.invoke(app, [*arguments, "--json"])
    assert found.exit_code == 0 and found.stderr == "" and found.stdout.count("\n") == 1, found.output
    return dict(json.loads(found.stdout))


@pytest.mark.slow
def test_events_of_another_library_are_accounted_for_and_not_certified() -> None:
    Path("history.json").write_text(json.dumps([[event.sigma, event.rate, count] for event, count in EVENTS]))
    found = json_of("account", "history.json", "--delta", "1e-5")
    assert (found["format"], found["certified"], found["releases"]) == ("opacus", False, 31)
    assert found["epsilon"] == account(EVENTS, 1e-5).epsilon and "holds if the events describe" in found["says"]
    assert from_json(found["events"]) == EVENTS
    shown = runner.invoke(app, ["account", "history.json", "--delta", "1e-5"])
    assert shown.exit_code == 0 and "history.json: opacus events, delta 1e-05" in shown.stdout
    assert "Not certified by Crescendo" in shown.stdout and f"{found['epsilon']:.4g}" in shown.stdout
    Path("none.json").write_text('{"class_name": "NonPrivateDpEvent"}')
    assert json_of("account", "none.json", "--delta", "1e-5")["epsilon"] is None
    assert "infinite" in runner.invoke(app, ["account", "none.json", "--delta", "1e-5"]).stdout


def test_one_format_is_turned_into_the_other() -> None:
    Path("opacus.json").write_text(json.dumps({"history": [[1.1, 0.01, 30], [9.0, 1.0, 1]], "mechanism": "rdp"}))
    Path("tree.json").write_text(json.dumps(json_of("account", "opacus.json", "--export", "dp-accounting")))
    again = json_of("account", "tree.json", "--export", "opacus")
    assert again == {"history": [[1.1, 0.01, 30], [9.0, 1.0, 1]], "mechanism": "prv"}


@pytest.mark.slow
def test_a_run_file_exports_what_each_client_releases() -> None:
    Path("private.toml").write_text(tomli_w.dumps(PRIVATE))
    accounted = json_of("account", "private.toml")
    for client in accounted["clients"]:
        for format in ("dp-accounting", "opacus"):
            found = json_of("account", "private.toml", "--export", format, "--client", client["name"])
            assert Foreign.read(found).events == from_json(client["events"])
    alike = ["--set", "privacy.records=80"]
    assert json_of("account", "private.toml", "--export", "opacus", *alike)["mechanism"] == "prv"


def test_the_folder_of_a_run_exports_the_same() -> None:
    events = [{"rate": 0.1, "sigma": 2.0, "count": 4}]
    said = {"mechanism": "minibatch", "sigma": 2.0, "stated_epsilon": None, "delta": 1e-5, "simulated": False}
    Path("here.json").mkdir()
    Path("here.json/privacy.json").write_text(
        json.dumps({**said, "clients": [{"name": name, "records": 80, "events": events} for name in ("AA", "UA")]})
    )
    assert json_of("account", "here.json", "--export", "opacus")["history"] == [[2.0, 0.1, 4]]


def test_a_ledger_exports_what_was_charged_in_all_federations() -> None:
    plan = [PoissonGaussian(0.1, 2.0)] * 5
    with open_ledger("my.ledger", Budget(9.0, 1e-5), dataset="flights") as ledger:
        for federation, delta in (("spring", 1e-6), ("summer", 2e-6)):
            ledger.sign(federation, "terms", "AA", plan, delta)
            ledger.release(federation, 0, plan[0], b"bytes")
        found = json_of("account", "--ledger", "my.ledger", "--export", "opacus")
    assert found["history"] == [[2.0, 0.1, 2]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["events.json"], "--delta"),
        (["events.json", "--delta", "2"], "between 0 and 1"),
        (["events.json", "--delta", "1e-5", "--set", "run.seed=1"], "--set changes a run file"),
        (["events.json", "--delta", "1e-5", "--client", "AA"], "--client"),
        (["missing.json", "--delta", "1e-5"], "does not exist"),
        (["text.json", "--delta", "1e-5"], "not JSON"),
        (["deep.json", "--delta", "1e-5"], "not JSON"),
        (["bytes.json", "--delta", "1e-5"], "not JSON"),
        (["laplace.json", "--delta", "1e-5"], "LaplaceDpEvent"),
        (["laplace.json", "--export", "opacus"], "LaplaceDpEvent"),
        (["private.toml", "--export", "opacus"], "--client: client 0, client 1"),
        (["private.toml", "--export", "opacus", "--client", "AA"], "no client 'AA'"),
        (["plain.toml", "--export", "opacus"], "claims no privacy"),
        (["--export", "opacus"], "name one thing"),
        (["events.json", "--export", "opacus", "--delta", "1e-5"], "leave --delta out"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], words: str) -> None:
    Path("events.json").write_text("[[1.1, 0.01, 30]]")
    Path("text.json").write_text("history")
    Path("deep.json").write_text("[" * 100_000)
    Path("bytes.json").write_bytes(b"\xff\xfe[")
    Path("laplace.json").write_text('{"class_name": "LaplaceDpEvent", "noise_multiplier": 1}')
    Path("private.toml").write_text(tomli_w.dumps(PRIVATE))
    Path("plain.toml").write_text(tomli_w.dumps({**PRIVATE, "privacy": {}}))
    found = runner.invoke(app, ["account", *arguments])
    assert found.exit_code == 1 and found.stdout == "" and words in found.stderr, found.output
    assert found.stderr.startswith("crescendo: ") and found.stderr.count("\n") == 1
