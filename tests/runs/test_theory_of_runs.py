"""What a run's certificate and metrics say of the theory: the theorem for its own sizes only, masks counted, constant steps."""

from __future__ import annotations

import json
from typing import Any

import pytest

import crescendo
from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.errors import ConfigError
from crescendo.federation.agreement import build_terms, canonical
from crescendo.runs.prepare import prepare
from crescendo.schedules import StronglyConvexDelay, TheoremSteps
from tests import paper
from tests.config.small import SMALL
from tests.conformance.cases import PRIVATE, case

FALLING = {"kind": "diminishing", "eta0": 0.1, "beta": 0.001}
OWN: dict[str, Any] = {"sizes": {"kind": "theorem", "d": 0, "m": 500}, "steps": {"kind": "theorem"}}
WAITING = {"tau": {"kind": "theorem"}, "d": 0}


def config(schedule: dict[str, Any], **sections: Any) -> dict[str, Any]:
    summed = {"clients": {**SMALL["clients"], "combine": "sum"}}  # which the theory is about
    return SMALL | summed | {"schedule": {"rounds": 30, "wait": {"rounds": 0}, **schedule}, **sections}


def certified(schedule: dict[str, Any], **sections: Any) -> Any:
    return prepare(read(config(schedule, **sections))).certificate


def smoothness(prepared: Any, l2: float) -> float:
    """L of logistic regression: a quarter of the longest record's squared length, the intercept's 1 with it, plus L2."""
    return 0.25 * max(float(x @ x) + 1 for x in prepared.dataset.train.x) + l2


@pytest.mark.parametrize(
    "recipe", [{"gamma": 1.0, "d": 0, "m": 2}, {"g": 3.0, "gamma": 1.0, "d": 0, "m": 50}, {"gamma": 2.0, "m": 50}]
)
def test_a_recipe_runs_and_borrows_nothing_of_the_theorem(recipe: dict[str, Any]) -> None:
    asked = config({"sizes": {"kind": "recipe", **recipe}, "steps": FALLING}, objective={"l2": "1/N"})
    result = crescendo.simulate(asked | {"evaluate": {"optimum": True}})
    found = result.prepared.certificate
    assert result.rounds == 30 and found.theorem is None and found.within_theorem is None
    assert "theorem" not in str(found) and "upper_bound" not in result.metrics[-1]
    assert "lower_bound" in result.metrics[-1], "which is about the problem, not about sizes"


def test_the_recipe_with_the_theorem_s_g_and_gamma_is_the_theorem_s_own() -> None:
    recipe = {"kind": "recipe", "gamma": {"kind": "log", "scale": 4.0}, "d": 0, "m": 500}
    ours, theirs = certified({**OWN, "sizes": recipe}), certified(OWN)
    assert ours.theorem == theirs.theorem and ours.conditions == theirs.conditions and ours.within_theorem


def test_a_recipe_gives_the_theorem_s_steps_and_delay_no_m() -> None:
    for schedule in ({"steps": {"kind": "theorem"}}, {"steps": FALLING, "wait": WAITING}):
        with pytest.raises(ConfigError, match=r'\.m is missing; only sizes of kind "theorem" imply it'):
            certified({"sizes": {"kind": "recipe", "gamma": 1.0, "d": 0, "m": 50}, **schedule})


def test_sizes_that_are_not_the_theorem_s_own_are_told_apart_from_steps_that_are() -> None:
    typed = {"kind": "theorem", "m": 500, "m1": 9000.0}
    others: list[dict[str, Any]] = [{"kind": "constant", "size": 9}, {**OWN["sizes"], "per_client": True}]
    for sizes in others:
        found = certified({"sizes": sizes, "steps": typed})
        assert found.theorem is None and "the round sizes are not" in found.notes[-1]
    found = certified({**OWN, "steps": FALLING})
    assert found.within_theorem and not found.theorem.bounds and "not about this run" in found.notes[-1]
    low = certified({**OWN, "steps": {**typed, "m1": 5.0}})
    assert not low.theorem.bounds, "an M1 below the theorem's is none of its"
    assert certified({**OWN, "steps": {**typed, "m1": 1e6}}).theorem.m1 == 1e6


@pytest.mark.parametrize("blocks", [1, 3])
def test_masks_multiply_m1_and_the_bound_of_a_run(blocks: int) -> None:
    result = crescendo.simulate(
        config({**OWN, "wait": WAITING, "blocks": blocks}, evaluate={"optimum": True}, objective={"l2": 0.1})
    )
    prepared = result.prepared
    L, mu, s0 = smoothness(prepared, 0.1), 0.1, prepared.sizes(0)
    m1 = paper.theorem_m1(0, L, mu, s0, blocks)
    steps, tau, theorem = prepared.terms.steps, prepared.terms.tau, prepared.certificate.theorem
    assert isinstance(steps, TheoremSteps) and isinstance(tau, StronglyConvexDelay) and theorem is not None
    assert steps.m1 == tau.m1 == theorem.m1 == pytest.approx(m1, rel=1e-14) and m1 == pytest.approx(
        72 * L * blocks / mu
    )
    last = result.metrics[-1]
    G = last["lower_bound"] * 2 * mu**2 * last["gradients"]
    written = paper.theorem_bound(last["gradients"], G, mu, 500, m1, blocks)
    assert last["upper_bound"] == pytest.approx(written, rel=1e-9)


def test_a_constant_step_is_held_against_its_theory() -> None:
    schedule = {"sizes": {"kind": "constant", "size": 4}, "wait": {"rounds": 1}}
    result = crescendo.simulate(
        config({**schedule, "steps": {"kind": "constant", "eta": 1e-4}}, evaluate={"optimum": True})
    )
    rate, prepared = result.prepared.certificate.constant, result.prepared
    assert rate is not None and rate.holds and rate.tau == 8
    L, mu, rows = smoothness(prepared, 0.01), 0.01, result.metrics
    G = rows[-1]["lower_bound"] * 2 * mu**2 * rows[-1]["gradients"]
    for row in rows:
        written = paper.constant_step_bound(row["gradients"], rows[0]["distance"], G, 1e-4, L, mu, 8)
        assert row["upper_bound"] == pytest.approx(written, rel=1e-9) and row["distance"] <= row["upper_bound"]
    beyond = certified({**schedule, "steps": {"kind": "constant", "eta": 0.1}})
    assert [one.holds for one in beyond.conditions] == [False, True] and "No rate" in beyond.notes[-1]


@pytest.mark.slow
def test_the_theory_is_about_sums_of_whole_updates_without_noise() -> None:
    constant = {"sizes": {"kind": "constant", "size": 4}, "steps": {"kind": "constant", "eta": 1e-4}}
    mean = {"clients": {"count": 2, "combine": "mean"}}
    private = {"privacy": {"mechanism": "minibatch", **PRIVATE, "records": 100}}
    private["data"] = {"source": "synthetic:rows=200,features=3", "classes": [-1, 1]}
    assert certified(constant).constant is not None
    assert certified({**constant, "blocks": 2}).constant is None
    assert certified(constant, **mean).constant is None and certified(OWN, **mean).theorem is None
    assert certified(constant, **private).constant is None
    assert certified(OWN, **private).within_theorem and not certified(OWN, **private).theorem.bounds


def test_terms_say_m1_where_there_are_masks_and_without_it_mean_what_they_meant() -> None:
    """A server and a client that read a text must come to one M1, whichever of them counts blocks."""
    private = {"mechanism": "minibatch", **PRIVATE, "records": 4000}
    served = case(schedule={**OWN, "wait": WAITING, "blocks": 2}, objective={"l2": 0.1}, privacy=private)
    text = terms_text(read(served))
    agreed, raw = build_terms(text), json.loads(text)
    once = paper.theorem_m1(0, 0.25 * 9 + 0.1, 0.1, agreed.terms.sizes(0), 1)
    assert raw["schedule"]["steps"]["m1"] == raw["schedule"]["wait"]["m1"] == pytest.approx(2 * once)
    assert agreed.terms.steps.m1 == agreed.terms.tau.m1 == pytest.approx(2 * once)  # type: ignore[attr-defined, union-attr]
    del raw["schedule"]["steps"]["m1"], raw["schedule"]["wait"]["m1"]
    old = build_terms(canonical(raw)).terms
    assert old.steps.m1 == old.tau.m1 == pytest.approx(once)  # type: ignore[attr-defined, union-attr]
    recipe = {"kind": "recipe", "g": 3.0, "gamma": {"kind": "constant", "value": 1.0}, "d": 0, "m": 50}
    of_old = build_terms(canonical({**raw, "schedule": {**raw["schedule"], "sizes": recipe}}))
    assert of_old.terms.tau.m == 50 and of_old.schedule.theorem is None  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="m is missing"):
        terms_text(read(case(**{**served, "schedule": {**served["schedule"], "sizes": recipe}})))
    unmasked = json.loads(terms_text(read(case(**{**served, "schedule": {**served["schedule"], "blocks": 1}}))))
    assert "m1" not in unmasked["schedule"]["steps"], "the text of terms without masks is what it was"


def test_the_theorem_s_schedule_with_the_mean_says_that_the_theorem_is_about_the_sum() -> None:
    found = certified({**OWN, "wait": WAITING}, clients={"count": 2})
    assert found.theorem is None and 'set clients.combine = "sum"' in found.notes[-1]
