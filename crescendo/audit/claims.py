"""The certificate's own numbers, computed again from the terms: rates, sensitivities, scales, events and conditions."""

from __future__ import annotations

import math

import numpy as np

from crescendo.audit.driving.subject import Subject
from crescendo.privacy.accounting.events import PoissonGaussian

_NEAR = 1e-12
_LEAST_SCALE = 1e-200  # below it, and above its inverse, floats lose bits


def true_event(subject: Subject, i: int) -> PoissonGaussian:
    """What round i costs, from the terms and the scale of its noise."""
    certificate, me = subject.certificate, subject.me
    rate = certificate.terms.share(i, me) / certificate.records[me]
    change = _step(subject, i) * certificate.clip
    return PoissonGaussian(min(1.0, rate), subject.scale(i) / change if change > 0 else 0.0)


def _step(subject: Subject, i: int) -> float:
    terms = subject.certificate.terms
    return float(np.max(np.abs(terms.etas(i, subject.me)), initial=0.0)) * terms.blocks


def denied(subject: Subject, rounds: tuple[int, ...]) -> str | None:
    """The first thing that the certificate says of one of ``rounds`` and the terms deny."""
    certificate, me = subject.certificate, subject.me
    l2, bend = subject.objective.traits.l2, subject.objective.traits.margin
    limit = math.inf
    if certificate.mechanism == "local" and bend is not None and certificate.norm_bound is not None:
        limit = 2.0 / bend(certificate.norm_bound, certificate.clip)
    for i in rounds:
        event, true, step = certificate.event(i, me), true_event(subject, i), _step(subject, i)
        scale, rate = subject.scale(i), certificate.rate(i, me)
        if event is None or event.rate < true.rate * (1 - _NEAR) or rate < true.rate * (1 - _NEAR):
            return f"round {i} is charged at rate {0 if event is None else event.rate:.6g}, its slots make it {true.rate:.6g}"
        if event.sigma > true.sigma * (1 + _NEAR):
            return f"round {i} is charged for noise {event.sigma:.6g} and has {true.sigma:.6g} of what one record can change"
        if event.rate > 1 or not _LEAST_SCALE < scale < 1 / _LEAST_SCALE:
            return f"round {i} has a rate of {event.rate:.4g} and noise of scale {scale:.4g}, which floats do not carry"
        if step * l2 > 1 + _NEAR:
            return f"the step of round {i} times l2 is {step * l2:.4g}: the model grows by it, and noise is lost in its rounding"
        if step > limit * (1 + _NEAR):
            return f"the step of round {i} is {step:.6g} and must be at most 2 / L_eff = {limit:.6g}"
    return None
