"""`crescendo audit FILE.py:NAME`: any mechanism, from a file of one's own."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo_dp.black_box.attack import Claim
from crescendo_dp.black_box.audit import LEAST_RUNS, MOST_TIMED_RUNS
from crescendo_dp.black_box.mechanism_file import attack_file

runner = CliRunner()
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLAIM = ["--epsilon", "2", "--delta", "1e-5"]
FILE = """
import numpy as np

def noisy(records, rng):
    print("a word on stdout")
    clipped = records / np.maximum(np.linalg.norm(records, axis=1, keepdims=True), 1)
    return clipped.sum(axis=0) + 2 * rng.normal(size=records.shape[1])

def bare(records, rng):
    return records.sum(axis=0)

class Bits:
    records, canaries, neighbours = [0, 1, 1], [0, 1], "replace"
    def __call__(self, records, rng):
        assert set(records) <= {0, 1}
        return np.where(rng.random(len(records)) < 1 / (1 + np.e), 1 - records, records)

class Odd(Bits):
    neighbours = "swap"

class Wrong(Bits):
    canaries = [[0, 1]]

class Words(Bits):
    records = ["a", "b"]

class Needs:
    def __init__(self, clip):
        self.clip = clip

def raises(records, rng):
    raise ValueError("no\\nluck")

def lengths(records, rng):
    return records[:, 0]

def infinite(records, rng):
    return records.sum(axis=0) / 0

number = 3
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FILE)


def json_of(*arguments: str, code: int = 0) -> dict[str, Any]:
    found = runner.invoke(app, ["audit", *arguments, "--json"])
    assert found.exit_code == code and found.stdout.count("\n") == 1, found.output
    return dict(json.loads(found.stdout))


@pytest.mark.slow
def test_a_sound_mechanism_passes_and_what_it_prints_is_kept_out_of_the_json() -> None:
    found = json_of("mine.py:noisy", *CLAIM, "--runs", "3000")
    assert (found["verdict"], found["mechanism"], found["size"], found["neighbours"]) == (
        "passed",
        "mine.py:noisy",
        5,
        "add",
    )
    assert 0 <= found["lower"] <= 2 and found["lower_gaussian"] is None and found["findings"] == []
    shown = runner.invoke(app, ["audit", "mine.py:noisy", *CLAIM, "--runs", "1000", "--gaussian", "--shape", "4,2"])
    assert shown.exit_code == 0 and "a word on stdout" not in shown.stdout and "a word on stdout" in shown.stderr
    for words in (
        "claimed epsilon",
        "lower bound, Gaussian",
        "0.999 confidence",
        "and one more",
        "of 2 numbers each",
        "Passed",
    ):
        assert words in re.sub(r"\s+", " ", shown.stdout)


def test_a_mechanism_without_noise_fails_at_once_with_exit_code_1() -> None:
    found = json_of("mine.py:bare", "--epsilon", "30", "--delta", "0", "--runs", "2000", code=1)
    assert found["verdict"] == "failed" and found["lower"] is None and "there is no noise" in found["findings"][0]
    shown = runner.invoke(app, ["audit", "mine.py:bare", *CLAIM])
    assert shown.exit_code == 1 and "infinite" in shown.stdout and "Failed: do not trust this epsilon" in shown.stdout


def test_a_class_says_what_its_records_are_and_what_can_take_their_place() -> None:
    found = json_of("mine.py:Bits", "--epsilon", "1", "--delta", "0", "--runs", "2000")
    assert (found["neighbours"], found["size"], found["verdict"]) == ("replace", 3, "passed")
    assert "the last one being" in found["pair"]
    assert json_of("mine.py:Bits", "--epsilon", "0.1", "--delta", "0", "--runs", "2000", code=1)["lower"] > 0.1


@pytest.mark.parametrize("name", ["r.csv", "r.npy", "r.npz", "xy.npz", "one.npz"])
def test_records_come_from_a_file(name: str) -> None:
    records = np.arange(12.0).reshape(4, 3)
    Path("r.csv").write_text("a,b,label\n" + "\n".join(",".join(map(str, row)) for row in records))
    np.save("r.npy", records)
    np.savez("r.npz", records=records, others=np.zeros(3))
    np.savez("xy.npz", x=records[:, :2], y=records[:, 2])
    np.savez("one.npz", anything=records)
    found = json_of("mine.py:bare", *CLAIM, "--records", name, code=1)
    assert found["size"] == 3 and found["pair"].startswith("4 records")


def test_without_runs_there_are_as_many_as_the_time_allows() -> None:
    def made(seconds: float, each: float) -> int:
        times = iter(each * 20 * i for i in range(10**6))
        found = attack_file("mine.py:Bits", Claim(1.0, 0.0), seconds=seconds, clock=lambda: next(times))
        return found.runs

    assert made(0.5, 1e-2) == pytest.approx(LEAST_RUNS, rel=0.2)
    assert made(4.0, 1e-3) == pytest.approx(4000, rel=0.1)
    assert MOST_TIMED_RUNS >= 10**6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mine.py:noisy"], "--epsilon and --delta"),
        (["mine.py:noisy", "--epsilon", "1"], "--epsilon and --delta"),
        (["mine.py:nosy", *CLAIM], "did you mean noisy?"),
        (["mine.py:", *CLAIM], 'not of the form "file.py:Name"'),
        (["yours.py:noisy", *CLAIM], "which does not exist"),
        (["mine.py:number", *CLAIM], "cannot be called"),
        (["mine.py:Needs", *CLAIM], "could not be made without arguments"),
        (["mine.py:raises", *CLAIM], "failed with ValueError: no luck"),
        (["mine.py:lengths", *CLAIM], "returned shape (21,) and then (20,)"),
        (["mine.py:infinite", *CLAIM], "not finite"),
        (["mine.py:Odd", *CLAIM], 'neighbours is "add" or "replace"'),
        (["mine.py:Wrong", *CLAIM], "canaries have shape (1, 2)"),
        (["mine.py:Words", *CLAIM], "not an array of finite numbers"),
        (["broken.py:noisy", *CLAIM], "could not be run: SyntaxError"),
        (["mine.py:noisy", *CLAIM, "--shape", "0,5"], "--shape"),
        (["mine.py:noisy", *CLAIM, "--shape", "a"], "--shape"),
        (["mine.py:noisy", *CLAIM, "--shape", "3", "--records", "r.npy"], "give one of the two"),
        (["mine.py:noisy", *CLAIM, "--shape", "3"], "failed with"),
        (["mine.py:noisy", *CLAIM, "--records", "none.csv"], "does not exist"),
        (["mine.py:noisy", *CLAIM, "--records", "mine.py"], "not a table of numbers"),
        (["mine.py:noisy", *CLAIM, "--records", "bad.npz"], "not a table of numbers"),
        (["mine.py:noisy", *CLAIM, "--records", "empty.csv"], "there are none"),
        (["mine.py:noisy", *CLAIM, "--records", "nan.csv"], "finite numbers"),
        (["mine.py:noisy", *CLAIM, "--set", "run.seed=1"], "--set changes a run file"),
        (["mine.py:noisy", *CLAIM, "--runs", "100"], "--runs of a mechanism"),
        (["mine.py:noisy", *CLAIM, "--seconds", "0"], "--seconds"),
        (["mine.py:noisy", *CLAIM, "--confidence", "1"], "--confidence"),
        (["mine.py:noisy", "--epsilon", "-1", "--delta", "0"], "--epsilon"),
        (["mine.py:noisy", "--epsilon", "nan", "--delta", "0"], "--epsilon"),
        (["mine.py:noisy", "--epsilon", "1", "--delta", "1"], "--delta"),
        (["mine.py:noisy", "--epsilon", "1", "--delta", "0", "--gaussian"], "--gaussian needs"),
        (["run.toml", "--epsilon", "1"], "a run file states its own claim"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_sentence(arguments: list[str], words: str) -> None:
    Path("broken.py").write_text("def noisy(:")
    Path("bad.npz").write_bytes(b"PK no zip")
    Path("empty.csv").write_text("a,b\n")
    Path("nan.csv").write_text("1,nan\n")
    found = runner.invoke(app, ["audit", *arguments])
    assert found.exit_code == 1 and found.stdout == "" and words in found.stderr, found.output
    *printed, sentence = found.stderr.splitlines()
    assert sentence.startswith("crescendo: ") and set(printed) <= {"a word on stdout"}


# -- the examples -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["audit_flower_mod.py", "audit_dp_sgd.py"])
def test_the_commands_of_an_example_end_as_it_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    commands = re.findall(r"^    crescendo (audit .*\S)\s+# (fails|passes)", (EXAMPLES / name).read_text(), re.M)
    assert sorted(ends for _, ends in commands) == ["fails", "passes"]
    for words, ends in commands:
        runs = "10000" if ends == "passes" or "sgd" in name else "600000"
        found = runner.invoke(app, [*shlex.split(words), "--runs", runs, "--json"])
        assert found.exit_code == int(ends == "fails"), found.output


def test_the_step_of_dp_sgd_claims_what_its_event_costs() -> None:
    from crescendo_dp.accounting.epsilon import account
    from crescendo_dp.events import PoissonGaussian

    page = (EXAMPLES / "audit_dp_sgd.py").read_text()
    cost = account([PoissonGaussian(0.25, 1.0)], 1e-5).epsilon
    assert f"{cost:.3f}" == "2.707" and "of one step: 2.707" in page and "CLIP, NOISE, RATE = 1.0, 1.0, 0.25" in page
    assert "costs 2.707 at delta 1e-5" in (EXAMPLES / "audit_opacus.py").read_text()
