"""What an earlier layout of the package wrote is opened, and what it computed is computed again, bit for bit.

``served``, ``client`` and ``run`` are the folders of a federation and of a simulation. The models' hashes were taken at the
same time. They hold where floats are rounded as on the machine that made them: other processors add up in another order.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import crescendo
from crescendo.cli.main import app
from crescendo.config.loading import read_served
from crescendo.config.schema import Config
from crescendo.config.to_terms import terms_text
from crescendo.errors import Refused
from crescendo.federation.agreement import build_terms, canonical
from crescendo.logs import quiet
from crescendo.runs import serving
from crescendo.simulator.trace import Trace
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.replay import replay
from tests.network.processes import federation

HERE = Path(__file__).parent
BASE: dict[str, Any] = {
    "run": {"seed": 11},
    "data": {"source": "synthetic:rows=900,features=7"},
    "clients": {"count": 3, "combine": "sum"},
    "objective": {"l2": 0.01},
    "schedule": {
        "rounds": 8,
        "sizes": {"kind": "power", "scale": 30},
        "steps": {"kind": "diminishing", "eta0": 0.05, "beta": 0.01, "per": "round"},
        "wait": {"rounds": 1},
    },
    "timing": {"preset": "heterogeneous"},
}
PRIVATE: dict[str, Any] = {"delta": 1e-6, "sigma": 2.0, "clip": 0.5, "norm_bound": 3.0, "records": 280}
RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "plain": ({}, "4988e2c19c541b8d"),
    "minibatch": ({"privacy": {"mechanism": "minibatch", **PRIVATE}}, "6dd7e6c140f7e475"),
    "local": ({"privacy": {"mechanism": "local", **PRIVATE}}, "c5aca6d7aafb95fe"),
    "masks": ({"schedule": {**BASE["schedule"], "blocks": 2}}, "911b073190c6695c"),
    "crashes": ({"timing": {"preset": "heterogeneous", "crash": {"every": 60.0, "down": 20.0}}}, "408f247859de245c"),
}
FLOATS = "87342196a8017181"
TERMS: str = json.loads((HERE / "served" / "terms.json").read_text())["terms"]


def hashed(*arrays: Any) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:16]


def hash_of(result: crescendo.Result) -> str:
    """Of the model, and of everything that happened on the way to it."""
    tables = result.trace.tables
    return hashed(
        result.model, *(tables[table][column] for table in sorted(tables) for column in sorted(tables[table]))
    )


def floats_of_this_machine() -> str:
    """Sums, products and exponentials as this machine rounds them."""
    x = np.random.Generator(np.random.Philox(1)).normal(size=(64, 33))
    return hashed(x @ x.T, np.exp(x), x.sum(axis=0), np.log1p(np.abs(x)))


@pytest.mark.parametrize("name", RUNS)
def test_the_same_seeds_give_the_same_models(name: str) -> None:
    if floats_of_this_machine() != FLOATS:
        pytest.skip("this machine rounds otherwise than the one that made the hashes")
    changes, expected = RUNS[name]
    result = crescendo.simulate({**BASE, **changes})
    assert hash_of(result) == expected


def test_a_run_folder_is_read(tmp_path: Path) -> None:
    shutil.copytree(HERE / "run", tmp_path / "run")
    said = json.loads(CliRunner().invoke(app, ["account", str(tmp_path / "run"), "--json"]).stdout)
    written = json.loads((HERE / "run" / "privacy.json").read_text())
    assert said["epsilon"] == pytest.approx(written["epsilon"], rel=1e-4) and len(said["clients"]) == 3
    Trace.load(tmp_path / "run" / "trace.npz")
    again = CliRunner().invoke(app, ["run", str(tmp_path / "run" / "config.toml"), "--out", str(tmp_path / "again")])
    assert again.exit_code == 0
    lines = (tmp_path / "again" / "config.toml").read_text().splitlines(keepends=True)
    added = {'combine = "sum"\n', "gradient = false\n"}  # keys that there were not yet, at what they meant then
    assert "".join(line for line in lines if line not in added) == (HERE / "run" / "config.toml").read_text()
    with np.load(HERE / "run" / "model.npz") as old, np.load(tmp_path / "again" / "model.npz") as new:
        assert set(old.files) <= set(new.files)
        assert all(np.allclose(old[key], new[key], rtol=1e-9) for key in old.files)


def test_a_journal_adds_up_and_its_server_goes_on(tmp_path: Path) -> None:
    shutil.copytree(HERE / "served", tmp_path / "served")
    with np.load(HERE / "served" / "model.npz") as file:
        model = file["model"]
    assert np.array_equal(replay(tmp_path / "served" / "journal"), model)
    with DurableServer(tmp_path / "served" / "journal", TERMS, lambda text: build_terms(text).terms) as server:
        assert np.array_equal(server.model, model) and server.finished and server.k == 6


def test_a_ledger_is_read(tmp_path: Path) -> None:
    shutil.copytree(HERE / "client", tmp_path / "client")
    ledger = tmp_path / "client" / "ledger.sqlite"
    said = json.loads(CliRunner().invoke(app, ["account", "--ledger", str(ledger), "--json"]).stdout)
    assert said["promised"] == said["spent"] == {"epsilon": 0.5453570777338593, "delta": 1e-05, "way": "sum"}
    (federation,) = said["federations"]
    assert federation["federation"] == "before" and federation["charged"] == 6 and federation["closed"]


HALFWAY = "halfway"  # a private federation in step, stopped after the first client's first round, by commit 0905781


@pytest.mark.slow
def test_a_federation_that_an_older_program_began_is_finished_with_the_model_of_an_uninterrupted_run(
    tmp_path: Path,
) -> None:
    """The server's state and a client's are opened by this program; the other client comes new."""
    with (HERE / HALFWAY / "federation.toml").open("rb") as file:
        raw = tomllib.load(file)
    made = federation(tmp_path, raw, seeded=True)
    for name in ("served", "client0"):
        shutil.copytree(HERE / HALFWAY / name, tmp_path / name)
    signed = json.loads((tmp_path / "served" / "terms.json").read_text())["terms"]
    with made:
        made.start_server()
        made.start_client(0)  # first: to one that comes late the server gives a model with what the other did meanwhile
        made.until(lambda: any(facts["event"] == "joined" for facts in made.events("server.log")), "client 0 joined")
        made.start_client(1)
        made.wait()
        assert json.loads((tmp_path / "served" / "terms.json").read_text())["terms"] == signed
        assert not [facts for facts in made.events("server.log") if facts["event"] in ("journal", "new_epoch", "alarm")]
        assert min(made.sent(0)) == 1  # its first round was charged and sent by the older program, and only there
    whole = crescendo.simulate(raw).model
    np.testing.assert_allclose(made.model(), whole, rtol=0, atol=1e-12 * np.abs(whole).max())


def test_the_terms_of_an_older_program_are_made_anew_word_for_word() -> None:
    """Else a server whose kept terms are lost could not go on, and a changed default would change a federation that runs."""
    kept = json.loads((HERE / HALFWAY / "served" / "terms.json").read_text())["terms"]
    assert terms_text(read_served(HERE / HALFWAY / "federation.toml")) == kept


def test_new_keys_and_defaults_of_run_files_do_not_make_kept_terms_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version computes another sigma for the same run file: the federation goes on under the one that was signed."""
    config = read_served(HERE / HALFWAY / "federation.toml")
    text = json.loads((HERE / HALFWAY / "served" / "terms.json").read_text())["terms"]
    asked, *_ = serving._remembered_terms(config, tmp_path, quiet)
    (tmp_path / "terms.json").write_text(json.dumps({"asked": asked, "terms": text}))
    monkeypatch.setattr(serving, "terms_and_cost", lambda config: ("made anew", None))
    monkeypatch.setattr(Config, "plain", lambda self: {"with": "a new key"})
    assert serving._remembered_terms(config, tmp_path, quiet)[:2] == (asked, text)
    changed = config.model_copy(update={"run": config.run.model_copy(update={"seed": 8})})
    assert serving._remembered_terms(changed, tmp_path, quiet)[1] == "made anew"


def test_terms_with_a_word_that_is_newer_are_refused_in_a_sentence() -> None:
    raw = json.loads(TERMS)
    raw["schedule"]["sizes"]["doubled"] = True
    with pytest.raises(
        Refused, match=r"there is no key schedule\.sizes\.doubled.*both sides must run the same version"
    ):
        build_terms(canonical(raw))
