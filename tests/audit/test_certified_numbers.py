"""What the audit computes beside the certificate, the accountant and the ledger: sound ones agree, and each bug in them shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from crescendo.audit.driving.lead import Faults
from crescendo.audit.driving.literal_certificate import denied
from crescendo.audit.driving.literal_cost import least_epsilon
from crescendo.audit.driving.subject import Subject, build
from crescendo.audit.worst_cases.charges import charges_test
from crescendo.audit.worst_cases.refusals import probe_refusals
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.local import Local
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.privacy.mechanisms.minibatch import Minibatch
from crescendo.privacy.mechanisms.proposal import Proposal
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import PoissonGaussian
from crescendo_dp.ledger import book
from tests.audit.mutation.audited_runs import RUNS
from tests.audit.planted_bugs import subject


@pytest.mark.parametrize("name", RUNS)
def test_sound_certificates_are_what_their_terms_make_them(name: str) -> None:
    assert denied(RUNS[name]()[0]) is None


@pytest.mark.parametrize("mechanism", ["minibatch", "local", "batch-clip"])
@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("slack", lambda slack: slack * (1 - 1e-6)),
        ("model_bound", lambda bound: bound * 1.1),
        ("failure", lambda failure: failure / 2),
        ("unit", lambda unit: unit and 2 * unit),
    ],
)
def test_a_number_that_is_not_what_the_terms_make_it_is_found(mechanism: str, key: str, change: Any) -> None:
    made = subject(mechanism)[0]
    other = replace(made, **{key: change(getattr(made, key))})
    said = denied(other)
    if key == "unit" and mechanism != "minibatch":
        assert said is None  # the others have none
    else:
        assert said is not None and key.replace("_", " ") in said


def test_noise_for_another_sensitivity_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Certificate, "sensitivity", lambda self, i, c: 0.2)
    assert "sensitivity of client 0" in str(denied(subject("local")[0]))


def test_a_round_that_is_not_charged_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Certificate, "events", lambda self, c: [*self.plan(c)][1:])
    assert "charged for is 11" in str(denied(subject("local")[0]))


# -- refusals ------------------------------------------------------------------------------------------------------------


def refused(mechanism: str) -> dict[str, str]:
    certificate, objective = subject(mechanism)
    faults = Faults()
    probe_refusals(Subject(certificate, objective, 0, 6, (0.0, 1.0), "float32", build), faults)
    return faults.found


@pytest.mark.parametrize("mechanism", ["minibatch", "local", "batch-clip"])
def test_false_terms_are_refused(mechanism: str) -> None:
    assert refused(mechanism) == {}


def holding(method: Any) -> Any:
    """The requirement, which holds whatever the numbers are."""
    return lambda *given: replace(method(*given), holds=True)


@pytest.mark.parametrize(
    ("mechanism", "kind", "name", "says"),
    [
        ("minibatch", Proposal, "_rates", "a rate above 1"),
        ("minibatch", Proposal, "shrink", "step times l2"),
        ("minibatch", Proposal, "multiples", "2^50 steps of the grid"),
        ("local", Local, "_non_expansive", "2 / L_eff"),
    ],
)
def test_a_condition_that_is_left_out_is_found(
    mechanism: str, kind: Any, name: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, name, holding(getattr(kind, name)))
    assert says in refused(mechanism)["terms to be refused"]


def test_a_check_of_numbers_that_is_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Minibatch, "_check_numbers", lambda self: None)
    assert refused("minibatch")


def test_a_client_that_runs_what_was_not_certified_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Private, "check", lambda *given: None)
    assert "a client ran other terms" in refused("local")["terms to be refused"]


# -- the accountant ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "sigma", "rounds", "delta", "share"),
    [
        (1.0, 1.0, 1, 1e-5, 0.999),
        (0.2, 1.0, 12, 1e-5, 0.999),
        (0.01, 1.0, 1000, 1e-6, 0.9),
        (0.5, 4.0, 100, 1e-8, 0.99),
    ],
)
def test_the_bound_on_a_cost_is_below_the_accountant_and_near_it(
    rate: float, sigma: float, rounds: int, delta: float, share: float
) -> None:
    events = [PoissonGaussian(rate, sigma)] * rounds
    spent = account(events, delta)
    assert share * spent.epsilon < least_epsilon(events, delta) <= spent.epsilon


def test_the_bound_of_rounds_of_many_kinds_is_below_the_accountant() -> None:
    events = [PoissonGaussian(0.001 * (k + 1), 1 + 0.01 * k) for k in range(100)]
    assert 0.8 * account(events, 1e-5).epsilon < least_epsilon(events, 1e-5) <= account(events, 1e-5).epsilon


def test_where_the_bound_cannot_say_it_is_0() -> None:
    assert least_epsilon([PoissonGaussian(0.5, 1.0)], 1e-20) == 0
    assert least_epsilon([PoissonGaussian(1.0, 1e-4)], 1e-5) == 0
    assert least_epsilon([PoissonGaussian(0.0, 1.0)], 1e-5) == 0


# -- the ledger ----------------------------------------------------------------------------------------------------------


def charged() -> dict[str, str]:
    faults = Faults()
    charges_test(faults)
    return faults.found


def test_a_sound_ledger_passes() -> None:
    assert charged() == {}


def _no_charge(self: Any, federation: str, i: int, event: Any) -> None:
    self.check(federation, i, event)


def _fresh(self: Any, federation: str, round: int, event: Any, data: bytes) -> bytes:
    return data


@pytest.mark.parametrize(
    ("kind", "name", "bug"),
    [
        (book.Book, "charge", _no_charge),
        (book.Book, "check", lambda *given: None),
        (book.Book, "_check_fits", lambda *given: None),
        (Ledger, "release", _fresh),
        (Ledger, "charge_void", lambda *given: None),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_ledger_that_forgets_is_found(kind: Any, name: str, bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, name, bug)
    assert charged()


def test_numbers_are_looked_at_for_a_bounded_number_of_slots() -> None:
    made = subject()[0]
    long = replace(made, terms=replace(made.terms, rounds=30_000), slack=np.pi)
    assert denied(long) is None
