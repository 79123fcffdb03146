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

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from crescendo.core.random import Purpose, stream
from crescendo.core.setup import Terms
from crescendo.errors import Refused, UsageError
from crescendo.privacy.events import PoissonGaussian
from crescendo.privacy.extremes import Extremes, extremes
from crescendo.privacy.reach import SHORTENED, reach, rounded_up

MOST_SLACK = 1e-3  # rounding may enlarge what a record changes by this share, and the noise is enlarged along with it
MOST_SIGMA = 1e6
UNIT = 2.0**-53


@dataclass(frozen=True)
class Condition:
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

    mechanism: Literal["minibatch", "local"]
    terms: Terms
    objective: Any
    clip: float
    sigma: float
    records: tuple[int, ...]
    norm_bound: float | None
    conditions: tuple[Condition, ...]
    slack: float
    model_bound: float  # the longest start model, for which ``slack`` is computed; a client shortens a longer one to it
    adjacency: str = "add or remove one record of one client"
    sampling: str = "Poisson: every record independently, with the public rate s_ic / N_c"

    def rate(self, i: int, c: int) -> float:
        """q_i: the probability of every record of client c to be in round i."""
        return self.terms.share(i, c) / self.records[c]

    def sensitivity(self, i: int, c: int) -> float:
        """The most that one record can move what client c sends in round i, rounding included."""
        return largest_step(self.terms, i, c) * self.terms.blocks * self.clip * (1 + self.slack)

    def noise_scale(self, i: int, c: int) -> float:
        """The standard deviation of the noise on every coordinate of round i's release."""
        return self.sigma * self.sensitivity(i, c)

    def event(self, i: int, c: int) -> PoissonGaussian | None:
        """What round i costs client c; None for a round without a share, in which it sends nothing."""
        return PoissonGaussian(self.rate(i, c), self.sigma) if self.terms.share(i, c) else None

    def events(self, c: int) -> list[PoissonGaussian]:
        """What the whole run costs client c."""
        return [event for i in range(self.terms.rounds) if (event := self.event(i, c)) is not None]


def largest_step(terms: Terms, i: int, c: int) -> float:
    """The largest step size of client c in round i, whatever its sign; 0 without a share."""
    return float(np.max(np.abs(terms.etas(i, c)), initial=0.0))


def certify(
    mechanism: str,
    terms: Terms,
    objective: Any,
    *,
    clip: float,
    sigma: float,
    records: tuple[int, ...],
    norm_bound: float | None = None,
) -> Certificate:
    """The certificate of a mechanism under these terms, or Refused."""
    if mechanism not in ("minibatch", "local"):
        raise UsageError(f"there is no certified mechanism {mechanism!r}; choose minibatch or local")
    _check_numbers(terms, clip, sigma, records)
    reached = extremes(terms, records)
    found = [_rates(terms, records, reached)]
    if mechanism == "minibatch":
        found.append(_one_step_a_round(terms))
    else:
        found += _non_expansive(terms, objective, clip, norm_bound, reached.step)
    rounding, bound = _rounding(mechanism, terms, objective, clip, sigma, records, reached)
    found.append(rounding)
    for condition in found:
        if not condition.holds:
            raise Refused(f"the {mechanism} mechanism cannot be certified: {condition.says}")
    kind: Literal["minibatch", "local"] = "minibatch" if mechanism == "minibatch" else "local"
    return Certificate(kind, terms, objective, clip, sigma, records, norm_bound, tuple(found), rounding.left, bound)


def _check_numbers(terms: Terms, clip: float, sigma: float, records: tuple[int, ...]) -> None:
    if not terms.whole_rounds:
        raise UsageError("a private round uses one start model; make the terms with whole_rounds=True")
    if not (0 < clip < math.inf):
        raise UsageError(f"privacy.clip must be above 0, got {clip}")
    if not (0 < sigma < math.inf):
        raise UsageError(f"privacy.sigma must be above 0, or no epsilon holds; got {sigma}")
    if sigma > MOST_SIGMA:
        raise UsageError(
            f"privacy.sigma must be at most 1e6, got {sigma:g}; so much noise leaves nothing to learn from"
        )
    if len(records) != terms.clients or min(records) < 1:
        raise UsageError(
            f"{terms.clients} clients have to declare how many records they have, each at least 1; got {records}"
        )


def _rates(terms: Terms, records: tuple[int, ...], found: Extremes) -> Condition:
    """Every rate is a probability."""
    rate, i, c = found.rate, found.round, found.client
    says = (
        f"round {i} has {terms.share(i, c)} slots for the {records[c]} records of client {c}, a rate of {rate:.4g}; "
        f"a rate is at most 1: at most {records[c]} slots would pass"
    )
    return Condition("sampling rate", rate, 1.0, rate <= 1.0, says)


def _one_step_a_round(terms: Terms) -> Condition:
    holds = terms.steps.per == "round" or terms.rounds == 0
    says = 'minibatch takes one step size per round, and these change within a round; schedule.steps.per = "round" would pass'
    return Condition("one step size per round", float(not holds), 0.0, holds, says)


def _non_expansive(
    terms: Terms, objective: Any, clip: float, norm_bound: float | None, largest: float
) -> list[Condition]:
    """The conditions of `local`."""
    bend = getattr(objective, "clipped_smoothness", None)
    if bend is None:
        name = getattr(objective, "name", type(objective).__name__)
        raise Refused(
            f"the local mechanism needs a convex loss of a scalar margin, such as logistic, and {name} does not say that it is "
            f"one; minibatch is certified for any model"
        )
    if norm_bound is None or not 0 < norm_bound < math.inf:
        raise Refused(
            "the local mechanism needs privacy.norm_bound, the largest length of (x, 1); records above it are scaled down"
        )
    if getattr(objective, "intercept", False) and norm_bound <= 1:
        raise Refused(f"privacy.norm_bound is the length of (x, 1) and must be above 1, got {norm_bound}; 2 would pass")
    if np.dtype(objective.dtype) != np.float64:
        raise Refused('the local mechanism accumulates in float64; objective.dtype = "float64" would pass')
    factor, l2 = terms.blocks, float(getattr(objective, "l2", 0.0))
    step = largest * factor
    limit = 2.0 / bend(norm_bound, clip)
    times = f" times {factor} blocks" if factor > 1 else ""
    found = [
        Condition(
            "non-expansive steps",
            step,
            limit,
            step <= limit,
            f"the largest step size{times} is {step:.6g} and must be at most 2 / L_eff = {limit:.6g}; "
            f"eta = {limit / factor:.6g} would pass",
        )
    ]
    if l2 > 0:
        found.append(
            Condition(
                "shrink",
                step * l2,
                1.0,
                step * l2 <= 1.0,
                f"the largest step size{times} times l2 is {step * l2:.6g} and must be at most 1; "
                f"eta = {1 / l2 / factor:.6g} would pass",
            )
        )
    return found


def _rounding(
    mechanism: str,
    terms: Terms,
    objective: Any,
    clip: float,
    sigma: float,
    records: tuple[int, ...],
    found: Extremes,
) -> tuple[Condition, float]:
    """The slack for start models up to a bound, and that bound: what the run reaches, or as much as rounding allows.

    It must leave room for what the noise alone reaches, or clients would shorten their start models all the time.
    """
    size, first = objective.size, _first_length(objective, terms.seed)
    least, most = reach(terms, size, float(getattr(objective, "l2", 0.0)), clip, sigma, first)
    least, most = rounded_up(least), rounded_up(most)

    def slack_at(bound: float) -> float:
        return rounding_slack(mechanism, size, terms.blocks, clip, records, SHORTENED * bound, found)

    allowed = _widest(slack_at, most)
    bound = max(least, allowed)
    slack = slack_at(bound)
    says = (
        f"rounding enlarges what a record changes by at most {slack:.2g} of it for models of length {bound:.3g}, which the noise "
        f"alone reaches, and {MOST_SLACK:g} is allowed; "
    )
    less = 0.9 * sigma * (allowed - first) / (least - first) if least > first else 0.0  # lengths are rounded up
    passes = f"sigma = {less:.3g}, larger steps" if less > 0 else "larger steps"
    return Condition(
        "rounding", slack, MOST_SLACK, slack <= MOST_SLACK, f"{says}{passes} or fewer records per client would pass"
    ), bound


def _first_length(objective: Any, seed: int) -> float:
    """The length of the first model; of a model that is only described, what the description says."""
    said = getattr(objective, "first_length", None)
    return float(np.linalg.norm(objective.initial(stream(seed, Purpose.INIT)))) if said is None else float(said)


def _widest(slack: Callable[[float], float], most: float) -> float:
    """The largest length up to ``most`` at which the slack is allowed; 0 for none."""
    if slack(most) <= MOST_SLACK:
        return most
    low, high = 0.0, most
    while high - low > 0.01 * high and high > 1e-9 * most:
        middle = (low + high) / 2
        low, high = (middle, high) if slack(middle) <= MOST_SLACK else (low, middle)
    return low


def rounding_slack(
    mechanism: str, size: int, blocks: int, clip: float, records: tuple[int, ...], model_bound: float, found: Extremes
) -> float:
    """How much float64 rounding can enlarge what one record changes, as a share of the exact bound.

    u = 2^-53, d = ``size``, and m is twice the declared records, in case there are more. A clipped gradient is longer than C by
    at most (d + 8) u of it. `minibatch`: a sum of m terms of length C is off by at most m u (m C), on either side of the
    comparison. `local`: each of the m steps and s shrinks rounds a margin of d terms and every coordinate of a model of length at
    most W = ``model_bound`` + m eta C, and non-expansive steps enlarge none of it: (2 d + 8) (m + s) u W, on either side. The
    displacement itself is rounded once more. All this weighs most with the least step and the most slots, so each client's
    extremes are taken together, be they of different rounds.
    """
    moves = np.isfinite(found.least)
    eta, drawn = found.least[moves] * blocks, 2.0 * np.asarray(records, dtype=np.float64)[moves]
    lengths = (model_bound + drawn * eta * clip) / (eta * clip)
    own = 2.0 * drawn**2 if mechanism == "minibatch" else 2.0 * (2 * size + 8) * (drawn + found.slots[moves]) * lengths
    return float(np.max((own + 4.0 * lengths + (size + 8)) * UNIT, initial=0.0))
