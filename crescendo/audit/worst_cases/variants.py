"""A subject under other terms, certified anew: what a run might have been configured to."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal

from crescendo.audit.driving.subject import Subject
from crescendo.core.terms import Terms
from crescendo.errors import CrescendoError
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.sigmas import Sigmas
from crescendo.schedules.sizes import ConstantSizes, PowerSizes
from crescendo.schedules.steps import ConstantSteps, DiminishingSteps

_FEW = 12  # rounds of a variant


def widened(subject: Subject, features: int) -> Subject | None:
    """The same objective on another number of features, where it has a field for them."""
    objective: Any = subject.objective
    if not is_dataclass(objective) or isinstance(objective, type):
        return None
    if "features" not in (f.name for f in fields(objective)):
        return None
    wide: Any = replace(objective, features=features)
    return replace(subject, objective=wide, features=features, certificate=replace(subject.certificate, objective=wide))


def changed(
    subject: Subject,
    *,
    eta: float | None = None,
    clip: float | None = None,
    sigma: float | None = None,
    l2: float | None = None,
    sigmas: bool = False,
    growing: bool = False,
    diminishing: Literal["round", "slot"] | None = None,
    clients: int | None = None,
    coin: bool = False,
    whole: bool = False,
    blocks: int | None = None,
    features: int | None = None,
) -> Subject | None:
    """The subject under changed terms, of few rounds; None where they are refused.

    ``blocks`` 0 is one for every coordinate; ``whole`` is a rate of 1; ``clients`` puts the audited one last.
    """
    old = subject.certificate
    wide = subject if features is None else widened(subject, features)
    if wide is None:
        return None
    try:
        objective: Any = wide.objective
        if l2 is not None:
            objective = replace(objective, l2=l2)
        terms, records, me = replace(old.terms, rounds=min(old.terms.rounds, _FEW)), old.records, subject.me
        first = float(old.terms.steps.at(0))
        if eta is not None or diminishing is not None:
            steps = ConstantSteps(eta) if eta is not None else DiminishingSteps(first, 0.3, per=diminishing or "round")
            terms = replace(terms, steps=steps)
        if clients is not None:
            terms, records, me = _among(terms, clients), _declared(records, me, clients), clients - 1
        if growing:
            terms = replace(terms, sizes=PowerSizes(max(1.0, terms.sizes(0) / _FEW)))
        if coin:
            terms = replace(terms, shares_by="coin")
        if blocks is not None:
            terms = replace(terms, blocks=blocks or objective.size)
        if whole:
            records = tuple(max(1, *(terms.share(i, c) for i in range(terms.rounds))) for c in range(terms.clients))
        noise = Sigmas.constant(old.sigma(0) if sigma is None else sigma)
        if sigmas:
            half = max(1, terms.rounds // 2)
            noise = Sigmas(((half, old.sigma(0)), (max(1, terms.rounds - half), 2 * old.sigma(0))))
        certificate = certify(
            old.mechanism,
            terms,
            objective,
            clip=old.clip if clip is None else clip,
            sigma=noise,
            records=records,
            norm_bound=old.norm_bound,
        )
    except (CrescendoError, OverflowError, ZeroDivisionError):  # what is refused, in whatever way, is not run
        return None
    if not any(terms.share(i, me) for i in range(terms.rounds)):
        return None
    return replace(wide, certificate=_like(old, certificate), objective=objective, me=me, shared=None)


def _among(terms: Terms, clients: int) -> Terms:
    """Clients of which the last has the largest weight, and as many slots as the audited one had."""
    weights = tuple(2.0 * (c + 1) / (clients * (clients + 1)) for c in range(clients))
    return replace(terms, weights=weights, sizes=ConstantSizes(max(clients, 2 * int(terms.sizes(0)))))


def _declared(records: tuple[int, ...], me: int, clients: int) -> tuple[int, ...]:
    return tuple(3 * records[me] - c * (records[me] // clients) for c in range(clients))


def _like(old: Certificate, new: Certificate) -> Certificate:
    """Of the same class: a certificate may be somebody's own."""
    return new if type(old) is Certificate else type(old)(**{f.name: getattr(new, f.name) for f in fields(new)})
