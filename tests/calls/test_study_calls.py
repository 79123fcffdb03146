"""`crescendo.compare` and `crescendo.sweep` with records in memory, by the keywords of `simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.errors import CrescendoError
from crescendo.runs.run_events import RunBegan
from crescendo.studies.study_events import PointWent
from tests.calls.test_loaded_run import Net
from tests.config.small import small

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = np.where(X @ [1.0, -2.0, 0.5] > 0, "late", "on time")
KEYS: dict[str, Any] = {"clients": 2, "gradients": 300}
compare: Any = crescendo.compare  # what a type checker refuses has a sentence too
sweep: Any = crescendo.sweep


def test_a_comparison_of_arrays_runs_what_simulate_would() -> None:
    found = crescendo.compare(X, Y, rivals=["fedavg"], seeds=1, **KEYS)
    assert found.ours.outcomes[0].accuracy == crescendo.simulate(X, Y, **KEYS).accuracy
    assert found.rivals[0].outcomes[0].loss == crescendo.simulate(X, Y, algorithm="fedavg", **KEYS).loss
    data = crescendo.dataset(X, Y)
    for again in (compare(X, Y, ["fedavg"], seeds=1, **KEYS), crescendo.compare(data, ["fedavg"], seeds=1, **KEYS)):
        assert again.ours.outcomes[0].curve == found.ours.outcomes[0].curve


def test_a_sweep_of_arrays_runs_what_simulate_would() -> None:
    found = crescendo.sweep(X, Y, over=["clients.count=2,3"], gradients=300)
    losses = [crescendo.simulate(X, Y, clients=clients, gradients=300).loss for clients in (2, 3)]
    assert [point.outcome.loss for point in found.points] == losses
    keyed = crescendo.sweep(small(), ["run.seed=0..1"], clients=2)
    assert [one.outcome.loss for one in keyed.points] == [
        crescendo.simulate(small(), clients=2, seed=seed).loss for seed in (0, 1)
    ]


def test_other_records_in_the_same_folder_are_other_runs(tmp_path: Path) -> None:
    went: list[object] = []

    def tell(event: object) -> None:
        went.extend([event] if isinstance(event, PointWent) else [])

    for x, anew in ((X, True), (X, False), (2 * X, True)):
        crescendo.compare(x, Y, rivals=["fedavg"], seeds=1, out=tmp_path / "c", tell=tell, **KEYS)
        crescendo.sweep(x, Y, over=["run.seed=0..1"], out=tmp_path / "s", tell=tell, **KEYS)
        assert bool(went) is anew
        went.clear()


def test_a_model_in_memory_is_studied_and_not_kept(tmp_path: Path) -> None:
    found = crescendo.sweep(X, Y, over=["clients.count=2,3"], objective=Net(), gradients=100)
    assert [one.outcome.status for one in found.points] == ["done", "done"]
    went: list[object] = []
    for factor in (1, 2):  # the second finds nothing to go on with, and writes over the first
        crescendo.sweep(
            factor * X, Y, over=["run.seed=0..1"], objective=Net(), gradients=100, out=tmp_path / "s", tell=went.append
        )
    assert sum(isinstance(event, PointWent) and isinstance(event.event, RunBegan) for event in went) == 4
    written = sorted(path.name for path in (tmp_path / "s").rglob("*"))
    assert written == ["points", "study.json", "sweep.csv", "sweep.html"]
    page = (tmp_path / "s" / "sweep.html").read_text(encoding="utf-8")
    assert "# The model was in memory (Net), and objective.kind does not name it" in page
    assert "# The records were in memory" in page and (tmp_path / "s" / "sweep.csv").read_text().count("done") == 2


def test_a_comparison_of_a_model_in_memory_has_its_page(tmp_path: Path) -> None:
    class Scored(Net):
        def evaluate(self, w: Any, data: Any) -> dict[str, float]:
            return {**super().evaluate(w, data), "accuracy": 0.5}

    crescendo.compare(X, Y, rivals=["fedavg"], objective=Scored(), gradients=100, seeds=2, out=tmp_path / "c")
    page = (tmp_path / "c" / "comparison.html").read_text(encoding="utf-8")
    assert "The model was in memory (Scored)" in page and (tmp_path / "c" / "comparison.csv").is_file()
    assert not list((tmp_path / "c" / "points").iterdir())


def test_no_point_turns_private_after_a_look_at_the_records() -> None:
    stated = crescendo.dataset(X, Y, classes=["late", "on time"])
    private = 'privacy={mechanism="minibatch",clip=1.0,sigma=1.0,delta=1e-5,records=200}'
    with pytest.raises(CrescendoError, match="comes after a look at the records"):
        sweep(stated, [private], **KEYS)


MISTAKES: list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = [
    ('rivals must be a list, here \\["fedavg"\\]', compare, (X, Y), {"rivals": "fedavg"}),
    ("rivals .* not of type int", compare, (X, Y), {"rivals": 5}),
    ("rivals .* a value of type int", compare, (X, Y), {"rivals": [5]}),
    ("rivals .* not of type ndarray", compare, (small(), Y), {}),
    ("a comparison needs a rival", compare, (X, Y), {}),
    ('seeds must be a whole number .* not "3"', compare, (X, Y, ["fedavg"]), {"seeds": "3"}),
    ("target must be an accuracy", compare, (X, Y, ["fedavg"]), {"target": "a"}),
    ("options must map algorithms to options", compare, (X, Y, ["fedavg"]), {"options": [1]}),
    ("out must be the path of a folder", compare, (X, Y, ["fedavg"]), {"out": 3}),
    ("compare has no keyword clientss; did you mean clients", compare, (X, Y, ["fedavg"]), {"clientss": 3}),
    ("write for example crescendo.compare", compare, (X, Y, ["fedavg"]), {"epsilon": 1.0}),
    ("labels are missing: crescendo.sweep", sweep, (X,), {"over": ["run.seed=0..1"]}),
    ("over .* not of type dict", sweep, (X, Y), {"over": {"clients": [2]}}),
    ("a sweep needs a key", sweep, (X, Y), {}),
    ("over has data.test, but the records are in memory", sweep, (X, Y, ["data.test=0.1,0.2"]), {}),
    ("over, which is there twice", sweep, (small(), ["run.seed=0..1"]), {"over": ["run.seed=0..1"]}),
]


@pytest.mark.parametrize(("says", "call", "given", "keys"), MISTAKES, ids=[one[0] for one in MISTAKES])
def test_a_wrong_argument_gets_a_sentence(says: str, call: Any, given: tuple[Any, ...], keys: dict[str, Any]) -> None:
    with pytest.raises(CrescendoError, match=says) as found:
        call(*given, **keys)
    assert "\n" not in str(found.value) and "array(" not in str(found.value)


def test_only_public_names_are_listed() -> None:
    names = [name for name in dir(crescendo) if not (name.startswith("__") and name.endswith("__"))]
    assert names == sorted(crescendo.__all__)
    assert {"load", "compare", "sweep"} <= set(names) and {"__version__", "__doc__"} <= set(dir(crescendo))
