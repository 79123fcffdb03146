"""Verdicts follow from intervals, not from noise of the seeds, and any seeds can be chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from crescendo.errors import ConfigError
from lab.catalogue import EXPERIMENTS
from lab.experiments import biased_data, constant_sizes, private_runs, step_sizes
from lab.experiments.training import _curve
from lab.pipeline.experiment import TRIAL_SEED, Effort, Outcome, PaperStatement
from lab.pipeline.stored_findings import seeds_in
from lab.pipeline.verdicts import inside

NOISE = (0.02, -0.03, 0.04, -0.01, 0.03, -0.04, 0.01, 0.02)  # of eight seeds; its mean is above 0, its interval is not


def private(grown: list[float], constant: list[float]) -> list[Outcome]:
    found = []
    for job in private_runs.jobs(Effort()):
        scores = grown if job.setting["scheme"] == private_runs.GROWING else constant
        curve = {name: [0.0, 1.0] for name in ("gradients", "mean", "low", "high")}
        found.append({**job.setting, "accuracies": scores, "aucs": scores, "rounds": 9, "curve": curve, "epsilon": 1.0})
    return found


def area(grown: list[float], constant: list[float]) -> PaperStatement:
    found = private_runs.findings(private(grown, constant)).statements
    return next(one for one in found if "area" in one.what and "strongly" in one.what)


def test_noise_of_the_seeds_is_not_a_result() -> None:
    level = [0.9] * len(NOISE)
    noisy = area([0.9 + one for one in NOISE], level)
    assert "area +0.0050, ± 0.0" in noisy.ours and noisy.verdict == "undecided"
    assert area([0.95 + one for one in NOISE], level).verdict == "reproduced"
    assert area([0.85 + one for one in NOISE], level).verdict == "not reproduced"
    assert area(level, level).verdict == "not reproduced", "equal is no improvement"


def test_an_interval_is_of_the_differences_seed_by_seed() -> None:
    shared = [0.8 + 10 * one for one in NOISE]
    better = area([one + 0.01 + 0.001 * j for j, one in enumerate(shared)], shared)
    assert better.verdict == "reproduced", "what all seeds share says nothing about the difference"


def test_no_difference_is_told_from_too_few_seeds_to_see_one() -> None:
    def verdict(split: list[float], unbiased: list[float]) -> str:
        found = []
        for job in biased_data.jobs(Effort()):
            scores = split if job.setting["split"] == "label" else unbiased
            curve = {name: [0.0, 1.0] for name in ("gradients", "mean", "low", "high")}
            found.append({**job.setting, "accuracies": scores, "rounds": 9, "curve": curve})
        return biased_data.findings(found).statements[0].verdict

    level = [0.9] * len(NOISE)
    assert verdict([0.9 + one for one in NOISE], level) == "undecided"
    assert verdict([0.9 + one / 10 for one in NOISE], level) == "reproduced"
    assert verdict([0.8 + one for one in NOISE], level) == "not reproduced"
    assert verdict([0.9], [0.9]) == "undecided", "one seed cannot tell"


def test_the_best_sizes_are_not_named_by_bare_means() -> None:
    def verdict(scores_of_50: list[float]) -> str:
        found = []
        for job in constant_sizes.jobs(Effort()):
            if "size" in job.setting:
                scores = scores_of_50 if job.setting["size"] == 50 else [0.9] * len(NOISE)
                found.append({**job.setting, "accuracies": scores, "rounds": 9})
        (said,) = (
            one for one in constant_sizes.findings(found).statements if one.what == "a9a, plain convex: the best sizes"
        )
        return said.verdict

    assert verdict([0.9] * len(NOISE)) == "reproduced"
    assert verdict([0.9 + one for one in NOISE]) == "undecided"
    assert verdict([0.95] * len(NOISE)) == "not reproduced"


def test_a_run_that_broke_off_counts_as_nothing_learned() -> None:
    assert inside([None, None], low=0.5) is False
    assert inside([None, 0.9, 0.9], low=0.5) is None


@dataclass
class Followed:
    metrics: list[dict[str, Any]]


def test_seeds_that_measured_other_rounds_share_one_curve() -> None:
    def run(rounds: list[int]) -> Any:
        return Followed([{"k": k, "gradients": 10 * k, "accuracy": k / 10} for k in rounds])

    curve = _curve([run([0, 1, 2, 3]), run([0, 1, 3])])  # late messages completed rounds 2 and 3 of the second at once
    assert curve["gradients"] == [0.0, 10.0, 25.0, 30.0] and curve["high"] == [0.0, 0.1, 0.3, 0.3]
    assert curve["low"] == [0.0, 0.1, 0.2, 0.3]


@pytest.mark.slow
def test_step_sizes_run_with_other_seeds() -> None:
    settings = [job.setting for job in step_sizes.jobs(Effort(quick=True, seeds=8, first_seed=8))]
    one = next(s for s in settings if s["scheme"] == "constant" and s["timing"] == step_sizes.CURVES)
    found = step_sizes.run(**{**one, "source": "breast_cancer"})
    assert len(found["accuracies"]) == 8 and len(found["curve"]["mean"]) >= 20


def test_the_seeds_that_are_asked_for_reach_every_experiment() -> None:
    effort = Effort(seeds=2, first_seed=40)
    for experiment in EXPERIMENTS:
        assert seeds_in(job.setting for job in experiment.jobs(effort)) in ((40, 41), ()), experiment.name


def test_seeds_that_cannot_be_are_refused_in_a_sentence() -> None:
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"seeds": 0}, "--seeds must be at least 1, got 0"),
        ({"first_seed": -1}, "--first-seed must be at least 0"),
        ({"first_seed": TRIAL_SEED}, "seeds from 1,000,000 on are for tuning"),
    ]
    for wrong, words in wrongs:
        with pytest.raises(ConfigError, match=words):
            Effort(**wrong)
