from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.data import as_records
from crescendo.data.records import Dataset
from crescendo.errors import ConfigError, CrescendoError, DataError, Refused
from crescendo.objectives import Logistic
from crescendo.runs import evaluation
from crescendo.runs.folder import new_folder, next_folder
from crescendo.runs.run_events import Event, ModelsMeasured, RoundCompleted, RunBegan, RunEnded
from crescendo.runs.simulate import simulate
from crescendo.runs.statements import Statement
from crescendo.simulator.consistency import check
from crescendo.simulator.trace import Trace
from tests.config.small import SMALL, small

KEYS = ["gradients", "rounds", "broadcasts", "bytes_up", "bytes_down", "loss", "accuracy", "max_rounds_ahead"]
KEYS += [
    "max_delay_used",
    "waits",
    "virtual_seconds",
    "wall_seconds",
    "privacy",
    "run",
    "references",
    "diverged",
    "doubt",
]


def test_the_json_object_has_the_documented_keys_and_is_json() -> None:
    found = simulate(small()).as_json()
    assert list(found) == KEYS
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_run_counts_what_it_was_asked_for() -> None:
    found = simulate(small())
    assert (found.gradients, found.rounds, found.run, found.privacy) == (60, 3, None, None)
    message = 4 * 4 + 32  # three weights and an intercept as float32
    assert found.bytes_up == 3 * 2 * message
    assert found.bytes_down == (1 + found.broadcasts) * 2 * message


def test_constant_rounds_are_computed_as_a_run_with_constant_rounds_counts_them() -> None:
    growing = simulate(small())
    constant = simulate(small("schedule.sizes={kind = 'constant', size = 10}", "schedule.rounds=6"))
    expected = growing.constant
    assert (expected.rounds, expected.bytes_up, expected.bytes_down) == (6, constant.bytes_up, constant.bytes_down)


def test_measuring_more_rarely_measures_the_same() -> None:
    each, some = simulate(small()), simulate(small("evaluate.every=2"))
    assert [row["k"] for row in some.metrics] == [0, 2, 3]
    assert some.metrics == [each.metrics[k] for k in (0, 2, 3)]


def test_loss_is_the_weighted_mean_over_clients_with_l2() -> None:
    found = simulate(small("clients.weights=[0.9, 0.1]", "clients.sizes=[1, 3]"))
    prepared, w = found.prepared, found.model
    train = prepared.dataset.train
    margins = (2 * train.y - 1) * (train.x @ w[:-1] + w[-1])
    losses = np.logaddexp(0, -margins)
    per_client = [losses[part].mean() for part in prepared.parts]
    assert found.loss == pytest.approx(0.9 * per_client[0] + 0.1 * per_client[1] + 0.005 * w @ w, rel=1e-12)


def test_without_a_test_part_there_is_no_accuracy() -> None:
    assert simulate(small("data.test=0")).accuracy is None


def test_the_distance_to_the_optimum_is_recorded_when_asked_for() -> None:
    rows = simulate(small("evaluate.optimum=true", "schedule.rounds=60")).metrics
    last = rows[-1]
    assert last["distance"] > 0 and last["excess_loss"] > 0 and last["gradient_norm"] > 0 and last["lower_bound"] > 0
    late = [row["excess_loss"] for row in rows if 2 * row["gradients"] >= last["gradients"]]
    assert 1 < len(late) < len(rows) and last["averaged_excess_loss"] == pytest.approx(np.mean(late), rel=1e-12)
    squares = [row["gradient_norm"] ** 2 for row in rows]
    assert last["averaged_squared_gradient"] == pytest.approx(np.mean(squares), rel=1e-12)


def test_an_objective_and_data_of_the_program_stand_in_for_those_of_the_file() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    data = Dataset("mine", as_records(x, x[:, 0] > 0), None, (-1, 1))
    config = {name: part for name, part in SMALL.items() if name != "data"}
    found = simulate(config, objective=Logistic(2), data=data)
    assert found.prepared.dataset is data and len(found.model) == 3


def test_a_models_own_slip_is_a_sentence() -> None:
    class Half:
        def initial(self, rng: Any) -> Any:
            return np.zeros(2)

        def gradient(self, w: Any, data: Any, rows: Any) -> Any:
            return np.zeros(1)

        def evaluate(self, w: Any, data: Any) -> Any:
            return {"loss": 0.0}

    with pytest.raises(CrescendoError, match="gradient returned shape"):
        simulate(small(), objective=Half())


def test_a_step_size_that_makes_the_model_overflow_is_a_sentence() -> None:
    with pytest.raises(CrescendoError, match="step size"):
        simulate(small("schedule.steps={kind = 'constant', eta = 1e300}", "schedule.rounds=30"))


# The folder


def test_a_run_folder_has_everything_and_can_be_run_again(tmp_path: Path) -> None:
    first = simulate(small("timing.preset=heterogeneous"), out=tmp_path / "a")
    names = {
        "format.json",
        "config.toml",
        "metrics.jsonl",
        "trace.npz",
        "privacy.json",
        "references.json",
        "model.npz",
        "MODEL_CARD.md",
        "report.html",
    }
    assert {path.name for path in (tmp_path / "a").iterdir()} == names
    assert json.loads((tmp_path / "a" / "privacy.json").read_text()) is None
    rows = [json.loads(line) for line in (tmp_path / "a" / "metrics.jsonl").read_text().splitlines()]
    assert rows == first.metrics and not any("wall" in name for row in rows for name in row)
    assert np.load(tmp_path / "a" / "model.npz")["model"].tolist() == first.model.tolist()
    assert check(Trace.load(tmp_path / "a" / "trace.npz"), first.prepared.terms) == 60
    simulate(tmp_path / "a" / "config.toml", out=tmp_path / "b")
    for name in names - {"report.html"}:
        assert (tmp_path / "b" / name).read_bytes() == (tmp_path / "a" / name).read_bytes(), name
    first_page, again = ((tmp_path / name / "report.html").read_text() for name in "ab")
    for where in ("<title>{} -", "<h1>{}</h1>", '"name":"{}"'):  # a report has the name of its run
        again = again.replace(where.format("b"), where.format("a"))
    assert again == first_page


def test_another_seed_gives_another_run(tmp_path: Path) -> None:
    assert simulate(small()).model.tolist() != simulate(small("run.seed=1")).model.tolist()


def test_a_folder_that_exists_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious.txt").write_text("keep")
    with pytest.raises(ConfigError, match="exists already; name another folder with --out, or remove it"):
        simulate(small("data.source=no-such-source"), out=tmp_path / "run")
    assert (tmp_path / "run" / "precious.txt").read_text() == "keep"


def test_a_run_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(Refused):
        simulate(small("schedule.wait={tau = 5}"), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_seen_before_it_is_complete(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "run") as draft:
        (draft / "half").touch()
        assert not (tmp_path / "run").exists()
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_run_writes_as_it_goes(tmp_path: Path) -> None:
    """What a program that watches the folder sees, round by round."""
    seen: list[tuple[int, int]] = []

    def watch(event: Event) -> None:
        assert not (tmp_path / "run").exists()
        if isinstance(event, RoundCompleted):
            config = (tmp_path / "run.running" / "config.toml").read_text()
            assert "seed = 0" in config
            lines = tmp_path / "run.running" / "metrics.jsonl"
            seen.append((event.moment.k, len(lines.read_text().splitlines()) if lines.exists() else 0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "LONGEST_WAIT", -1.0)  # as if a long time had passed since the last look
        result = simulate(small(), out=tmp_path / "run", sinks=[watch])
    assert seen[0][0] == 0 and [k for k, _ in seen] == list(range(result.rounds + 1))
    assert all(lines >= k - 1 for k, lines in seen), "a line per model, at most a round late"
    assert (tmp_path / "run").is_dir() and not (tmp_path / "run.running").exists()
    assert result.metrics == simulate(small()).metrics, "when models are scored changes no score"


def test_a_sink_hears_of_the_beginning_every_round_every_row_and_the_end() -> None:
    heard: list[Event] = []
    result = simulate(small(), sinks=[heard.append])
    assert isinstance(heard[0], RunBegan) and isinstance(heard[-1], RunEnded) and heard[-1].result is result
    rounds = [event.moment.k for event in heard if isinstance(event, RoundCompleted)]
    assert rounds == list(range(result.rounds + 1))
    rows = [row for event in heard if isinstance(event, ModelsMeasured) for row in event.rows]
    assert rows == result.metrics


KILLED = """
import os, signal, sys
from crescendo.runs.run_events import RoundCompleted
from crescendo.runs.simulate import simulate

def kill(event):
    if isinstance(event, RoundCompleted) and event.moment.k == 2:
        os.kill(os.getpid(), signal.SIGKILL)

simulate(sys.argv[1], out=sys.argv[2], sinks=[kill])
"""


def test_a_killed_run_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    (tmp_path / "file.toml").write_text(small().to_toml())
    out = tmp_path / "run-1"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "file.toml"), str(out)], check=False)
    assert ended.returncode == -signal.SIGKILL
    left = tmp_path / "run-1.running"
    kept = {path.name: path.read_bytes() for path in left.iterdir()}
    assert kept.keys() <= {"format.json", "config.toml", "metrics.jsonl"} and not out.exists()
    with pytest.raises(
        ConfigError, match=r"run-1\.running exists: that run is still going or was killed; remove it, or"
    ):
        simulate(small(), out=out)
    with pytest.raises(DataError, match="is still going or was killed; wait until it is renamed, or run it again"):
        Statement.of_run(left, None)
    runner = CliRunner()
    refused = runner.invoke(app, ["run", str(tmp_path / "file.toml"), "--out", str(out)])
    asked = runner.invoke(app, ["account", str(left)])
    with contextlib.chdir(left):
        within = runner.invoke(app, ["account", "."])
    for found in (refused, asked, within):
        assert found.exit_code == 1 and found.stdout == "" and "is still going or was killed;" in found.stderr
        assert found.stderr.count("\n") == 1 and isinstance(found.exception, SystemExit)
    assert {path.name: path.read_bytes() for path in left.iterdir()} == kept and not out.exists(), "nothing was touched"
    assert next_folder("run", tmp_path) == tmp_path / "run-2"
    simulate(left / "config.toml", out=tmp_path / "run-2")
    assert (tmp_path / "run-2" / "config.toml").read_bytes() == (left / "config.toml").read_bytes()


def test_no_run_is_called_what_an_unfinished_one_is_called(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"name a folder without \.running with --out"):
        simulate(small(), out=tmp_path / "x.running")
    assert list(tmp_path.iterdir()) == []


def test_folders_are_numbered_after_the_last(tmp_path: Path) -> None:
    assert next_folder("a9a", tmp_path) == tmp_path / "a9a-1"
    for name in ("a9a-2", "a9a-10", "a9a-x", "other-99"):
        (tmp_path / name).mkdir()
    assert next_folder("a9a", tmp_path) == tmp_path / "a9a-11"
    (tmp_path / "a9a-11.running").mkdir()
    assert next_folder("a9a", tmp_path) == tmp_path / "a9a-12"


@pytest.mark.parametrize(
    "nested", ["[" * 100_000, '{"clients":' * 100_000, '{"clients": [' + "[" * 900 + "]" * 900 + "]}"]
)
def test_a_privacy_file_of_tables_in_tables_is_refused_in_a_sentence(tmp_path: Path, nested: str) -> None:
    simulate(small(), out=tmp_path / "run")
    (tmp_path / "run" / "privacy.json").write_text(nested)
    refused = CliRunner().invoke(app, ["account", str(tmp_path / "run")])
    assert refused.exit_code == 1 and "it was changed after the run was written" in " ".join(refused.output.split())
