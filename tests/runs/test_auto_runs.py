"""`steps = "auto"` in runs, terms and refusals."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.data.records import Dataset, Records
from crescendo.errors import ConfigError, CrescendoError
from crescendo.federation.agreement import build_terms, canonical
from crescendo.runs.prepare import certified, prepare
from crescendo.runs.simulate import simulate

PRIVATE = {"mechanism": "minibatch", "epsilon": 1.0, "delta": 1e-6, "clip": 0.5, "records": 200}
Raw = dict[str, Any]


def data(scale: float = 1.0, rows: int = 1000) -> Dataset:
    rng = np.random.default_rng(0)
    x = scale * rng.normal(size=(rows, 4)) / 2
    y = np.where(x @ np.array([2.0, -1.0, 0.5, 0.0]) > 0, 1.0, 0.0)
    return Dataset("made up", Records(x[200:], y[200:]), Records(x[:200], y[:200]), (-1, 1))


def run_file(**changes: Any) -> Raw:
    return {
        "data": {"source": "made up"},
        "clients": {"count": 4, "weights": "uniform"},
        "schedule": {"gradients": 2000, "sizes": {"kind": "power", "scale": 10, "per_client": True}, "steps": "auto"},
        **changes,
    }


def served(**privacy: Any) -> Raw:
    return {
        "data": {"source": "with the clients", "classes": [-1, 1]},
        "clients": {"count": 2, "weights": "uniform"},
        "schedule": {"rounds": 5, "sizes": {"kind": "power", "scale": 10}, "steps": "auto"},
        "serve": {"federation": "test", "features": 4},
        **({"privacy": {**PRIVATE, **privacy}} if privacy.get("mechanism") != "none" else {}),
    }


@pytest.mark.slow
@pytest.mark.parametrize("combine", ["sum", "mean"])
def test_auto_becomes_numbers_that_learn_and_that_the_folder_holds(tmp_path: Path, combine: str) -> None:
    config = run_file(clients={"count": 4, "weights": "uniform", "combine": combine})
    result = simulate(config, data=data(), out=tmp_path / "run")
    steps = tomllib.loads((tmp_path / "run" / "config.toml").read_text())["schedule"]["steps"]
    assert steps["kind"] == "diminishing" and steps["eta0"] > 0
    assert "auto" not in (tmp_path / "run" / "config.toml").read_text()
    assert 'steps = "auto" became' in (tmp_path / "run" / "report.html").read_text().replace("&#34;", '"')
    assert result.accuracy is not None and result.accuracy > 0.9
    again = simulate(read(tmp_path / "run" / "config.toml"), data=data())
    assert np.array_equal(again.model, result.model)


def test_the_schedule_says_what_auto_became_and_why() -> None:
    notes = prepare(read(run_file()), data=data()).certificate.notes
    assert (
        notes[0].startswith('steps = "auto" became {kind = "diminishing", eta0 = ')
        and "The limit on eta0 is" in notes[0]
    )
    agreement, _ = certified(read(served()))
    assert agreement.schedule.notes[0].startswith('steps = "auto" became')


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_records_in_other_units_are_learned_as_well(scale: float) -> None:
    result = simulate(run_file(objective={"intercept": False}), data=data(scale))
    assert result.accuracy is not None and result.accuracy > 0.9


@pytest.mark.parametrize("mechanism", ["minibatch", "local", "batch-clip"])
@pytest.mark.parametrize("combine", ["sum", "mean"])
def test_a_private_auto_looks_at_no_record(mechanism: str, combine: str) -> None:
    """Other records, other labels, as many of them: the same steps."""
    privacy = {**PRIVATE, "mechanism": mechanism, "norm_bound": 2.0}
    config = read(run_file(privacy=privacy, clients={"count": 4, "weights": "uniform", "combine": combine}))
    one, other = data(), data(50.0)
    flipped = Dataset("made up", Records(other.train.x, np.ones(len(other.train))), other.test, (-1, 1))
    found = [prepare(config, data=each).config.schedule.steps for each in (one, other, flipped)]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("mechanism", ["minibatch", "local", "batch-clip"])
@pytest.mark.parametrize("l2", [0.0, 0.001, 50.0])
@pytest.mark.parametrize("blocks", [1, 3])
def test_no_mechanism_refuses_what_auto_chose(mechanism: str, l2: float, blocks: int) -> None:
    config = served(mechanism=mechanism, norm_bound=2.0)
    config["objective"], config["schedule"]["blocks"] = {"l2": l2}, blocks
    made = build_terms(terms_text(read(config)))
    assert made.certificate is not None


def test_terms_hold_numbers_and_terms_that_say_auto_are_refused() -> None:
    text = terms_text(read(served()))
    assert "auto" not in text
    raw = json.loads(text)
    for steps in ("auto", {"kind": "auto"}):
        raw["schedule"]["steps"] = steps
        with pytest.raises(CrescendoError, match="auto"):
            build_terms(canonical(raw))


def test_what_auto_cannot_know_is_refused_with_what_to_write() -> None:
    with pytest.raises(ConfigError, match=r"needs a bound on the length of records.*write the steps"):
        terms_text(read(served(mechanism="none")))
    with pytest.raises(ConfigError, match=r"needs privacy\.norm_bound"):
        terms_text(read(served(mechanism="batch-clip")))
    with pytest.raises(ConfigError, match=r"known smoothness.*Softmax is unknown; write the steps"):
        prepare(read(run_file(objective={"kind": "torch:own_model.py:Softmax"})))


def test_more_noise_makes_smaller_steps() -> None:
    quiet, loud = (
        prepare(read(run_file(privacy={**PRIVATE, "epsilon": None, "sigma": sigma})), data=data())
        for sigma in (2.0, 500.0)
    )
    assert loud.config.schedule.steps.eta0 < quiet.config.schedule.steps.eta0  # type: ignore[attr-defined]


def _numbers(scale: float, bound: float | None) -> tuple[Raw, Dataset]:
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(4000, 4))
    y = scale * (x @ np.array([2.0, -1.0, 0.5, 0.0]))
    privacy = {**PRIVATE, "clip": 1.5 * scale, "records": 800, **({} if bound is None else {"norm_bound": bound})}
    objective = {"kind": "least-squares", "label_range": [-scale, 3 * scale]}
    schedule = {"rounds": 60, "sizes": {"kind": "power", "scale": 5}, "steps": "auto"}
    made = Dataset("made up", Records(x[800:], y[800:]), Records(x[:800], y[:800]), ())
    return run_file(privacy=privacy, objective=objective, schedule=schedule), made


def test_private_least_squares_learns_alike_at_every_scale_of_its_labels() -> None:
    found = []
    for scale in (1e-3, 1.0, 1e4):
        config, made = _numbers(scale, bound=2.3)
        found.append(simulate(config, data=made).metrics[-1]["r2"])
    assert min(found) > 0.5 and max(found) - min(found) < 0.01, found


def test_private_least_squares_without_a_norm_bound_is_refused() -> None:
    config, made = _numbers(1.0, bound=None)
    with pytest.raises(ConfigError, match=r"needs privacy\.norm_bound for least-squares"):
        prepare(read(config), data=made)
    typed = {**config, "schedule": {**config["schedule"], "steps": {"kind": "constant", "eta": 0.01}}}
    assert prepare(read(typed), data=made).step_room is None
