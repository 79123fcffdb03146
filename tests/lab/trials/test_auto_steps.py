"""The page on step sizes: its tables match the stored runs, and its numbers match the rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crescendo.algorithms.algorithm_kinds import ALGORITHMS
from crescendo.config.loading import read
from crescendo.data.records import Dataset, Records
from crescendo.schedules import auto_steps as rule
from crescendo.studies.point_store import PointStore
from crescendo.studies.tuning import trial_points, tune
from lab.trials import auto_steps
from lab.trials.page_tables import DOCS, with_tables
from lab.trials.stored_results import StoredResults


def test_the_page_has_the_tables_of_the_stored_runs() -> None:
    page = (DOCS / auto_steps.PAGE).read_text()
    assert with_tables(page, auto_steps.tables(StoredResults(auto_steps.RESULTS))) == page


def test_every_setting_is_stored_with_all_its_seeds() -> None:
    stored = {str(sorted(case.items(), key=str)): found for case, found in StoredResults(auto_steps.RESULTS)}
    for case in auto_steps.settings():
        found = stored[str(sorted(case.items(), key=str))]
        runs = (found["auto"], *(found[shape]["accuracies"] for shape in ("example", "own")))
        assert all(len(accuracies) == auto_steps.SEEDS for accuracies in runs), case


def test_the_page_states_the_numbers_of_the_rule() -> None:
    page = (DOCS / auto_steps.PAGE).read_text()
    assert f"eta0 / (1 + {rule.FALL:g} t / T)" in page and f"{rule.FALL_WITH_NOISE:g} in place of {rule.FALL:g}" in page
    assert rule.MEASURED.alone == rule.BOUND.alone and f"one record is at most {rule.BOUND.alone:g}" in page
    assert f"at most {rule.MEASURED.together:g}, or {rule.BOUND.together:g} where" in page
    assert f"limits are {rule.UNBOUNDED.alone:g} and {rule.UNBOUNDED.together:g}" in page
    assert f"record by at most {rule.NOISE:g}, as a standard deviation" in page.replace("\n", " ")


def test_auto_is_held_against_the_better_of_both_tuned_ones() -> None:
    found = {"auto": [0.5, 0.7], "example": {"accuracies": [0.6, 0.7]}, "own": {"accuracies": [0.9, None]}}
    assert np.isclose(auto_steps.miss(found), 0.05)


def test_tuning_never_sees_the_test_part() -> None:
    """Other labels in the test part change scores alone: the choices of auto and of the tuner stay."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 3)), rng.integers(0, 2, 400).astype(np.float64)
    data, other = (
        Dataset("made up", Records(x[:300], y[:300]), Records(x[300:], test), (0, 1)) for test in (y[300:], 1 - y[300:])
    )
    chosen = []
    for each in (data, other):
        case = {"data": "made up", "combine": "mean", "problem": "plain convex", "epsilon": None}
        config = read(auto_steps.run_file(case, 300, auto_steps.example_steps(case)), ["schedule.gradients=2000"])
        points = trial_points(ALGORITHMS["crescendo"], config, replace(each, test=None), 3, {})
        chosen.append(tune(points, PointStore(None)).best)
    assert chosen[0] is not None and chosen[1] is not None and chosen[0].options == chosen[1].options
