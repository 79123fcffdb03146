"""A draft is charged before it is shown, bought once, and never made from a budget that is not there."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.data.formats.readers import RecordFile
from crescendo.data.tables.feature_schema import Schema
from crescendo.drafter import charged_draft as module
from crescendo.drafter.charged_draft import charged_draft, table_file
from crescendo.drafter.draft_request import DraftRequest
from crescendo.errors import DataError, Refused, UsageError
from crescendo.federation.policy import Policy
from crescendo.network.client.ledger_for import ledger_for
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo_dp.events import PoissonGaussian
from tests.drafter.tables import HEADER, patients

runner = CliRunner()
REQUEST = DraftRequest(1.0, 1e-6)
POLICY = 'epsilon = 2.5\ndelta = 1e-5\nledger = "mine.sqlite"\n'


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text("\n".join([HEADER, *patients(2000)]) + "\n")
    Path("policy.toml").write_text(POLICY)


def policy() -> Policy:
    return Policy.read(Path("policy.toml"))


def spent() -> float:
    with open_ledger("mine.sqlite", read_only=True) as ledger:
        return float(ledger.summary()["spent"]["epsilon"])


def test_a_draft_is_charged_and_the_same_request_finds_it_again_whatever_the_records_hold() -> None:
    first = charged_draft(Path("mine.csv"), REQUEST, policy())
    paid = spent()
    assert 0.95 < paid <= 1 and not first.again
    Path("mine.csv").write_text("\n".join([HEADER, *patients(9000, seed=9)]) + "\n")
    again = charged_draft(Path("mine.csv"), REQUEST, policy())
    assert again.draft == first.draft and again.again and spent() == paid


@pytest.mark.slow
def test_each_record_is_read_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quotation mark that one record leaves open must not swallow the records below it."""
    read, seen = RecordFile.table, []

    def table(file: RecordFile, *given: Any, **options: Any) -> Any:
        seen.append(read(file, *given, **options))
        return seen[-1]

    monkeypatch.setattr(RecordFile, "table", table)
    lines = Path("mine.csv").read_text().splitlines()
    Path("mine.csv").write_text("\n".join([lines[0], '"open' + lines[1], *lines[2:]]) + "\n")
    charged_draft(Path("mine.csv"), REQUEST, policy())
    assert seen and all(len(next(iter(one.columns.values()))) >= len(lines) - 2 for one in seen)


@pytest.mark.slow
def test_another_request_is_charged_on_its_own_until_the_budget_is_used_up() -> None:
    charged_draft(Path("mine.csv"), REQUEST, policy())
    charged_draft(Path("mine.csv"), DraftRequest(1.0, 1e-6, drop=("age",)), policy())
    before = spent()
    assert 1 < before <= 2
    with pytest.raises(Refused, match=r"asks for epsilon 2\.39"):
        charged_draft(Path("mine.csv"), DraftRequest(2.4, 1e-6), policy())
    assert spent() == before


def test_the_charge_is_one_gaussian_round_of_all_records_and_leaves_nothing_open() -> None:
    found = charged_draft(Path("mine.csv"), REQUEST, policy())
    with open_ledger("mine.sqlite", read_only=True) as ledger:
        assert ledger.charged() == ((PoissonGaussian(1.0, found.draft.certificate.sigma), 1),)
        account = ledger.account(found.entry)
        assert account is not None and account.promise.failure == found.draft.certificate.failure > 0
        assert ledger.open_federations() == []


def test_a_count_that_fails_is_charged_and_never_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
        patched.setattr(module, "private_draft", fails)
        charged_draft(Path("mine.csv"), REQUEST, policy())
    assert spent() > 0.95
    with pytest.raises(UsageError, match="never compute it again"):
        charged_draft(Path("mine.csv"), REQUEST, policy())


@pytest.mark.slow
def test_nothing_is_shown_that_is_not_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full at the charge: no draft comes out, and the next try counts anew."""
    from crescendo.storage.ledger.ledger_store import Ledger

    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space"):
        patched.setattr(Ledger, "release", full)
        charged_draft(Path("mine.csv"), REQUEST, policy())
    assert not charged_draft(Path("mine.csv"), REQUEST, policy()).again


def test_a_draft_is_charged_to_the_one_ledger_of_its_records() -> None:
    """Another state folder is no second budget: neither for a draft, nor for a federation after it."""
    bare = Policy.model_validate({"epsilon": 1.5, "delta": 1e-5})
    charged_draft(Path("mine.csv"), REQUEST, bare, Path("one"))
    Path("copy.csv").write_bytes(Path("mine.csv").read_bytes())
    with pytest.raises(Refused, match="of these records have a ledger already"):
        charged_draft(Path("copy.csv"), REQUEST, bare, Path("another"))
    with pytest.raises(Refused, match="of these records have a ledger already"):
        ledger_for(RecordFile(Path("copy.csv")), bare, Path("another"))


# -- the command ----------------------------------------------------------------------------------------------------------


def command(*flags: str, code: int = 0) -> str:
    found = runner.invoke(app, ["data", "schema", "mine.csv", *flags])
    assert found.exit_code == code, found.output
    return found.stdout if code == 0 else found.stderr


def as_json(*flags: str) -> dict[str, Any]:
    return dict(json.loads(command("--epsilon", "1", "--policy", "policy.toml", *flags, "--json")))


@pytest.mark.slow
def test_the_file_is_a_schema_that_says_what_it_cost() -> None:
    said = command(
        "--epsilon", "1", "--policy", "policy.toml", "--out", "s.toml", "--range", "age=0:110", "--drop", "visited"
    )
    text = Path("s.toml").read_text()
    schema = Schema.of(tomllib.loads(text))
    assert {one.name for one in schema.columns} == {"age", "income", "sex", "city"}
    assert "age = {low = 0.0, high = 110.0, missing = 55.0, indicator = true}" in text
    assert "epsilon 1 at delta 1e-06" in text and "bought by" in text
    assert 'classes = ["no", "yes"]' in said and "norm_bound = " in said and "records = " in said


def test_the_same_command_shows_the_same_draft() -> None:
    first, again = as_json(), as_json()
    assert (first["again"], again["again"]) == (False, True)
    assert {**first, "again": True} == again
    assert first["certificate"]["provenance"] == "bought by a charged release"
    assert set(first["left_out"]) == {"visited"}


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--epsilon", "1"], "--policy policy.toml"),
        (["--range", "age=0:1"], "add --epsilon"),
        (["--delta", "1e-6"], "add --epsilon"),
        (["--epsilon", "1", "--policy", "none.toml"], "none.toml"),
        (["--epsilon", "1", "--policy", "bare.toml"], "--state DIR"),
        (["--epsilon", "1", "--policy", "open.toml"], "no epsilon and delta"),
        (["--epsilon", "9", "--policy", "policy.toml"], "asks for epsilon 8.9"),
        (["--epsilon", "0", "--policy", "policy.toml"], "above 0"),
        (["--epsilon", "1", "--policy", "policy.toml", "--range", "age"], "write COLUMN=LOW:HIGH"),
        (["--epsilon", "1", "--policy", "policy.toml", "--range", "age=a:b"], "two numbers"),
        (["--epsilon", "1", "--policy", "policy.toml", "--values", "sex="], "sex"),
        (["--epsilon", "1", "--policy", "policy.toml", "--records", "50"], "epsilon = "),
    ],
)
def test_a_mistake_is_one_sentence_and_costs_nothing(flags: list[str], says: str) -> None:
    Path("bare.toml").write_text("epsilon = 1.0\ndelta = 1e-5\n")
    Path("open.toml").write_text('mechanisms = ["none"]\nledger = "mine.sqlite"\n')
    error = command(*flags, "--out", "s.toml", code=1)
    assert says in error and error.count("\n") == 1 and "Traceback" not in error
    assert not Path("s.toml").exists() and (not Path("mine.sqlite").exists() or spent() == 0)


def test_a_file_that_is_there_is_seen_before_anything_is_paid() -> None:
    Path("s.toml").write_text("mine")
    error = command("--epsilon", "1", "--policy", "policy.toml", "--out", "s.toml", code=1)
    assert (
        "s.toml exists already" in error and not Path("mine.sqlite").exists() and Path("s.toml").read_text() == "mine"
    )


def test_a_draft_in_which_nothing_is_seen_says_so() -> None:
    Path("mine.csv").write_text("\n".join([HEADER, *patients(30)]) + "\n")
    error = command("--epsilon", "0.1", "--policy", "policy.toml", code=1)
    assert "no column of mine.csv stands out of the noise" in error and "--range" in error
    assert "epsilon 0.1 is spent on knowing that" in error


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*absent\.csv"):
        table_file(tmp_path / "absent.csv")
