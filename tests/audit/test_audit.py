"""The audit on right code: it passes, its bounds lie under the claim and near it, and it runs on any configured run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from crescendo.audit import Report, audit
from crescendo.audit.checks import CHECKS
from crescendo.audit.findings import DETERMINISTIC
from crescendo.audit.lower_bounds import Scores
from crescendo.core.arrays import Ints, Vector
from crescendo.core.terms import Terms
from crescendo.data.records import Records
from crescendo.objectives import Traits
from crescendo.objectives.logistic.objective import Logistic
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.noise import SeededSource
from crescendo.schedules.delay import ConstantDelay
from crescendo.schedules.sizes import PowerSizes
from crescendo.schedules.steps import ConstantSteps, DiminishingSteps
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.black_box.epsilon_bounds import clopper_pearson, scale_bounds
from crescendo_dp.planning.sigmas import Sigmas
from tests.objectives.bare import Bare


def growing(**changes: Any) -> Terms:
    """Three clients, rounds that grow."""
    given: dict[str, Any] = {"ahead": 1, "whole_rounds": True} | changes
    return Terms(PowerSizes(6), DiminishingSteps(0.3, 0.01), (0.5, 0.3, 0.2), 5, **given)


def attacked(certificate: Certificate, objective: Any, **options: Any) -> Report:
    me = options.get("me", 0)
    claimed = account(certificate.events(me), 1e-5).epsilon
    usual: dict[str, Any] = {"me": me, "runs": 30, "tries": 60, "sources": SeededSource}  # the same every time
    return audit(certificate, objective, claimed=claimed, delta=1e-5, **(usual | options))


class Distance(Bare):
    """A model of one's own: |w - x|^2 / 2, which clips nothing by itself."""

    size, traits = 3, Traits(features=3)

    def gradient(self, w: Vector, data: Records, rows: Ints) -> Vector:
        return np.asarray((w - data.x[rows]).sum(axis=0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "objective", "terms"),
    [
        ("minibatch", Logistic(5, l2=0.01), growing()),
        ("minibatch", Logistic(40, intercept=False), growing(blocks=4)),
        ("minibatch", Distance(), growing(ahead=None, tau=ConstantDelay(1000.0))),
        ("minibatch", Logistic(5, l2=0.01), growing(combine="mean")),
        ("minibatch", Logistic(5), growing(ahead=0)),
        ("local", Logistic(5, l2=0.01), growing()),
        ("local", Logistic(40), growing(blocks=4, shares_by="coin", seed=3)),
    ],
)
def test_the_audit_runs_on_any_configured_run_and_right_code_passes(
    mechanism: str, objective: Any, terms: Terms
) -> None:
    certificate = certify(mechanism, terms, objective, clip=0.4, sigma=1.5, records=(60, 50, 40), norm_bound=2.5)
    report = attacked(certificate, objective)
    assert report.passed, report.findings
    assert 0.9 < report.worst_ratio <= 1 + 1e-5
    assert abs(report.noise_ratio - 1) < 0.04
    assert 0 <= report.lower <= report.claimed
    assert {row.name for row in report.checks} >= {*DETERMINISTIC, *(check.name for check in CHECKS)}
    assert sum(row.level or 0 for row in report.checks) <= report.false_alarms
    assert json.loads(json.dumps(report.to_json()))["verdict"] == "passed"


@pytest.mark.slow
def test_the_parametric_bound_comes_near_the_claim() -> None:
    terms = Terms(PowerSizes(20, power=0), ConstantSteps(0.3), (1.0,), 2, ahead=1, whole_rounds=True)
    certificate = certify("minibatch", terms, Logistic(5), clip=0.4, sigma=2.0, records=(20,))
    report = attacked(certificate, Logistic(5), runs=300)
    assert report.passed, report.findings
    assert 0.4 * report.claimed < report.lower <= report.claimed


@pytest.mark.slow
def test_both_the_seeded_source_and_the_operating_system_s_are_attacked(monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = certify("minibatch", growing(), Logistic(5), clip=0.4, sigma=1.5, records=(60, 50, 40))
    # the operating system's generator, made to repeat: a test must not fail by chance
    monkeypatch.setattr("crescendo.privacy.mechanisms.noise.os.urandom", np.random.default_rng(8).bytes)
    report = attacked(certificate, Logistic(5), sources=None)
    assert report.passed, report.findings
    tested = {row.source for row in report.checks if row.name == "noise scale"}
    assert tested == {"seeded", "system"}


@pytest.mark.slow
def test_the_audit_repeats() -> None:
    certificate = certify("minibatch", growing(), Logistic(5), clip=0.4, sigma=1.5, records=(60, 50, 40))
    assert attacked(certificate, Logistic(5), seed=4) == attacked(certificate, Logistic(5), seed=4)


@pytest.mark.slow
def test_the_threshold_test_stays_under_the_claim_and_exceeds_a_false_one() -> None:
    terms = Terms(PowerSizes(20, power=0), ConstantSteps(0.3), (1.0,), 2, ahead=1, whole_rounds=True)
    certificate = certify("minibatch", terms, Logistic(5), clip=0.4, sigma=1.0, records=(20,))
    report = attacked(certificate, Logistic(5), threshold_runs=1600)
    assert report.passed, report.findings
    assert report.lower_threshold is not None and report.claimed_attacked is not None
    assert 1.0 < report.lower_threshold <= report.claimed_attacked
    false = audit(
        certificate,
        Logistic(5),
        claimed=0.5,
        delta=1e-5,
        runs=20,
        tries=20,
        threshold_runs=1500,
        cost=lambda events: 0.4,
        sources=SeededSource,
    )
    assert "epsilon by thresholds" in {finding.kind for finding in false.findings}


@pytest.mark.slow
def test_a_run_whose_claim_is_for_more_noise_is_caught() -> None:
    terms = Terms(PowerSizes(20, power=0), ConstantSteps(0.3), (1.0,), 4, ahead=1, whole_rounds=True)
    certificate = certify("minibatch", terms, Logistic(5), clip=0.4, sigma=1.0, records=(20,))
    claimed = account(replace(certificate, sigma=Sigmas.constant(2.0)).events(0), 1e-5).epsilon
    report = audit(certificate, Logistic(5), claimed=claimed, delta=1e-5, runs=200, tries=20, sources=SeededSource)
    assert [finding.kind for finding in report.findings] == ["certificate", "epsilon by shifts"]


def test_bounds_on_a_rate_are_those_of_clopper_and_pearson() -> None:
    low, high = clopper_pearson(7, 50, 0.025)
    assert (round(low, 4), round(high, 4)) == (0.0582, 0.2674)
    assert clopper_pearson(0, 10, 0.01)[0] == 0 and clopper_pearson(10, 10, 0.01)[1] == 1


def test_bounds_on_a_scale_hold_it() -> None:
    rng = np.random.default_rng(3)
    missed = [sum(not low <= 2 <= high for low, high in [scale_bounds(rng.normal(0, 2, 50), 0.05)]) for _ in range(400)]
    assert 0.04 < np.mean(missed) < 0.17


def test_a_threshold_bound_is_below_the_truth_of_randomized_response() -> None:
    rng = np.random.default_rng(1)
    for epsilon in (0.5, 2.0):
        p = np.exp(epsilon) / (1 + np.exp(epsilon))
        without, with_it = (rng.random(20_000) < q for q in (1 - p, p))
        found = Scores(without + 0.0, with_it + 0.0, rounds=(0,)).epsilon(alpha=0.01, delta=0.0)
        assert 0.8 * epsilon < found <= epsilon
