"""A run's model in the formats of other libraries gives the same answers there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import crescendo
from crescendo.cli.main import app
from crescendo.errors import ConfigError, UsageError
from crescendo.runs.export import export

RNG = np.random.default_rng(4)
X = RNG.normal(size=(80, 3))
DATA = crescendo.dataset(X, np.where(X[:, 0] > 0, "late", "early"), test=0.25)
CONFIG: dict[str, Any] = {
    "clients": {"count": 2},
    "schedule": {"rounds": 3, "sizes": {"kind": "constant", "size": 40}, "steps": {"kind": "constant", "eta": 0.1}},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> crescendo.Result:
    return crescendo.simulate(CONFIG, data=DATA, out=tmp_path_factory.mktemp("runs") / "logistic")


def folder(result: crescendo.Result) -> Path:
    assert result.run is not None
    return Path(result.run)


def test_a_logistic_run_becomes_a_fitted_regression_that_predicts_labels_as_written(
    run: crescendo.Result, tmp_path: Path
) -> None:
    import joblib

    made = joblib.load(export(folder(run), "sklearn", tmp_path / "model.joblib").path)
    assert DATA.test is not None and run.accuracy is not None
    names = np.where(DATA.test.y > 0, DATA.classes[1], DATA.classes[0])
    assert made.score(DATA.test.x, names) == pytest.approx(run.accuracy)
    assert set(made.predict(X)) == {"early", "late"}
    assert np.array_equal(run.sklearn_model().coef_, made.coef_)
    assert made.predict_proba(X).shape == (80, 2)


def test_npz_and_safetensors_hold_the_vector(run: crescendo.Result, tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="safetensors is not installed: the torch extra")
    from safetensors.numpy import load_file

    with np.load(export(folder(run), "npz", tmp_path / "m.npz").path) as stored:
        assert np.array_equal(stored["model"], run.model)
    assert np.array_equal(load_file(export(folder(run), "safetensors", tmp_path / "m.st").path)["model"], run.model)


def test_a_torch_run_leaves_its_tensors_and_becomes_a_state_dict(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    found = crescendo.simulate(CONFIG, objective=crescendo.torch.model(net), data=DATA, out=tmp_path / "net")
    assert (tmp_path / "net" / "model.safetensors").is_file()
    again = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    again.load_state_dict(torch.load(export(folder(found), "torch", tmp_path / "net.pt").path))
    x = torch.from_numpy(X.astype(np.float32))
    assert torch.equal(again(x), found.torch_model()(x))
    with pytest.raises(UsageError, match="no built-in regression"):
        found.sklearn_model()
    with pytest.raises(UsageError, match="no built-in regression; export it to npz, safetensors or torch"):
        export(folder(found), "sklearn", tmp_path / "net.joblib")
    assert export(folder(found), "safetensors")[:2] == (tmp_path / "net" / "model.safetensors", False)
    other = (tmp_path / "net" / "model.safetensors").read_bytes()
    (tmp_path / "net" / "model.safetensors").write_bytes(other[:-1] + bytes([other[-1] ^ 1]))
    for to in ("torch", "safetensors"):
        with pytest.raises(ConfigError, match="is damaged and cannot be read"):
            export(folder(found), to, tmp_path / "damaged")


@pytest.mark.parametrize(
    ("to", "says"),
    [("keras", "not to 'keras'"), ("torch", "no torch module; export it to npz, safetensors, sklearn or onnx")],
    ids=["unknown", "torch"],
)
def test_what_cannot_be_exported_is_refused_in_a_sentence(
    run: crescendo.Result, tmp_path: Path, to: str, says: str
) -> None:
    with pytest.raises(crescendo.CrescendoError, match=says):
        export(folder(run), to, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_what_is_no_run_and_what_is_there_already_is_refused(run: crescendo.Result, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        export(folder(run), "npz", tmp_path / "taken")
    with pytest.raises(ConfigError, match=r"has no model\.npz"):
        export(tmp_path, "npz")
    with pytest.raises(ConfigError, match="cannot be written"):
        export(folder(run), "npz", tmp_path / "no" / "such" / "folder")
    assert (tmp_path / "taken").read_text() == "mine"


class Mean:
    """A model of one's own, given by a program: no run file names it."""

    def initial(self, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        return np.zeros(4)

    def gradient(self, w: Any, data: Any, rows: Any) -> Any:
        return len(rows) * w - np.append(data.x[rows].sum(axis=0), 0.0)

    def evaluate(self, w: Any, data: Any) -> dict[str, float]:
        return {"loss": 0.0, "accuracy": 0.5}


@pytest.mark.parametrize("to", ["sklearn", "torch"])
def test_a_model_of_ones_own_is_sent_to_the_formats_that_take_it(to: str, tmp_path: Path) -> None:
    crescendo.simulate(CONFIG, objective=Mean(), data=DATA, out=tmp_path / "own")
    with pytest.raises(UsageError, match=r"; export it to npz or safetensors$"):
        export(tmp_path / "own", to)


def test_the_folder_of_a_federation_of_old_says_what_it_lacks(tmp_path: Path) -> None:
    np.savez(tmp_path / "model.npz", model=np.zeros(4), federation=np.array("trial"), terms=np.array("0f"))
    with pytest.raises(ConfigError, match=r"written by an early version without its terms"):
        export(tmp_path, "sklearn")


def test_a_runs_own_file_is_left_as_it_is(run: crescendo.Result) -> None:
    before = (folder(run) / "model.npz").stat()
    said = CliRunner().invoke(app, ["export", str(folder(run)), "--to", "npz"])
    assert said.exit_code == 0 and said.output == f"{folder(run) / 'model.npz'} exists already: the run wrote it\n"
    assert (folder(run) / "model.npz").stat() == before


def test_an_export_has_the_mode_of_other_files_and_leaves_a_users_partial_file(
    run: crescendo.Result, tmp_path: Path
) -> None:
    (tmp_path / "m.npz.partial").write_text("mine")
    export(folder(run), "npz", tmp_path / "m.npz")
    (tmp_path / "other").touch()
    assert (tmp_path / "m.npz").stat().st_mode == (tmp_path / "other").stat().st_mode
    assert (tmp_path / "m.npz.partial").read_text() == "mine"
    assert {found.name for found in tmp_path.iterdir()} == {"m.npz", "m.npz.partial", "other"}


def test_a_byte_that_flipped_anywhere_is_noticed_or_changes_no_number(run: crescendo.Result, tmp_path: Path) -> None:
    whole = (folder(run) / "model.npz").read_bytes()
    (tmp_path / "run").mkdir()
    refused = 0
    for place in np.random.default_rng(7).choice(len(whole), 60, replace=False):
        flipped = whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]
        (tmp_path / "run" / "model.npz").write_bytes(flipped)
        try:
            path = export(tmp_path / "run", "npz", tmp_path / f"{place}.npz").path
        except ConfigError as error:
            assert "is damaged and cannot be read" in str(error)
            refused += 1
        else:
            assert np.array_equal(np.load(path)["model"], run.model)
    assert refused > 30


def test_the_command_says_where_it_wrote(run: crescendo.Result, tmp_path: Path) -> None:
    path = tmp_path / "model.joblib"
    said = CliRunner().invoke(app, ["export", str(folder(run)), "--to", "sklearn", "--out", str(path)])
    assert said.exit_code == 0 and said.output == f"wrote {path}\n" and path.is_file()


@pytest.mark.parametrize("damage", [b"", b"junk", b"PK\x03\x04 cut"], ids=["empty", "junk", "cut"])
def test_a_damaged_model_is_one_sentence_and_leaves_no_file(damage: bytes, tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="safetensors is not installed: the torch extra")
    pytest.importorskip("torch", reason="torch is not installed: the torch extra")
    (tmp_path / "model.npz").write_bytes(damage)
    for to in ("npz", "safetensors"):
        with pytest.raises(ConfigError, match="is damaged and cannot be read"):
            export(tmp_path, to)
    np.savez(tmp_path / "model.npz", model=np.zeros(3))  # as earlier versions left it
    (tmp_path / "model.safetensors").write_bytes(damage)
    with pytest.raises(ConfigError, match="is damaged and cannot be read"):
        export(tmp_path, "safetensors", tmp_path / "other")
    with pytest.raises(ConfigError, match="is damaged and cannot be read"):
        export(tmp_path, "torch")
    assert sorted(found.name for found in tmp_path.iterdir()) == ["model.npz", "model.safetensors"]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_every_regression_of_ours_predicts_the_same_in_scikit_learn(
    tmp_path: Path, classes: int, intercept: bool
) -> None:
    import joblib

    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    best = np.argmax(x, axis=1) % max(classes, 1)
    data = crescendo.dataset(
        x, x @ [1.0, 2.0, 3.0] if not classes else np.array(["a", "b", "c"])[best], classes=None if classes else ()
    )
    config: dict[str, Any] = {
        "data": {"source": data.name},
        "clients": {"count": 2},
        "objective": {"kind": "softmax" if classes else "least-squares", "intercept": intercept},
        "schedule": {
            "rounds": 2,
            "sizes": {"kind": "constant", "size": 90},
            "steps": {"kind": "constant", "eta": 0.02},
        },
    }
    found = crescendo.simulate(config, data=data, out=tmp_path / "run")
    exported = joblib.load(export(tmp_path / "run", "sklearn").path)
    for theirs in (found.sklearn_model(), exported):
        if classes:
            assert theirs.predict(x).tolist() == found.predict(x).tolist()
        else:
            np.testing.assert_allclose(theirs.predict(x), found.predict(x), rtol=1e-12)
