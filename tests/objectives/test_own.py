from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.data.records import Records
from crescendo.errors import ConfigError, OwnCodeError
from crescendo.objectives import ModelFile, OwnModel, Slots, Traits, mean_gradient
from tests.objectives.bare import Bare

DATA = Records(np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]]), np.array([1.0, -1.0, 2.0]))
SQUARES = """
import numpy as np
class Squares:
    def __init__(self, features, {options}):
        self.features = features
    def initial(self, rng):
        return {initial}
    def gradient(self, w, data, rows):
        return {gradient}
    def evaluate(self, w, data):
        return {evaluate}
"""
GOOD = {
    "options": "scale=1.0",
    "initial": "np.zeros(self.features)",
    "gradient": "data.x[rows].T @ (data.x[rows] @ w - data.y[rows])",
    "evaluate": '{"loss": float(np.mean((data.x @ w - data.y) ** 2) / 2)}',
}


def written(folder: Path, **change: str) -> str:
    (folder / "own.py").write_text(SQUARES.format(**(GOOD | change)))
    return "own.py:Squares"


def loaded(kind: str, folder: Path | None = None, **options: object) -> OwnModel:
    return ModelFile.read(kind, folder).made(DATA, options)


def test_a_class_with_three_methods_is_a_whole_objective(tmp_path: Path) -> None:
    model = loaded(written(tmp_path), tmp_path, scale=2.0)
    assert (model.size, model.dtype.name, model.traits) == (2, "float64", Traits(name="Squares", layered=True))
    w = np.array([1.0, 2.0])
    np.testing.assert_array_equal(model.gradient(w, DATA, np.array([0, 1])), [0.0, 3.0])
    np.testing.assert_array_equal(model.gradient(w, DATA, np.array([0, 1]), block=(1, 2)), [3.0])
    np.testing.assert_allclose(model.gradient(w, DATA, np.array([2, 1]), clip=1.0), [0.6, 1.8])
    stepper = model.stepper(DATA)
    stepper.load(w)
    stepper.advance(Slots(np.array([1]), np.array([0.5])), 0, 1)
    np.testing.assert_array_equal(stepper.read(), [1.0, 0.5])


def test_weighted_scores_of_an_own_model_are_weighted_means(tmp_path: Path) -> None:
    model, w = loaded(written(tmp_path), tmp_path), np.array([1.0, 2.0])
    each = np.array([0.0, 9.0, 81.0]) / 2
    assert model.evaluate(w, DATA)["loss"] == pytest.approx(each.mean())
    assert model.evaluate(w, DATA, [1, 3, 1])["loss"] == pytest.approx(each @ [0.2, 0.6, 0.2])
    stack = model.evaluate(np.stack([w, 2 * w]), DATA, [1, 3, 1])["loss"]
    assert stack.tolist() == [model.evaluate(one, DATA, [1, 3, 1])["loss"] for one in (w, 2 * w)]


class Counting(Bare):
    """The loss |w - x|^2 / 2, which notes how many records it is asked for at once."""

    size, l2 = 1 << 14, 0.5

    def __init__(self) -> None:
        self.asked: list[int] = []

    def gradient(self, w: Any, data: Any, rows: Any) -> Any:
        self.asked.append(len(rows))
        return sum(w - data.x[row, 0] for row in rows)

    def evaluate(self, w: Any, data: Any, *how: Any, **more: Any) -> dict[str, Any]:
        return {"loss": 0.0}


def test_the_gradient_over_all_records_is_the_weighted_mean_of_a_loop_few_records_at_a_time() -> None:
    rng = np.random.default_rng(3)
    data = Records(rng.normal(size=(1500, 1)), np.ones(1500))
    code, weights = Counting(), np.repeat([0.7 / 1000, 0.3 / 500], [1000, 500])
    goal, w = OwnModel(code, data), rng.normal(size=1 << 14)
    code.asked.clear()
    found = goal.mean_gradient(w, data, weights)
    assert sum(code.asked) == 1500 and max(code.asked) == 512  # 512 gradients of 16,384 numbers: 64 MB
    np.testing.assert_allclose(found, w - weights @ data.x[:, 0] + 0.5 * w, rtol=1e-11)
    np.testing.assert_allclose(mean_gradient(goal, w, data), w - data.x.mean() + 0.5 * w, rtol=1e-11)
    np.testing.assert_allclose(mean_gradient(code, w, data, weights), w - weights @ data.x[:, 0], rtol=1e-11)


def test_the_example_may_be_an_object_or_take_no_argument(tmp_path: Path) -> None:
    text = SQUARES.format(**(GOOD | {"options": ""})) + "\nready = Squares(2)\ndef make():\n    return Squares(2)\n"
    (tmp_path / "own.py").write_text(text)
    assert loaded(f"{tmp_path}/own.py:ready").size == 2
    assert loaded(f"{tmp_path}/own.py:make").size == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"initial": "np.zeros((2, 2))"}, r"initial returned shape \(2, 2\)"),
        ({"initial": "np.zeros(0)"}, "initial returned shape"),
        ({"initial": "nothing"}, "Squares.initial failed with NameError"),
        ({"initial": "exit(3)"}, "Squares.initial failed with SystemExit: 3"),
        ({"initial": "None"}, r"initial returned nothing; does it end with return\? a flat vector of numbers"),
        ({"initial": "np.full(2, np.nan)"}, "initial returned numbers that are not finite"),
        (
            {"gradient": "None"},
            r"gradient returned nothing; does it end with return\? the sum of the rows' gradients, 2",
        ),
        ({"gradient": "{}"}, "gradient returned a dict; the sum of the rows' gradients, 2 numbers, is due"),
        ({"gradient": "[[1, 2], [3]]"}, "gradient returned a list; the sum"),
        ({"gradient": "np.zeros(3)"}, r"gradient returned shape \(3,\) where \(2,\) was due"),
        ({"gradient": "data.x @ np.ones(5)"}, "Squares.gradient failed with ValueError"),
        ({"evaluate": "0.5"}, 'must return a dictionary of numbers with "loss", got 0.5'),
        ({"evaluate": '{"accuracy": 1.0}'}, 'dictionary of numbers with "loss"'),
        ({"evaluate": '{"loss": "low"}'}, 'dictionary of numbers with "loss"'),
        ({"options": "more"}, "Squares could not be made: TypeError"),
    ],
)
def test_a_slip_in_an_own_model_shows_at_set_up(tmp_path: Path, change: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        loaded(written(tmp_path, **change), tmp_path)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("lenett", "not of the form"),
        ("own.py", "not of the form"),
        ("own.txt:Squares", "not of the form"),
        ("own.py:Squares()", "not of the form"),
        ("none.py:Squares", "none.py, which does not exist"),
        ("own.py:Square", "has no Square; did you mean Squares?"),
        ("own.py:Whatever", "has no Whatever; check the name"),
        ("broken.py:Squares", "could not be run: SyntaxError"),
        ("leaves.py:Squares", "could not be run: SystemExit: 3"),
        ("poor.py:Poor", "Poor has no method gradient"),
    ],
)
def test_a_file_or_name_that_is_not_there_is_named(tmp_path: Path, kind: str, says: str) -> None:
    written(tmp_path)
    (tmp_path / "broken.py").write_text("class Squares\n")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "poor.py").write_text("class Poor:\n    def initial(self, rng):\n        return [0.0]\n")
    with pytest.raises(ConfigError, match=says):
        loaded(kind, tmp_path)


def test_what_runs_is_what_the_file_holds_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The import system compares times and sizes, and would run what it compiled before."""
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    for start in ("np.zeros(2)", "np.ones(2) "):
        kind = written(tmp_path, initial=start)
        os.utime(tmp_path / "own.py", (1_000_000_000, 1_000_000_000))
        model = loaded(kind, tmp_path)
    np.testing.assert_array_equal(model.initial(np.random.default_rng(0)), [1.0, 1.0])


def test_an_option_the_class_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"objective\.l2 is given but Squares takes no l2"):
        loaded(written(tmp_path), tmp_path, l2=0.1)


def test_without_torch_a_torch_model_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.py").write_text("import torch")
    monkeypatch.setitem(sys.modules, "crescendo.objectives.neural.torch_model", None)
    with pytest.raises(ConfigError, match=r"pip install 'crescendo-fl\[torch\]'"):
        ModelFile.read("torch:net.py:Net", tmp_path).made(Records(np.zeros((2, 3)), np.array([-1.0, 1.0])), {})


def test_a_class_that_says_it_clips_is_shown_one_record_at_a_time_all_the_same() -> None:
    class Boasts:
        clips = True

        def initial(self, rng: object) -> np.ndarray:
            return np.zeros(2)

        def gradient(self, w: object, data: Any, rows: np.ndarray, *limits: object) -> np.ndarray:
            return np.asarray(100 * data.x[rows].sum(axis=0))

        def evaluate(self, w: object, data: Any) -> dict[str, float]:
            return {"loss": 0.0}

    model = OwnModel(Boasts(), DATA)
    assert not model.traits.clips
    summed = model.gradient(np.zeros(2), DATA, np.array([0, 1]), clip=0.5)
    assert 0 < np.linalg.norm(summed) <= 1.0


def test_a_class_in_place_of_an_object_is_named() -> None:
    with pytest.raises(
        ConfigError, match=r"Mean is a class, and a model is an object of it; pass objective=Mean\(\.\.\)"
    ):
        OwnModel(type("Mean", (), {}), DATA)


def test_a_crash_names_the_line_of_the_users_own_file(tmp_path: Path) -> None:
    """Not one of numpy or of this package, through which the error came."""
    file = tmp_path / "own.py"
    file.write_text(
        "import numpy as np\n"
        "class Own:\n"
        "    def initial(self, rng):\n"
        "        return np.zeros(2)\n"
        "    def gradient(self, w, data, rows):\n"
        "        return np.linalg.solve(np.zeros((2, 2)), np.zeros(2))\n"
    )
    with pytest.raises(ConfigError, match="has no method evaluate"):
        ModelFile.read(f"{file}:Own").made(DATA, {})
    file.write_text(file.read_text() + "    def evaluate(self, w):\n        return {}\n")
    with pytest.raises(OwnCodeError) as crashed:
        ModelFile.read(f"{file}:Own").made(DATA, {})
    assert str(crashed.value) == (
        f"Own.gradient failed with LinAlgError: Singular matrix ({file}, line 6: "
        "return np.linalg.solve(np.zeros((2, 2)), np.zeros(2)))"
    )
    file.write_text(file.read_text().replace("np.linalg.solve(np.zeros((2, 2)), np.zeros(2))", "w"))
    with pytest.raises(OwnCodeError, match=rf"Own.evaluate failed with TypeError: .* \({file}, line 7\)"):
        ModelFile.read(f"{file}:Own").made(DATA, {})
