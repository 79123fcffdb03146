"""What a private mechanism requires of the terms: ranges and inequalities, each refused with the value that would pass."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from crescendo.core.terms import Terms
from crescendo.errors import Refused, UsageError
from crescendo.objectives.base import Objective
from crescendo.privacy.mechanisms.extremes import Extremes
from crescendo.privacy.mechanisms.sigmas import Sigmas

MOST_SIGMA = 1e6
_MOST_RECORDS = 10**12
LEAST, MOST = (
    1e-60,
    1e60,
)  # of every quantity that scales noise: products and squares stay far from where floats lose bits


@dataclass(frozen=True)
class Requirement:
    """One inequality that the certificate rests on, with both sides."""

    name: str
    left: float
    right: float
    holds: bool
    says: str


def require(mechanism: str, found: list[Requirement]) -> None:
    for condition in found:
        if not condition.holds:
            raise Refused(f"the {mechanism} mechanism cannot be certified: {condition.says}")


def check_numbers(
    terms: Terms,
    size: int,
    clip: float,
    sigma: Sigmas,
    records: tuple[int, ...],
    norm_bound: float | None,
    intercept: bool,
) -> None:
    if not terms.whole_rounds:
        raise UsageError("a private round uses one start model; make the terms with whole_rounds=True")
    for name, value in (("clip", clip), ("norm_bound", norm_bound)):
        if value is not None and not LEAST <= value <= MOST:
            raise UsageError(f"privacy.{name} must lie between {LEAST:g} and {MOST:g}, got {value:g}")
    if norm_bound is not None and intercept and norm_bound <= 1:
        raise UsageError(
            f"privacy.norm_bound is the length of (x, 1) and must be above 1, got {norm_bound:g}; 2 would pass"
        )
    if not all(0 < value < math.inf for value in sigma.values()):
        raise UsageError(f"privacy.sigma must be above 0, or no epsilon holds; got {sigma.least}")
    if not sigma.most <= MOST_SIGMA:
        raise UsageError(
            f"privacy.sigma must be at most 1e6, got {sigma.most:g}; so much noise leaves nothing to learn from"
        )
    if sigma.rounds is not None and sigma.rounds != terms.rounds:
        raise UsageError(
            f"privacy.sigma lists the noise of {sigma.rounds} rounds and the run has {terms.rounds}; give one for each"
        )
    if len(records) != terms.clients or min(records) < 1:
        raise UsageError(
            f"{terms.clients} clients have to declare how many records they have, each at least 1; got {records}"
        )
    if terms.blocks > size:
        raise UsageError(f"schedule.blocks must be at most the model's {size} numbers, not {terms.blocks}")
    if max(records) > _MOST_RECORDS:
        raise UsageError(f"a client declares {max(records)} records, and at most {_MOST_RECORDS} can be certified")


def steps_and_rates(
    mechanism: str,
    terms: Terms,
    objective: Objective,
    clip: float,
    records: tuple[int, ...],
    norm_bound: float | None,
    found: Extremes,
) -> list[Requirement]:
    """What the mechanism requires of rates and step sizes: all hold, or it is refused."""
    l2, met = objective.traits.l2, [_rates(terms, records, found), _step_sizes(terms, found)]
    require(mechanism, met)  # what follows computes with them
    if mechanism == "minibatch":
        met += [_one_step_a_round(terms), _shrink(terms, l2, found.step)]
    else:
        steps = _non_expansive(terms, objective, clip, norm_bound, found, l2)
        met += [steps, _shrink(terms, l2, found.step, steps.right)]
    require(mechanism, met)
    return met


def _rates(terms: Terms, records: tuple[int, ...], found: Extremes) -> Requirement:
    """Every rate is a probability."""
    rate, i, c = found.rate, found.round, found.client
    says = (
        f"round {i} has {terms.share(i, c)} slots for the {records[c]} records of client {c}, a rate of {rate:.4g}; "
        f"a rate is at most 1: at most {records[c]} slots would pass"
    )
    return Requirement("sampling rate", rate, 1.0, rate <= 1.0, says)


def _step_sizes(terms: Terms, found: Extremes) -> Requirement:
    """Every round of every client has a step that noise can be scaled by: not 0, and no float at the edge of its range."""
    least, most = float(np.min(found.least)) * terms.blocks, found.step * terms.blocks
    moves = least != math.inf
    holds = moves and least >= LEAST and most <= MOST and found.lowest >= 0
    says = (
        f"its step sizes reach from {min(least, found.lowest):.4g} to {most:.4g} (times the {terms.blocks} blocks), and noise is "
        f"scaled by them: "
        f"steps from {LEAST:g} to {MOST:g} would pass"
        if moves
        else "no client has a share in any round; larger rounds would pass"
    )
    return Requirement("step sizes", least, LEAST, holds, says)


def _shrink(terms: Terms, l2: float, largest: float, limit: float = math.inf) -> Requirement:
    """L2 shrinks the model: a factor outside 0..1 would enlarge it, and with it every rounding, until noise is lost in it.

    ``limit`` is what else bounds a step times its blocks, so that what is suggested passes there too.
    """
    step = largest * terms.blocks
    times = f" times {terms.blocks} blocks" if terms.blocks > 1 else ""
    return Requirement(
        "shrink",
        step * l2,
        1.0,
        0 <= step * l2 <= 1.0,
        f"the largest step size{times} times l2 is {step * l2:.6g} and must be at most 1; "
        + (
            f"eta = {printed(min(limit, 1 / l2) / terms.blocks)} would pass"
            if 1 / MOST < l2 < MOST
            else "an l2 between 0 and 1 over that step would pass"
        ),
    )


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


def _one_step_a_round(terms: Terms) -> Requirement:
    holds = terms.steps.per == "round" or terms.rounds == 0
    says = 'minibatch takes one step size per round, and these change within a round; schedule.steps.per = "round" would pass'
    return Requirement("one step size per round", float(not holds), 0.0, holds, says)


def _non_expansive(
    terms: Terms, objective: Objective, clip: float, norm_bound: float | None, found: Extremes, l2: float
) -> Requirement:
    """The condition of `local`: no step brings two models further apart."""
    bend = objective.traits.margin
    if bend is None:
        raise Refused(
            f"the local mechanism needs a convex loss of a scalar margin, such as logistic, and {objective.traits.name} does not "
            f"say that it is one; minibatch is certified for any model"
        )
    if norm_bound is None:
        raise Refused(
            "the local mechanism needs privacy.norm_bound, the largest length of (x, 1); records above it are scaled down"
        )
    if np.dtype(objective.dtype) != np.float64:
        raise Refused('the local mechanism accumulates in float64; objective.dtype = "float64" would pass')
    step, smooth = found.step * terms.blocks, float(bend(norm_bound, clip))
    if not 0 < smooth < math.inf:
        raise Refused(
            f"a clipped loss that is {smooth:g}-smooth tells nothing about steps; minibatch is certified for any model"
        )
    limit = 2.0 / smooth
    times = f" times {terms.blocks} blocks" if terms.blocks > 1 else ""
    return Requirement(
        "non-expansive steps",
        step,
        limit,
        step <= limit,
        f"the largest step size{times} is {step:.6g} and must be at most 2 / L_eff = {limit:.6g}; "
        f"eta = {printed(min(limit, 1 / l2 if l2 > 1 / MOST else math.inf) / terms.blocks)} would pass",
    )
