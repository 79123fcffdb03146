"""`crescendo.load`: a run's folder gives its numbers and its model back, and a folder that is none gets a sentence."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.calls import loaded_model, stored_run
from crescendo.errors import CrescendoError

pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
untyped: Any = crescendo.load


def table(rows: int = 240, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(
        {
            "income": rng.normal(size=rows) * 9000 + 50_000,
            "ward": rng.choice(np.array(["north", "south", None], dtype=object), rows),
            "age": rng.integers(20, 90, rows).astype(float),
        }
    )
    frame.loc[::9, "age"] = np.nan
    frame["stay"] = np.where((frame.ward == "north") | (frame.income > 60_000), "long", "short")
    return frame


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[crescendo.Result, Path]:
    place = tmp_path_factory.mktemp("runs") / "mine-1"
    return crescendo.simulate(table(), "stay", clients=2, gradients=1000, out=place), place


@pytest.fixture
def folder(made: tuple[crescendo.Result, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[1], tmp_path / "copy"))


def test_a_loaded_run_predicts_a_new_table_as_the_result_does(made: tuple[crescendo.Result, Path]) -> None:
    result, place = made
    loaded, new = crescendo.load(place), table(50, seed=1)
    for frame in (new, new[["age", "stay", "ward", "income"]], new.drop(columns="stay")):
        assert loaded.predict(frame).tolist() == result.predict(new).tolist()
    assert np.mean(loaded.predict(new) == new.stay) > 0.9
    with pytest.raises(CrescendoError, match="no column 'ward'"):
        loaded.predict(new.drop(columns="ward"))
    with pytest.raises(CrescendoError, match="the column 'age' of x has no number in it"):
        loaded.predict(new.assign(age="old"))
    some = new.assign(age=new.age.astype(object))
    some.loc[3, "age"] = "unknown"  # a missing cell, as in training
    assert len(loaded.predict(some)) == len(loaded.predict(new.assign(age=np.nan))) == 50


def test_a_loaded_run_shows_what_the_result_showed(made: tuple[crescendo.Result, Path]) -> None:
    result, place = made
    loaded = untyped(str(place))
    assert loaded.metrics == result.metrics and loaded.accuracy == result.accuracy and loaded.loss == result.loss
    assert loaded.history.equals(result.history) and loaded.rounds == result.rounds
    assert loaded.gradients == result.gradients and np.array_equal(loaded.model, result.model)
    assert repr(loaded).endswith(repr(result).removeprefix("Result("))
    assert loaded.summary().splitlines()[1:3] == result.summary().splitlines()[1:3]
    assert list(loaded.plot("k").data[0].x) == list(result.plot("k").data[0].x)
    assert str(loaded.config) == str(result.config) and "<table>" in loaded._repr_html_()


@pytest.mark.parametrize("label", ["late", "minutes"])
def test_columns_of_numbers_are_found_by_their_names(tmp_path: Path, label: str) -> None:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "c"])
    frame["minutes"] = 3 * frame.a - frame.b
    frame["late"] = np.where(frame.minutes > 0, "yes", "no")
    frame[["a", "b", "c", label]].to_csv(tmp_path / "flights.csv", index=False)
    kind = "least-squares" if label == "minutes" else "logistic"
    sizes = {"kind": "power", "scale": 10}
    config = {
        "data": {"source": str(tmp_path / "flights.csv")},
        "clients": {"count": 2},
        "objective": {"kind": kind},
        "schedule": {"gradients": 1000, "sizes": sizes, "steps": "auto"},
    }
    result = crescendo.simulate(config, out=tmp_path / "run")
    for model in (result, crescendo.load(tmp_path / "run")):
        expected = model.predict(frame[["a", "b", "c"]].to_numpy()).tolist()
        assert model.predict(frame[[label, "c", "a", "b"]]).tolist() == expected
        with pytest.raises(CrescendoError, match="no column 'b'"):
            model.predict(frame[["a", "c", label]])
        with pytest.raises(CrescendoError, match=r"record 3 of x .* no number in the column 'b'"):
            model.predict(frame.assign(b=frame.b.where(frame.index != 3)))


class Net:
    """Learns the mean of the records; says the first class of all of them."""

    def __init__(self, size: int = 2) -> None:
        self.size = size

    def initial(self, rng: Any) -> Any:
        return np.zeros(self.size)

    def gradient(self, w: Any, data: Any, rows: Any) -> Any:
        return (w - np.asarray(data.x)[rows][:, : self.size]).sum(axis=0)

    def evaluate(self, w: Any, data: Any) -> dict[str, float]:
        return {"loss": 1.0}

    def decide(self, w: Any, data: Any) -> Any:
        return np.zeros(len(data), dtype=np.int64)

    def smoothness(self, square: float) -> float:
        return 1.0


def test_a_model_of_ones_own_is_given_and_never_taken_from_the_folder(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(x[:, 0] > 0, "late", "fine")
    crescendo.simulate(x, y, objective=Net(), clients=2, gradients=100, out=tmp_path / "own")
    with pytest.raises(CrescendoError, match="runs no code that a folder names; give the model"):
        crescendo.load(tmp_path / "own").predict(x)
    assert set(crescendo.load(tmp_path / "own", objective=Net()).predict(x)) == {"fine"}
    with pytest.raises(CrescendoError, match=r"objective has 1 numbers, and the model in .* 2"):
        crescendo.load(tmp_path / "own", objective=Net(1)).predict(x)
    (tmp_path / "own" / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Net: pass\n")
    config = tmp_path / "own" / "config.toml"
    config.write_text(config.read_text().replace('"logistic"', f'"{tmp_path / "own" / "evil.py"}:Net"'))
    assert "evil.py" in config.read_text()
    with pytest.raises(CrescendoError, match=r"evil.py:Net, and load runs no code"):
        crescendo.load(tmp_path / "own").predict(x)
    assert not (tmp_path / "ran").exists()


def _arrays(folder: Path) -> dict[str, Any]:
    with np.load(folder / "model.npz") as file:
        return dict(file)


def _changed(**changes: Any) -> Callable[[Path], object]:
    return lambda folder: np.savez(folder / "model.npz", **{**_arrays(folder), **changes})


def _said(**changes: Any) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        records = {**json.loads(str(_arrays(folder)["records"])), **changes}
        _changed(records=np.array(json.dumps(records)))(folder)

    return change


def _packed(folder: Path) -> None:
    """A model of zeros in a file of a few kilobytes."""
    array = io.BytesIO()
    np.save(array, np.zeros(10**6))
    with zipfile.ZipFile(folder / "model.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("model.npy", array.getvalue())


def _linked(folder: Path) -> None:
    (folder / "privacy.json").rename(folder / "elsewhere.json")
    (folder / "privacy.json").symlink_to("elsewhere.json")


def _edited(name: str, old: str, new: str) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return edit


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no model": (lambda folder: (folder / "model.npz").unlink(), "is not a run's folder: it has no model.npz"),
    "half a model": (lambda folder: (folder / "model.npz").write_bytes(b"PK"), "the model in .* is damaged"),
    "a pickle": (_changed(model=np.array([{}, 1], dtype=object)), "the model in .* is damaged"),
    "a packed model": (_packed, "the model in .* is damaged"),
    "a model of texts": (_changed(model=np.array(["a", "b"])), "no vector of numbers"),
    "a longer model": (_changed(model=np.zeros(99)), "has 99 numbers, and 6 features need 7"),
    "another class": (_changed(classes=np.array('["a", "b", "c"]')), "does not tell 3 classes apart"),
    "a class twice": (_changed(classes=np.array('["a", "a"]')), "its classes are no labels"),
    "absurd features": (_said(features=10**12), "what it says of the records does not fit together"),
    "absurd shape": (_said(shape=[7, 7]), "what it says of the records does not fit together"),
    "other columns": (_said(names=["a"]), "what it says of the records does not fit together"),
    "no schema": (lambda folder: (folder / "schema.toml").unlink(), "has no schema.toml"),
    "another range": (_edited("schema.toml", "low = ", "low = -1"), "not the schema that the model was trained with"),
    "no schema at all": (lambda folder: (folder / "schema.toml").write_text("a = 1\n"), "a schema has a table"),
    "a schema elsewhere": (_edited("config.toml", "[data]", '[data]\nschema = "x.toml"'), "names another file"),
    "an unknown key": (_edited("config.toml", "[data]", "[data]\nfrobs = 1"), "no run file that this version"),
    "half a row": (_edited("metrics.jsonl", '"loss"', '"los'), "not every line of it is a measured model"),
    "a row that is no number": (_edited("metrics.jsonl", '"k": 0', '"k": NaN'), "not every line of it"),
    "no rows": (lambda folder: (folder / "metrics.jsonl").write_text(""), "it is empty"),
    "nested": (lambda folder: (folder / "privacy.json").write_text("[" * 10**5), "does not say what the run spent"),
    "a link": (_linked, "is a link, and a run writes none"),
    "a newer version": (_edited("format.json", '"format": 1', '"format": 99'), "has format 99 of a run's folder"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_folder_that_was_damaged_or_forged_gets_a_sentence(folder: Path, damage: str) -> None:
    change, says = DAMAGE[damage]
    change(folder)
    with pytest.raises(CrescendoError, match=says) as found:
        crescendo.load(folder)
    assert "\n" not in str(found.value)


def test_a_model_that_is_not_finite_predicts_nothing(folder: Path) -> None:
    _changed(model=np.full(7, np.nan))(folder)
    with pytest.raises(CrescendoError, match="not finite"):
        crescendo.load(folder).predict(table())


def test_what_is_no_complete_run_gets_a_sentence(folder: Path) -> None:
    with pytest.raises(CrescendoError, match="there is no folder"):
        crescendo.load(folder / "none")
    running = folder.rename(folder.with_name("copy.running"))
    for path in (running, folder):
        with pytest.raises(CrescendoError, match="is still going or was killed; load one that is complete"):
            crescendo.load(path)
    for wrong in (3, None, [str(folder)]):
        with pytest.raises(CrescendoError, match="takes the path of a run's folder, not a"):
            untyped(wrong)
    with pytest.raises(CrescendoError, match="made by an earlier version"):
        crescendo.load(Path(__file__).parents[1] / "before" / "run").predict([[0.0] * 5])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.toml", "a = " + "[" * 5000),
        ("config.toml", "a = " + "1" * 5001),
        ("format.json", '{"format": 1e999}'),
        ("format.json", "[" * 100_000),
        ("privacy.json", '{"epsilon": -3, "delta": 1e-6}'),
        ("privacy.json", '{"epsilon": 1, "delta": 5}'),
    ],
)
def test_a_hostile_text_in_the_folder_is_a_sentence(name: str, text: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    crescendo.simulate(x, x[:, 0] > 0, clients=2, gradients=100, out=tmp_path / "run")
    (tmp_path / "run" / name).write_text(text)
    with pytest.raises(CrescendoError, match=name):
        crescendo.load(tmp_path / "run")


def test_a_linked_format_or_a_pipe_is_never_opened(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    crescendo.simulate(x, x[:, 0] > 0, clients=2, gradients=100, out=tmp_path / "run")
    number = tmp_path / "run" / "format.json"
    number.unlink()
    os.mkfifo(number)
    with pytest.raises(CrescendoError, match=r"format\.json is no file"):
        crescendo.load(tmp_path / "run")
    number.unlink()
    number.symlink_to("/dev/zero")
    with pytest.raises(CrescendoError, match="is a link"):
        crescendo.load(tmp_path / "run")


def test_a_text_of_gigabytes_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_run, "_LONGEST_TEXT", (folder / "metrics.jsonl").stat().st_size - 1)
    with pytest.raises(CrescendoError, match="longer than"):
        crescendo.load(folder)


@pytest.mark.parametrize(
    "options", [{"hidden": [10**6, 10**6]}, {"hidden": 10**9}, {"hidden": [-3]}, {"hidden": ["4"]}]
)
def test_a_network_that_the_folder_makes_larger_than_its_model_is_never_made(options: dict[str, Any]) -> None:
    loaded_model.check_sizes({"hidden": [4], "classes": 2}, features=3, most=26)
    with pytest.raises(CrescendoError, match="do not fit the model in the same folder"):
        loaded_model.check_sizes({"classes": 2, **options}, features=3, most=26)


def test_a_table_is_scored_by_the_column_that_training_named(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(200, 2)), columns=["hour", "wind"])
    frame["late"] = frame["hour"] > 0
    made = crescendo.simulate(frame, "late", clients=2, gradients=400, out=tmp_path / "run")
    found = crescendo.load(tmp_path / "run")
    assert found.score(frame) == found.score(frame, "late") == found.score(frame, frame["late"])
    again = crescendo.simulate(tmp_path / "run" / "config.toml", data=(frame, "late"))
    assert np.array_equal(again.model, made.model)
