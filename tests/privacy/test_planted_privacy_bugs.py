"""The audit is seen to fail: a mechanism with one bug, and the kind of finding that must name it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from crescendo.core.setup import Terms
from crescendo.objectives.logistic import Logistic
from crescendo.privacy.audit import Report, audit
from crescendo.privacy.audit.outbox import open_outbox
from crescendo.privacy.certificates import Certificate, certify
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps
from tests.privacy import planted_mechanisms as bugs
from tests.privacy.planted_mechanisms import planted

pytestmark = pytest.mark.slow


def subject(
    mechanism: str,
    *,
    eta: float = 0.8,
    l2: float = 0.1,
    blocks: int = 1,
    bound: float = 3.0,
    terms: type[Terms] = Terms,
) -> tuple[Certificate, Logistic]:
    """A small configured run: rate 0.2, two rounds ahead of nobody."""
    made = terms(ConstantSizes(4), ConstantSteps(eta), (1.0,), 6, ahead=1, whole_rounds=True, blocks=blocks)
    objective = Logistic(6, l2=l2)
    certificate = certify(mechanism, made, objective, clip=0.5, sigma=1.0, records=(20,), norm_bound=bound)
    return certificate, objective


def inspect(certificate: Certificate, objective: Logistic, **options: Any) -> Report:
    """The fast parts of the audit; the accountant is not asked."""
    usual: dict[str, Any] = {"runs": 120, "tries": 200, "seed": 5, "cost": lambda events: 0.0, "outbox": None}
    return audit(certificate, objective, claimed=1.0, delta=1e-5, **(usual | options))


def uncertified(certificate: Certificate, factor: float) -> Certificate:
    """The same with larger steps, and no condition to stop it."""
    steps = ConstantSteps(certificate.terms.steps.at(0) * factor)
    return replace(certificate, terms=replace(certificate.terms, steps=steps), conditions=())


def as_kind(kind: type[Certificate], certificate: Certificate) -> Certificate:
    return kind(**{field.name: getattr(certificate, field.name) for field in fields(certificate)})


RIGHT: list[Any] = [
    subject("minibatch"),
    subject("minibatch", blocks=2),
    subject("local"),
    subject("local", blocks=2),
    subject("local", l2=1.2),
    subject("local", l2=0.0, bound=1.2, eta=5.7),
]

MECHANISMS: list[Any] = [
    (bugs.L2InsideTheClip, subject("local"), "sensitivity"),
    (bugs.ShrinksPerDrawnRecord, subject("local", l2=1.2), "sensitivity"),
    (bugs.ClipsTheInterceptApart, subject("minibatch"), "sensitivity"),
    (bugs.ClipsTheInterceptApart, subject("local"), "sensitivity"),
    (bugs.MasksPerStep, subject("local", l2=0.0, blocks=2, terms=bugs.WholeBlocks), "sensitivity"),
    (bugs.SamplesWithReplacement, subject("minibatch"), "sampling"),
    (bugs.SamplesWithReplacement, subject("local"), "sampling"),
    (bugs.CountsItsRecords, subject("minibatch"), "sampling"),
    (bugs.CutsTheDraw, subject("minibatch"), "sensitivity"),
    (bugs.CutsTheDraw, subject("local"), "sensitivity"),
    (bugs.ForgetsTheStepInTheNoise, subject("minibatch"), "noise"),
    (bugs.RepeatsItsNoise, subject("minibatch"), "noise"),
    (bugs.DividesByTheDraw, subject("minibatch"), "sensitivity"),
    (bugs.DividesNoiseAndAll, subject("minibatch"), "noise"),
]

WORKERS: list[Any] = [
    (bugs.KeepsQuietAboutEmptyDraws, subject("minibatch"), "silence"),
    (bugs.GoesOnUnnoised, subject("minibatch"), "carried"),
    (bugs.GoesOnUnnoised, subject("local"), "carried"),
    (bugs.AddsWhatIsSubtracted, subject("minibatch"), "carried"),
    (bugs.AddsWhatIsSubtracted, subject("local"), "carried"),
    (bugs.RefreshesByStepIndex, subject("local"), "sensitivity"),
    (bugs.NoisesAgain, subject("minibatch"), "resend"),
]


def named(case: Any) -> str:
    return str(getattr(case, "__name__", ""))


def kinds(report: Report) -> set[str]:
    return {finding.kind for finding in report.findings}


@pytest.mark.parametrize("case", RIGHT)
def test_the_right_code_passes(case: Any) -> None:
    report = inspect(*case, outbox=open_outbox)
    assert report.passed, report.findings


@pytest.mark.parametrize(("bug", "case", "kind"), MECHANISMS, ids=named)
def test_a_planted_mechanism_is_caught(bug: Any, case: Any, kind: str) -> None:
    report = inspect(*case, make=planted(mechanism=bug))
    assert kind in kinds(report), report.findings


@pytest.mark.parametrize(("bug", "case", "kind"), WORKERS, ids=named)
def test_a_planted_worker_is_caught(bug: Any, case: Any, kind: str) -> None:
    report = inspect(*case, make=planted(worker=bug))
    assert kind in kinds(report), report.findings


def test_a_step_above_the_limit_is_caught() -> None:
    certificate, objective = subject("local", l2=0.0, eta=1.6)  # the limit: 2 / (0.5 * 2.5)
    assert kinds(inspect(uncertified(certificate, 1.0), objective)) == set()
    assert "sensitivity" in kinds(inspect(uncertified(certificate, 1.5), objective))


def test_a_norm_bound_on_x_only_is_caught() -> None:
    certificate, objective = subject("local", l2=0.0, bound=1.2, eta=5.7)
    assert "sensitivity" in kinds(inspect(certificate, objective, make=bugs.bound_on_x_only))


def test_a_clip_that_lets_nan_through_is_caught() -> None:
    report = inspect(*subject("minibatch"), make=planted(mechanism=bugs.LetsNanThroughTheClip, admission=False))
    assert "stopped" in kinds(report)


def test_a_sensitivity_without_the_factor_of_masks_is_caught() -> None:
    for mechanism in ("minibatch", "local"):
        certificate, objective = subject(mechanism, blocks=2)
        assert "sensitivity" in kinds(inspect(as_kind(bugs.LeavesTheFactorOut, certificate), objective))


def test_an_outbox_that_takes_a_round_twice_is_caught() -> None:
    assert kinds(inspect(*subject("minibatch"), outbox=bugs.forgetful_outbox)) == {"resend"}
