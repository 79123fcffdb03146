"""Theory beside runs: fits recover their inputs, bounds carry their constants, findings depend on outcomes alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from crescendo.objectives.logistic.objective import Logistic
from crescendo.schedules.steps import ConstantSteps
from lab.experiments.training import dataset
from lab.theory import constant_step_bound, delays, theorem_bound
from lab.theory.distances import distances, marks, problem_constants
from tests import paper

SOURCE = theorem_bound.SYNTHETIC


def bounded(scale: float, power: float, blocks: int = 1, seed: int = 0) -> dict[str, Any]:
    """The outcome of a run whose distance is scale times the lower bound's 1 / t, to a power."""
    t = marks(1000, 10_000_000)
    case = {"source": SOURCE, "l2": 0.1, "blocks": blocks, "gradients": 10_000_000, "m": 60_000, "seed": seed}
    measured = {"t": t, "distance": [scale * one**power for one in t], "start": 1.0, "G": 2.0, "rounds": 9, "ahead": 3}
    return {**case, **measured, "delay_used": 0.9, "smooth": 3.6, "m1": 72 * 3.6 * blocks / 0.1}


def verdicts(found: Any) -> dict[str, str]:
    return {one.what: one.verdict for one in found.statements}


def test_a_run_that_falls_like_one_over_t_and_below_the_bound_is_called_so() -> None:
    found = verdicts(theorem_bound.findings([bounded(100.0, -1.0, seed=seed) for seed in range(2)]))
    assert found["synthetic, lambda = 0.1: rate"] == found["synthetic, lambda = 0.1: upper bound"] == "reproduced"
    absent = {**theorem_bound.CASES["a9a, lambda = 0.01"], "absent": "a9a"}
    assert (
        verdicts(theorem_bound.findings([bounded(100.0, -1.0), absent]))["a9a, lambda = 0.01: rate"]
        == "data not present"
    )
    slow = verdicts(theorem_bound.findings([bounded(100.0, -0.5, seed=seed) for seed in range(2)]))
    assert slow["synthetic, lambda = 0.1: rate"] == "not reproduced"
    high = verdicts(theorem_bound.findings([bounded(1e8, -1.0, seed=seed) for seed in range(2)]))
    assert high["synthetic, lambda = 0.1: upper bound"] == "not reproduced"


@pytest.mark.parametrize("blocks", [1, 4])
def test_the_bound_beside_a_run_is_the_paper_s_with_the_blocks_in_every_constant(blocks: int) -> None:
    one = bounded(1.0, -1.0, blocks)
    t = 123_456
    written = paper.theorem_bound(t, 2.0, 0.1, 60_000, 72 * 3.6 * blocks / 0.1, blocks)
    assert theorem_bound.theorem(one).upper_bound(t, 2.0) == pytest.approx(written, rel=1e-9)
    found = theorem_bound.findings([one])
    assert f"{72 * 3.6 * blocks / 0.1:,.0f}" in found.tables[0].rows[0] and "10^" in found.tables[0].rows[0][3]
    assert "worst case over a class" in found.plots[0].panels[0].lines[2].label
    assert "not a floor" in found.plots[0].caption and "T0" in found.plots[0].caption


@pytest.mark.slow
def test_a_run_of_the_theorem_has_the_theorem_s_own_schedule_and_one_seed_gives_the_same_numbers() -> None:
    setting: dict[str, Any] = {"source": SOURCE, "l2": 0.1, "blocks": 4, "gradients": 6000, "m": 10_000, "seed": 1}
    first, again = theorem_bound.run(**setting), theorem_bound.run(**setting)
    assert first == again and first["t"][-1] == 6000 and len(first["t"]) == len(marks(2000, 6000))
    smooth, mu = problem_constants(SOURCE, 0.1)
    assert first["m1"] == pytest.approx(72 * smooth * 4 / mu) and 0 < first["delay_used"] <= 1


@pytest.mark.slow
def test_the_distance_at_the_start_and_the_end_is_that_of_the_models() -> None:
    config = {
        "clients": {"count": 2},
        "objective": {"l2": 0.1},
        "schedule": {
            "gradients": 4000,
            "sizes": {"kind": "constant", "size": 40},
            "steps": {"kind": "constant", "eta": 0.02},
        },
    }
    found = distances(SOURCE, config, 0, [40, 400, 4000])
    assert found["start"] > 20 * found["distance"][-1] > 0 and found["t"][-1] == 4000 and len(found["t"]) == 3


def settled(eta: float, rate: float, level: float, factor: int, size: int = 10, seed: int = 0) -> dict[str, Any]:
    """The outcome of a run that falls from 1 by ``rate`` a gradient down to ``level``."""
    last = round(30 / rate)
    t = [*marks(max(1, last // 1000), last // 2), *(round(one) for one in np.linspace(last / 2, last, 60))]
    distance = [math.exp(-rate * one) + level for one in t]
    return {
        "size": size,
        "factor": factor,
        "seed": seed,
        "times": 12.0,
        "t": t,
        "distance": distance,
        "start": 1.0,
        "G": 2.0,
        "rounds": 9,
        "delay_used": None,
        "ahead": 1,
        "eta": eta,
        "tau": 2 * size,
        "smooth": 3.6,
    }


def test_the_rate_and_what_stays_are_read_off_as_they_were_put_in() -> None:
    eta = 1e-3
    rows = [
        settled(eta * factor, 2e-3 * factor, 1e-4 * factor, factor, seed=j) for factor in (1, 4, 16) for j in (0, 1)
    ]
    assert constant_step_bound.decay(rows[:1]) == pytest.approx(2e-3, rel=0.02)
    assert constant_step_bound.level(rows[:1]) == [pytest.approx(1e-4, rel=0.01)]
    found = constant_step_bound.findings(rows)
    assert set(verdicts(found).values()) == {"reproduced"}
    assert "eta^1.00" in next(one.ours for one in found.statements if "stays" in one.what)
    slower = [
        settled(eta * factor, 2e-5 * factor, 1e-4 * factor**2, factor, seed=j) for factor in (1, 4, 16) for j in (0, 1)
    ]
    assert verdicts(constant_step_bound.findings(slower)) == {
        "delay 20: bound": "reproduced",
        "delay 20: rate": "not reproduced",
        "delay 20: what stays": "not reproduced",
    }


def test_the_step_of_the_first_factor_is_within_the_theory_and_those_beyond_are_not() -> None:
    smooth, mu = problem_constants(SOURCE, constant_step_bound.L2)
    one = constant_step_bound.run(100, 1, 0, times=0.2)
    assert ConstantSteps.largest(smooth, mu, 200) * 0.998 <= one["eta"] <= ConstantSteps.largest(smooth, mu, 200)
    assert constant_step_bound.rate(one).holds and one["tau"] == 200
    beyond = {**one, "eta": 4 * one["eta"]}
    assert not constant_step_bound.rate(beyond).holds


def test_the_steepest_curvature_is_the_largest_eigenvalue_of_the_hessian() -> None:
    train, objective = dataset(SOURCE).train, Logistic(10, l2=0.1)
    curvature = np.linspace(0.1, 0.25, len(train)) / len(train)
    rows = np.column_stack([np.asarray(train.x, dtype=np.float64), np.ones(len(train))])
    hessian = rows.T @ (rows * curvature[:, None]) + 0.1 * np.eye(11)
    assert delays.largest_eigenvalue(objective, train, curvature) == pytest.approx(
        np.linalg.eigvalsh(hessian)[-1], rel=1e-6
    )


def test_the_certified_delay_is_the_longest_for_which_a_rate_is_promised() -> None:
    smooth, mu = problem_constants(SOURCE, 0.01)
    for eta in (0.0001, 0.001, 0.01):
        longest = delays.certified_delay(SOURCE, 0.01, eta)
        assert ConstantSteps.largest(smooth, mu, longest) >= eta > ConstantSteps.largest(smooth, mu, longest + 1)
    assert delays.certified_delay(SOURCE, 0.01, 1.0) == 0


def delayed(scores: list[float], limits: list[float], combine: str = "sum") -> list[dict[str, Any]]:
    return [
        {
            "source": "a9a",
            "family": "sizes",
            "combine": combine,
            "eta": 0.01,
            "value": j,
            "seeds": (0, 1),
            "accuracies": [score, score],
            "delay": 10 * 2**j,
            "limit": limit,
            "steepest": 1.0,
            "certified": 15,
        }
        for j, (score, limit) in enumerate(zip(scores, limits, strict=True))
    ]


def test_a_delay_that_costs_accuracy_is_held_against_the_formula() -> None:
    safe = delayed([0.85, 0.85, 0.85, 0.7], [9.0, 2.0, 0.9, 0.1])
    assert (delays.predicted(safe), delays.measured(safe)) == (40.0, 80.0)
    assert 20 < (delays.crossing(safe) or 0) < 40
    assert set(verdicts(delays.findings(safe)).values()) == {"reproduced"}
    late = delayed([0.85, 0.7, 0.7, 0.7], [9.0, 2.0, 0.9, 0.1])
    assert verdicts(delays.findings(late))["sum, eta = 0.01, larger rounds: formula"] == "not reproduced"
    recovers = delayed([0.85, 0.7, 0.85, 0.85], [9.0, 2.0, 0.9, 0.1])
    assert delays.measured(recovers) is None, "one that is lost by chance is not lost for good"
    worse = delayed([0.7, 0.6, 0.6, 0.85], [9.0] * 4)
    assert delays.measured(worse) is None
    assert delays.findings([{**safe[0], "absent": "a9a"}]).statements[0].verdict == "data not present"


@pytest.mark.slow
def test_runs_use_the_delay_that_they_are_allowed() -> None:
    found = delays.run("breast_cancer", "rounds", "mean", 0.01, 3, seeds=(0,))
    assert found["delay"] >= 3 * delays.SIZE * delays.CLIENTS and found["limit"] > 0 and found["accuracies"][0] > 0.5
