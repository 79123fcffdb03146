"""The commands in docs/deploy.md are what the command line takes, and its files are what the readers take.

`tests/docs` runs them.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.config.loading import read, read_served
from crescendo.config.to_terms import terms_text
from crescendo.data import Records
from crescendo.federation.agreement import build_terms
from crescendo.federation.last_model import LastModel
from crescendo.federation.policy import Policy
from tests.cli.joining_clients import ONE

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "deploy.md").read_text()
TOML, PYTHON = (re.findall(rf"^```{language}[^\n]*\n(.*?)^```", PAGE, re.M | re.S) for language in ("toml", "python"))


def commands(page: str) -> list[list[str]]:
    """Every command line: in a block of its own, in a unit (ExecStart=), in a service (command:), or in backquotes."""
    found = re.findall(r"^(?:ExecStart=\S*/)?crescendo (.+)$", page, re.M)
    found += re.findall(r"^ +command: (.+)$", page, re.M)
    found += re.findall(r"`crescendo ([^\s`]+ [^`]+)`", page)
    return [shlex.split(line) for line in found]


def parse(words: list[str]) -> dict[str, object]:
    """The parameters that the command would be called with; it is not called. Wrong use raises."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    with group.make_context("crescendo", list(words)) as above:
        _, command, rest = group.resolve_command(above, list(words))
        assert command is not None
        made = command.make_context(command.name, rest, parent=above)
        if isinstance(command, typer.core.TyperGroup):
            _, command, rest = command.resolve_command(made, [*made._protected_args, *made.args])
            assert command is not None
            made = command.make_context(command.name, rest, parent=made)
        return dict(made.params)


@pytest.mark.parametrize("words", commands(PAGE), ids=" ".join)
def test_every_command_in_the_page_parses(words: list[str]) -> None:
    parse(words)


def test_the_page_shows_every_command_of_a_federation() -> None:
    assert {words[0] for words in commands(PAGE)} >= {"certs", "serve", "join", "status", "account", "aggregate"}
    assert len(commands(PAGE)) >= 12


def test_an_option_that_does_not_exist_would_be_noticed() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse(["status", "10.77.0.1:7077", "--cert", "keys"])
    with pytest.raises(Exception, match="Missing"):
        parse(["join", "10.77.0.1:7077", "--data", "a.csv"])


def test_the_run_file_in_the_page_can_be_served_to_the_clients_in_the_page(tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(next(text for text in TOML if "[serve]" in text))
    config = read_served(file)
    joined = {str(parse(words)["name"]) for words in commands(PAGE) if words[0] == "join"}
    assert config.serve.names is not None
    assert joined <= set(config.serve.names)
    certified = parse(next(words for words in commands(PAGE) if words[0] == "certs"))["client"]
    assert isinstance(certified, list | tuple)
    assert set(config.serve.names) <= set(certified)


def test_the_policy_in_the_page_allows_the_run_file_in_the_page(tmp_path: Path) -> None:
    run_text, policy_text = (next(text for text in TOML if mark in text) for mark in ("[serve]", "max_epsilon"))
    file = tmp_path / "policy.toml"
    file.write_text(policy_text)
    policy, run = Policy.read(file), tomllib.loads(run_text)
    assert isinstance(policy, Policy)
    assert policy.federations == (run["serve"]["federation"],)
    assert run["privacy"]["mechanism"] in policy.mechanisms
    assert policy.max_epsilon is not None
    assert run["privacy"]["epsilon"] <= policy.max_epsilon <= (policy.epsilon or 0)
    assert run["privacy"]["delta"] <= (policy.delta or 0)


def test_the_model_is_used_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the page computes of a saved model is what the objective says of the same records."""
    agreed = build_terms(terms_text(read(ONE)))
    rng, file = np.random.default_rng(5), tmp_path / "served" / "model.npz"
    model, x = rng.normal(size=5), rng.normal(size=(20, 4))
    file.parent.mkdir()
    LastModel.of(model, agreed).save(file)
    np.savetxt(tmp_path / "new.csv", x, delimiter=",", header="a,b,c,d", comments="")
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(next(code for code in PYTHON if "probability" in code), found)
    assert str(found["probability"].round(3)) in capsys.readouterr().out
    says_one = np.where(found["probability"] >= 0.5, 1.0, -1.0)
    assert 0 < (says_one > 0).sum() < 20
    assert agreed.objective.evaluate(model, Records(x, says_one))["accuracy"] == 1.0
    for one in (0, 1):  # -log of the probability of the label is its loss, L2 aside
        loss = agreed.objective.evaluate(model, Records(x[one : one + 1], np.ones(1)))["loss"]
        rest = agreed.objective.traits.l2 / 2 * float(model @ model)
        assert loss - rest == pytest.approx(-np.log(found["probability"][one]))


def test_every_event_of_the_logs_is_explained() -> None:
    """By the table of the declarations; after a change, ``python -m crescendo.logs.log_events`` writes it anew."""
    from crescendo.logs.log_events import table

    assert table() + "\n\n" in PAGE


def test_every_column_of_the_status_is_explained() -> None:
    from crescendo.cli.show.show_status import COLUMNS

    table = PAGE.partition("| column |")[2].partition("\n\n")[0]
    told = {name for cell in re.findall(r"^\| (.+?) \|", table, re.M) for name in cell.split(", ")}
    assert told == set(COLUMNS)
    words = CliRunner().invoke(app, ["status", "--help"]).stdout
    assert all(name in words for name in COLUMNS)
