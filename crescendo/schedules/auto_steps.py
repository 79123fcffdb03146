"""The rule behind ``steps = "auto"``: step sizes from curvatures, from how much of a round comes late, and from the noise.

    eta(t)  =  eta0 / (1 + fall t / T),     T gradients in the whole run

eta0 is the largest number that every limit allows:

- alone: eta0 times the curvature of one record has a limit, so that a single step does not overshoot for long;
- together: so has, in every round, eta times the curvature of the mean loss times the round's late gradients;
- noise: the noise of the whole run moves the margin w . x of a record by at most `NOISE`, as a standard deviation, or in
  regression by `NOISE_OF_RANGE` of the width of the labels' public range.

The limits and ``fall`` were measured: docs/auto_steps.md. Pure maths: who calls says what is known.
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
    """What eta times a curvature may be: ``alone`` for one record, ``together`` for the late gradients of a round."""

    alone: float
    together: float


MEASURED = Allowed(3.0, 3.9)  # of records that were looked at
BOUND = Allowed(3.0, 5.0)  # of a bound, which most records stay below
UNBOUNDED = Allowed(0.5, 1.0)  # where gradients grow with the error: there a step too long never comes back
BOUND_OF_NUMBERS = Allowed(1.0, 2.0)  # of a bound, in regression: a quadratic loss shrinks up to 2
NOISE = 2.0
NOISE_OF_RANGE = 0.5  # in regression: of the width of the range that labels have
FALL = 20.0  # the last step is a 21st of the first
FALL_WITH_NOISE = 3.0  # later rounds are larger, and so drown less in their noise
_FIGURES = 3


@dataclass(frozen=True)
class Curvatures:
    """``record``: of the loss of one record; ``mean``: of the mean loss, along its steepest direction, where the run ends.

    ``known_by`` says where the numbers come from, which decides how much is ``allowed``.
    """

    record: float
    mean: float
    known_by: str
    allowed: Allowed = MEASURED


class Limit(NamedTuple):
    """The largest eta0 that one of the limits allows, and why."""

    eta0: float
    why: str


@dataclass(frozen=True)
class ChosenSteps:
    """What "auto" became, and the sentence that says why."""

    steps: DiminishingSteps
    why: str


@dataclass(frozen=True, eq=False)
class AutoSteps:
    """A run as the rule sees it. ``sums`` are the prefix sums of its sizes; ``late`` the gradients of each round that a client
    cannot see while it computes, times what updates are multiplied by; ``noise`` the standard deviation that each round adds
    to a margin for a step of 1, and ``noise_allowed`` what all of it may be;
    ``caps`` further limits on the largest step, with their reasons.
    """

    curvatures: Curvatures
    sums: IntArray
    late: FloatArray
    noise: FloatArray | None = None
    caps: tuple[Limit, ...] = ()
    noise_allowed: float = NOISE
    etas: FloatArray | None = (
        None  # of steps that are there already; the limits are then on what they are multiplied by
    )

    @property
    def fall(self) -> float:
        return FALL if self.noise is None else FALL_WITH_NOISE

    @property
    def shape(self) -> FloatArray:
        """eta over eta0, at the start of each round."""
        if self.etas is not None:
            return self.etas
        return np.asarray(1.0 / (1.0 + self.fall * self.sums[:-1] / self.sums[-1]), dtype=np.float64)

    @property
    def length(self) -> float:
        """The sum of the step sizes over all gradients: how far the run goes, where a gradient is one long."""
        return self.factor() * float(self.shape @ np.diff(self.sums))

    def limits(self) -> Iterator[Limit]:
        """Every limit on eta0 that there is."""
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
                f"times the {self.late[i]:,.4g} gradients of it that come late, is {together:g}"
            )
            yield Limit(together / float(push[i]), why)
        if self.noise is not None and (moved := float(np.linalg.norm(self.shape * self.noise))) > 0:
            why = f"the noise: over all rounds it moves the margin of a record by {self.noise_allowed:g}, as a standard deviation"
            yield Limit(self.noise_allowed / moved, why)
        yield from self.caps

    def factor(self) -> float:
        """What the steps that are there already may be multiplied by; inf where nothing limits them."""
        largest = 1.0 if self.etas is None else float(self.etas.max())
        own = [limit.eta0 / largest for limit in self.caps]
        return min([*own, *(limit.eta0 for limit in replace(self, caps=()).limits())], default=math.inf)

    def chosen(self) -> ChosenSteps:
        """The steps, as numbers that read well: rounded to the safe side.

        >>> known = Curvatures(record=2.0, mean=1.0, known_by="as an example")
        >>> AutoSteps(known, np.array([0, 100, 300]), late=np.array([0.0, 0.0])).chosen().steps
        DiminishingSteps(eta0=1.5, beta=0.0667, root=False, per='round')
        >>> AutoSteps(known, np.array([0, 100, 300]), late=np.array([80.0, 160.0])).chosen().steps.eta0
        0.0487
        """
        eta0, why = min(self.limits(), key=lambda limit: limit.eta0, default=Limit(math.nan, ""))
        beta = rounded(self.fall / float(self.sums[-1]), up=True)
        if not 0 < (eta0 := rounded(eta0)) < math.inf:
            raise UsageError('there is no step size for "auto" here: these numbers limit nothing; write one')
        said = f'steps = "auto" became {{kind = "diminishing", eta0 = {eta0:g}, beta = {beta:g}}}. What limits eta0 is {why}.'
        return ChosenSteps(DiminishingSteps(eta0, beta), said)


def rounded(x: float, up: bool = False) -> float:
    """To three figures, down unless ``up``.

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
