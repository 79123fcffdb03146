"""``steps = "auto"`` of a run: from the curvature and the noise to step sizes.

In a private run, and on a network, the steps depend only on stated numbers: norm bound, clip, label range, noise,
sizes and l2. A simulation without privacy may look at its records.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.core.random import Purpose, stream
from crescendo.core.terms import Terms
from crescendo.data.records import Records
from crescendo.errors import ConfigError, UsageError
from crescendo.federation.schedule_terms import Schedule
from crescendo.objectives import mean_gradient
from crescendo.objectives.base import Objective
from crescendo.privacy.mechanisms.batch_clip import BatchClip
from crescendo.privacy.mechanisms.local import Local
from crescendo.privacy.mechanisms.mechanism_kinds import MECHANISMS
from crescendo.privacy.mechanisms.minibatch import Minibatch
from crescendo.schedules.auto_steps import (
    BOUND,
    BOUND_OF_NUMBERS,
    MEASURED,
    NOISE,
    NOISE_OF_RANGE,
    UNBOUNDED,
    AutoSteps,
    ChosenSteps,
    Curvatures,
    Limit,
)
from crescendo_dp.planning.sigmas import Sigmas

DRAFT = {"kind": "constant", "eta": 1.0}  # placeholder while sizes, shares and noise are settled
_MOST_ROWS = 5_000  # for measuring curvature; drawn at random, since evenly spaced rows may share a pattern
_FEWEST_ROWS, _MOST_NUMBERS = 500, 1_000_000  # fewer rows of wide records, which take longer
_MULTIPLICATIONS = 20  # of a vector, until it points along the steepest direction
_MORE = 10  # of a vector that pointed along it a little earlier
_GRADIENTS = 300  # at most, towards the end of a run; stopping early is safe, since the loss is more curved there
_NEAR = 0.98  # of the way there
_LEAST_SPREAD = 0.1  # lower bound for classes rarer than the measured ones
_SAFE = 0.999  # of a mechanism's own limit


@dataclass(frozen=True)
class PublicNoise:
    """The privacy settings of a run file, with the noise settled."""

    mechanism: str
    clip: Any
    sigma: Any
    norm_bound: float | None


def settled_steps(asked: Schedule, chosen: ChosenSteps) -> Schedule:
    """Return the schedule with numbers in place of "auto"."""
    return asked.with_steps({"kind": "diminishing", "eta0": chosen.steps.eta0, "beta": chosen.steps.beta})


def auto_steps(
    terms: Terms,
    objective: Objective,
    *,
    records: Records | None = None,
    classes: int = 0,
    noise: PublicNoise | None = None,
) -> ChosenSteps:
    """Return the steps that "auto" stands for under these terms, ignoring the terms' own steps.

    Pass ``records`` if the rule may look at them, with the number of their classes (0 for none); otherwise pass
    ``noise``.
    """
    return _rule(terms, objective, records, classes, noise).chosen()


def stable_factor(
    terms: Terms,
    objective: Objective,
    *,
    records: Records | None = None,
    classes: int = 0,
    noise: PublicNoise | None = None,
) -> float | None:
    """Return the largest factor on the terms' steps that still shrinks a quadratic loss; None if the curvature is
    unknown.

    Noise makes a run worse but not unstable, so it does not count here.
    """
    if objective.traits.smoothness is None or not terms.steps.falls:
        return None
    rule = _rule(terms, objective, records, classes, noise)
    etas = np.abs(np.asarray(terms.steps.at(rule.sums[:-1]), dtype=np.float64))
    strict = replace(rule.curvatures, allowed=UNBOUNDED)
    found = replace(rule, curvatures=strict, etas=etas, noise=None).factor() if etas.max() > 0 else math.inf
    return found if 0 < found < math.inf else None


def _rule(
    terms: Terms, objective: Objective, records: Records | None, classes: int, noise: PublicNoise | None
) -> AutoSteps:
    smoothness, some = smoothness_of(objective), None
    if noise is not None:
        known = _public(objective, smoothness, noise)
    elif records is not None:
        some = _drawn(records)
        known = _measured(objective, smoothness, records, classes, some)
    else:
        raise ConfigError(
            'schedule.steps = "auto" needs a bound on the length of records, and a server sees no records; state '
            'privacy.norm_bound with a mechanism, or write the steps, such as {kind = "diminishing", eta0 = 0.05, beta = 0.001}'
        )
    sums = terms.labels(0, terms.rounds)
    kind = None if noise is None else MECHANISMS[noise.mechanism]
    rule = AutoSteps(
        known,
        sums,
        _late(terms, np.diff(sums).astype(np.float64), kind),
        None if noise is None or kind is None or issubclass(kind, BatchClip) else _noise(terms, noise),
        tuple(_caps(terms, objective, noise, kind)),
        _noise_allowed(objective),
    )
    return rule if some is None else _at_the_end(rule, objective, some)


def smoothness_of(objective: Objective) -> Callable[[float], float]:
    """Return the objective's smoothness; raise ConfigError if it is unknown."""
    found = objective.traits.smoothness
    if found is None:
        raise refuse_unknown(objective.traits.name)
    return found


def refuse_unknown(name: str) -> ConfigError:
    """Return the error for an objective of unknown curvature."""
    short = name.rpartition("/")[2]
    return ConfigError(
        f'schedule.steps = "auto" needs an objective of known smoothness, such as logistic, and that of {short} is unknown; '
        'write the steps, such as {kind = "diminishing", eta0 = 0.05, beta = 0.001}, and try eta0 from 0.01 to 1'
    )


def _public(objective: Objective, smoothness: Callable[[float], float], noise: PublicNoise) -> Curvatures:
    """Return the curvatures implied by the norm bound R; without one, assume records of twice the clip C.

    A clip below R / 2 cuts the first gradients, and the curvature with them. In regression the clip has the unit of
    the labels: it gives no bound on lengths, and near its label a record has the same curvature with and without the
    clip.
    """
    if objective.traits.numbers:
        if noise.norm_bound is None:
            raise ConfigError(
                f'schedule.steps = "auto" needs privacy.norm_bound for {objective.traits.name}, whose clip does not bound the '
                "length of records; state one, such as the root of 1 + the number of columns if a schema scales each to 0..1"
            )
        most = smoothness(noise.norm_bound * noise.norm_bound)
        return Curvatures(most, most, "from the norm bound", BOUND_OF_NUMBERS)
    bound, known_by, cut = noise.norm_bound, "from the norm bound", 1.0
    by_record = MECHANISMS[noise.mechanism].clips_records and isinstance(noise.clip, int | float)
    if bound is None and not by_record:
        raise ConfigError(
            'schedule.steps = "auto" needs privacy.norm_bound here, since this clip does not apply to one record\'s gradient'
        )
    if bound is None:
        bound, known_by = 2.0 * float(noise.clip), "for records of twice the clip"
    elif by_record and 2 * noise.clip < bound:
        cut, known_by = 2 * float(noise.clip) / bound, "from the norm bound and the clip"
    curvature = smoothness(bound * bound) * cut
    return Curvatures(curvature, curvature, known_by, BOUND)


def _drawn(records: Records) -> Records:
    """Draw the records on which to measure the curvature of the mean loss."""
    most_rows = max(_FEWEST_ROWS, min(_MOST_ROWS, _MOST_NUMBERS // records.features))
    chosen = stream(0, Purpose.INIT, round=1).permutation(len(records))[:most_rows]
    return records.take(np.sort(chosen))


def _measured(
    objective: Objective, smoothness: Callable[[float], float], records: Records, classes: int, some: Records
) -> Curvatures:
    """Measure curvatures on the records: one record's at a model that predicts class shares, the mean loss's at most."""
    squares, l2 = records.squared_lengths(objective.traits.intercept), objective.traits.l2
    with np.errstate(over="ignore"):
        fourth = float(np.mean(squares * squares))
    if not math.isfinite(fourth):
        raise UsageError(
            f"the features go up to {float(abs(records.x).max()):.3g}, and powers of such numbers exceed the largest float; "
            "divide the features by a power of ten"
        )
    typical = fourth / max(float(np.mean(squares)), 1e-300)
    spread = class_spread(records.y) if classes > 1 else 1.0
    record, most = (smoothness(typical) - l2) * spread + l2, smoothness(steepest(some, objective.traits.intercept))
    return Curvatures(record, most if most < math.inf else 0.0, "measured", MEASURED if classes > 1 else UNBOUNDED)


def _at_the_end(rule: AutoSteps, objective: Objective, records: Records) -> AutoSteps:
    """Return the rule with the curvature of the mean loss at the point that gradient descent reaches by the run's end.

    A flatter loss there means larger steps and a longer way, so the descent continues until it has caught up.
    """
    most = rule.curvatures.mean
    if not (most > 0 and rule.late.any()):
        return rule
    w = objective.initial(stream(0, Purpose.INIT)).astype(np.float64)
    curvature, along = _steepest_at(objective, w, records, np.ones(len(w)), _MULTIPLICATIONS, most)
    gone, left = 0.0, _GRADIENTS
    while True:
        rule = replace(rule, curvatures=replace(rule.curvatures, mean=curvature))
        left -= 2 * _MORE
        if gone >= _NEAR * rule.length or left <= 0:
            return rule
        descents = min(math.ceil((rule.length - gone) * curvature), left)
        for _ in range(descents):
            w = w - mean_gradient(objective, w, records) / curvature
        gone, left = gone + descents / curvature, left - descents
        curvature, along = _steepest_at(objective, w, records, along, _MORE, most)


def _steepest_at(
    objective: Objective, w: Floats, records: Records, along: Floats, times: int, most: float
) -> tuple[float, Floats]:
    """Return the curvature of the mean loss along its steepest direction, and the direction, by power iteration from
    ``along``.

    ``most`` bounds the curvature. Differences of gradients replace the Hessian.
    """
    reach, found = 1e-5 * max(1.0, float(np.linalg.norm(w))), 0.0
    for _ in range(times):
        along = along * (reach / float(np.linalg.norm(along)))
        up, down = (mean_gradient(objective, w + side * along, records) for side in (1, -1))
        along = (up - down) / (2 * reach)
        found = float(np.linalg.norm(along))
        if not 0 < found < math.inf:
            return most, np.ones(len(w))
    return min(found, most), along


def class_spread(labels: Floats) -> float:
    """Return the loss's curvature at a model that predicts class shares f, relative to its maximum: 1 for two even
    classes.

    This is 2 times the largest eigenvalue of diag(f) - f f^T, or 4 f (1 - f) for two classes; at least 0.1.

    >>> class_spread(np.array([-1.0, 1.0])), round(class_spread(np.array([-1.0, -1.0, -1.0, 1.0])), 4)
    (1.0, 0.75)
    """
    counts = np.unique(labels, return_counts=True)[1]
    f = counts / counts.sum()
    return max(_LEAST_SPREAD, 2.0 * float(np.linalg.eigvalsh(np.diag(f) - np.outer(f, f))[-1]))


def steepest(records: Records, intercept: bool) -> float:
    """Return the largest eigenvalue of the mean of (x, 1) (x, 1)^T, by power iteration.

    >>> round(steepest(Records(np.array([[2.0, 0.0], [0.0, 1.0]]), np.zeros(2)), intercept=False), 6)
    2.0
    """
    x: Any = records.x
    along, last, size = np.ones(x.shape[1]), 1.0 if intercept else 0.0, 0.0
    for _ in range(_MULTIPLICATIONS):
        z = x @ along + last
        along, last = x.T @ z / len(records), float(z.mean()) if intercept else 0.0
        size = math.hypot(float(np.linalg.norm(along)), last)
        if not 0 < size < math.inf:
            return 0.0
        along, last = along / size, last / size
    return size


def _late(terms: Terms, sizes: Floats, kind: type[Any] | None) -> Floats:
    """Return, per round, the gradients that a client cannot see while it computes, times the factor on updates.

    These are the other clients' gradients and, under `minibatch`, its own, since all are taken at the round's start
    model. A mean of walks overshoots no further than one of them. A wait rule of more than one round makes more of
    them late.
    """
    n, ahead = terms.clients, 1 if terms.ahead is None else max(1, terms.ahead)
    rounds = (2 * ahead + 1) / 3
    if kind is not None and issubclass(kind, Minibatch):
        return sizes * terms.combined * terms.blocks * rounds
    return sizes * (0.0 if terms.combine == "mean" else (n - 1) / n * terms.blocks * rounds)


def _noise(terms: Terms, noise: PublicNoise) -> Floats:
    """Return the noise per round in the margin of a record of maximal length, for a step of 1: a sqrt(n) D C sigma R."""
    clip = float(noise.clip) if isinstance(noise.clip, int | float) else 0.0
    length = noise.norm_bound if noise.norm_bound is not None else 2.0 * clip
    sigma = Sigmas.of(noise.sigma)
    each = np.array([sigma(i) for i in range(terms.rounds)])
    return each * (terms.combined * math.sqrt(terms.clients) * terms.blocks * clip * length)


def _noise_allowed(objective: Objective) -> float:
    """Return how far noise may move a margin; in regression, margins have the unit of the labels, whose range is public."""
    stated = objective.traits.label_range
    return NOISE if stated is None else NOISE_OF_RANGE * (stated[1] - stated[0])


def _caps(terms: Terms, objective: Objective, noise: PublicNoise | None, kind: type[Any] | None) -> list[Limit]:
    """Return the limits on a step that the mechanism and L2 require."""
    traits, blocks, found = objective.traits, terms.blocks, list[Limit]()
    if traits.l2 > 0:
        found.append(Limit(_SAFE / (traits.l2 * blocks), "L2: eta0 times l2 is at most 1"))
    bounds = None if noise is None else noise.norm_bound
    if kind is not None and issubclass(kind, Local) and traits.margin is not None and noise is not None and bounds:
        smooth = float(traits.margin(bounds, float(noise.clip)))
        if smooth > 0:
            found.append(Limit(_SAFE * 2 / (smooth * blocks), "the local mechanism: eta0 is at most 2 / L_eff"))
    return found
