"""A private run whose unstated parts were bought: records reach its files through released counts alone, and the ledger pays."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

import crescendo
from crescendo.cli.main import app
from crescendo.config.loading import read
from crescendo.core.arrays import Floats
from crescendo.drafter import charged_draft as charging
from crescendo.drafter.noisy_counts import NoisyCounts
from crescendo.privacy.guarantee import Guarantee
from crescendo.privacy.mechanisms.noise import SeededSource
from crescendo.storage.ledger.open_ledger import open_ledger
from tests.projects.test_stated import lines

POLICY = 'epsilon = 60.0\ndelta = 1e-4\nledger = "ledger.sqlite"\n'
BUY = ["--epsilon", "50", "--policy", "policy.toml"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_text("\n".join([*lines(True), ""]), encoding="utf-8")
    Path("policy.toml").write_text(POLICY)


def new(name: str, *options: str, code: int = 0) -> str:
    found = CliRunner().invoke(app, ["new", name, "--csv", "p.csv", *options])
    assert found.exit_code == code and (not code or found.output.count("\n") == 1), found.output
    return found.output


def spent(ledger: str = "ledger.sqlite") -> float:
    with open_ledger(ledger, read_only=True) as opened:
        return float(opened.summary()["spent"]["epsilon"])


class _Kept(NoisyCounts):
    """Keeps what one table released, and gives it back for another."""

    kept: list[tuple[Floats, dict[str, float]]]
    again: bool

    def of_places_and_texts(self, counts: Floats, said: Mapping[str, int]) -> tuple[Floats, dict[str, float]]:
        own = super().of_places_and_texts(counts, said)
        if not self.again:
            self.kept.append(own)
            return own
        return self.kept[self._asked - 1]


def twice(classes: bool, monkeypatch: pytest.MonkeyPatch, *, replay: bool) -> list[dict[str, bytes]]:
    """The files of the same project for a table and for that table less its two extreme records, by the same noise."""
    found = []
    monkeypatch.setattr(charging, "SystemSource", lambda: SeededSource(5, client=0))
    monkeypatch.setattr(charging, "NoisyCounts", _Kept)
    _Kept.kept, whole = [], lines(classes)
    for place, rows in (("all", whole), ("less", whole[:-2])):
        _Kept.again = replay and place == "less"
        Path(place).mkdir()
        monkeypatch.setenv("CRESCENDO_REGISTRY", str(Path(place, "registry").resolve()))
        Path(place, "p.csv").write_text("\n".join([*rows, ""]), encoding="utf-8")
        Path(place, "policy.toml").write_text(POLICY)
        with monkeypatch.context() as there:
            there.chdir(place)
            new("m", *BUY)
        files = {path.name: path.read_bytes() for path in Path(place, "m").iterdir()}
        del files["run.toml"]  # a plain run, for which the records may be looked at
        found.append(files)
    return found


@pytest.mark.parametrize("classes", [False, True], ids=["numbers", "classes"])
def test_two_extreme_records_reach_a_file_through_released_counts_alone(
    monkeypatch: pytest.MonkeyPatch, classes: bool
) -> None:
    one, other = twice(classes, monkeypatch, replay=True)
    assert one == other and set(one) == {"README.md", "private.toml", "schema.toml"}


def test_noise_hides_two_extreme_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """With counts of their own and the same noise, nothing moves here either: ranges are rounded, and no single text is shown."""
    one, other = twice(True, monkeypatch, replay=False)
    assert one["schema.toml"] == other["schema.toml"] and b"Nuuk" not in b"".join(one.values())
    assert re.sub(rb"[\d.]+", b"", one["private.toml"]) == re.sub(rb"[\d.]+", b"", other["private.toml"])


def test_the_first_run_states_an_epsilon_and_the_ledger_has_the_price() -> None:
    said = new("m", *BUY)
    assert "epsilon 50 at delta 1e-05 is charged" in said and 45 < spent() <= 50
    config = read("m/private.toml")
    assert not config.looked_at and "looked_at" not in "".join(
        path.read_text() for path in Path("m").glob("[ps]*.toml")
    )
    assert isinstance(crescendo.schedule(config).privacy, Guarantee) and spent() <= 50
    ran = CliRunner().invoke(app, ["run", "m/private.toml", "--set", "schedule.rounds=3", "--out", "out"])
    assert ran.exit_code in (0, 4) and re.search(r"epsilon +[01]\.\d+ +of 2 stated", ran.output), ran.output
    readme = Path("m/README.md").read_text()
    assert "epsilon 50 at delta 1e-05" in readme and "is left for training" in readme


def test_the_same_request_is_never_charged_twice() -> None:
    new("m", *BUY)
    paid, files = spent(), {path.name: path.read_bytes() for path in Path("m").iterdir()}
    assert "m exists already" in new("m", *BUY, code=1) and spent() == paid
    assert "nothing was charged now" in new("n", *BUY) and spent() == paid
    for name in ("schema.toml", "run.toml"):
        assert Path("n", name).read_bytes() == files[name]
    shown = CliRunner().invoke(app, ["data", "schema", "p.csv", *BUY, "--json"])
    assert json.loads(shown.stdout)["again"] and spent() == paid, "the other command finds it, too"


def test_what_is_stated_is_not_bought_and_what_is_left_is_not_overspent() -> None:
    Path("policy.toml").write_text("epsilon = 51.0\ndelta = 1e-5\nmax_delta = 3e-8\n")
    options = ["--range", "age=0:110", "--values", "price=low,high", "--records", "300"]
    new("m", *BUY, "--state", "mine", *options)
    config, schema = read("m/private.toml"), Path("m/schema.toml").read_text()
    assert "age = {low = 0.0, high = 110.0, missing = 55.0, indicator = true}" in schema and "\nid = " not in schema
    assert config.data.classes == ("high", "low") and config.privacy.records == 150
    assert config.privacy.epsilon is not None
    assert 0.9 < config.privacy.epsilon <= 51 - spent("mine/ledger.sqlite") and config.privacy.delta == 1e-8
    assert "join 127.0.0.1:7077 --as alice --state ../mine --policy ../policy.toml" in Path("m/README.md").read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--epsilon", "1"], 'epsilon = 4.0, delta = 1e-5 and ledger = "ledger.sqlite"'),
        (["--policy", "policy.toml"], "give --epsilon, too"),
        (["--epsilon", "60", "--policy", "policy.toml"], "before training"),
        (["--epsilon", "1", "--policy", "bare.toml"], "names no ledger"),
        (["--epsilon", "1", "--policy", "other.toml"], "does not allow a federation named 'm'"),
        (["--epsilon", "1", "--policy", "local.toml"], 'add "minibatch"'),
        ([*BUY, "--schema", "s.toml"], "leave one of them out"),
        ([*BUY, "--range", "Age=0:1"], "names no column"),
        ([*BUY, "--label", "prize"], "prize"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_and_costs_nothing(options: list[str], says: str) -> None:
    Path("bare.toml").write_text("epsilon = 4.0\ndelta = 1e-5\n")
    Path("other.toml").write_text(f'federations = ["another"]\n{POLICY}')
    Path("local.toml").write_text(f'mechanisms = ["local"]\n{POLICY}')
    Path("s.toml").write_text("[columns]\nage = {low = 0, high = 250}\n")
    assert says in new("m", *options, code=1)
    assert not Path("m").exists() and not Path("ledger.sqlite").exists()


def test_labels_that_are_not_seen_end_in_a_sentence_that_says_how_to_go_on_for_free() -> None:
    Path("p.csv").write_text("\n".join(["age,label", *(f"{20 + i % 60},name {i}" for i in range(400))]) + "\n")
    said = new("m", "--epsilon", "5", "--policy", "policy.toml", code=1)
    assert "not distinguishable from the noise" in said and not Path("m").exists()
