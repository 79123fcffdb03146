"""Jobs give the same results, in order, in one process and in several; absent data are named and do not stop the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crescendo.errors import ConfigError, DataError, UsageError
from lab import catalogue, reproduce
from lab.pipeline.experiment import Effort, Experiment, Findings, Job, Outcome, PaperStatement, TextTable
from lab.pipeline.page import results_page
from lab.pipeline.runner import run_experiments
from lab.pipeline.stored_findings import StoredFindings

WHOLE = Effort()


def doubled(number: int) -> dict[str, Any]:
    return {"twice": 2 * number}


def failing(number: int) -> dict[str, Any]:
    raise UsageError(f"{number} is no number to double")


def _findings(outcomes: list[Outcome]) -> Findings:
    cells = tuple((str(one["number"]), str(one.get("twice", one.get("absent")))) for one in outcomes)
    return Findings(
        "Held if it is there.", (PaperStatement("two", "4", "4", 1, 1),), (TextTable("All", ("n", "2n"), cells),)
    )


def _experiment(call: Any = doubled, data: str | None = None) -> Experiment:
    jobs = [Job(call, {"number": number}, data if number == 2 else None) for number in range(5)]
    return Experiment(
        "numbers", "Numbers", "nowhere", "Doubles.", lambda effort: jobs[: 3 if effort.quick else 5], _findings
    )


@pytest.mark.slow
def test_several_processes_give_what_one_gives() -> None:
    alone, together = (list(run_experiments([_experiment()], WHOLE, processes)) for processes in (1, 2))
    assert alone[0][1:] == together[0][1:]
    assert [row[1] for row in alone[0][1].tables[0].rows] == ["0", "2", "4", "6", "8"]


def test_data_that_are_not_there_are_named_and_the_rest_goes_on() -> None:
    told: list[tuple[str, int, int]] = []
    ((_, found, absent),) = run_experiments([_experiment(data="real-sim")], WHOLE, 1, lambda *now: told.append(now))
    assert absent == ["real-sim"]
    assert [row[1] for row in found.tables[0].rows] == ["0", "2", "real-sim", "6", "8"]
    assert told[-1] == ("numbers", 5, 5)


@pytest.mark.slow
def test_an_error_in_a_process_comes_out_as_it_is() -> None:
    with pytest.raises(UsageError, match="0 is no number to double"):
        list(run_experiments([_experiment(failing)], WHOLE, 2))


def test_findings_come_back_from_disk_as_they_were(tmp_path: Path) -> None:
    found = StoredFindings.of(_experiment(), WHOLE, ["real-sim"], _findings([{"number": 1, "twice": 2}]))
    found.write(tmp_path)
    assert StoredFindings.read(tmp_path / "numbers.json") == found


def test_a_file_that_holds_no_findings_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "numbers.json"
    for text in (
        "",
        "[]",
        '{"name": "numbers"}',
        json.dumps({"name": "n", "quick": False, "absent": [], "findings": {}}),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match="remove it and run its experiment again"):
            StoredFindings.read(path)


def test_a_quick_run_never_takes_the_place_of_a_whole_one(tmp_path: Path) -> None:
    StoredFindings.of(_experiment(), WHOLE, [], _findings([])).write(tmp_path)
    with pytest.raises(UsageError, match="name another folder"):
        StoredFindings.check_room(["numbers"], tmp_path, quick=True)
    StoredFindings.check_room(["numbers"], tmp_path, quick=False)
    StoredFindings.check_room(["others"], tmp_path, quick=True)


def test_the_page_shows_what_is_stored_and_says_what_is_quick() -> None:
    experiment = _experiment()
    whole = StoredFindings.of(experiment, WHOLE, ["real-sim"], _findings([{"number": 1, "twice": 2}]))
    shown = results_page([whole], [experiment], "results")
    assert "| two | 4 | 4 | reproduced |" in shown and "Data not present: real-sim." in shown
    assert "| [Numbers](#numbers) | nowhere | none needed | 1 |  |  |  |  |" in shown and "quick run" not in shown
    quick = StoredFindings.of(experiment, Effort(quick=True), [], _findings([]))
    assert "quick run" in results_page([quick], [experiment], "results")
    assert "Numbers" not in results_page([], [experiment], "results")


def test_an_experiment_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="no experiment 'nothing'; choose all or one of constant-sizes, rounds-law"):
        catalogue.chosen("nothing")


def test_names_of_experiments_and_plots_are_apart_and_those_that_take_long_must_be_named() -> None:
    names = [one.name for one in catalogue.EXPERIMENTS]
    assert len(set(names)) == len(names) and catalogue.ALL not in names
    assert [one.name for one in catalogue.chosen("all")] == [one.name for one in catalogue.EXPERIMENTS if not one.long]


def test_too_few_processes_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--processes must be at least 1"):
        reproduce.reproduce("rounds-law", tmp_path / "out", Effort(quick=True), processes=0)
    assert not (tmp_path / "out").exists()


def test_a_reproduction_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(reproduce, "chosen", lambda name: [_experiment(failing)])
    with pytest.raises(UsageError, match="no number to double"):
        reproduce.reproduce("numbers", tmp_path / "a" / "b", WHOLE, processes=1)
    assert list(tmp_path.iterdir()) == []
