"""The limit of stability, held to rounds that are written out: below it a direction shrinks, above it one round makes it grow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.cli.show.show_run import schedule_as_json
from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.federation.agreement import build_terms
from crescendo.federation.stability import Stability
from crescendo.report.story import Story
from crescendo.runs.prepare import certified
from crescendo.runs.simulate import simulate
from crescendo.schedules import ConstantSteps, DiminishingSteps
from tests import paper
from tests.config.small import SMALL
from tests.conformance.cases import PRIVATE, case
from tests.core.strategies import drawn, make_terms

STEPS = [ConstantSteps(0.3), DiminishingSteps(0.3, 0.1), DiminishingSteps(0.3, 0.1, per="slot")]


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(drawn, st.sampled_from(STEPS), st.sampled_from(["sum", "mean"]))
def test_in_lock_step_a_direction_up_to_the_limit_shrinks_and_beyond_it_one_round_lets_it_grow(
    drawn: Any, steps: Any, combine: str
) -> None:
    values, weights, seed = drawn
    terms = make_terms(values, weights, {"ahead": 0}, "expected", seed, steps=steps, combine=combine)
    (found,) = Stability(terms).limits
    a = 1.0 if combine == "sum" else 1 / len(weights)

    def grown(i: int, h: float) -> float:
        firsts = [float(terms.etas(i, c)[0]) for c in range(len(weights)) if terms.share(i, c)]
        shares = [terms.share(i, c) for c in range(len(weights))]
        return abs(paper.lock_step_round(1.0, h, max(firsts), shares, a))

    assert all(grown(i, 0.999 * found.curvature) <= 1 for i in range(len(values)))
    etas = [max(float(max(terms.etas(i, c), default=0.0)) for c in range(len(weights))) for i in range(len(values))]
    if steps.per == "round" and found.curvature * etas[found.round] < 0.99:  # else a single step overshoots there
        assert grown(found.round, 1.01 * found.curvature) > 1


@pytest.mark.parametrize("d", range(5))
def test_updates_that_are_late_shrink_below_their_limit_and_grow_above_it(d: int) -> None:
    limit = Stability.below(d)
    below, above = (paper.late_rounds(share * limit, d, 4000) for share in (0.98, 1.02))
    assert max(map(abs, below[-50:])) < 1e-3 and max(map(abs, above[-50:])) > 1e3


def test_the_sum_of_long_rounds_is_unstable_and_the_mean_is_not() -> None:
    values, weights, late = (5000,) * 3, (0.2,) * 5, Stability.below(1)
    summed, mean = (
        make_terms(values, weights, {"ahead": 1}, steps=ConstantSteps(0.1), combine=c) for c in ("sum", "mean")
    )
    in_step, behind = Stability(summed, smooth=0.5).limits
    for found, limit in ((in_step, 2.0), (behind, late)):
        assert 5 * (1 - (1 - 0.1 * found.curvature) ** 1000) == pytest.approx(limit, rel=1e-6)
    assert [one.curvature for one in Stability(mean).limits] == pytest.approx([10.0, 10.0])  # 1 / eta
    said = list(Stability(summed, smooth=0.5).notes())
    assert (
        "steeper directions may grow" in said[0]
        and "L = 0.5" in said[0]
        and "heuristic" in said[1]
        and "a round late" in said[1]
    )
    assert "this problem's is at most 0.5 (L)" in next(Stability(mean, smooth=0.5).notes())
    assert "problem" not in next(Stability(mean).notes())


def test_with_a_delay_bound_updates_are_as_late_as_it_lets_them_be_and_masks_count() -> None:
    by_tau = make_terms((10,) * 6, (1.0,), {"tau": lambda t: 35.0}, steps=ConstantSteps(0.1))
    assert [one.late for one in Stability(by_tau).limits] == [0, 2]
    one, four = (make_terms((10,), (0.5, 0.5), {"ahead": 0}, steps=ConstantSteps(0.1), blocks=D) for D in (1, 4))
    assert Stability(one).limits[0].curvature == pytest.approx(4 * Stability(four).limits[0].curvature)


@pytest.mark.slow
def test_very_many_rounds_and_clients_are_looked_at_where_steps_times_sizes_are_largest() -> None:
    values, clients = (*(1,) * 3000, 9000, *(1,) * 3000), 1000
    terms = make_terms(values, (1 / clients,) * clients, {"ahead": 0}, steps=ConstantSteps(0.1))
    (found,) = Stability(terms).limits
    assert found.round == 3000
    assert clients * (1 - (1 - 0.1 * found.curvature) ** 9) == pytest.approx(2, rel=1e-6)


def test_steps_that_are_nothing_limit_nothing() -> None:
    terms = make_terms((10,), (1.0,), {"ahead": 0}, steps=DiminishingSteps(5e-324, 1e308, root=True))
    assert Stability(terms).limits[0].curvature > 1e300 and np.isfinite(Stability.below(10**6))


@pytest.mark.slow
def test_a_private_run_stands_where_its_public_terms_put_it() -> None:
    """`minibatch` takes all gradients at the start model: a sum of eta h s. L follows from the norm bound."""
    private = {"mechanism": "minibatch", **PRIVATE, "records": 4000}
    steps, sizes = {"kind": "constant", "eta": 0.01}, {"kind": "constant", "size": 100}
    schedule = {"steps": steps, "sizes": sizes, "wait": {"rounds": 0}}
    raw = case(clients={"combine": "sum"}, schedule=schedule, objective={"l2": 0.1}, privacy=private)
    agreed = build_terms(terms_text(read(raw)))
    assert agreed.stability.limits[0].curvature == pytest.approx(2 / (0.01 * 100))
    assert agreed.smooth == pytest.approx(0.25 * 9 + 0.1) and "L = 2.35" in next(agreed.stability.notes())
    plain = build_terms(terms_text(read(case(clients={"combine": "sum"}, schedule=schedule))))
    assert plain.smooth is None and plain.stability.limits[0].curvature > 2 / (0.01 * 100)


@pytest.mark.slow
def test_schedule_and_report_say_where_a_run_stands() -> None:
    agreed, privacy = certified(read(SMALL))
    said = schedule_as_json(agreed, privacy)
    assert [one["late"] for one in said["stability"]] == [0, 1] and math.isfinite(said["stability"][0]["curvature"])
    assert sum("Stability of the mean of 2 clients" in note for note in said["notes"]) == 2
    assert [note for note in Story.of(simulate(SMALL)).notes if "Stability" in note] == said["notes"][-2:]
