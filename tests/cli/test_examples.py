"""The examples run, and what their comments promise is true."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.config.loading import read
from crescendo.runs.simulate import simulate
from tests.network.processes import free_port

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.slow
def test_the_flights_of_make_run_keep_their_accuracy_and_their_epsilon() -> None:
    pytest.importorskip("pandas")
    found = simulate(EXAMPLES / "flights.toml")
    assert (found.gradients, found.rounds, found.constant.rounds) == (245_250, 90, 42)
    assert found.accuracy is not None and found.accuracy > 0.901 and found.metrics[-1]["auc"] > 0.905
    assert found.privacy is not None and found.privacy["epsilon"] <= 0.32 and found.privacy["simulated"] is True
    assert found.noise_free is not None and found.noise_free["accuracy"] > 0.90
    assert found.loss is not None and found.loss < 0.28 and found.waits == 0, (
        "the first picture shows a run that does not wait"
    )
    assert found.prepared.names == ("AA", "B6", "DL", "EV", "UA")


@pytest.mark.slow
@pytest.mark.parametrize("timing", ["lock-step", "staggered", "heterogeneous"])
def test_a9a_needs_nine_rounds(shared_data: Path, timing: str) -> None:
    found = simulate(read(EXAMPLES / "a9a.toml", [f"data.folder={shared_data}", f"timing.preset={timing}"]))
    assert (found.gradients, found.rounds, found.constant.rounds) == (20_000, 9, 40)
    assert found.accuracy is not None and found.accuracy > 0.79


@pytest.mark.slow
def test_a_model_of_ones_own_learns_the_digits() -> None:
    found = simulate(EXAMPLES / "own_model.toml")
    assert found.accuracy is not None and found.accuracy > 0.85


@pytest.mark.parametrize("example", ["own_model.py", "own_torch_model.py", "own_jax_model.py"])
def test_a_model_of_ones_own_takes_under_thirty_lines(example: str) -> None:
    assert len((EXAMPLES / example).read_text().splitlines()) <= 30


@pytest.mark.slow
@pytest.mark.parametrize(("library", "rounds"), [("torch", 12), ("jax", 30)])
def test_a_neural_model_of_ones_own_is_trained_privately(
    library: str, rounds: int, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed: the {library} extra")
    source = (EXAMPLES / f"own_{library}_model.py").read_text()
    fewer = source.replace('"rounds": 60', f'"rounds": {rounds}')
    assert fewer != source
    exec(compile(fewer, f"own_{library}_model.py", "exec"), {})
    said = re.fullmatch(r"accuracy ([.\d]+) at epsilon ([.\d]+)\n", capsys.readouterr().out)
    assert said is not None and float(said[1]) > 0.6 and float(said[2]) <= 8.0


@pytest.mark.slow
def test_the_federation_of_a_model_of_ones_own_runs_as_its_commands_say(tmp_path: Path) -> None:
    """The three commands of the example's comment, each in a process of its own."""
    page = (EXAMPLES / "own_federation.toml").read_text().replace("127.0.0.1:7077", f"127.0.0.1:{free_port()}")
    serve, *joins = [shlex.split(line) for line in re.findall(r"^#   crescendo (.+)$", page, re.M)]
    assert [words[0] for words in (serve, *joins)] == ["serve", "join", "join"]
    (tmp_path / "examples").symlink_to(EXAMPLES)
    processes = [started(tmp_path, words) for words in (serve, *joins)]
    try:
        ended = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0, 0, 0], ended
    models = {name: np.load(tmp_path / name / "model.npz")["model"] for name in ("served", "alice", "bob")}
    simulated = simulate(EXAMPLES / "own_federation.toml")
    prepared = simulated.prepared
    assert prepared.dataset.test is not None
    for model in models.values():
        scores = prepared.objective.evaluate(model, prepared.dataset.test)
        assert scores["accuracy"] > 0.85 and simulated.accuracy is not None and simulated.accuracy > 0.85


def started(folder: Path, words: list[str]) -> subprocess.Popen[Any]:
    command = [sys.executable, "-m", "crescendo", *words]
    return subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
