"""The certificate that makes an epsilon true: a proved bound on one record's influence on a client's releases.

Unit of protection: one record of one client, added or removed, against everyone who sees the client's messages. A
mechanism is certified before any record is read, from public terms alone; a failed condition is refused with the
value that would pass.

Why `minibatch` is sound. All gradients of a round are taken at the round's start model, which is a function of earlier
releases. So one record adds its own clipped gradient and changes nothing more: the release moves by at most eta D C. Where each
layer of a gradient has its own clip, C is the root of the sum of these clips' squares: the layers are different
coordinates, so a gradient whose layers are within their clips is not longer than C.

Why `local` is sound. For a convex loss of a scalar margin the clipped gradient is again the gradient of a convex
function, smooth with L_eff = C (R - C) if R >= 2C, else R^2/4 (logistic loss, records with |(x, 1)| <= R). A step of at
most 2 / L_eff on such a function brings no two models further apart, and neither does the shrink of L2 while eta lambda
<= 1. So inserting one record moves the model by at most eta D C, and nothing that comes later in the round enlarges it.

Why `batch-clip` is sound: see the top of `batch_clip`. It takes any start model.

The other two proofs hold in exact arithmetic for any start model, and with rounding for start models up to ``model_bound``. A
client that receives a longer model shortens it to the bound, begins its round there, and measures its update from there. Like
the model it received, the shortened one is a function of earlier releases and the same with and without the record, so the
proofs apply to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from crescendo.core.arrays import Ints
from crescendo.core.terms import Terms
from crescendo.errors import Refused
from crescendo.objectives.base import Objective
from crescendo.objectives.layer_clips import LayerClips
from crescendo_dp.directed_rounding import down
from crescendo_dp.event_kinds import EventKinds
from crescendo_dp.events import Event
from crescendo_dp.planned_events import PlannedEvents
from crescendo_dp.planning.sigmas import Sigmas
from crescendo_dp.planning.target import RARE
from crescendo_dp.sampling_rate import rate_of

if TYPE_CHECKING:
    from crescendo.privacy.mechanisms.mechanism import Mechanism
    from crescendo.privacy.mechanisms.noise import Source
    from crescendo.privacy.mechanisms.proposal import Proposal

_TOGETHER = 1 << 16  # rounds whose events are made together


@dataclass(frozen=True)
class Requirement:
    """One inequality on which the certificate rests, with both sides."""

    name: str
    left: float
    right: float
    holds: bool
    says: str


@dataclass(frozen=True)
class Certificate:
    """All inputs of an epsilon, for one set of terms.

    ``records`` holds the number of records that each client *declared*: rates follow from it, never from a count.
    """

    kind: type[Proposal]
    terms: Terms
    objective: Objective
    clip: float  # C; with clips by layer, the length of all of them together
    sigma: Sigmas
    records: tuple[int, ...]
    norm_bound: float | None
    conditions: tuple[Requirement, ...]
    slack: float
    model_bound: float  # the longest start model; a client shortens a longer one to it
    unit: float | None  # clipped gradients are rounded to multiples of it before they are added; None if none are added
    failure: float  # the chance that a bound behind the slack fails in a run; the accountant subtracts it from delta
    adjacency: str = "add or remove one record of one client"
    sampling: str = "Poisson: every record independently, with the public rate s_ic / N_c"
    layers: LayerClips | None = None  # the clips by layer, if each has its own

    @property
    def stated_clip(self) -> float | LayerClips:
        """The clip as the terms state it."""
        return self.clip if self.layers is None else self.layers

    @property
    def mechanism(self) -> str:
        return self.kind.name

    def client(self, me: int, rows: Ints, source: Source) -> Mechanism:
        """Return the certified mechanism on the records of client ``me``."""
        return self.kind.client(self, me, rows, source)

    def rate(self, i: int, c: int) -> float:
        """Return q_i, the exact probability that a record of client c is in round i: s_ic / N_c rounded up to 2^-53."""
        return rate_of(self.terms.share(i, c), self.records[c])

    def sensitivity(self, i: int, c: int) -> float:
        """Return the most that one record can move client c's release of round i, rounding included."""
        return self.kind.sensitivity(self.terms, i, c, self.clip) * (1 + self.slack)

    def noise_scale(self, i: int, c: int) -> float:
        """Return the standard deviation of the noise on every coordinate of round i's release."""
        return self.sigma(i) * self.sensitivity(i, c)

    def event(self, i: int, c: int) -> Event | None:
        """Return client c's privacy event of round i; None if it has no share in the round and sends nothing."""
        return self.kind.event(self.rate(i, c), self.sigma(i)) if self.terms.share(i, c) else None

    def plan(self, c: int) -> PlannedEvents:
        """Return client c's `event` of every round."""
        return PlannedEvents.joined(self._kinds(c))

    def _kinds(self, c: int) -> Iterator[EventKinds]:
        """Yield client c's events, many rounds at a time."""
        coming = self.terms.shares_of(c)
        for first in range(0, self.terms.rounds, _TOGETHER):
            shares = np.fromiter(islice(coming, _TOGETHER), np.int64)
            different, where = np.unique(shares, return_inverse=True)
            rates = np.array([rate_of(share, self.records[c]) for share in different.tolist()])
            sigmas = np.array([self.sigma(i) for i in range(first, first + len(shares))])
            yield EventKinds.alike(self.kind.event, rates[where], sigmas)

    def events(self, c: int) -> list[Event]:
        """Return the events of all rounds in which client c sends."""
        return [event for event in self.plan(c) if event is not None]

    def usual_delta(self, delta: float) -> float:
        """Return delta less the chance of rare events, rounded down; refuse a delta of which they take a billionth."""
        if not 0 <= self.failure <= RARE * delta:
            raise Refused(
                f"delta = {delta:g} leaves no room for rare events with a chance of {self.failure:.2g}; "
                f"{printed(self.failure / RARE, 2, up=True)} would pass"
            )
        return down(delta, self.failure)


def printed(limit: float, digits: int = 6, up: bool = False) -> str:
    """Print a number that passes where ``limit`` is the largest (with ``up``, the least) that does, rounded towards passing.

    >>> printed(0.17797056), printed(1.8841e-7, 3, up=True), printed(0.5, 3)
    ('0.17797', '1.89e-07', '0.5')
    """
    if not 1e-280 < limit < 1e280:  # beyond lie no floats for the powers of ten; another check refuses such a limit
        return f"{limit:.{digits}g}"
    power = math.floor(math.log10(limit)) - digits + 1
    whole = limit * 10.0**-power
    near = math.ceil(whole - 1e-9) if up else math.floor(whole + 1e-9)
    found = float(f"{near}e{power}")
    if (found < limit) if up else (found > limit):
        found = float(f"{near + (1 if up else -1)}e{power}")
    return f"{found:.{digits}g}"
