"""The rule behind ``steps = "auto"``: step sizes from curvatures, late gradients and noise.

    eta(t)  =  eta0 / (1 + fall t / T),     T gradients in the whole run

eta0 is the largest number that every limit allows:

- alone: a limit on eta0 times the curvature of one record, so that single steps do not keep overshooting;
- together: a limit, in every round, on eta times the curvature of the mean loss times the round's late gradients;
- noise: the noise of the whole run moves the margin w . x of a record by a standard deviation of at most `NOISE`, or in
 regression of `NOISE_OF_RANGE` of the width of the labels' public range.

The limits and ``fall`` were measured: docs/auto_steps.md. Pure maths: the caller provides the known quantities.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from crescendo.errors import UsageError
from crescendo.schedules.parameters import FloatArray, IntArray
from crescendo.schedules.steps import DiminishingSteps


class Allowed(NamedTuple):
    """Limits on eta times a curvature: ``alone`` for one record, ``together`` for the late gradients of a round."""

    alone: float
    together: float


MEASURED = Allowed(3.0, 3.9)  # for curvatures measured on records
BOUND = Allowed(3.0, 5.0)  # for a bound, which most records stay well below
UNBOUNDED = Allowed(0.5, 1.0)  # for gradients that grow with the error: too long a step never recovers
BOUND_OF_NUMBERS = Allowed(1.0, 2.0)  # for a bound, in regression: a quadratic loss shrinks up to 2
NOISE = 2.0
NOISE_OF_RANGE = 0.5  # in regression: relative to the width of the label range
FALL = 20.0  # the last step is a 21st of the first
FALL_WITH_NOISE = 3.0  # later rounds are larger, so noise affects them less
_FIGURES = 3


@dataclass(frozen=True)
class Curvatures:
    """Curvatures of the loss: ``record`` of one record, ``mean`` of the mean loss in its steepest direction at the end.

    ``known_by`` names the source of the numbers, on which the limits ``allowed`` depend.
    """

    record: float
    mean: float
    known_by: str
    allowed: Allowed = MEASURED


class Limit(NamedTuple):
    """The largest eta0 under one limit, and the reason."""

    eta0: float
    why: str


@dataclass(frozen=True)
class ChosenSteps:
    """The steps chosen by "auto", and the reason."""

    steps: DiminishingSteps
    why: str


@dataclass(frozen=True, eq=False)
class AutoSteps:
    """The quantities of a run that the rule uses.

    ``sums`` are the prefix sums of its sizes. ``late`` has the gradients of each round that a client cannot see while
    it computes, times the factor on updates. ``noise`` is the standard deviation that each round adds to a margin for
    a step of 1, and ``noise_allowed`` limits the total. ``caps`` are further limits on the largest step, with their
    reasons.
    """

    curvatures: Curvatures
    sums: IntArray
    late: FloatArray
    noise: FloatArray | None = None
    caps: tuple[Limit, ...] = ()
    noise_allowed: float = NOISE
    etas: FloatArray | None = None  # existing steps; the limits then apply to a factor on them

    @property
    def fall(self) -> float:
        return FALL if self.noise is None else FALL_WITH_NOISE

    @property
    def shape(self) -> FloatArray:
        """eta / eta0 at the start of each round."""
        if self.etas is not None:
            return self.etas
        return np.asarray(1.0 / (1.0 + self.fall * self.sums[:-1] / self.sums[-1]), dtype=np.float64)

    @property
    def length(self) -> float:
        """The sum of the step sizes over all gradients: the distance of the run, for gradients of length 1."""
        return self.factor() * float(self.shape @ np.diff(self.sums))

    def limits(self) -> Iterator[Limit]:
        """Yield every limit on eta0."""
        found = self.curvatures
        alone, together = found.allowed
        if found.record > 0:
            why = f"a single step: eta0 times the curvature of a record, {found.record:.3g} ({found.known_by}), is {alone:g}"
            yield Limit(alone / (found.record * float(self.shape.max())), why)
        push = self.shape * self.late * found.mean
        i = int(np.argmax(push))
        if push[i] > 0:
            why = (
                f"round {i:,}: its step times the curvature of the mean loss, {found.mean:.3g} ({found.known_by}), "
                f"times its {self.late[i]:,.4g} late gradients, is {together:g}"
            )
            yield Limit(together / float(push[i]), why)
        if self.noise is not None and (moved := float(np.linalg.norm(self.shape * self.noise))) > 0:
            why = f"the noise: over all rounds it moves the margin of a record by {self.noise_allowed:g}, as a standard deviation"
            yield Limit(self.noise_allowed / moved, why)
        yield from self.caps

    def factor(self) -> float:
        """Return the largest factor on the existing steps; inf if there is no limit."""
        largest = 1.0 if self.etas is None else float(self.etas.max())
        own = [limit.eta0 / largest for limit in self.caps]
        return min([*own, *(limit.eta0 for limit in replace(self, caps=()).limits())], default=math.inf)

    def chosen(self) -> ChosenSteps:
        """Return the steps, rounded to short numbers on the safe side.

        >>> known = Curvatures(record=2.0, mean=1.0, known_by="as an example")
        >>> AutoSteps(known, np.array([0, 100, 300]), late=np.array([0.0, 0.0])).chosen().steps
        DiminishingSteps(eta0=1.5, beta=0.0667, root=False, per='round')
        >>> AutoSteps(known, np.array([0, 100, 300]), late=np.array([80.0, 160.0])).chosen().steps.eta0
        0.0487
        """
        eta0, why = min(self.limits(), key=lambda limit: limit.eta0, default=Limit(math.nan, ""))
        beta = rounded(self.fall / float(self.sums[-1]), up=True)
        if not 0 < (eta0 := rounded(eta0)) < math.inf:
            raise UsageError('"auto" finds no step size here, because these numbers set no limit; write one')
        said = f'steps = "auto" became {{kind = "diminishing", eta0 = {eta0:g}, beta = {beta:g}}}. The limit on eta0 is {why}.'
        return ChosenSteps(DiminishingSteps(eta0, beta), said)


def rounded(x: float, up: bool = False) -> float:
    """Round to three figures, down unless ``up``.

    >>> rounded(0.0123456), rounded(0.0123456, up=True), rounded(1.5)
    (0.0123, 0.0124, 1.5)
    """
    if not 0 < x < math.inf:
        return x
    places = _FIGURES - 1 - math.floor(math.log10(x))
    if not -300 < places < 300:
        return x
    whole = x * 10.0**places
    kept = math.ceil(whole - 1e-9) if up else math.floor(whole + 1e-9)
    return float(f"{kept}e{-places}")
