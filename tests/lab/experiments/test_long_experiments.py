"""The reports of the long experiments, from made-up outcomes: the runs themselves take minutes, and no test makes them."""

from __future__ import annotations

from typing import Any

import pytest

from lab.catalogue import EXPERIMENTS, chosen
from lab.experiments import lenet, private_lenet
from lab.pipeline.experiment import Effort, Experiment, Outcome, PaperStatement

LONG = [one for one in EXPERIMENTS if one.long]


def outcomes(experiment: Experiment, **scores: Any) -> list[Outcome]:
    """Return the outcomes of every job; ``scores`` are by the job's case, scheme or name, and 0.5 by default."""
    found = []
    for job in experiment.jobs(Effort()):
        case = str(job.setting.get("case", job.setting.get("scheme", job.setting.get("name"))))
        score = scores.get(case, 0.5)
        seeds = [score] * len(job.setting["seeds"])
        curve = {name: [0.1, 0.2, score or 0.0] for name in ("gradients", "mean", "low", "high")}
        measured = {"accuracies": seeds, "scores": seeds, "rounds": 7, "curve": curve, "epsilon": 0.5, "sigma": 1.0}
        measured |= {"noise": 2.0, "bytes": 10, "seconds": 3.0, "options": {"step_scale": 1.0}}
        found.append({**measured, **job.setting})
    return found


def said(experiment: Experiment, found: list[Outcome], word: str) -> PaperStatement:
    return next(one for one in experiment.findings(found).statements if word in one.what)


@pytest.mark.parametrize("experiment", LONG, ids=lambda one: one.name)
def test_every_statement_has_a_verdict_and_every_line_its_points(experiment: Experiment) -> None:
    found = experiment.findings(outcomes(experiment))
    assert found.statements and found.tables and found.plots and experiment.name not in [e.name for e in chosen("all")]
    assert all(one.ours and one.verdict != "data not present" for one in found.statements)
    for plot in found.plots:
        assert all(line.x and len(line.x) == len(line.y) for panel in plot.panels for line in panel.lines), plot.name


@pytest.mark.parametrize("experiment", LONG, ids=lambda one: one.name)
def test_data_that_are_absent_are_said_to_be(experiment: Experiment) -> None:
    found = experiment.findings([{**job.setting, "absent": "mnist"} for job in experiment.jobs(Effort())])
    assert found.statements and all(one.verdict == "data not present" for one in found.statements) and not found.plots


def test_a_number_of_the_table_holds_where_it_is_met_within_a_hundredth() -> None:
    one = lenet.EXPERIMENT
    met = outcomes(one, **{"100": 0.955, "1000": None})
    assert said(one, met, "100 per client").verdict == "reproduced"
    assert said(one, met, "50 per client").verdict == "not reproduced"
    assert said(one, met, "1000 per client").ours == "broke off"
    met[-1]["accuracies"], met[-2]["accuracies"] = [0.95] * 3, [0.95] * 3  # mean: unbiased, then biased
    assert said(one, met, "biased").verdict == "in part: 1 of 2"


def test_growing_rounds_that_learn_nothing_improve_on_nothing_and_one_seed_cannot_tell() -> None:
    one = private_lenet.EXPERIMENT

    def verdict(word: str, **scores: Any) -> str:
        two = [{**run, "accuracies": run["accuracies"] * 2} for run in outcomes(one, **scores)]
        return said(one, two, word).verdict

    assert verdict("against constant") == "not reproduced"
    assert verdict("against constant", growing=0.6) == "reproduced"
    assert verdict("with noise", growing=None) == "reproduced", "both broke off: noise lost nothing"
    assert said(one, outcomes(one, growing=0.6), "against constant").verdict == "undecided"


def test_at_equal_privacy_a_difference_is_told_by_its_interval() -> None:
    (one,) = chosen("equal-privacy-mnist")
    found = outcomes(one, **{"growing from 16": 0.6})
    assert said(one, found, "constant 16").verdict == "reproduced"
    assert {said(one, found, name).verdict for name in ("as many rounds", "55 rounds")} == {"higher"}
    assert said(one, outcomes(one), "55 rounds").verdict == "not significant"
    assert said(one, outcomes(one), "constant 16").verdict == "not reproduced"
