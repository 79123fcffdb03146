"""The certificate that makes an epsilon true: what one record can change in what a client sends, and why.

Unit: one record of one client, added or removed, against everybody who sees what the client sends. A mechanism is
certified before any record is read, from public terms alone; a condition that fails is refused with the value that
would pass.

Why `minibatch` is sound. All gradients of a round are taken at the round's start model, which is a function of earlier
releases. So one record adds its own clipped gradient and changes nothing else: the release moves by at most eta D C.

Why `local` is sound. For a convex loss of a scalar margin the clipped gradient is again the gradient of a convex
function, smooth with L_eff = C (R - C) if R >= 2C, else R^2/4 (logistic loss, records with |(x, 1)| <= R). A step of at
most 2 / L_eff on such a function brings no two models further apart, and neither does the shrink of L2 while eta lambda
<= 1. So inserting one record moves the model by at most eta D C, and nothing that comes later in the round enlarges it.

Both hold in exact arithmetic for any start model, and with rounding for start models up to ``model_bound``. A client that was
sent a longer model begins its round at that model shortened to the bound, and what it sends is measured from there. The shortened
model is a function of earlier releases as the sent one is, the same with and without the record: the proofs above begin there.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from crescendo.core.terms import Terms
from crescendo.errors import Refused, UsageError
from crescendo.objectives.base import Objective
from crescendo.privacy.accounting.directed_rounding import down
from crescendo.privacy.accounting.events import PoissonGaussian
from crescendo.privacy.mechanisms.extremes import extremes
from crescendo.privacy.mechanisms.requirements import (
    Requirement,
    check_numbers,
    printed,
    require,
    steps_and_rates,
)
from crescendo.privacy.mechanisms.rounding import Rounding, failure
from crescendo.privacy.mechanisms.sigmas import Sigmas

RARE = 1e-9  # the most of delta that rare events may take: a draw beyond its bound, noise whose bits were stopped


@dataclass(frozen=True)
class Certificate:
    """Everything that an epsilon depends on, for one set of terms.

    ``records`` are the numbers of records that the clients *declared*, one each: rates come from these, never from
    counting.
    """

    mechanism: Literal["minibatch", "local"]
    terms: Terms
    objective: Objective
    clip: float
    sigma: Sigmas
    records: tuple[int, ...]
    norm_bound: float | None
    conditions: tuple[Requirement, ...]
    slack: float
    model_bound: float  # the longest start model; a client shortens a longer one to it
    unit: float | None  # what clipped gradients are rounded to before they are added; None where they are not added
    failure: (
        float  # the chance that a run draws more records than the slack allows for: the accountant takes it off delta
    )
    adjacency: str = "add or remove one record of one client"
    sampling: str = "Poisson: every record independently, with the public rate s_ic / N_c"

    def rate(self, i: int, c: int) -> float:
        """q_i: the probability of every record of client c to be in round i, exactly: s_ic / N_c rounded up to 2^-53."""
        return rate_of(self.terms.share(i, c), self.records[c])

    def sensitivity(self, i: int, c: int) -> float:
        """The most that one record can move what client c sends in round i, rounding included."""
        return largest_step(self.terms, i, c) * self.terms.blocks * self.clip * (1 + self.slack)

    def noise_scale(self, i: int, c: int) -> float:
        """The standard deviation of the noise on every coordinate of round i's release."""
        return self.sigma(i) * self.sensitivity(i, c)

    def event(self, i: int, c: int) -> PoissonGaussian | None:
        """What round i costs client c; None for a round without a share, in which it sends nothing."""
        return PoissonGaussian(self.rate(i, c), self.sigma(i)) if self.terms.share(i, c) else None

    def plan(self, c: int) -> tuple[PoissonGaussian | None, ...]:
        """What each round costs client c: `event` of every round, of which few are different."""
        known: dict[tuple[int, float], PoissonGaussian | None] = {}
        slots = enumerate(self.terms.shares_of(c))
        keys = [(share, self.sigma(i)) for i, share in slots]
        for share, sigma in set(keys):
            rate = rate_of(share, self.records[c])
            known[share, sigma] = PoissonGaussian(rate, sigma) if share else None
        return tuple(known[key] for key in keys)

    def events(self, c: int) -> list[PoissonGaussian]:
        """What the whole run costs client c."""
        return [event for event in self.plan(c) if event is not None]


def usual_delta(certificate: Certificate, delta: float) -> float:
    """What rare events leave of delta, rounded down: the accountant is asked at this. Refused if they take a billionth of it."""
    if not 0 <= certificate.failure <= RARE * delta:
        raise Refused(
            f"delta = {delta:g} leaves no room for rare events with a chance of {certificate.failure:.2g}; "
            f"{printed(certificate.failure / RARE, 2, up=True)} would pass"
        )
    return down(delta, certificate.failure)


def rate_of(slots: int, records: int) -> float:
    """slots / records as a multiple of 2^-53, rounded up: uniform numbers are such multiples, so this is what is realised.

    >>> rate_of(1, 3) * 2**53 == 3002399751580331, rate_of(1, 10**30) == 2.0**-53
    (True, True)
    """
    return -(-(slots << 53) // records) * 2.0**-53


def largest_step(terms: Terms, i: int, c: int) -> float:
    """The largest step size of client c in round i, whatever its sign; 0 without a share."""
    return float(np.max(np.abs(terms.distinct_etas(i, c)), initial=0.0))


def certify(
    mechanism: str,
    terms: Terms,
    objective: Objective,
    *,
    clip: float,
    sigma: float | Sigmas,
    records: tuple[int, ...],
    norm_bound: float | None = None,
) -> Certificate:
    """The certificate of a mechanism under these terms, or Refused."""
    if mechanism not in ("minibatch", "local"):
        raise UsageError(f"there is no certified mechanism {mechanism!r}; choose minibatch or local")
    kind: Literal["minibatch", "local"] = "minibatch" if mechanism == "minibatch" else "local"
    noise, clip = Sigmas.of(sigma), float(clip)  # numpy's float32 would make the noise's scale one, too
    norm_bound, records = None if norm_bound is None else float(norm_bound), tuple(map(operator.index, records))
    check_numbers(terms, objective.size, clip, noise, records, norm_bound, objective.traits.intercept)
    reached = extremes(terms, records)
    found = steps_and_rates(kind, terms, objective, clip, records, norm_bound, reached)
    draft = Rounding(kind, terms, objective, clip, noise, records, norm_bound, reached)
    slack, multiples, bound = draft.certified(objective.traits.l2)
    found += [slack, multiples]
    require(kind, found)
    return Certificate(
        mechanism=kind,
        terms=terms,
        objective=objective,
        clip=clip,
        sigma=noise,
        records=records,
        norm_bound=norm_bound,
        conditions=tuple(found),
        slack=slack.left,
        model_bound=bound,
        unit=draft.unit,
        failure=failure(terms.rounds, objective.size, reached, records),
    )
