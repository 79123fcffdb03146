"""`crescendo predict`: every kind of table in, a csv of answers out; a table that does not fit gets a sentence."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import crescendo
from crescendo.cli.main import app

pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")


def table(rows: int = 200, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame({"income": rng.normal(size=rows) * 9000 + 50_000})
    frame["ward"] = rng.choice(np.array(["north", "süd", None], dtype=object), rows)
    frame["stay"] = np.where((frame.ward == "north") | (frame.income > 60_000), "sehr lang, leider", "kurz")
    return frame


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs: of a table with texts, of columns of numbers, of arrays, and of numbers to predict."""
    place, rng = tmp_path_factory.mktemp("runs"), np.random.default_rng(1)
    crescendo.simulate(table(), "stay", clients=2, gradients=2000, out=place / "texts")
    x = rng.normal(size=(200, 3)) * [1.0, 100.0, 0.01] + [0.0, 900.0, 0.0]
    frame = pandas.DataFrame(x, columns=["a", "b", "c"])
    crescendo.simulate(frame, np.where(x[:, 1] > 900, 8, 3), clients=2, gradients=2000, out=place / "numbers")
    crescendo.simulate(x, x[:, 1] > 900, clients=2, gradients=2000, out=place / "arrays")
    crescendo.simulate(frame, 2.0 * x[:, 0] + 0.5, clients=2, gradients=2000, out=place / "amounts")
    frame.assign(y=np.where(x[:, 1] > 900, 8, 3)).to_csv(place / "numbers.csv", index=False)
    frame.assign(y=2.0 * x[:, 0] + 0.5).to_csv(place / "amounts.csv", index=False)
    np.savez(place / "arrays.npz", x=x, y=(x[:, 1] > 900).astype(int))
    np.savez(place / "alone.npz", rows=x)
    with (place / "arrays.libsvm").open("w") as file:
        for row in x:
            file.write(f"{int(row[1] > 900)} " + " ".join(f"{i}:{v:.17g}" for i, v in enumerate(row, 1)) + "\n")
    return place


def told(*words: object) -> Any:
    return CliRunner().invoke(app, ["predict", *map(str, words)])


def answers(text: str) -> list[str]:
    first, *rest = csv.reader(io.StringIO(text))
    assert first == ["prediction"]
    return [row[0] for row in rest]


def test_every_format_gives_the_answers_of_load(runs: Path, tmp_path: Path) -> None:
    new = table(50, seed=1)
    expected = crescendo.load(runs / "texts").predict(new).tolist()
    assert set(expected) == {"sehr lang, leider", "kurz"}
    writers: dict[str, Any] = {
        "new.csv": lambda path: new.to_csv(path, index=False),
        "new.tsv": lambda path: new.to_csv(path, index=False, sep="\t"),
        "new.csv.gz": lambda path: new.to_csv(path, index=False),
        "other.csv": lambda path: new.assign(id=7)[["stay", "id", "ward", "income"]].to_csv(path, index=False, sep=";"),
        "bare.csv": lambda path: new[["ward", "income"]].to_csv(path, index=False),
        **({"new.parquet": new.to_parquet} if _has("pyarrow") else {}),
    }
    for name, write in writers.items():
        write(tmp_path / name)
        found = told(runs / "texts", tmp_path / name)
        assert found.exit_code == 0 and answers(found.stdout) == expected, name
        assert ("accuracy" in found.stderr) == (name != "bare.csv"), name


def _has(package: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(package) is not None


def test_arrays_and_libsvm_text_are_asked_about_as_they_are(runs: Path) -> None:
    with np.load(runs / "arrays.npz") as file:
        expected = [str(one) for one in crescendo.load(runs / "arrays").predict(file["x"]).tolist()]
    for name in ("arrays.npz", "arrays.libsvm", "alone.npz"):
        found = told(runs / "arrays", runs / name)
        assert found.exit_code == 0 and answers(found.stdout) == expected, found.stderr
        assert ("accuracy 0.9" in found.stderr or "accuracy 1.0" in found.stderr) == (name != "alone.npz")
    by_place = told(runs / "arrays", runs / "numbers.csv", "--label", "y")
    assert answers(by_place.stdout) == expected and "by their place, not by name" in by_place.stderr


def test_classes_that_are_numbers_and_amounts(runs: Path) -> None:
    found = told(runs / "numbers", runs / "numbers.csv", "--label", "y", "--json")
    facts = json.loads(found.stdout)
    assert set(facts["predictions"]) == {3, 8} and facts["score"]["accuracy"] > 0.9 and facts["records"] == 200
    facts = json.loads(told(runs / "amounts", runs / "amounts.csv", "--label", "y", "--json").stdout)
    assert facts["score"]["r2"] > 0.9 and all(isinstance(one, float) for one in facts["predictions"])
    unlabelled = told(runs / "numbers", runs / "numbers.csv")
    assert "accuracy" not in unlabelled.stderr  # a frame with its labels apart names no column for them


def test_a_runs_model_file_stands_for_its_folder(runs: Path) -> None:
    by_file = told(runs / "numbers" / "model.npz", runs / "numbers.csv")
    assert by_file.exit_code == 0 and by_file.stdout == told(runs / "numbers", runs / "numbers.csv").stdout


def test_out_is_written_whole_and_never_over_a_file(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers.csv"
    found = told(runs / "numbers", runs / "numbers.csv", "--out", out)
    assert found.exit_code == 0 and "wrote 200 answers" in found.stdout and len(answers(out.read_text())) == 200
    again = told(runs / "numbers", runs / "numbers.csv", "--out", out)
    assert again.exit_code == 1 and "exists already" in again.stderr
    silent = told(runs / "numbers", runs / "numbers.csv", "--out", tmp_path / "other.csv", "--json")
    assert json.loads(silent.stdout)["predictions"] is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.csv", "other.csv"]


def test_labels_that_the_model_does_not_know_count_in_no_score(runs: Path, tmp_path: Path) -> None:
    new = table(20, seed=2)
    new.loc[:4, "stay"] = "unbekannt"
    new.to_csv(tmp_path / "new.csv", index=False)
    found = told(runs / "texts", tmp_path / "new.csv")
    assert (
        "5 of 20 records have a label that the model does not know" in found.stderr and "on 15 records" in found.stderr
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("income,stay\n1,kurz\n", "no column 'ward'"),
        ("income,ward\n", "no records"),
        ("", "no records"),
        ("income\n1\n", "no column 'ward'"),
        ("INCOME,ward\n1,north\n", "its columns are INCOME, ward\n"),  # and not the label, which nobody asked for
        ("income,ward,ward\n1,north,north\n", "two columns called 'ward'"),
        ("1,2,3\n4,5,6\n", "no header line"),
        ("income,ward\nold,north\nolder,north\n", "has no number in it"),
        ("income,ward\n1\n", "1 cells where the header has 2"),
        ("income,ward\n1,\xff\n", None),
    ],
)
def test_a_table_that_does_not_fit_is_one_sentence(runs: Path, tmp_path: Path, text: str, says: str | None) -> None:
    (tmp_path / "new.csv").write_bytes(text.encode("latin-1"))
    found = told(runs / "texts", tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    assert found.exit_code == 1 and found.stdout == "" and not (tmp_path / "out.csv").exists()
    assert found.stderr.startswith("crescendo: ") and found.stderr.count("\n") == 1
    assert (says or "not UTF-8") in found.stderr


@pytest.mark.parametrize(
    ("model", "words", "says"),
    [
        ("texts", ["nothing.csv"], "there is no file"),
        ("texts", ["."], "is a folder; name a file of records"),
        ("nothing", ["arrays.npz"], "there is no folder"),
        ("arrays.npz", ["arrays.npz"], "is a file; name the folder of a run"),
        ("texts", ["arrays.npz"], "has no named columns, and the model learned from the columns income, ward"),
        ("texts", ["numbers.csv"], "no column 'income'"),
        ("arrays", ["amounts.csv"], "has 4 columns beside labels, and the model learned from 3 features"),
        ("numbers", ["numbers.csv", "--label", "z"], "no column 'z' with labels"),
        ("numbers", ["numbers.csv", "--model", "net.py:Net"], "needs no model of yours"),
        ("numbers", ["numbers.csv", "--out", "no/where.csv"], "check that path"),
        ("numbers", ["config.toml"], "cannot be read: data files are"),
    ],
)
def test_a_mistake_is_one_sentence(
    runs: Path, model: str, words: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs)
    (runs / "config.toml").touch()
    found = told(model, *words)
    assert found.exit_code == 1 and found.stderr.startswith("crescendo: ") and found.stderr.count("\n") == 1
    assert says in found.stderr, found.stderr


def test_an_npz_with_objects_is_never_unpickled(runs: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "evil.npz", x=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    found = told(runs / "arrays", tmp_path / "evil.npz")
    assert found.exit_code == 1 and "Python objects, which are not loaded" in found.stderr
