"""Audit: attacks our own releases. Does the epsilon hold for the mechanism as implemented?

Theory of operation
-------------------
A certificate states: one record moves a release by at most the sensitivity, is drawn with the public rate and at most once, and
is hidden by Gaussian noise of a stated scale; the next round begins at a function of earlier releases. The audit drives real
workers on synthetic records, with the seeded source and the operating system's, and asks four questions.

1. *Does the client send the certified release?* (`lead`, `literal`, `edges`, `attack`) The audit leads whole runs as a server
   would, and compares each release, number by number, with a literal computation of the mechanism's definition.
2. *Are the random numbers random enough?* (`evidence`, `checks`) The releases less their definition, over the certified scale,
   must be independent standard normal numbers, whatever was drawn; draws must be Poisson. The p-value of a check is exact, over
   statistics that `renewal` makes independent of each other, or conservative; together the checks raise a false alarm in fewer
   than one audit in ten thousand. Statistics cannot detect a small seed or a pool that is used twice, so the audit counts the
   system's bits as a source reads them, and replaces them by bits whose draw is known (`sources`).
3. *Can one record do more than is certified?* (`fuzz`, `scenes`) With noise off and the same draws, the audit adds one record
   and searches two consecutive rounds for the largest difference over the sensitivity. The scenes include broken and overlong
   records, more records than slots, broadcasts in mid-round and empty draws. Then the audit chooses the noise so that a round's
   releases are equal with and without the record: if the next round's differ, the client carries over more than it sent. A
   message must be identical when it is sent again from memory, after a restart and from the ledger on disk (`sent_again`). A
   round that another process resumes after a kill must use the same draw, with new noise (`gone_on`). After a long history, a
   user's model must return the same gradient of a record as a fresh copy (`memory`).
4. *What is the least possible epsilon?* (`lower_bounds`) The measured rate, noise and shift of the mean, put through the
   accountant, are a lower bound if releases are mixtures of Gaussians; a threshold test of whole clients assumes nothing.

The tests plant a bug for each possible fault; the audit must fail on every one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from crescendo.audit.attack import Attack
from crescendo.audit.driving.literal_cost import least_epsilon
from crescendo.audit.driving.subject import Maker, Sources, Subject, build
from crescendo.audit.findings import Finding, Report, Row
from crescendo.audit.lower_bounds import Cost
from crescendo.audit.worst_cases.sent_again import Opener, open_outbox
from crescendo.objectives.base import Objective
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.noise import SeededSource, SystemSource
from crescendo_dp.events import Event

__all__ = ["Finding", "Report", "Row", "audit"]


def audit(
    certificate: Certificate,
    objective: Objective,
    *,
    claimed: float,
    delta: float,
    me: int | None = None,
    features: int | None = None,
    labels: Sequence[float] = (0.0, 1.0),
    wire: str = "float32",
    runs: int = 400,
    tries: int = 200,
    threshold_runs: int = 0,
    confidence: float = 0.99,
    seed: int = 0,
    cost: Cost | None = None,
    make: Maker = build,
    outbox: Opener | None = open_outbox,
    sources: Sources | Mapping[str, Sources] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Attack client ``me`` (by default the one with the highest rate) of a run; ``claimed`` is its epsilon at ``delta``.

    ``runs`` sets the effort: each unit is six real releases of every source. ``cost`` is the accountant, from events to epsilon.
    ``features`` and ``labels`` describe a record of the objective. ``make`` and ``outbox`` exchange the implementation and its
    store (None skips the store). ``sources`` maps names to sources made from a seed and a client; the default is to attack both
    the seeded and the operating system's.
    """
    me = _dearest(certificate) if me is None else me
    features = objective.traits.features if features is None else features
    named: Mapping[str, Sources]
    if sources is None:
        named = {"seeded": SeededSource, "system": lambda seed, client: SystemSource()}
    else:
        named = sources if isinstance(sources, Mapping) else {"given": sources}
    subject = Subject(certificate, objective, me, features or objective.size, tuple(labels), wire, make)
    # our accountant is checked against a bound that shares no code with it; a caller's accountant is taken as given
    least = partial(least_epsilon, delta=delta) if cost is None else None
    attack = Attack(subject, named, claimed, delta, confidence, cost or _accountant(delta), seed, least)
    with np.errstate(all="ignore"):  # the attack includes records that are broken or infinite
        return attack.report(runs, tries, threshold_runs, outbox, progress)


def _dearest(certificate: Certificate) -> int:
    terms = certificate.terms
    return max(range(terms.clients), key=lambda c: max(certificate.rate(i, c) for i in range(terms.rounds)))


def _accountant(delta: float) -> Cost:
    """Return the tight accountant's lower end, which never overstates the cost."""

    def cost(events: Sequence[Event]) -> float:
        from crescendo_dp.accounting.epsilon import account

        spent = account(events, delta)
        return max(0.0, spent.epsilon - spent.error)

    return cost
