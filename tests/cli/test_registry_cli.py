"""`account --registry`, `--register` and `--forget`: what was used here, in words, and what its owner says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.federation.policy import Policy
from crescendo.network.client.ledger_for import ledger_for
from tests.storage.ledger_play import PLAN, cheap, store


def said(*words: str, code: int = 0) -> str:
    found = CliRunner().invoke(app, ["account", *words], env={"COLUMNS": "300"})
    assert found.exit_code == code, found.output
    return found.output


@pytest.fixture
def spent(tmp_path: Path) -> Path:
    """A ledger of three records that has promised thirty rounds and sent one."""
    policy = Policy.model_validate({"epsilon": 2.0, "delta": 1e-6, "dataset": "ward 7"})
    with ledger_for(None, policy, tmp_path) as ledger:
        ledger.sign("f", "terms", "me", PLAN, 1e-7, cheap)
        store(ledger, 0, b"zero")
        return ledger.path


def test_the_list_has_each_data_set_with_its_ledger_and_its_budget(spent: Path, own_registry: Path) -> None:
    text = said("--registry")
    assert str(own_registry) in text.replace("\n", "") and "ward 7" in text and str(spent) in text
    found = json.loads(said("--registry", "--json"))
    assert found["registry"] == str(own_registry)
    (one,) = found["ledgers"]
    assert (one["dataset"], one["ledger"], one["epsilon"], one["state"]) == ("ward 7", str(spent), 2.0, "there")
    assert 0 < one["spent"] < 2 and one["different_records"] is None
    spent.unlink()
    assert "missing: the epsilon spent is unknown" in said("--registry")


def test_an_empty_registry_is_said_to_be_empty_and_not_made(own_registry: Path) -> None:
    assert "No ledger has been used on this machine yet" in said("--registry")
    assert not own_registry.exists()


def test_what_the_owner_says_is_noted(spent: Path, tmp_path: Path) -> None:
    other = str(tmp_path / "other.sqlite")
    assert "is for other records than the one other ledger" in said("--register", other)
    assert json.loads(said("--registry", "--json"))["ledgers"][1]["state"] == "not begun"
    assert "has forgotten" in json.loads(said("--forget", other, "--json"))["says"]
    assert f"has no ledger {other}; it knows {spent}" in said("--forget", other, code=1).replace("\n", " ")


@pytest.mark.parametrize(
    "words",
    [["--registry", "--forget", "x"], ["--register", "x", "--delta", "1e-5"], ["x", "--registry"]],
    ids=" ".join,
)
def test_each_goes_alone(words: list[str]) -> None:
    assert "each go alone" in said(*words, code=1)
