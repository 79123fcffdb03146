"""Attacks our own releases: is the epsilon true of the mechanism as implemented?

Theory of operation
-------------------
A certificate says: one record moves what is sent by at most the sensitivity, is drawn with the public rate and no more
than once, and is hidden by Gaussian noise of a stated scale; the next round begins at a function of what was sent. The
audit drives real workers on synthetic data and looks at nothing but what they send.

1. *Coupled fuzz, noise off* (`fuzz`, `scenes`): the same draws with one record more, over two rounds in a row, searched
   for the largest difference / sensitivity. Among the scenes are broken and over-long records, more records than slots,
   broadcasts in mid-round and empty draws. Then the noise is chosen so that a round's releases are equal with and
   without the record: if the next round's differ, more is carried over than what was sent. Messages sent again must be
   equal, from memory, after a restart and out of the ledger on disk (`outbox`).
2. *Real releases* (`law`, `scales`, `shift`): who is drawn, as seen from what is sent; the noise against its certified scale,
   both ways; the shift of the mean. Put through the accountant, the measured rate, noise and shift are a lower bound on
   epsilon under the assumption that releases are mixtures of Gaussians.
3. *Threshold test* (`threshold`): assumes nothing. Slow, and weak where epsilon is small.

A planted bug for each thing that may go wrong is in the tests; the audit must fail on every one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from crescendo.privacy.audit.fuzz import Fuzz, search
from crescendo.privacy.audit.law import sampling_law
from crescendo.privacy.audit.outbox import Opener, open_outbox, outbox_test
from crescendo.privacy.audit.scales import noise_test
from crescendo.privacy.audit.shift import Cost, Shift, parametric_epsilon, shift_test
from crescendo.privacy.audit.subject import Maker, Subject, build
from crescendo.privacy.audit.threshold import threshold_test
from crescendo.privacy.certificates import Certificate
from crescendo.privacy.events import PoissonGaussian
from crescendo.privacy.noise import SeededSource, Source

WORST_RATIO = 1 + 1e-5  # what float32 on the wire can add to a ratio of 1
MOST_CARRIED = 1e-4  # of the sensitivity, between rounds whose releases were made equal but for the wire's rounding


@dataclass(frozen=True)
class Finding:
    """One thing that the certificate says and the releases deny."""

    kind: str
    says: str


@dataclass(frozen=True)
class Report:
    """Plain data. Lower bounds hold with probability ``confidence`` each; None is a test that was not run.

    ``claimed_attacked`` is what the accountant says of the rounds that the threshold test attacks alone.
    """

    mechanism: str
    client: int
    claimed: float
    delta: float
    confidence: float
    lower: float
    lower_shift: float
    lower_threshold: float | None
    claimed_attacked: float | None
    worst_ratio: float
    carried_ratio: float
    noise_ratio: float
    shift_ratio: float
    shift_error: float
    tries: int
    runs: int
    findings: tuple[Finding, ...]
    name: str | None = None  # of the client, where it has one

    @property
    def passed(self) -> bool:
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """As one JSON object, with the verdict."""
        return {"verdict": "passed" if self.passed else "failed", **asdict(self)}


def audit(
    certificate: Certificate,
    objective: Any,
    *,
    claimed: float,
    delta: float,
    me: int | None = None,
    features: int | None = None,
    labels: Sequence[float] = (-1.0, 1.0),
    wire: str = "float32",
    runs: int = 400,
    tries: int = 200,
    threshold_runs: int = 0,
    confidence: float = 0.99,
    seed: int = 0,
    cost: Cost | None = None,
    make: Maker = build,
    outbox: Opener | None = open_outbox,
    sources: Callable[[int], Source] | None = None,
) -> Report:
    """Attack client ``me`` (the one with the highest rate) of a configured run; ``claimed`` is its epsilon at ``delta``.

    ``cost`` is the accountant, events to epsilon. ``features`` and ``labels`` say what a record of the objective looks
    like. ``make``, ``outbox`` and ``sources`` exchange the implementation, its store (None: leave that out) and its randomness.
    """
    me = _dearest(certificate) if me is None else me
    features = int(getattr(objective, "features", 0)) if features is None else features
    subject = Subject(
        certificate,
        objective,
        me,
        features or objective.size,
        tuple(labels),
        wire,
        make,
        sources or (lambda number: SeededSource(number, me)),
    )
    with np.errstate(all="ignore"):  # records that are broken or without end are part of the attack
        return _report(subject, claimed, delta, runs, tries, threshold_runs, confidence, seed, cost, outbox)


def _report(
    subject: Subject,
    claimed: float,
    delta: float,
    runs: int,
    tries: int,
    threshold_runs: int,
    confidence: float,
    seed: int,
    cost: Cost | None,
    outbox: Opener | None,
) -> Report:
    certificate, me = subject.certificate, subject.me
    rng = np.random.Generator(np.random.Philox(seed))
    alpha, cost = 1 - confidence, cost or _accountant(delta)
    fuzz = search(subject, rng, tries)
    law = sampling_law(subject, rng, runs, alpha / 3)
    noise = noise_test(subject, rng, runs, alpha / 3)
    resent = outbox_test(subject, rng, outbox) if outbox is not None else {}
    found = {**resent, **_fuzz_findings(fuzz), **law.found, **noise.found}
    shift, lower_shift = Shift(), 0.0
    lower_threshold = attacked = None
    if fuzz.usual is not None:
        scene = fuzz.usual[1]
        shift = shift_test(subject, scene, rng, runs, alpha / 3)
        found = {**shift.found, **found}
        lower_shift = parametric_epsilon(subject, cost, shift.low, noise.high, law.rate_low)
        if threshold_runs:
            tested = threshold_test(subject, scene, rng, threshold_runs, alpha, delta)
            lower_threshold = tested.epsilon
            attacked = cost([e for i in tested.rounds if (e := certificate.event(i, me)) is not None])
            if lower_threshold > attacked:
                found["threshold"] = (
                    f"rounds {tested.rounds} cost epsilon {lower_threshold:.4g} or more, the accountant says {attacked:.4g}"
                )
    lower = max(lower_shift, lower_threshold or 0.0)
    if lower > claimed:
        found["epsilon"] = f"epsilon is {lower:.4g} or more and {claimed:.4g} is claimed"
    return Report(
        mechanism=certificate.mechanism,
        client=me,
        claimed=claimed,
        delta=delta,
        confidence=confidence,
        lower=lower,
        lower_shift=lower_shift,
        lower_threshold=lower_threshold,
        claimed_attacked=attacked,
        worst_ratio=fuzz.worst,
        carried_ratio=fuzz.carried,
        noise_ratio=noise.ratio,
        shift_ratio=shift.ratio,
        shift_error=shift.error,
        tries=fuzz.tries,
        runs=runs,
        findings=tuple(Finding(kind, says) for kind, says in found.items()),
    )


def _fuzz_findings(fuzz: Fuzz) -> dict[str, str]:
    found = dict(fuzz.found)
    if fuzz.worst > WORST_RATIO:
        name = fuzz.scene.name if fuzz.scene is not None else "search"
        found["sensitivity"] = f"one record changes a release by {fuzz.worst:.4g} of the certified sensitivity ({name})"
    if fuzz.carried > MOST_CARRIED:
        found["carried"] = (
            f"rounds with equal releases were followed by rounds {fuzz.carried:.2g} of the sensitivity apart: "
            f"the next start is a function of more than what was sent"
        )
    return found


def _dearest(certificate: Certificate) -> int:
    terms = certificate.terms
    return max(range(terms.clients), key=lambda c: max(certificate.rate(i, c) for i in range(terms.rounds)))


def _accountant(delta: float) -> Cost:
    """The tight accountant, on the side that never overstates."""

    def cost(events: Sequence[PoissonGaussian]) -> float:
        from crescendo.privacy.accountant import account

        spent = account(events, delta)
        return max(0.0, spent.epsilon - spent.error)

    return cost
