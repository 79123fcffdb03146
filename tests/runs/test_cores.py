"""Runs on one core and on many: the same model, metrics, trace and noise, bit for bit, whatever is learned and however."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import crescendo
from crescendo.algorithms.algorithm_kinds import ALGORITHMS
from crescendo.cli.main import app
from crescendo.config.loading import read
from crescendo.core.messages import Update
from crescendo.data.records import Dataset
from crescendo.errors import UsageError
from crescendo.objectives.logistic.objective import Logistic
from crescendo.runs.prepare import prepare
from crescendo.runs.result import Result
from crescendo.runs.simulate import simulate
from crescendo.simulator import many_cores
from crescendo.simulator.many_cores import clients_at_a_time
from crescendo.simulator.side_by_side import EarlyWorker
from tests.config.small import TOML

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 6))
DATA = crescendo.dataset(X, (X @ np.array([2.0, -1.0, 0.5, 0.0, 1.0, 1.0]) > 0).astype(int), classes=[0, 1])
TROUBLE = {"lose": 0.2, "duplicate": 0.2, "crash": {"every": 40.0, "down": 9.0}, "absent_after": 6.0}
PRIVATE = {"sigma": 1.5, "clip": 0.5, "records": [80] * 4, "delta": 1e-3}


def config(preset: str = "heterogeneous", **sections: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "run": {"seed": 5},
        "clients": {"count": 4},
        "objective": {"l2": 0.01},
        "schedule": {
            "rounds": 6,
            "sizes": {"kind": "power", "scale": 30},
            "steps": {"kind": "constant", "eta": 0.05},
            "wait": {"rounds": 1},
        },
        "timing": {"preset": preset},
    }
    for name, section in sections.items():
        asked[name] = {**asked.get(name, {}), **section}
    return asked


def bits(found: Result) -> list[Any]:
    tables = found.trace.tables
    columns = {(name, column): tables[name][column].tobytes() for name in tables for column in tables[name]}
    rest = {k: v for k, v in vars(found.trace).items() if k not in ("model", "tables")}
    return [found.model.tobytes(), found.metrics, found.privacy, found.noise_free, columns, rest]


def same_on_any_cores(asked: dict[str, Any], data: Dataset = DATA, **more: Any) -> Result:
    alone = simulate(asked, data=data, cores=1, **more)
    for cores in (2, 5):
        assert bits(simulate(asked, data=data, cores=cores, **more)) == bits(alone), f"another run on {cores} cores"
    return alone


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "masks": {"schedule": {"blocks": 3}},
    "mean": {"clients": {"combine": "mean", "weights": [0.1, 0.2, 0.3, 0.4], "shares": "coin"}},
    "delays": {"schedule": {"wait": {"tau": 300}}},
    "minibatch": {"privacy": {"mechanism": "minibatch", **PRIVATE}, "evaluate": {"without_noise": True}},
    "local": {"privacy": {"mechanism": "local", **PRIVATE, "norm_bound": 3.0}},
    "batch-clip": {"privacy": {"mechanism": "batch-clip", **PRIVATE}},
}


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["lock-step", "staggered", "heterogeneous"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_the_same_on_any_number_of_cores(kind: str, preset: str) -> None:
    same_on_any_cores(config(preset, **KINDS[kind]))
    same_on_any_cores(config(preset, **{**KINDS[kind], "timing": TROUBLE}))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS.keys() - {"crescendo"}))
def test_so_is_a_rival(algorithm: str) -> None:
    same_on_any_cores(config(), algorithm=algorithm)
    same_on_any_cores(config(timing=TROUBLE), algorithm=algorithm)


@pytest.mark.slow
@pytest.mark.parametrize("deadline", [3.0, 30.0])
def test_a_round_that_is_given_up_is_not_begun_for_nothing(deadline: float) -> None:
    private: dict[str, Any] = {"privacy": {"mechanism": "minibatch", **PRIVATE}}
    for more in (dict[str, Any](), private):
        same_on_any_cores(config(**more), algorithm="fedavg", options={"deadline": deadline})


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["none", "minibatch", "batch-clip"])
def test_a_jax_model_is_trained_to_the_same_bits(mechanism: str) -> None:
    jnp = pytest.importorskip("jax.numpy", reason="jax is not installed: the jax extra")

    def loss(w: Any, x: Any, y: Any) -> Any:
        return jnp.logaddexp(0.0, (1 - 2 * y) * (jnp.tanh(x @ w["a"]) @ w["b"])).mean()

    first = {"a": RNG.normal(size=(6, 5)).astype(np.float32), "b": RNG.normal(size=5).astype(np.float32)}
    model = crescendo.jax.model(loss, first, optimiser="adam" if mechanism == "batch-clip" else "sgd")
    private: dict[str, Any] = {} if mechanism == "none" else {"privacy": {"mechanism": mechanism, **PRIVATE}}
    same_on_any_cores(config(objective={"l2": 0.0}, **private), objective=model)


@pytest.mark.slow
def test_a_torch_module_computes_one_client_at_a_time_and_its_runs_are_the_same_too() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
    module = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Dropout(0.2), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    same_on_any_cores(config(objective={"l2": 0.0}), objective=crescendo.torch.model(module))


# -- how many


def test_long_rounds_of_compiled_models_use_the_cores_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_cores, "usable_cores", lambda: 3)
    prepared = prepare(read({**config(), "data": {"source": "arrays"}}), data=DATA)
    terms, goal, data = prepared.terms, prepared.objective, prepared.dataset.train
    assert clients_at_a_time(None, terms, goal, data) == 1, "rounds are short"
    monkeypatch.setattr(many_cores, "_WORTH_A_THREAD", 10)
    assert clients_at_a_time(None, terms, goal, data) == 3
    assert [clients_at_a_time(most, terms, goal, data) for most in (1, 2, 9)] == [1, 2, 4], "at most one a client"


def test_in_a_process_that_another_started_the_other_cores_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_cores, "usable_cores", lambda: 3)
    monkeypatch.setattr(many_cores, "_WORTH_A_THREAD", 0)
    monkeypatch.setattr("multiprocessing.parent_process", lambda: object())
    prepared = prepare(read({**config(), "data": {"source": "arrays"}}), data=DATA)
    assert clients_at_a_time(None, prepared.terms, prepared.objective, prepared.dataset.train) == 1


class Unknown(Logistic):
    """A model of which nothing says that clients may share it."""

    @property
    def traits(self) -> Any:
        return replace(super().traits, threads=False)


def test_a_model_of_ones_own_computes_one_client_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    finish = EarlyWorker.finish

    def finishing(worker: EarlyWorker) -> Update:
        seen.append(1)
        return finish(worker)

    monkeypatch.setattr(EarlyWorker, "finish", finishing)
    simulate(config(), data=DATA, objective=Unknown(6), cores=2)
    assert not seen
    simulate(config(), data=DATA, cores=2)
    assert seen


@pytest.mark.parametrize("cores", [0, -1, True, 1.5, "2"])
def test_cores_are_a_whole_number(cores: Any) -> None:
    with pytest.raises(UsageError, match="cores must be a whole number, 1 or more"):
        simulate(config(), data=DATA, cores=cores)


def test_the_command_takes_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(TOML)
    for cores in ("1", "2"):
        found = CliRunner().invoke(app, ["run", "small.toml", "--out", cores, "--cores", cores])
        assert found.exit_code == 0, found.output
    for name in ("config.toml", "metrics.jsonl", "trace.npz", "model.npz", "privacy.json"):
        assert Path("1", name).read_bytes() == Path("2", name).read_bytes(), name
    assert CliRunner().invoke(app, ["run", "small.toml", "--cores", "0"]).exit_code == 2
