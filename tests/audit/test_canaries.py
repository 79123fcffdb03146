"""Canaries in one run: they show half of what there is, never more than all, and more than is certified where noise lacks."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from crescendo.audit.canaries.families import LessNoise, any_mechanism
from crescendo.audit.canaries.gradient_canaries import WithCanaries
from crescendo.audit.canaries.guess_plan import GuessPlan, made_up
from crescendo.audit.canaries.guesses import Guesses
from crescendo.audit.canaries.trade_off import TradeOff
from crescendo.cli.main import app
from crescendo.config.loading import read
from crescendo.core.arrays import Bools, Floats, Uints
from crescendo.data.records import as_records
from crescendo.errors import ConfigError
from crescendo.objectives import Logistic
from crescendo.privacy.mechanisms.gaussian import word_of
from crescendo.privacy.mechanisms.noise import SeededSource, SystemSource
from crescendo.runs.canaries.canary_run import canary_audit
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import Counted, PoissonGaussian

LEVEL, DELTA = 0.05, 1e-5
ONE_SHIFT: Counted = ((PoissonGaussian(1.0, 1.0), 1),)
DRAWN: Counted = ((PoissonGaussian(0.1, 0.8), 20),)

FILE: dict[str, Any] = {
    "data": {"source": "synthetic:rows=4000,features=4"},
    "clients": {"count": 2},
    "objective": {"l2": 0.001},
    "schedule": {
        "rounds": 3,
        "sizes": {"kind": "constant", "size": 4000},
        "steps": {"kind": "constant", "eta": 0.001},
    },
    "privacy": {"mechanism": "minibatch", "epsilon": 8.0, "delta": DELTA, "clip": 0.5, "records": 2000},
}


@functools.cache
def family(events: Counted) -> LessNoise:
    return LessNoise(events, DELTA)


def one_run(rng: np.random.Generator, events: Counted, canaries: int) -> tuple[Floats, Bools]:
    """Scores of a mechanism with exactly these events, and the auditor's coins."""
    inside = rng.random(canaries) < 0.5
    return made_up(rng, events, inside), inside


# -- the bounds -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("events", [ONE_SHIFT, DRAWN], ids=["shift", "drawn"])
def test_what_is_certified_is_denied_no_more_often_than_the_level_says(events: Counted) -> None:
    rng, canaries, runs = np.random.Generator(np.random.PCG64(1)), 400, 200
    plan, denied = GuessPlan.chosen(canaries, family(events), LEVEL), np.zeros(3)
    curve, epsilon = family(events).certified, account(events, DELTA).epsilon
    for _ in range(runs):
        scores, inside = one_run(rng, events, canaries)
        guesses = plan.guesses(scores, inside)
        denied += [
            guesses.denies(curve, LEVEL),
            plan.trials(scores, inside).denies(curve, LEVEL),
            guesses.denies(TradeOff([epsilon], [DELTA]), LEVEL),
        ]
    assert (
        denied[0] == denied[2] == 0 and denied[1] <= 18
    )  # 10 are allowed, and more than 18 are seen with a chance of 0.5%


def test_randomised_response_is_the_worst_case_of_pure_privacy() -> None:
    from scipy.stats import binom

    rng = np.random.Generator(np.random.PCG64(2))
    right = rng.binomial(200, 0.75, 4000)
    least = next(c for c in range(150, 200) if Guesses(200, 200, c).denies(TradeOff([np.log(3)], [0.0]), LEVEL))
    assert binom.sf(least - 1, 200, 0.75) < LEVEL <= binom.sf(least - 2, 200, 0.75)  # no guess is given away
    assert (right >= least).mean() < LEVEL + 0.015


def test_guesses_bound_a_mechanism_that_leaks_all_canaries_together_and_trials_do_not() -> None:
    """With probability 0.2 it publishes everything, so that it is (0, 0.2)-private."""
    plan, rng, canaries = GuessPlan(20, 20, 0.5), np.random.Generator(np.random.PCG64(3)), 200
    denied = np.zeros(2)
    for _ in range(200):
        inside = rng.random(canaries) < 0.5
        scores = inside.astype(np.float64) if rng.random() < 0.2 else rng.random(canaries)
        denied += [
            any_mechanism(plan.guesses(scores, inside), LEVEL, 0.2) > 0,
            plan.trials(scores, inside).denies(TradeOff([0.0], [0.2]), LEVEL),
        ]
    assert denied[0] == 0 and denied[1] > 20


def test_more_right_guesses_and_less_certainty_give_a_higher_bound() -> None:
    bounds = [family(ONE_SHIFT).bound(Guesses(1000, 100, right), LEVEL) for right in (50, 70, 85, 95)]
    assert bounds[0] == 0 and bounds == sorted(bounds) and bounds[-1] > bounds[1]
    assert any_mechanism(Guesses(1000, 100, 90), 0.2, DELTA) > any_mechanism(Guesses(1000, 100, 90), 0.01, DELTA)


def test_the_p_value_is_where_the_certificate_begins_to_be_denied() -> None:
    guesses = Guesses(1000, 40, 40)
    curve = TradeOff([1.0], [DELTA])
    p = guesses.p_value(curve)
    assert guesses.denies(curve, 1.01 * p) and not guesses.denies(curve, 0.98 * p) and p < 1e-3


@pytest.mark.slow
def test_half_of_epsilon_is_seen_of_gaussian_noise() -> None:
    rng, canaries = np.random.Generator(np.random.PCG64(4)), 5000
    plan = GuessPlan.chosen(canaries, family(ONE_SHIFT), LEVEL)
    seen = [
        (family(ONE_SHIFT).bound(plan.guesses(*run), LEVEL), family(ONE_SHIFT).bound(plan.trials(*run), LEVEL))
        for run in (one_run(rng, ONE_SHIFT, canaries) for _ in range(5))
    ]
    by_guesses, by_trials = np.mean(seen, axis=0) / account(ONE_SHIFT, DELTA).epsilon
    assert by_guesses > 0.5 and by_trials > 0.7


# -- runs -------------------------------------------------------------------------------------------------------------


def audited(canaries: int = 1000, source: Callable[[int, int], Any] = SeededSource, **privacy: Any) -> Any:
    changed = {**FILE, "privacy": {**FILE["privacy"], **privacy}}
    return canary_audit(read(changed), "run.toml", canaries, seed=5, source=source)


@pytest.mark.slow
@pytest.mark.parametrize("source", [SeededSource, lambda seed, client: SystemSource()], ids=["seeded", "system"])
def test_a_run_with_gradient_canaries_shows_half_of_its_epsilon_and_no_more_than_all(source: Any) -> None:
    found = audited(source=source)
    assert found.passed and found.kind == "gradients" and found.records == 1000
    assert 0.4 < found.share < 1 and found.share < found.share_apart < 1
    assert found.claimed == pytest.approx(8.0, rel=1e-2)  # as without canaries


@pytest.mark.slow
def test_a_run_of_local_steps_has_canaries_that_are_records() -> None:
    found = audited(mechanism="local", norm_bound=4.0)
    assert found.passed and found.kind == "records" and found.share > 0.25 and found.share_apart < 1


class TooQuiet(SeededSource):
    """Noise of a third of the scale."""

    def words(self, i: int, size: int) -> Uints:
        from scipy.special import ndtri

        uniform = (super().words(i, size) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54
        return word_of(ndtri(uniform) / 3)


@pytest.mark.slow
def test_noise_of_a_third_of_the_scale_is_found() -> None:
    found = audited(source=TooQuiet)
    assert not found.passed and found.lower_apart > found.claimed
    assert found.findings[0].startswith("the canaries show an epsilon of ")


def test_a_canary_moves_its_own_coordinate_by_the_clip_and_the_base_sees_none() -> None:
    rng = np.random.Generator(np.random.PCG64(6))
    x, y = np.concatenate([rng.normal(size=(5, 3)), np.zeros((2, 3))]), np.array([0.0, 1, 0, 1, 1, 1, 1])
    base, data, w = Logistic(3), as_records(x, y), rng.normal(size=6)
    goal, unit = WithCanaries(base, 2, first=5), 2.0**-30
    found = goal.gradient(w, data, np.array([1, 6, 3]), clip=0.3, unit=unit)
    np.testing.assert_array_equal(found[:4], base.gradient(w[:4], data, np.array([1, 3]), clip=0.3, unit=unit))
    assert found[4] == 0 and 0 <= 0.3 - found[5] < unit


@pytest.mark.parametrize(
    "canaries, privacy, says",
    [
        (1001, {}, "1,000 or fewer would pass"),
        (19, {}, "must lie between 20 and"),
        (100, {"mechanism": "batch-clip"}, "audit it without --canaries"),
        (
            100,
            {"mechanism": "none", "epsilon": None, "delta": None, "clip": None, "records": None},
            "claims no privacy",
        ),
    ],
)
def test_canaries_that_could_show_nothing_are_refused(canaries: int, privacy: dict[str, Any], says: str) -> None:
    kept = {name: value for name, value in {**FILE["privacy"], **privacy}.items() if value is not None}
    with pytest.raises(ConfigError, match=says):
        canary_audit(read({**FILE, "privacy": kept}), "run.toml", canaries)


@pytest.mark.slow
def test_the_command_prints_shares_and_json(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"[{table}]\n" + "\n".join(f"{k} = {_toml(v)}" for k, v in keys.items()) for table, keys in FILE.items()]
    (tmp_path / "run.toml").write_text("\n".join(lines))
    run = CliRunner().invoke(app, ["audit", "run.toml", "--canaries", "300", "--json"])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    assert found["verdict"] == "passed" and found["canaries"] == 300 and 0 <= found["share"] < found["share_apart"] < 1
    for wrong, says in (
        ("--runs 40", "leave --runs"),
        ("--thorough", "leave --runs"),
        ("--gaussian", "are for FILE.py"),
    ):
        refused = CliRunner().invoke(app, ["audit", "run.toml", "--canaries", "300", *wrong.split()])
        assert refused.exit_code == 1 and says in " ".join(refused.output.split())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)
