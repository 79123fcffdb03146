"""`crescendo check`: a sound run passes, a planted violation is found and named, a trace that cannot be true is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import crescendo
from crescendo.cli.main import app
from crescendo.errors import DataError
from crescendo.runs.checking import RunCheck
from crescendo.simulator.trace import Trace

BASE: dict[str, Any] = {
    "data": {"source": "synthetic:rows=400,features=5,l2=0.01"},
    "clients": {"count": 3, "weights": "size"},
    "objective": {"kind": "logistic", "l2": 0.01},
    "schedule": {
        "gradients": 600,
        "sizes": {"kind": "power", "scale": 12, "power": 1, "shift": 1},
        "steps": {"kind": "constant", "eta": 0.05},
        "wait": {"rounds": 1},
    },
    "timing": {"preset": "heterogeneous"},
}


def made(folder: Path, **changes: Any) -> Path:
    crescendo.simulate({**BASE, **changes}, out=folder)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("runs") / "run")


def copied(run: Path, to: Path, table: str, column: str, at: Any, value: Any) -> Path:
    """A copy of a run whose trace has other values in one place."""
    to.mkdir()
    for path in run.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    trace = Trace.load(run / "trace.npz")
    changed = trace.tables[table][column].copy()
    changed[at] = value
    trace.tables[table][column] = changed
    trace.save(to / "trace.npz")
    return to


def test_a_run_passes_by_either_rule_and_says_its_largest_delay(run: Path, tmp_path: Path) -> None:
    by_rounds = RunCheck.of(run)
    assert by_rounds.holds and by_rounds.found.gradients == 600 and by_rounds.rule == "1 rounds ahead"
    assert 0 < by_rounds.found.delay <= by_rounds.found.allowed and "is consistent" in by_rounds.verdict
    by_tau = made(tmp_path / "tau", schedule={**BASE["schedule"], "wait": {"tau": 300}})
    found = RunCheck.of(by_tau)
    assert found.holds and found.found.allowed == 300 and found.found.delay <= 300


def test_a_gradient_on_a_model_that_is_too_old_is_found_and_named(run: Path, tmp_path: Path) -> None:
    bad = copied(run, tmp_path / "bad", "segments", "basis", -1, -1)
    found = RunCheck.of(bad)
    assert not found.holds and found.found.first is not None
    assert found.verdict.startswith(
        f"the run breaks its delay bound: the gradient labelled {found.found.first.label} (client"
    )
    ended = CliRunner().invoke(app, ["check", str(bad)])
    assert ended.exit_code == 1 and "breaks its delay bound" in ended.stdout and len(ended.stdout.splitlines()) == 1
    said = json.loads(CliRunner().invoke(app, ["check", str(bad), "--json"]).stdout)
    assert said["holds"] is False and said["violations"] >= 1 and said["first_violation"]["lacks"] >= 0


@pytest.mark.parametrize(
    ("table", "column", "at", "value", "says"),
    [
        ("segments", "basis", 3, 999, "on a broadcast that had not been made"),
        ("segments", "began_at", -1, 0.0, "on a broadcast that had not been made"),
        ("segments", "last", 0, 1, "without all of its gradients"),
        ("segments", "last", 0, 10_000, "were due"),
        ("segments", "client", 0, 7, "of client 7, but there are"),
        ("updates", "client", slice(0, 3), 1, "applied twice"),
        ("updates", "round", 0, 99, "round 99"),
        ("updates", "applied_at", 2, 1e9, "not in the order"),
        ("updates", "applied_at", -1, 1e9, "arrived after it was made"),
        ("broadcasts", "applied", -1, 999, "never applied"),
        ("broadcasts", "applied", 1, 0, "fewer than the one before"),
    ],
)
def test_a_trace_that_cannot_be_true_is_refused_in_one_sentence(
    run: Path, tmp_path: Path, table: str, column: str, at: Any, value: float, says: str
) -> None:
    bad = copied(run, tmp_path / "bad", table, column, at, value)
    with pytest.raises(DataError, match="the trace does not fit the run") as refused:
        RunCheck.of(bad)
    assert says in str(refused.value) or "without all of its gradients" in str(refused.value)


def test_a_trace_of_which_a_part_was_cut_out_is_refused(run: Path, tmp_path: Path) -> None:
    bad = copied(run, tmp_path / "bad", "segments", "basis", 0, -1)
    trace = Trace.load(bad / "trace.npz")
    for name, column in trace.tables["segments"].items():
        trace.tables["segments"][name] = column[:-1]
    trace.save(bad / "trace.npz")
    with pytest.raises(DataError, match="without all of its gradients"):
        RunCheck.of(bad)


def test_another_config_than_the_run_had_is_noticed(run: Path, tmp_path: Path) -> None:
    other = copied(run, tmp_path / "other", "segments", "basis", 0, -1)
    text = (other / "config.toml").read_text()
    assert "scale = 12.0" in text
    (other / "config.toml").write_text(text.replace("scale = 12.0", "scale = 13.0"))
    with pytest.raises(DataError, match="the trace does not fit the run"):
        RunCheck.of(other)


def test_pairs_of_absent_clients_are_listed(tmp_path: Path) -> None:
    timing = {"preset": "heterogeneous", "crash": {"every": 30.0, "down": 40.0}, "absent_after": 1.0}
    run = made(tmp_path / "churn", timing=timing)
    found = RunCheck.of(run)
    assert found.holds and found.found.excluded
    ended = CliRunner().invoke(app, ["check", str(run)])
    lines = ended.stdout.splitlines()
    assert ended.exit_code == 0 and len(lines) == len(found.found.excluded) + 1
    assert lines[0].startswith("excluded: round ") and "updates of absent clients are excluded" in lines[-1]
    # what is excluded is not promised; if it is not said, the same run is refused
    trace = Trace.load(run / "trace.npz")
    trace.tables["excluded"] = {name: np.zeros(0, np.int64) for name in trace.tables["excluded"]}
    trace.save(run / "trace.npz")
    with pytest.raises(DataError, match="neither applied nor excluded"):
        RunCheck.of(run)


def test_what_is_no_run_is_one_sentence(run: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"it has no config\.toml"):
        RunCheck.of(tmp_path)
    bad = copied(run, tmp_path / "bad", "segments", "basis", 0, -1)
    (bad / "trace.npz").write_bytes(b"not a trace")
    with pytest.raises(DataError, match="is not a readable trace"):
        RunCheck.of(bad)
    (bad / "config.toml").write_text("[data]\nsource = 'gone.csv'\n")
    (bad / "trace.npz").write_bytes((run / "trace.npz").read_bytes())
    with pytest.raises(DataError, match=r"cannot be made again from its config\.toml"):
        RunCheck.of(bad)
