"""Attacks our own releases: is the epsilon true of the mechanism as implemented?

Theory of operation
-------------------
A certificate says: one record moves what is sent by at most the sensitivity, is drawn with the public rate and no more
than once, and is hidden by Gaussian noise of a stated scale; the next round begins at a function of what was sent. The
audit drives real workers on synthetic records, with the seeded source and the operating system's, and asks four things.

1. *Is what is sent what is certified?* (`lead`, `literal`, `edges`, `attack`) Whole runs, led as a server would: each
   release is compared, number by number, with the mechanism's definition computed literally beside it.
2. *Is what is random as random as it should be?* (`evidence`, `checks`) What was sent less what the definition says, over the
   certified scale, must be independent standard normal numbers, whatever was drawn; draws must be Poisson. The
   p-value of a check is exact, over statistics that `renewal` makes independent of each other, or conservative; together the
   checks raise a false alarm in fewer than one audit in ten thousand. Statistics cannot tell a small seed or a pool that is used
   twice: the system's bits are counted as a source reads them, and replaced by bits whose draw is known (`sources`).
3. *Can one record do more than is certified?* (`fuzz`, `scenes`) Noise off, the same draws with one record more, two rounds in a
   row, searched for the largest difference over the sensitivity. Among the scenes are broken and over-long records, more records
   than slots, broadcasts in mid-round and empty draws. Then the noise is chosen so that a round's releases are equal with and
   without the record: if the next round's differ, more is carried over than what was sent. Messages sent again must be
   equal, from memory, after a restart and out of the ledger on disk (`sent_again`). A round that another process goes on with
   after a kill must be the round that was begun, with noise that was not drawn before (`gone_on`). A user's model is led through
   a long history, after which it must say of a record what a fresh copy says (`memory`).
4. *How large is epsilon at least?* (`lower_bounds`) The measured rate, noise and shift of the mean, put through the
   accountant, are a lower bound if releases are mixtures of Gaussians; a threshold test of whole clients assumes nothing.

A planted bug for each thing that may go wrong is in the tests; the audit must fail on every one.
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
    """Attack client ``me`` (the one with the highest rate) of a configured run; ``claimed`` is its epsilon at ``delta``.

    ``runs`` sets how much is looked at: six real releases of every source for each. ``cost`` is the accountant, events to
    epsilon. ``features`` and ``labels`` say what a record of the objective looks like. ``make`` and ``outbox`` exchange the
    implementation and its store (None: leave that out). ``sources`` are made from a seed and a client, by name; both the seeded
    and the operating system's are attacked if there are none.
    """
    me = _dearest(certificate) if me is None else me
    features = objective.traits.features if features is None else features
    named: Mapping[str, Sources]
    if sources is None:
        named = {"seeded": SeededSource, "system": lambda seed, client: SystemSource()}
    else:
        named = sources if isinstance(sources, Mapping) else {"given": sources}
    subject = Subject(certificate, objective, me, features or objective.size, tuple(labels), wire, make)
    # an accountant that is given is the caller's own; ours is held against a bound that shares no code with it
    least = partial(least_epsilon, delta=delta) if cost is None else None
    attack = Attack(subject, named, claimed, delta, confidence, cost or _accountant(delta), seed, least)
    with np.errstate(all="ignore"):  # records that are broken or without end are part of the attack
        return attack.report(runs, tries, threshold_runs, outbox, progress)


def _dearest(certificate: Certificate) -> int:
    terms = certificate.terms
    return max(range(terms.clients), key=lambda c: max(certificate.rate(i, c) for i in range(terms.rounds)))


def _accountant(delta: float) -> Cost:
    """The tight accountant, on the side that never overstates."""

    def cost(events: Sequence[Event]) -> float:
        from crescendo_dp.accounting.epsilon import account

        spent = account(events, delta)
        return max(0.0, spent.epsilon - spent.error)

    return cost
