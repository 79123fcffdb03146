"""A regression as an ONNX file, and a finished federation in every format: the same answers as `load` gives."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.data.scaling import Scaling
from crescendo.errors import CrescendoError
from crescendo.runs.export import export
from crescendo.runs.models.onnx_file import onnx_bytes
from tests.calls.test_loaded_federation import SCHEMA, by_age, of_tables, served
from tests.conformance.cases import OWN_MODEL

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed: the onnx extra")
X = np.random.default_rng(2).normal(size=(300, 3)) * [1.0, 500.0, 0.02] + [0.0, 20_000.0, 5.0]


def asked(path: Path, x: Any) -> list[Any]:
    """What the reference implementation of ONNX answers."""
    from onnx.reference import ReferenceEvaluator

    onnx.checker.check_model(onnx.load(path), full_check=True)
    found: list[Any] = ReferenceEvaluator(str(path)).run(None, {"features": np.asarray(x, dtype=np.float64)})
    return found


LABELS: dict[str, Any] = {
    "texts": np.where(X[:, 1] > 20_000, "zu spät, leider", "gut"),
    "numbers": np.where(X[:, 1] > 20_000, 8, 3),
    "fractions": np.where(X[:, 1] > 20_000, 0.5, 1.5),
    "truth": X[:, 1] > 20_000,
    "three": np.digitize(X[:, 1], [19_800, 20_200]),
    "three texts": np.array(["a", "b", "c"])[np.digitize(X[:, 1], [19_800, 20_200])],
    "amounts": X[:, 1] * 2 + X[:, 0],
}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("intercept", [True, False])
def test_a_run_answers_in_onnx_as_it_does_here(labels: str, intercept: bool, tmp_path: Path) -> None:
    keys: dict[str, Any] = {
        "clients": 2,
        "gradients": 1200,
        "overrides": [f"objective.intercept={str(intercept).lower()}"],
    }
    crescendo.simulate(X, LABELS[labels], out=tmp_path / "run", **keys)
    loaded = crescendo.load(tmp_path / "run")
    path = export(tmp_path / "run", "onnx").path
    label, *probabilities = asked(path, X)
    expected = loaded.predict(X)
    if labels == "amounts":
        assert label.shape == (300,) and np.allclose(label, expected, rtol=1e-12) and not probabilities
        return
    assert label.tolist() == expected.tolist() and len(set(label.tolist())) > 1
    assert probabilities[0].shape == (300, len(loaded.classes)) and np.allclose(probabilities[0].sum(axis=1), 1)
    places = [loaded.classes.index(one) for one in expected.tolist()]
    assert (probabilities[0].argmax(axis=1) == places).all()


def test_a_margin_of_zero_speaks_for_the_second_class_as_in_training(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx_bytes(np.zeros(4), "logistic", ("no", "yes"), True, None))
    label, probabilities = asked(path, X[:2])
    assert label.tolist() == ["yes", "yes"] and probabilities.tolist() == [[0.5, 0.5]] * 2


def test_probabilities_are_those_of_the_model(tmp_path: Path) -> None:
    path, w = tmp_path / "m.onnx", np.array([0.5, -0.25, 2.0, 0.1])
    scaling = Scaling(np.array([0.0, 20_000.0, 5.0]), np.array([1.0, 500.0, 0.02]))
    path.write_bytes(onnx_bytes(w, "logistic", (0, 1), True, scaling))
    margins = scaling.apply(X) @ w[:3] + w[3]
    assert np.allclose(asked(path, X)[1][:, 1], 1 / (1 + np.exp(-margins)), rtol=1e-12)


def test_the_file_says_what_its_features_and_classes_are_called(tmp_path: Path) -> None:
    of_tables(tmp_path / "served", np.arange(6.0))
    path = export(tmp_path / "served", "onnx").path
    said = {one.key: one.value for one in onnx.load(path).metadata_props}
    assert json.loads(said["features"]) == ["age", "age is missing", "city = Oslo", "city = Zürich", "city is other"]
    assert json.loads(said["classes"]) == ["ja gewiß", "nein"] and said["trained"] == "logistic"
    assert path.read_bytes() == export(tmp_path / "served", "onnx", tmp_path / "again.onnx").path.read_bytes()


def test_a_federation_is_exported_to_every_format_that_takes_it(tmp_path: Path) -> None:
    import joblib

    by_age(tmp_path / "served")
    place = tmp_path / "served"
    x = np.array([[0.5, 0, 1, 0, 0], [-0.5, 0, 0, 1, 0]])
    label, _ = asked(export(place / "model.npz", "onnx", tmp_path / "m.onnx").path, x)
    made = joblib.load(export(place, "sklearn").path)
    assert made.predict(x).tolist() == label.tolist() == ["ja gewiß", "nein"]
    assert export(place, "npz") == (place / "model.npz", False, True, place / "MODEL_CARD.md")
    with pytest.raises(CrescendoError, match="trained no torch module; export it to npz, safetensors, sklearn or onnx"):
        export(place, "torch")
    assert sorted(SCHEMA["columns"]) == ["age", "city"]


def test_a_federation_of_a_model_of_ones_own_points_at_what_takes_it(tmp_path: Path) -> None:
    own: dict[str, Any] = {
        "objective": {"kind": OWN_MODEL, "options": {"classes": 10}},
        "data": {"source": "digits", "classes": list(range(10))},
        "serve": {"features": 64},
    }
    served(tmp_path / "served", np.zeros(640), **own)
    for to in ("onnx", "sklearn", "torch"):
        with pytest.raises(CrescendoError, match="export it to npz or safetensors"):
            export(tmp_path / "served", to)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"classes": np.array("[1]")}, "damaged"),
        ({"classes": np.array('[["a"], 2]')}, "damaged"),
        ({"classes": np.array("[" * 50_000)}, "damaged"),
        ({"classes": np.array("[true, false]")}, "damaged"),
        ({"classes": np.array("[1e999, 2]")}, "damaged"),
        ({"intercept": np.array(False)}, "damaged"),
        ({"model": np.full(4, np.nan)}, "not finite"),
        ({"records": np.array('{"features": 3, "scaling": {"centre": [0], "width": [0]}}')}, "damaged"),
        ({"records": np.array('{"features": 10000001, "shape": [], "names": [], "schema": null}')}, "damaged"),
        ({"records": np.array('{"features": 3, "names": 5}')}, "damaged"),
        ({"records": np.array("[1]")}, "damaged"),
        ({"trained": np.array("softmax"), "model": np.zeros(5)}, "damaged"),
    ],
)
def test_a_hostile_folder_is_one_sentence(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    crescendo.simulate(X, X[:, 0] > 0, clients=2, gradients=100, out=tmp_path / "run")
    with np.load(tmp_path / "run" / "model.npz") as file:
        arrays = {**dict(file), **changes}
    np.savez(tmp_path / "run" / "model.npz", **arrays)
    alone = says != "damaged" or "5}" in str(changes.get("records"))  # names are in an ONNX file alone
    for to in ("onnx",) if alone else ("onnx", "sklearn"):
        with pytest.raises(CrescendoError, match=says):
            export(tmp_path / "run", to)


@pytest.mark.slow
def test_without_the_package_the_command_names_the_extra(tmp_path: Path) -> None:
    crescendo.simulate(X, X[:, 0] > 0, clients=2, gradients=100, out=tmp_path / "run")
    (tmp_path / "onnx.py").write_text("raise ModuleNotFoundError(\"No module named 'onnx'\", name='onnx')\n")
    call = [sys.executable, "-m", "crescendo", "export", str(tmp_path / "run"), "--to", "onnx"]
    done = subprocess.run(call, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 1 and "pip install 'crescendo-fl[onnx]'" in done.stderr and done.stderr.count("\n") == 1
    assert io.StringIO(done.stdout).read() == ""
