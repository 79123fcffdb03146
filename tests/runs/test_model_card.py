"""A model's card says what it is and on what terms, and that of a private run nothing that its records decided."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import crescendo
from crescendo.cli.main import app
from crescendo.runs.export import export
from crescendo.runs.models.model_card import CARD, code, plain
from tests.calls.test_loaded_federation import of_tables
from tests.conformance.cases import OWN_MODEL, PRIVATE, case

pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
SCHEMA: dict[str, Any] = {
    "label": "stay",
    "columns": {"income": {"low": 0, "high": 100_000}, "ward": {"values": ["north", "süd"]}},
}


def table(rows: int = 240) -> Any:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {"income": rng.normal(size=rows) * 9000 + 50_000, "ward": rng.choice(["north", "süd"], rows)}
    )
    frame["stay"] = np.where((frame.ward == "north") | (frame.income > 60_000), "long", "short")
    return frame


def card(folder: Path) -> str:
    return (folder / CARD).read_text(encoding="utf-8")


def test_the_card_of_a_plain_run_says_everything(tmp_path: Path) -> None:
    found = crescendo.simulate(table(), "stay", clients=3, gradients=2000, name="wards", out=tmp_path / "run")
    said = card(tmp_path / "run")
    assert said.startswith("# Model card: wards\n") and "A logistic regression on 3 features, for 2 classes." in said
    assert "No epsilon, because no privacy was asked for" in said
    assert f"accuracy: **{found.accuracy:.4f}**" in said and "pooled fit: **" in said and "commonest class: **" in said
    assert "`income`: a number from" in said and "`ward`: one of `north`, `süd`" in said and "`long`, `short`" in said
    assert "192 training records" in said and str(tmp_path) not in said


def test_the_three_lines_of_a_card_run_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crescendo.simulate(table(), "stay", clients=3, gradients=2000, out=tmp_path / "run")
    table(5).to_csv(tmp_path / "run" / "new.csv", index=False)
    monkeypatch.chdir(tmp_path / "run")
    (lines,) = re.findall(r"```python\n(.*?)```", card(Path()), re.S)
    exec(lines, {})
    (words,) = re.findall(r"`crescendo (predict [^`]+)`", card(Path()))
    assert CliRunner().invoke(app, words.split()).exit_code == 0


def test_the_card_of_a_private_run_has_an_epsilon_and_nothing_of_its_records(tmp_path: Path) -> None:
    keys: dict[str, Any] = {
        "clients": 2,
        "epsilon": 2.0,
        "records": 150,
        "classes": ["long", "short"],
        "schema": SCHEMA,
    }
    found = crescendo.simulate(table(), "stay", **keys, rounds=10, out=tmp_path / "run")
    said = card(tmp_path / "run")
    assert found.privacy is not None and f"**Epsilon {found.privacy['epsilon']:.4g} at delta" in said
    assert "noise comes from the seed and protects nobody" in said and "150 records declared by each client" in said
    assert "Not stated here" in said and "accuracy: " not in said and f"{found.accuracy:.4f}" not in said
    assert "`income`: a number from 0 to 100000" in said and "192" not in said
    # one record more, and another label, change not a byte of it
    other = table(241)
    other.loc[3, "stay"] = "short" if other.stay[3] == "long" else "long"
    crescendo.simulate(other, "stay", **keys, rounds=10, out=tmp_path / "other")
    assert card(tmp_path / "other") == said


def test_where_terms_were_looked_at_no_epsilon_and_no_range_is_there(tmp_path: Path) -> None:
    columns = {
        "income": {"low": 21_234.5, "high": 77_777.5, "looked_at": True},
        "ward": {"values": ["north", "süd"], "looked_at": True},
    }
    schema = {"label": "stay", "columns": columns}
    keys: dict[str, Any] = {
        "clients": 2,
        "epsilon": 2.0,
        "records": 150,
        "classes": ["long", "short"],
        "schema": schema,
    }
    found = crescendo.simulate(table(), "stay", **keys, rounds=10, out=tmp_path / "run")
    said = card(tmp_path / "run")
    assert found.privacy is not None and found.privacy["epsilon"] is None
    assert "No epsilon, because entries were read off the records" in said and "**Epsilon" not in said
    assert not re.search(r"[Ee]psilon \d", said)
    assert "`income`: a number\n" in said and "21234" not in said and "77777" not in said and "`north`" not in said


@pytest.mark.parametrize("private", [False, True])
def test_the_card_of_a_federation_lies_beside_its_export(tmp_path: Path, private: bool) -> None:
    privacy = {"privacy": {"mechanism": "minibatch", **PRIVATE, "records": 100}} if private else {}
    agreed = of_tables(tmp_path / "served", np.arange(6.0), **privacy)
    (tmp_path / "out").mkdir()
    done = export(tmp_path / "served", "npz", tmp_path / "out" / "m.npz")
    assert done.card == tmp_path / "out" / CARD
    said = card(tmp_path / "out")
    assert agreed.digest in said and "`ja gewiß`, `nein`" in said and "Not measured by the federation" in said
    if private:
        spent = crescendo.load(tmp_path / "served").privacy
        assert spent is not None and f"**Epsilon {spent['epsilon']:.4g} at delta 1e-06**" in said
        assert "simulat" not in said and "each client's ledger has the total" in said
    else:
        assert "No epsilon, because no privacy was asked for" in said
    again = CliRunner().invoke(
        app, ["export", str(tmp_path / "served"), "--to", "npz", "--out", str(tmp_path / "out" / "n.npz")]
    )
    assert again.exit_code == 0 and f"{tmp_path / 'out' / CARD} describes it" in again.stdout.replace("\n", "")
    (tmp_path / "out" / CARD).write_text("mine")
    assert (
        export(tmp_path / "served", "npz", tmp_path / "out" / "o.npz").card is None and card(tmp_path / "out") == "mine"
    )


def test_names_from_elsewhere_are_no_markup(tmp_path: Path) -> None:
    frame = table().rename(columns={"ward": "a`b <img src=x> | [x](y)"})
    frame["stay"] = np.where(frame.stay == "long", "**long**", "<script>")
    crescendo.simulate(frame, "stay", clients=2, gradients=500, name="# <b>x</b>", out=tmp_path / "run")
    said = card(tmp_path / "run")
    assert said.startswith("# Model card: ") and "<b>" not in said.splitlines()[0]
    assert "`a'b <img src=x> | [x](y)`" in said and "`<script>`" in said
    assert plain("a\nb") == "a?b" and code("``") == "`''`"


def test_the_card_of_a_model_that_a_program_gave_is_not_that_of_the_usual_objective(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
    x = np.random.default_rng(0).normal(size=(100, 2))
    net = torch.nn.Linear(2, 2)
    crescendo.simulate(x, x[:, 0] > 0, objective=net, clients=2, gradients=100, out=tmp_path / "run")
    said = card(tmp_path / "run")
    assert "A torch module that a program gave, trained on 2 features" in said and "logistic" not in said
    assert 'crescendo.load(".", objective=net)  # the folder of this file; net is that model' in said


def test_the_card_of_a_model_of_ones_own_names_its_file_without_its_folder(tmp_path: Path) -> None:
    raw = case(data={"source": "digits", "classes": list(range(10))})
    raw |= {"objective": {"kind": OWN_MODEL, "options": {"classes": 10}}}
    raw.pop("serve")
    crescendo.simulate(raw, out=tmp_path / "run")
    said = card(tmp_path / "run")
    assert (
        "The model `own_model.py:Softmax`" in said and 'crescendo.load(".", objective="own_model.py:Softmax")' in said
    )
    assert str(Path(OWN_MODEL).parent) not in said
