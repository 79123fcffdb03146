"""Agreements over terms that a test made by hand."""

from __future__ import annotations

from crescendo.core.terms import Terms
from crescendo.federation.agreement import Agreement
from crescendo.objectives import Objective
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.schedules import CutSizes, certify


def agreement(terms: Terms, objective: Objective, certificate: Certificate | None = None) -> Agreement:
    """Federation "f", whose client 0 is "me"."""
    assert isinstance(terms.sizes, CutSizes)
    names = ("me", *(f"client {c}" for c in range(1, terms.clients)))
    schedule = certify(terms.sizes, terms.rounds, d=terms.ahead)
    return Agreement(names, 0, "float64", terms, objective, 1, None, schedule, certificate, federation="f")
