"""Labels reach a model of the user's own as class numbers, the mapping is told, and terms of old keep what they meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import crescendo
from crescendo.cli.main import app
from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.data.records import as_records
from crescendo.errors import DataError
from crescendo.federation.agreement import build_terms, canonical
from crescendo.federation.own_model import with_copy
from crescendo.objectives import ModelFile

MODEL = """
import numpy as np

class Plain:
    seen = set()

    def __init__(self, features):
        self.features = features

    def initial(self, rng):
        return np.zeros(self.features)

    def gradient(self, w, data, rows):
        Plain.seen |= set(data.y.tolist())
        off = 1 / (1 + np.exp(-data.x[rows] @ w)) - data.y[rows]
        return data.x[rows].T @ off

    def evaluate(self, w, data):
        z = data.x @ w
        right = (z > 0) == (data.y == 1)
        return {"loss": np.mean(np.logaddexp(0, z) - data.y * z), "accuracy": right.mean()}

    def decide(self, w, data):
        return (data.x @ w > 0).astype(int)
"""


def run_file(folder: Path, labels: list[Any]) -> dict[str, Any]:
    """A csv whose label is the second of the two where the first feature is positive, and a model that learns just that."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    lines = ["a,b,label", *(f"{a},{b},{labels[int(a > 0)]}" for a, b in x)]
    (folder / "mine.csv").write_text("\n".join(lines) + "\n")
    (folder / "model.py").write_text(MODEL)
    return {
        "data": {"source": str(folder / "mine.csv")},
        "clients": {"count": 2},
        "objective": {"kind": f"{folder / 'model.py'}:Plain"},
        "schedule": {"rounds": 5, "sizes": {"kind": "constant", "size": 60}, "steps": {"kind": "constant", "eta": 0.5}},
    }


@pytest.mark.parametrize("labels", [[0, 1], [1, 2], ["no", "yes"]])
def test_a_model_that_is_right_is_measured_as_right(tmp_path: Path, labels: list[Any]) -> None:
    found = crescendo.simulate(run_file(tmp_path, labels))
    assert found.accuracy is not None and found.accuracy > 0.95
    assert found.predict([[3.0, 0.0], [-3.0, 0.0]]).tolist() == labels[::-1]
    seen = getattr(found.prepared.objective, "_model").seen  # noqa: B009
    assert seen == {0.0, 1.0}
    told = "labels" in found.summary()
    assert told == (labels != [0, 1]) and (not told or f"{labels[0]} = 0, {labels[1]} = 1" in found.summary())


def test_the_mapping_is_printed_and_on_the_page(tmp_path: Path) -> None:
    import tomli_w

    (tmp_path / "run.toml").write_text(tomli_w.dumps(run_file(tmp_path, ["no", "yes"])))
    told = CliRunner().invoke(app, ["run", str(tmp_path / "run.toml"), "--out", str(tmp_path / "out")])
    assert told.exit_code == 0 and "no = 0, yes = 1" in " ".join(told.output.split())
    assert "no = 0, yes = 1" in (tmp_path / "out" / "report.html").read_text()


def test_a_program_s_own_records_with_labels_of_minus_one_are_refused() -> None:
    from crescendo.data import Dataset

    with pytest.raises(DataError, match=r"not class numbers from 0 on; make it with crescendo.dataset\(x, y\)"):
        Dataset("mine", as_records(np.ones((2, 1)), [-1.0, 1.0]), None, (-1, 1))


def test_terms_of_old_keep_their_meaning_and_new_ones_say_theirs(tmp_path: Path) -> None:
    asked = run_file(tmp_path, [0, 1])
    asked["data"]["classes"] = [0, 1]
    asked["serve"] = {"federation": "labels", "features": 2, "records": 100}
    text, copy = terms_text(read(asked)), ModelFile.read(asked["objective"]["kind"])
    raw = json.loads(text)
    assert raw["objective"].pop("labels") == "class numbers"
    records = as_records(np.ones((2, 2)), [0.0, 1.0])
    for terms, due in ((text, {0.0, 1.0}), (canonical(raw), {-1.0, 1.0})):
        goal = with_copy(build_terms(terms), copy).objective
        seen = getattr(goal, "_model").seen  # noqa: B009
        seen.clear()
        goal.gradient(np.zeros(2), records, np.array([0, 1]))
        stepper = goal.stepper(records)
        stepper.load(np.zeros(2))
        assert seen == due
        assert set(records.y) == {0.0, 1.0}


def test_terms_of_a_model_that_has_always_seen_class_numbers_are_as_they_were(tmp_path: Path) -> None:
    asked = run_file(tmp_path, [0, 1])
    asked["data"]["classes"] = [0, 1, 2]
    asked["serve"] = {"federation": "labels", "features": 2, "records": 100}
    assert "labels" not in json.loads(terms_text(read(asked)))["objective"]
