"""The networks of ours: the same in both libraries, named by one word in a run file and in terms, and refused in a sentence."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.data.from_arrays import dataset
from crescendo.data.records import Dataset
from crescendo.errors import ConfigError, Refused
from crescendo.federation.agreement import build_terms
from crescendo.federation.own_model import with_copy
from crescendo.objectives.base import Slots
from crescendo.objectives.model_file import ModelFile
from crescendo.objectives.nets.net_names import settled
from crescendo.objectives.own import OwnModel

RNG = np.random.default_rng(0)
WINE: dict[str, Any] = {
    "data": {"source": "wine"},
    "clients": {"count": 2, "combine": "mean"},
    "objective": {"kind": "mlp", "options": {"hidden": [6, 5], "batch": 4, "spread": 100}},
    "schedule": {
        "rounds": 3,
        "sizes": {"kind": "constant", "size": 40},
        "steps": {"kind": "constant", "eta": 0.1},
    },
}


def digits(features: int, classes: int = 10) -> Dataset:
    return dataset(
        RNG.random((40, features)).astype(np.float32), np.arange(40) % classes, test=0.2, classes=list(range(classes))
    )


def both() -> None:
    for library in ("torch", "jax"):
        pytest.importorskip(library, reason=f"{library} is not installed: the {library} extra")


def trained(objective: OwnModel, data: Dataset, start: Any) -> Any:
    stepper, rows = objective.stepper(data.train), np.arange(24) % len(data.train)
    stepper.load(start)
    stepper.advance(Slots(rows, np.full(24, 0.05)), 0, 24)
    return stepper.read()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "features", "size", "options"),
    [
        ("lenet", 784, 61_706, {}),
        (
            "lenet",
            784,
            61_706,
            {"activation": "tanh", "pool": "mean", "gain": 1.7, "centre": 0.13, "spread": 0.3, "batch": 8},
        ),
        ("mlp", 12, 12 * 7 + 7 + 7 * 5 + 5 + 5 * 10 + 10, {"hidden": [7, 5], "activation": "tanh", "centre": 0.5}),
        ("mlp", 12, 12 * 10 + 10, {"hidden": [], "l2": 0.01}),
    ],
    ids=["lenet", "lenet as it was", "mlp", "no hidden layer"],
)
def test_the_same_weights_have_the_same_losses_gradients_and_steps_in_both_libraries(
    name: str, features: int, size: int, options: dict[str, Any]
) -> None:
    both()
    data = digits(features)
    pair = [ModelFile.read(f"{library}:{name}").made(data.train, options) for library in ("torch", "jax")]
    start = np.asarray(pair[0].initial(np.random.default_rng(1)), dtype=np.float64)
    assert [one.size for one in pair] == [size, size]
    scores = [one.evaluate(start, data.train) for one in pair]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)
    if options.get("pool") == "mean":  # the losses tell; the other programs take seconds to compile
        return
    sums = [one.gradient(start, data.train, np.arange(9), 0.5, unit=2.0**-40) for one in pair]
    np.testing.assert_allclose(sums[0], sums[1], atol=1e-5)
    moved = [trained(one, data, start) for one in pair]
    np.testing.assert_allclose(moved[0], moved[1], atol=1e-5)
    assert np.abs(moved[0] - start).max() > 1e-3
    first = np.asarray(pair[1].initial(np.random.default_rng(1)))
    assert first.std() == pytest.approx(start.std(), rel=0.1)  # drawn from the same distribution, by another generator


@pytest.mark.slow
def test_a_run_file_names_a_network_by_one_word_and_the_folder_says_which_library_it_was(tmp_path: Path) -> None:
    both()
    found = crescendo.simulate(WINE, out=tmp_path / "run")
    assert found.model.size == 13 * 6 + 6 + 6 * 5 + 5 + 5 * 3 + 3  # an output for each class of the data
    assert found.prepared.config.objective.kind == "jax:mlp"
    again = crescendo.simulate(tmp_path / "run" / "config.toml")
    assert np.array_equal(again.model, found.model)


@pytest.mark.slow
def test_terms_hold_the_hash_of_our_file_and_a_client_allows_it_by_its_name() -> None:
    both()
    classes = {"source": "wine", "classes": [0, 1, 2]}
    served = {**WINE, "data": classes, "serve": {"federation": "wine", "features": 13, "records": 70}}
    agreed = build_terms(terms_text(read(served)))
    assert agreed.learns[0] == "jax:jax_nets.py:mlp"
    assert with_copy(agreed, ModelFile.read("mlp", asked="--model")).objective.size == agreed.objective.size
    with pytest.raises(Refused, match=r"one of Crescendo's own networks, jax:mlp; allow it with --model jax:mlp"):
        with_copy(agreed, None)
    with pytest.raises(Refused, match=r"both sides need the same version and --model jax:mlp"):
        with_copy(agreed, ModelFile.read("torch:mlp"))


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("lenet", {}, r"lenet reads grey images of 28 x 28, 784 numbers, but these records have 12; use mlp"),
        ("mlp", {"hidden": 0}, "layers have a whole number of outputs, 1 or more; got hidden = 0"),
        ("mlp", {"activation": "sigmoid"}, "objective.options.activation must be 'relu' or 'tanh', not 'sigmoid'"),
        ("mlp", {"spread": 0}, "objective.options.spread must be a number above 0, not 0"),
        ("mlp", {"gain": float("nan")}, "objective.options.gain must be a number above 0, not nan"),
        ("lenet", {"hidden": 3}, "takes no hidden"),
    ],
)
def test_options_that_make_no_sense_are_refused(library: str, name: str, options: Any, sentence: str) -> None:
    both()
    with pytest.raises(ConfigError, match=sentence):
        ModelFile.read(f"{library}:{name}").made(digits(12).train, options)


def test_fewer_outputs_than_classes_are_refused() -> None:
    both()
    few = {**WINE, "objective": {"kind": "mlp", "options": {"classes": 2}}}
    with pytest.raises(ConfigError, match=r"objective.options.classes = 2 is too few for data of 3 classes"):
        crescendo.simulate(few)


def test_the_library_is_the_one_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    there: set[str] = {"torch"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in there else None)
    assert settled("lenet") == "torch:lenet" and settled("jax:lenet") == "jax:lenet"
    there.clear()
    with pytest.raises(ConfigError, match=r"lenet needs jax or torch; install one with pip install"):
        settled("lenet")


def test_a_misspelt_network_is_named() -> None:
    with pytest.raises(ConfigError, match=r"objective.kind must be .*\"lenet\""):
        read({**WINE, "objective": {"kind": "lennet"}})
