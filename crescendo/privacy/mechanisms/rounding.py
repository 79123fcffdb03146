"""What float64 can add to what one record changes, proved from public numbers: the slack of a certificate.

u = 2^-53, d = the model's numbers, m = the most records that a round draws; lengths are in units of eta D C, the most that one
record may move the model. A clipped gradient is longer than C by at most (d + 8) u of it; the products that make the scale of the
noise are off by at most 16 u.

`minibatch`. Each clipped gradient is rounded to multiples of a unit, which makes it longer by at most half a unit per number,
sqrt(d)/2 units in all. Sums of multiples are exact up to 2^53 of them, so no error grows with the records. The sum times the step
is rounded once, by u of its length m, on either side of the comparison. The start model is no part of what is hidden.

`local`. Step j rounds a margin of d terms, at a model of length at most B + j (B is the ``model_bound``), and moves the model by
eta D times a slope that is L_eff-smooth in it: (d + 3) eta D L_eff u (B + j). It rounds every coordinate that it moves,
2 u (B + j), and its own length, 16 u. Shrinks multiply by numbers that are the same with and without the record; where they are
multiplied into the model, at most once a slot, that rounds it: 2 u (B + m). Later steps enlarge none of this, since they are
non-expansive. Both sides of the comparison err, and the displacement start - end is rounded once more: 4 u (B + m).

All this weighs most with the least step and the most slots, so each client's extremes are taken together, be they of different
rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats
from crescendo.core.random import Purpose, stream
from crescendo.core.terms import Terms
from crescendo.errors import Refused
from crescendo.objectives.base import Objective
from crescendo.privacy.accounting.directed_rounding import length_up
from crescendo.privacy.mechanisms.extremes import Extremes
from crescendo.privacy.mechanisms.gaussian import GRID_BITS, MOST_MULTIPLES, STOPPED
from crescendo.privacy.mechanisms.reach import SHORTENED, reach
from crescendo.privacy.mechanisms.requirements import MOST, Requirement, printed
from crescendo.privacy.mechanisms.sigmas import Sigmas

MOST_SLACK = 1e-3  # rounding may enlarge what a record changes by this share, and the noise is enlarged along with it
UNDECLARED = 2  # a client may hold up to this many times the records that it declared; with more it declines the terms
_LOG_RARE = 60 * math.log(10)  # a draw beyond its bound has a chance below 1e-60 in each round
_FINEST = 40  # a clipped gradient has at most 2^41 units
_LONGEST = 1e150  # a model's length, whose square is still a float
_U = 2.0**-53


def most_drawn(slots: npt.ArrayLike, records: npt.ArrayLike) -> Floats:
    """The most records that a round of so many slots draws from a client that declared so many, but for a chance of 1e-60.

    Bernstein: a sum of independent coins with mean v exceeds v + t with a chance below exp(-t^2 / (2 v + 2 t / 3)).

    >>> most_drawn([4, 50_000], [10, 10_000_000]).tolist()
    [20.0, 105303.0]
    """
    there = UNDECLARED * np.asarray(records, dtype=np.float64)
    mean = np.minimum(UNDECLARED * np.asarray(slots, dtype=np.float64), there)
    beyond = _LOG_RARE / 3 + np.sqrt(_LOG_RARE**2 / 9 + 2 * _LOG_RARE * mean)
    return np.minimum(there, np.ceil(mean + beyond))


def unit(clip: float, drawn: float) -> float:
    """The power of two that clipped gradients are rounded to: as fine as leaves the sum of ``drawn`` of them exact.

    >>> unit(1.0, 1000) == 2.0**-40, unit(0.1, 2e8) == 2.0**-4 * 2.0**-23
    (True, True)
    """
    bits = min(_FINEST, 51 - math.ceil(math.log2(max(drawn, 1.0))))
    return math.ldexp(1.0, math.frexp(clip)[1] - 1 - bits)


def _minibatch_slack(size: int, clip: float, drawn: float) -> float:
    """The share by which rounding can enlarge what one record changes; see the top of the file."""
    return math.sqrt(size) / 2 * unit(clip, drawn) / clip + (size + 8 + 4 * drawn + 16) * _U


def _slack_of_local(size: int, bend: float, bounds: Floats, drawn: Floats, slots: Floats) -> float:
    """The same for `local`, over all clients; ``bend`` is eta D L_eff, ``bounds`` the model bound in units of eta D C."""
    steps = (bend * (size + 3) + 2) * (drawn * bounds + drawn * (drawn + 1) / 2) + 16 * drawn
    own = 2 * (steps + 2 * slots * (bounds + drawn)) + 4 * (bounds + drawn) + size + 24
    return float(np.max(own, initial=0.0)) * _U


def failure(rounds: int, size: int, found: Extremes, records: tuple[int, ...]) -> float:
    """The chance that anything above does not hold in a run: a draw beyond its bound, or noise whose bits were stopped."""
    certain = bool((most_drawn(found.slots, records) >= UNDECLARED * np.asarray(records, dtype=np.float64)).all())
    rare = 0.0 if certain else math.exp(-_LOG_RARE)
    return 1.001 * rounds * (rare + size * STOPPED)


@dataclass(frozen=True)
class Rounding:
    """The rounding of a mechanism whose rates and step sizes are in their ranges."""

    mechanism: str
    terms: Terms
    objective: Objective
    clip: float
    sigma: Sigmas
    records: tuple[int, ...]
    norm_bound: float | None
    found: Extremes

    @property
    def drawn(self) -> Floats:
        """The most records that each client draws in a round."""
        return most_drawn(self.found.slots, self.records)

    @property
    def unit(self) -> float | None:
        return unit(self.clip, float(self.drawn.max())) if self.mechanism == "minibatch" else None

    def certified(self, l2: float) -> tuple[Requirement, Requirement, float]:
        """What rounding adds, how many grid steps the largest number to be hidden has, and the longest start model.

        `minibatch` hides a sum that the start model is no part of, so its bound is what the run reaches. `local` takes as
        much of that as rounding allows. It must leave room for what the noise alone reaches, or clients would shorten their
        start models all the time.
        """
        first = _first_length(self.objective, self.terms.seed)
        least, most = reach(self.terms, self.objective.size, l2, self.clip, self.sigma, first)
        least, most = length_up(least), length_up(most)
        if not most <= _LONGEST:
            raise Refused(f"the run's models would reach a length of {most:.3g}; smaller steps would pass")
        if self.mechanism == "minibatch":
            slack, bound = _minibatch_slack(self.objective.size, self.clip, float(self.drawn.max())), most
        else:
            bound = max(least, self._widest(most))
            slack = self._local_slack(bound)
        return self._slack(slack, bound, least, first), self._multiples(bound), bound

    def _slack(self, slack: float, bound: float, least: float, first: float) -> Requirement:
        says = f"rounding enlarges what a record changes by at most {slack:.2g} of it, and {MOST_SLACK:g} is allowed; "
        if self.mechanism == "minibatch":
            passes = "a smaller model or fewer records per round would pass"
        else:
            says += f"models of length {bound:.3g} are reached by the noise alone; "
            less = 0.9 * self.sigma.most * (self._widest(least) - first) / (least - first) if least > first else 0.0
            helps = less > 0 and self._multiples(least).holds  # less noise does not help where the steps fall too far
            larger = f"sigma = {printed(less, 3)}, larger" if helps else "larger last"
            passes = f"{larger} steps or fewer slots per round would pass"
        return Requirement("rounding", slack, MOST_SLACK, slack <= MOST_SLACK, says + passes)

    def _multiples(self, bound: float) -> Requirement:
        """The largest number to be hidden, over the finest grid that a release of this sigma has."""
        steps = self._largest(bound) * 2.0 ** (GRID_BITS + 1)  # for a sigma of 1
        multiples, enough = steps / self.sigma.least, steps / MOST_MULTIPLES
        says = (
            f"the numbers to be hidden can have {multiples:.3g} steps of the grid that noise is rounded to, and "
            f"{MOST_MULTIPLES:.3g} are allowed; sigma = {printed(enough, 3, up=True)} would pass"
        )
        return Requirement("grid", multiples, MOST_MULTIPLES, multiples <= MOST_MULTIPLES, says)

    def _largest(self, bound: float) -> float:
        """In units of eta D C: m gradients, and for `local` the model that L2 pulls."""
        model = 0.0 if self.mechanism == "minibatch" else float(np.max(self._units(bound)))
        return 1.01 * float(self.drawn.max()) + model

    def _units(self, bound: float) -> Floats:
        """A length in units of each client's least eta D C."""
        return SHORTENED * bound / (self.found.least * self.terms.blocks * self.clip)

    def _local_slack(self, bound: float) -> float:
        margin = self.objective.traits.margin
        assert margin is not None and self.norm_bound is not None  # required before
        bend = self.found.step * self.terms.blocks * margin(self.norm_bound, self.clip)
        slots = self.found.slots.astype(np.float64)
        return _slack_of_local(self.objective.size, min(bend, 2.0), self._units(bound), self.drawn, slots)

    def _widest(self, most: float) -> float:
        """The largest length up to ``most`` at which rounding is allowed; 0 for none."""

        def allowed(bound: float) -> bool:
            return self._local_slack(bound) <= MOST_SLACK and self._multiples(bound).holds

        if allowed(most):
            return most
        low, high = 0.0, most
        while high - low > 0.01 * high and high > 1e-9 * most:
            middle = (low + high) / 2
            low, high = (middle, high) if allowed(middle) else (low, middle)
        return low


def _first_length(objective: Objective, seed: int) -> float:
    """The length of the first model; of a model that is only described, what the description says."""
    said = objective.traits.first_length
    length = float(np.linalg.norm(objective.initial(stream(seed, Purpose.INIT)))) if said is None else said
    if not 0 <= length <= MOST:
        raise Refused(f"the first model has length {length:g}; one between 0 and {MOST:g} would pass")
    return length
