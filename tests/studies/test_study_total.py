"""What the private runs of a study cost together: every run that began counts, in the terminal, in JSON and on the page."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.report.study_page import comparison_page, sweep_page
from crescendo.runs.added_runs import StudyTotal
from crescendo.studies import points
from crescendo.studies.comparing import compare
from crescendo.studies.comparison_files import story_of_comparison
from crescendo.studies.sweep_files import story_of
from crescendo.studies.sweeping import sweep
from tests.config.small import SMALL, TOML

PRIVATE = "privacy={mechanism = 'minibatch', sigma = 3.0, delta = 1e-5, clip = 1.0, records = 80}"


def spent(epsilon: float | None, delta: float = 1e-6) -> dict[str, Any]:
    return {"epsilon": epsilon, "delta": delta}


def test_a_sum_is_never_below_the_exact_one() -> None:
    total = StudyTotal.of([spent(0.1)] * 10)
    assert total is not None and total.runs == 10
    assert Fraction(total.epsilon) >= 10 * Fraction(0.1) and Fraction(total.delta) >= 10 * Fraction(1e-6)


def test_a_sum_with_an_infinite_epsilon_or_a_delta_of_one_promises_nothing() -> None:
    for outcomes in ([spent(None), spent(1.0)], [spent(1.0, 0.5)] * 2):
        total = StudyTotal.of(outcomes)
        assert total is not None and "have no guarantee" in total.sentence()
        json.dumps(total.to_json(), allow_nan=False)


def test_a_sweep_counts_every_run_and_equal_settings_as_often_as_they_are_run() -> None:
    found = sweep(SMALL, ["run.seed=0..2"], overrides=[PRIVATE])
    each = {point.outcome.privacy["epsilon"] for point in found.points if point.outcome.privacy}
    assert found.total is not None and len(each) == 1 and found.total.runs == 3
    assert found.total.epsilon == pytest.approx(3 * each.pop()) and found.total.delta == pytest.approx(3e-5)
    assert found.as_json()["privacy_total"] == found.total.to_json()
    assert found.total.sentence() in sweep_page(story_of(found), "plotly.js")
    assert found.total.sentence() in found.summary() and found.total.sentence() in found._repr_html_()


def test_a_run_that_broke_off_counts_and_one_that_could_not_start_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*args: object, **given: object) -> None:
        raise MemoryError

    monkeypatch.setattr("crescendo.runs.simulate.run_prepared", breaks)
    found = sweep(SMALL, ["run.seed=0,1"], overrides=[PRIVATE])
    assert [point.outcome.status for point in found.points] == ["failed", "failed"]
    assert found.total is not None and found.total.runs == 2
    monkeypatch.setattr(points, "simulate", breaks)
    assert sweep(SMALL, ["run.seed=0,1"], overrides=[PRIVATE]).total is None


def test_a_comparison_counts_trials_and_runs_of_every_algorithm() -> None:
    found = compare(SMALL, ["fedavg"], seeds=2, tune=2, overrides=[PRIVATE])
    runs = [*(run for one in found.contestants for run in one.outcomes)]
    runs += [trial.outcome for one in found.contestants for trial in (one.tuned.trials if one.tuned else ())]
    assert found.total is not None and found.total.runs == len(runs) == 8
    assert found.total.epsilon == pytest.approx(sum(one.privacy["epsilon"] for one in runs if one.privacy))
    assert found.as_json()["privacy_total"] == found.total.to_json()
    assert "ll 8 private runs of this study together cost" in comparison_page(story_of_comparison(found), "plotly.js")
    assert found.total.sentence() in found.summary()


def test_without_privacy_nothing_is_said() -> None:
    found = sweep(SMALL, ["run.seed=0,1"])
    assert found.total is None and found.as_json()["privacy_total"] is None and "private" not in found.summary()


def test_a_terminal_says_it(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(TOML)
    told = CliRunner().invoke(
        app, ["sweep", str(file), "--over", "run.seed=0,1", "--set", PRIVATE, "--out", str(tmp_path / "out")]
    )
    assert told.exit_code == 0, told.output
    assert "All 2 private runs of this study together cost at most epsilon" in " ".join(told.output.split())
