"""Sweeps: every point is a run of its own, is kept as soon as it ends, and is never run twice."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.errors import ConfigError
from crescendo.runs.simulate import simulate
from crescendo.studies import study_events
from crescendo.studies.points import Outcome, StudyPoint, run_point
from crescendo.studies.study_events import PointBegan, PointEnded, StudyEvent
from crescendo.studies.sweeping import Sweep, sweep
from tests.config.small import SMALL, TOML, small
from tests.report.test_report import Tags, drawn

OVER = ["clients.count=2,3", "run.seed=0..1"]


class Heard:
    """Remembers which points were run and which were found, and may stop a sweep as Ctrl-C does."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.run: list[str] = []
        self.kept: list[str] = []
        self._stop_after = stop_after

    def __call__(self, event: StudyEvent) -> None:
        if isinstance(event, PointBegan) and self._stop_after == len(self.run):
            raise KeyboardInterrupt
        if isinstance(event, PointEnded):
            (self.kept if event.kept else self.run).append(event.point.label)


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "sweep.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_point_is_the_run_that_its_values_say(tmp_path: Path) -> None:
    found = sweep(SMALL, OVER, out=tmp_path / "swept")
    alone = simulate(small("clients.count=3", "run.seed=1"))
    outcome = found.points[-1].outcome
    assert found.points[-1].values == ("3", "1") and outcome.status == "done"
    assert (outcome.accuracy, outcome.loss, outcome.bytes) == (
        alone.accuracy,
        alone.loss,
        alone.bytes_up + alone.bytes_down,
    )
    last = rows_of(tmp_path / "swept")[-1]
    assert last["clients.count"] == "3" and float(last["accuracy"]) == alone.accuracy
    assert [group.values for group in found.groups()] == [("2",), ("3",)]


def test_a_sweep_that_was_stopped_goes_on_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    sweep(SMALL, OVER, out=tmp_path / "whole")
    stopped, rest, again = Heard(stop_after=3), Heard(), Heard()
    with pytest.raises(KeyboardInterrupt):
        sweep(SMALL, OVER, out=tmp_path / "cut", tell=stopped)
    assert len(stopped.run) == 3 and not (tmp_path / "cut" / "sweep.html").exists()
    sweep(SMALL, OVER, out=tmp_path / "cut", tell=rest)
    sweep(SMALL, OVER, out=tmp_path / "cut", tell=again)
    assert rest.kept == stopped.run and len(rest.run) == 1 and len(again.kept) == 4 and not again.run
    for name in ("sweep.csv", "sweep.html"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()


@pytest.mark.slow
def test_a_killed_sweep_keeps_every_point_that_had_ended(tmp_path: Path) -> None:
    code = f"""
import os, signal
from crescendo.studies import study_events
from crescendo.studies.points import Outcome, StudyPoint, run_point
from crescendo.studies.study_events import PointBegan
from crescendo.studies.sweeping import sweep
def tell(event):
    if isinstance(event, PointBegan) and event.number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
sweep({SMALL!r}, {OVER!r}, out={str(tmp_path / "swept")!r}, tell=tell)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    heard = Heard()
    sweep(SMALL, OVER, out=tmp_path / "swept", tell=heard)
    assert (len(heard.kept), len(heard.run)) == (2, 2)


def test_a_point_whose_file_was_cut_or_whose_run_file_changed_is_run_again(tmp_path: Path) -> None:
    out, first, second = tmp_path / "swept", Heard(), Heard()
    sweep(SMALL, OVER, out=out)
    victim = sorted((out / "points").iterdir())[0]
    victim.write_text(victim.read_text()[:40])
    sweep(SMALL, OVER, out=out, tell=first)
    assert len(first.run) == 1 and len(first.kept) == 3
    sweep(SMALL, OVER, overrides=["objective.l2=0.5"], out=out, tell=second)
    assert len(second.run) == 4


def test_the_order_of_keys_makes_no_other_run_and_every_change_does(tmp_path: Path) -> None:
    heard = Heard()
    sweep(SMALL, OVER, out=tmp_path / "swept")
    sweep(SMALL, OVER[::-1], out=tmp_path / "swept", tell=heard)
    assert len(heard.kept) == 4
    points = [
        StudyPoint("", small()),
        StudyPoint("", small("run.seed=1")),
        StudyPoint("", small(), "fedavg"),
        StudyPoint("", small(), "fedavg", {"rate": 0.5}),
        StudyPoint("", small(), part="validation of seed 0"),
    ]
    assert len({point.digest for point in points}) == 5
    assert points[0].digest == StudyPoint("another label", small()).digest


def test_a_changed_data_file_is_another_run(tmp_path: Path) -> None:
    path, heard = tmp_path / "mine.csv", Heard()
    lines = [f"{i / 40},{i % 7},{i // 2 % 2}" for i in range(40)]
    path.write_text("\n".join(["x,z,late", *lines]))
    over = [f"data.source='{path}'", "run.seed=0,1"]
    sweep(SMALL, over, out=tmp_path / "swept")
    path.write_text("\n".join(["x,z,late", *reversed(lines)]))
    sweep(SMALL, over, out=tmp_path / "swept", tell=heard)
    assert len(heard.run) == 2


def test_a_point_that_fails_is_a_sentence_and_one_that_diverges_no_success(tmp_path: Path) -> None:
    over = ["clients.count=2,0,1000", "schedule.steps.eta0=0.1,30,1e300"]
    found, again = sweep(SMALL, over, out=tmp_path / "swept"), Heard()
    by_values = {point.values: point.outcome for point in found.points}
    assert by_values["2", "0.1"].status == "done"
    assert by_values["2", "30"].status == "diverged" and "the loss rose from" in by_values["2", "30"].says
    assert by_values["2", "1e300"].status == "diverged"
    assert by_values["0", "0.1"].says == "clients.count must be a whole number of at least 1, not 0"
    assert by_values["1000", "0.1"].says.startswith("clients.count = 1000 is more than the 200 training records")
    assert (found.count("done"), found.count("diverged"), found.count("failed")) == (1, 2, 6)
    best = found.best()
    assert best is not None and best.values == ("2", "0.1")
    sweep(SMALL, over, out=tmp_path / "swept", tell=again)
    assert len(again.run) == 3, "what failed is tried again, what diverged is not"


def test_a_setting_with_a_failure_has_no_mean(tmp_path: Path) -> None:
    found = sweep(SMALL, ["timing.resend=1,2", "run.seed=0,-1"])
    assert all(group.mean("accuracy") is None and not group.clean for group in found.groups())
    assert found.best() is None


def test_a_key_that_is_not_there_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no key clients\.cuont; did you mean clients\.count\?"):
        sweep(SMALL, ["clients.cuont=1,2"], out=tmp_path / "swept")
    assert not (tmp_path / "swept").exists()


def test_a_folder_that_is_no_sweep_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep")
    (tmp_path / "file").write_text("keep")
    for name in ("notes", "file"):
        with pytest.raises(ConfigError, match="already exists and holds no sweep"):
            sweep(SMALL, OVER, out=tmp_path / name)
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["mine.txt"]


def test_two_sweeps_at_once_do_not_share_a_folder(tmp_path: Path) -> None:
    def tell(event: StudyEvent) -> None:
        with pytest.raises(ConfigError, match="is being written to by another study"):
            sweep(SMALL, ["run.seed=5"], out=tmp_path / "swept")

    sweep(SMALL, ["run.seed=0"], out=tmp_path / "swept", tell=tell)


def page_of(found: Sweep) -> str:
    from crescendo.report.study_page import sweep_page
    from crescendo.studies.sweep_files import story_of

    return sweep_page(story_of(found), "plotly.js")


def test_names_with_markup_are_shown_letter_by_letter(tmp_path: Path) -> None:
    path = tmp_path / "<img src=x onerror=alert(1)>.csv"
    path.write_text("\n".join(["x,z,late", *(f"{i / 40},{i % 7},{i // 2 % 2}" for i in range(40))]))
    text = page_of(sweep(SMALL, [f"data.source='{path}','<b>nowhere</b>'", "clients.count=2,3"]))
    tags = Tags("plotly.js")
    tags.feed(text)
    assert tags.open == [] and "swept" in tags.ids
    shown = text.partition("</main>")[0]
    assert "<img" not in shown and "<b>nowhere" not in shown and "&lt;b&gt;nowhere" in shown
    figure: Any = drawn(text)["figures"]["swept"]
    assert not any("<" in line["name"] for line in figure["data"])


def test_the_figure_runs_along_the_longest_key_with_bars_over_seeds() -> None:
    text = page_of(sweep(SMALL, ["schedule.steps.eta0=0.01,0.1,1", "clients.count=2,3", "run.seed=0..2"]))
    figure: Any = drawn(text)["figures"]["swept"]
    assert [line["x"] for line in figure["data"]] == [[0.01, 0.1, 1.0]] * 2
    assert figure["layout"]["xaxis"]["title"]["text"] == "schedule.steps.eta0"
    assert figure["layout"]["xaxis"]["type"] == "log" and all("error_y" in line for line in figure["data"])


def test_the_command_prints_a_table_and_one_json_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(TOML)
    options = ["--over", "clients.count=2,1000", "--over", "run.seed=0..1"]
    found = CliRunner().invoke(app, ["sweep", "small.toml", *options])
    assert found.exit_code == 0, found.output
    assert "2 failed" in found.stdout and "Page: runs/small-sweep/sweep.html" in found.stdout
    told = CliRunner().invoke(app, ["sweep", "small.toml", *options, "--json"])
    parsed = json.loads(told.stdout)
    assert (parsed["done"], parsed["failed"], len(parsed["points"])) == (2, 2, 4)
    assert told.stdout.count("\n") == 1 and told.stderr == ""
    assert "curve" not in parsed["points"][0] and parsed["out"] == "runs/small-sweep"


def test_ctrl_c_says_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(TOML)
    made: list[StudyPoint] = []

    def interrupted(point: StudyPoint, sinks: Any) -> Outcome:
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(point)
        return run_point(point, sinks)

    with monkeypatch.context() as patch:
        patch.setattr(study_events, "run_point", interrupted)
        found = CliRunner().invoke(app, ["sweep", "small.toml", "--over", "run.seed=0..5"])
    assert found.exit_code == 130
    assert found.stderr == (
        "3 of 6 runs are kept in runs/small-sweep; the same command resumes from there\ncrescendo: stopped\n"
    )
    again = CliRunner().invoke(app, ["sweep", "small.toml", "--over", "run.seed=0..5", "--json"])
    assert json.loads(again.stdout)["done"] == 6 and len(list(Path("runs/small-sweep/points").iterdir())) == 6


def test_a_sweep_in_which_everything_fails_ends_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(TOML)
    found = CliRunner().invoke(app, ["sweep", "small.toml", "--over", "clients.count=1000,2000"])
    assert found.exit_code == 1
    assert found.stderr.startswith("crescendo: every run of the sweep failed; the first: clients.count = 1000 is more")
