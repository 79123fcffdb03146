"""The certificate that makes an epsilon true: what one record can change in what a client sends, and why.

Unit: one record of one client, added or removed, against everybody who sees what the client sends. A mechanism is
certified before any record is read, from public terms alone; a condition that fails is refused with the value that
would pass.

Why `minibatch` is sound. All gradients of a round are taken at the round's start model, which is a function of earlier
releases. So one record adds its own clipped gradient and changes nothing else: the release moves by at most eta D C. Where each
layer of a gradient is cut to a clip of its own, C is the root of the sum of these clips' squares: the layers are different
coordinates, so that a gradient whose layers are not longer than their clips is not longer than that.

Why `local` is sound. For a convex loss of a scalar margin the clipped gradient is again the gradient of a convex
function, smooth with L_eff = C (R - C) if R >= 2C, else R^2/4 (logistic loss, records with |(x, 1)| <= R). A step of at
most 2 / L_eff on such a function brings no two models further apart, and neither does the shrink of L2 while eta lambda
<= 1. So inserting one record moves the model by at most eta D C, and nothing that comes later in the round enlarges it.

Why `batch-clip` is sound: see the top of `batch_clip`. It takes any start model.

The others hold in exact arithmetic for any start model, and with rounding for start models up to ``model_bound``. A client that
was sent a longer model begins its round at that model shortened to the bound, and what it sends is measured from there. The
shortened model is a function of earlier releases as the sent one is, the same with and without the record: the proofs above begin
there.
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
    """One inequality that the certificate rests on, with both sides."""

    name: str
    left: float
    right: float
    holds: bool
    says: str


@dataclass(frozen=True)
class Certificate:
    """Everything that an epsilon depends on, for one set of terms.

    ``records`` are the numbers of records that the clients *declared*, one each: rates come from these, never from
    counting.
    """

    kind: type[Proposal]
    terms: Terms
    objective: Objective
    clip: float  # C; of clips by layer, the most that all of them leave
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
    layers: LayerClips | None = None  # the clips by layer, where each has its own

    @property
    def stated_clip(self) -> float | LayerClips:
        """As the terms state it."""
        return self.clip if self.layers is None else self.layers

    @property
    def mechanism(self) -> str:
        return self.kind.name

    def client(self, me: int, rows: Ints, source: Source) -> Mechanism:
        """The certified mechanism on the records of client ``me``."""
        return self.kind.client(self, me, rows, source)

    def rate(self, i: int, c: int) -> float:
        """q_i: the probability of every record of client c to be in round i, exactly: s_ic / N_c rounded up to 2^-53."""
        return rate_of(self.terms.share(i, c), self.records[c])

    def sensitivity(self, i: int, c: int) -> float:
        """The most that one record can move what client c sends in round i, rounding included."""
        return self.kind.sensitivity(self.terms, i, c, self.clip) * (1 + self.slack)

    def noise_scale(self, i: int, c: int) -> float:
        """The standard deviation of the noise on every coordinate of round i's release."""
        return self.sigma(i) * self.sensitivity(i, c)

    def event(self, i: int, c: int) -> Event | None:
        """What round i costs client c; None for a round without a share, in which it sends nothing."""
        return self.kind.event(self.rate(i, c), self.sigma(i)) if self.terms.share(i, c) else None

    def plan(self, c: int) -> PlannedEvents:
        """What each round costs client c: `event` of every round, of which all may be different."""
        return PlannedEvents.joined(self._kinds(c))

    def _kinds(self, c: int) -> Iterator[EventKinds]:
        """What each round costs client c, some rounds at a time."""
        coming = self.terms.shares_of(c)
        for first in range(0, self.terms.rounds, _TOGETHER):
            shares = np.fromiter(islice(coming, _TOGETHER), np.int64)
            different, where = np.unique(shares, return_inverse=True)
            rates = np.array([rate_of(share, self.records[c]) for share in different.tolist()])
            sigmas = np.array([self.sigma(i) for i in range(first, first + len(shares))])
            yield EventKinds.alike(self.kind.event, rates[where], sigmas)

    def events(self, c: int) -> list[Event]:
        """What the whole run costs client c."""
        return [event for event in self.plan(c) if event is not None]

    def usual_delta(self, delta: float) -> float:
        """What rare events leave of delta, rounded down, for the accountant. Refused if they take a billionth of it."""
        if not 0 <= self.failure <= RARE * delta:
            raise Refused(
                f"delta = {delta:g} leaves no room for rare events with a chance of {self.failure:.2g}; "
                f"{printed(self.failure / RARE, 2, up=True)} would pass"
            )
        return down(delta, self.failure)


def printed(limit: float, digits: int = 6, up: bool = False) -> str:
    """A number that passes where ``limit`` is the most (or, ``up``, the least) that does: rounded towards passing.

    >>> printed(0.17797056), printed(1.8841e-7, 3, up=True), printed(0.5, 3)
    ('0.17797', '1.89e-07', '0.5')
    """
    if not 1e-280 < limit < 1e280:  # powers of ten have no floats beyond; such a limit is refused for itself
        return f"{limit:.{digits}g}"
    power = math.floor(math.log10(limit)) - digits + 1
    whole = limit * 10.0**-power
    near = math.ceil(whole - 1e-9) if up else math.floor(whole + 1e-9)
    found = float(f"{near}e{power}")
    if (found < limit) if up else (found > limit):
        found = float(f"{near + (1 if up else -1)}e{power}")
    return f"{found:.{digits}g}"
