"""A finished federation's model answers new records by its terms' schema, classes and labels; a hostile file gets a sentence."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.calls.loaded_federation import LoadedFederation
from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.errors import CrescendoError
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.federation.last_model import LastModel
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.client.join import join
from crescendo.network.server.serve import _save_model
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff
from tests.cli.joining_clients import played
from tests.conformance.cases import OWN_MODEL, PRIVATE, case
from tests.network.live_server import live_server

pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
BEFORE = Path(__file__).parents[1] / "before"
SCHEMA: dict[str, Any] = {
    "label": "died",
    "columns": {
        "age": {"low": 0.0, "high": 100.0, "missing": 50.0, "indicator": True},
        "city": {"values": ["Oslo", "Zürich"], "other": True},
    },
}
TABLE = "city,note,died,age\nOslo,a,ja gewiß,75\nZu\u0308rich,b,nein,25\nRome,c,nein,\nOslo,d,perhaps,100\n"


def served(place: Path, model: Any, **changes: dict[str, Any]) -> Agreement:
    """What `serve` leaves of a federation: its last model with the terms."""
    raw = case(**changes)
    raw["serve"] = {k: v for k, v in raw["serve"].items() if v is not None}
    if ".py:" in raw["objective"].get("kind", ""):
        raw["objective"].pop("l2")
    agreed = build_terms(terms_text(read(raw)))
    place.mkdir()
    LastModel.of(np.asarray(model, dtype=np.float64), agreed).save(place / "model.npz")
    return agreed


def of_tables(place: Path, model: Any, **changes: dict[str, Any]) -> Agreement:
    data: dict[str, Any] = {"source": "with the clients", "classes": ["ja gewiß", "nein"], "schema": SCHEMA}
    return served(place, model, **{"data": data, "serve": {"features": None}, **changes})


def by_age(place: Path) -> Agreement:
    """A model that says "nein" of whoever is below 50."""
    return of_tables(place, [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0])


def test_a_federation_of_tables_answers_with_the_labels_own_names(tmp_path: Path) -> None:
    by_age(tmp_path / "served")
    (tmp_path / "new.csv").write_text(TABLE)
    loaded = crescendo.load(tmp_path / "served")
    assert isinstance(loaded, LoadedFederation) and loaded.classes == ("ja gewiß", "nein")
    frame = pandas.read_csv(io.StringIO(TABLE))
    assert loaded.predict(tmp_path / "new.csv")[[0, 1, 3]].tolist() == ["ja gewiß", "nein", "ja gewiß"]
    for one in (frame, frame[["age", "city"]], frame[["died", "age", "city"]]):
        assert loaded.predict(one).tolist() == loaded.predict(tmp_path / "new.csv").tolist()
    answers = loaded.answers(frame[:2])
    assert answers.score is not None and answers.score.scores == {"accuracy": 1.0} and answers.score.guessing == 0.5
    assert "1 of 4 records have a label that the model does not know" in " ".join(loaded.answers(frame).notes)
    assert loaded.score(frame[:2], y=["nein", "nein"]) == {"records": 2, "accuracy": 0.5, "commonest class": 1.0}
    assert loaded.score(frame.rename(columns={"died": "gone"})[:2], y="gone")["accuracy"] == 1.0
    with pytest.raises(CrescendoError, match="no column 'city'"):
        loaded.predict(frame.drop(columns="city"))
    with pytest.raises(CrescendoError, match="has a label that the model knows"):
        loaded.score(frame[["age", "city"]])
    assert "no epsilon" in loaded.summary() and loaded.accuracy is None and "logistic" in repr(loaded)
    assert crescendo.load(tmp_path / "served" / "model.npz").predict(frame).tolist() == loaded.predict(frame).tolist()


def test_unseen_categories_are_answered_and_noted(tmp_path: Path) -> None:
    by_age(tmp_path / "served")
    frame = pandas.DataFrame({"age": [1.0] * 20, "city": ["Oslo"] * 19 + ["Rome"]})
    loaded = crescendo.load(tmp_path / "served")
    (note,) = loaded.answers(frame).notes
    assert "1 cell of 'city' name a category that the model has not learned, such as 'Rome'" in note
    assert loaded.answers(frame[:19]).notes == ()


def test_every_objective_of_ours_answers(tmp_path: Path) -> None:
    x = np.eye(4)
    three: dict[str, Any] = {"data": {"source": "iris", "classes": [0, 1, 2]}, "objective": {"kind": "softmax"}}
    served(tmp_path / "softmax", np.arange(15.0), **three)
    assert crescendo.load(tmp_path / "softmax").predict(x).tolist() == [2, 2, 2, 2]
    served(tmp_path / "numbers", [1.0, 2.0, 3.0, 4.0, 0.5], objective={"kind": "least-squares"})
    loaded = crescendo.load(tmp_path / "numbers")
    assert loaded.predict(x).tolist() == [1.5, 2.5, 3.5, 4.5] and loaded.classes == ()
    assert loaded.score(x, [1.5, 2.5, 3.5, 4.5])["r2"] == 1.0
    served(tmp_path / "plain", [1.0, -1.0, 1.0, -1.0, 0.0])
    assert crescendo.load(tmp_path / "plain").predict(x).tolist() == [
        1,
        0,
        1,
        0,
    ]  # no classes in the terms: numbers of them


def test_a_private_federation_states_the_epsilon_that_its_terms_certify(tmp_path: Path) -> None:
    agreed = of_tables(tmp_path / "served", np.zeros(6), privacy={"mechanism": "minibatch", **PRIVATE, "records": 100})
    found = crescendo.load(tmp_path / "served")
    assert found.privacy is not None and agreed.certificate is not None
    assert found.privacy["delta"] == 1e-6 and 0 < found.privacy["epsilon"] < 10
    assert f"{found.privacy['epsilon']:.4g}" in found.summary()


def test_a_model_of_ones_own_is_the_callers_copy_by_its_hash(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    decide = "\n    def decide(self, w, data):\n        return self._probabilities(w, data.x).argmax(axis=1)\n"
    mine.write_text(Path(OWN_MODEL.rpartition(":")[0]).read_text().rstrip() + "\n" + decide)
    own: dict[str, Any] = {
        "objective": {"kind": f"{mine}:Softmax", "options": {"classes": 10}},
        "data": {"source": "digits", "classes": list(range(10))},
        "serve": {"features": 64},
    }
    agreed = served(tmp_path / "served", np.zeros(640), **own)
    x = np.zeros((2, 64))
    with pytest.raises(CrescendoError, match="hold no code; name a copy that you trust"):
        crescendo.load(tmp_path / "served").predict(x)
    assert agreed.size == 640
    assert crescendo.load(tmp_path / "served", objective=f"{mine}:Softmax").predict(x).tolist() == [0, 0]
    with pytest.raises(CrescendoError, match="SHA-256"):
        crescendo.load(tmp_path / "served", objective=OWN_MODEL).predict(x)


def test_folders_of_early_versions_take_the_terms_that_lie_beside(tmp_path: Path) -> None:
    terms = build_terms(json.loads((BEFORE / "served" / "terms.json").read_text())["terms"])
    assert len(crescendo.load(BEFORE / "served").predict(np.zeros((3, terms.features)))) == 3
    with pytest.raises(CrescendoError, match="written by an early version without its terms; start the server or the"):
        crescendo.load(BEFORE / "client")


@pytest.mark.slow
def test_what_serve_and_join_leave_answers_alike(tmp_path: Path) -> None:
    """A whole federation over sockets; every party's folder gives the same answers."""
    raw = case(
        clients={"count": 1, "combine": "mean"},
        data={"source": "with the clients", "classes": ["no", "yes"], "schema": SCHEMA},
        schedule={"rounds": 3},
    )
    raw["serve"].pop("features")
    lines = "".join(f"{age},Oslo,{'yes' if age > 50 else 'no'}\n" for age in range(100))
    (tmp_path / "mine.csv").write_text("age,city,died\n" + lines)

    async def play() -> None:
        import asyncio

        async with live_server(tmp_path / "served" / "journal", raw) as made:
            await asyncio.to_thread(
                join,
                Endpoint(f"127.0.0.1:{made.port}"),
                "client 0",
                RecordSource(str(tmp_path / "mine.csv")),
                tmp_path / "mine",
                Policy.model_validate({"mechanisms": ["none"]}),
                backoff=Backoff(0.02, 0.2),
            )
            _save_model(made.service, tmp_path / "served")

    played(play)
    first, second = (crescendo.load(tmp_path / name) for name in ("served", "mine"))
    answers = [one.answers(tmp_path / "mine.csv") for one in (first, second)]
    assert answers[0].predictions.tolist() == answers[1].predictions.tolist()
    assert answers[0].score is not None and answers[0].score.scores["accuracy"] > 0.9


# -- hostile and damaged files ---------------------------------------------------------------------------------------------


def _arrays(place: Path) -> dict[str, Any]:
    with np.load(place / "model.npz") as file:
        return dict(file)


def _changed(**changes: Any) -> Callable[[Path], object]:
    return lambda place: np.savez(place / "model.npz", **{**_arrays(place), **changes})


def _bomb(place: Path) -> None:
    np.savez_compressed(place / "model.npz", **{**_arrays(place), "model": np.zeros(10**7)})


def _huge_header(place: Path) -> None:
    """A header that announces more numbers than any machine has."""
    arrays = _arrays(place)
    with zipfile.ZipFile(place / "model.npz", "w") as file:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array)
            data = content.getvalue()
            if name == "model":
                data = data.replace(b"(6,)", b"(9999999999999,)"[:4]).replace(b"'shape': (6,)", b"'shape': (9**9,)")
            file.writestr(f"{name}.npy", data)


def _pickled(place: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (place / "ran",)

    np.savez(place / "model.npz", **{**_arrays(place), "model": np.array([Evil()], dtype=object)}, allow_pickle=True)


def _terms(change: Callable[[str], str]) -> Callable[[Path], object]:
    def changed(place: Path) -> None:
        import hashlib

        arrays = _arrays(place)
        text = change(arrays["text"].item().decode()).encode()
        arrays |= {"text": np.array(text), "terms": np.array(hashlib.sha256(text).hexdigest())}
        np.savez(place / "model.npz", **arrays)

    return changed


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (lambda place: (place / "model.npz").write_text("not a zip"), "not a run's folder|damaged|config.toml"),
    "cut": (
        lambda place: (place / "model.npz").write_bytes((place / "model.npz").read_bytes()[:-30]),
        "damaged|config",
    ),
    "pickle": (_pickled, "damaged"),
    "bomb": (_bomb, "damaged"),
    "too short": (_changed(model=np.zeros(5)), "its terms describe 6 numbers"),
    "complex": (_changed(model=np.zeros(6, dtype=complex)), "its terms describe 6 numbers"),
    "matrix": (_changed(model=np.zeros((6, 6))), "its terms describe 6 numbers"),
    "other terms": (_changed(terms=np.array("0" * 64)), "damaged"),
    "other federation": (_changed(federation=np.array("another")), "do not match the digest"),
    "text of numbers": (_changed(text=np.zeros(9)), "damaged"),
    "deep json": (_terms(lambda text: "[" * 100_000), "cannot use"),
    "no terms": (_terms(lambda text: "{}"), "cannot use"),
    "many features": (_terms(lambda text: text.replace('"features":5', '"features":49999999')), "cannot use|numbers"),
    "a number of old": (_terms(lambda text: text.replace('"rounds":6', '"rounds":' + "9" * 5000)), "cannot use"),
    "huge header": (_huge_header, "damaged"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_sentence(name: str, tmp_path: Path) -> None:
    change, says = HOSTILE[name]
    by_age(tmp_path / "served")
    change(tmp_path / "served")
    with pytest.raises(CrescendoError, match=says) as found:
        crescendo.load(tmp_path / "served").predict(pandas.read_csv(io.StringIO(TABLE)))
    assert "\n" not in str(found.value) and not (tmp_path / "served" / "ran").exists()


def test_a_federation_that_goes_on_has_no_model_yet(tmp_path: Path) -> None:
    (tmp_path / "served" / "journal").mkdir(parents=True)
    with pytest.raises(CrescendoError, match=r"not finished; model.npz appears after its last round"):
        crescendo.load(tmp_path / "served")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    by_age(tmp_path / "served")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "model.npz").symlink_to(tmp_path / "served" / "model.npz")
    with pytest.raises(CrescendoError, match="is a link"):
        crescendo.load(tmp_path / "copy")
