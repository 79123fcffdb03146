"""Reference releases, computed slowly and literally from the certified mechanism's definition.

The audit compares the mechanisms with this code, which shares none with them. It asks the objective for one gradient per record,
of that record alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np

from crescendo.core.arrays import Array, Floats, Ints, Uints
from crescendo.data.records import Records, as_records
from crescendo.objectives.base import Objective, Slots
from crescendo.privacy.mechanisms.certificate import Certificate

_ONE = np.zeros(1, dtype=np.int64)
_ALONE: WeakKeyDictionary[Records, dict[int, Records]] = WeakKeyDictionary()
_U = 2.0**-53
_DIGITS = 60


@dataclass(frozen=True, eq=False)
class Displacement:
    """``hidden`` depends on records and gets the noise; ``public`` follows from the start model and is added to it.

    ``rounding`` is a proved bound on how far the public part in float64 may be from ``public``.
    """

    hidden: Floats
    public: Floats
    rounding: float = 0.0

    def cut(self, grid: float) -> Displacement:
        """As noise is added to it: no number is beyond 2^50 multiples of the grid. A draw beyond the certified sizes can be."""
        return replace(self, hidden=np.clip(self.hidden, -(2.0**50) * grid, 2.0**50 * grid))

    @classmethod
    def of(
        cls, certificate: Certificate, me: int, data: Records, start: Floats, i: int, members: Ints, tags: Floats
    ) -> Displacement:
        """Round i of client ``me`` from ``start``, with these records drawn and these tags; of the coordinates that move."""
        terms, objective = certificate.terms, certificate.objective
        low, high = terms.block(i, len(start))
        etas, l2 = terms.etas(i, me) * terms.blocks, objective.traits.l2
        order = np.argsort(tags, kind="stable")
        slot = np.minimum(np.floor(tags[order] * len(etas)), len(etas) - 1).astype(np.int64)
        nothing = np.zeros(high - low)
        if certificate.mechanism == "minibatch":
            hidden = nothing.copy()
            for k in members[order]:
                hidden += etas[0] * _clipped(objective, start, data, int(k), _limits(certificate))[low:high]
            return cls(hidden, *_shrunk(start[low:high], float(etas[0]), l2, len(etas)))
        if certificate.mechanism == "batch-clip":
            return cls(_whole(certificate, data.take(members[order]), slot, start, i, me), nothing)
        w, at = start.copy(), 0
        for h in range(len(etas)):
            w[low:high] *= 1 - etas[h] * l2
            while at < len(slot) and slot[at] == h:
                w[low:high] -= (
                    etas[h] * _clipped(objective, w, data, int(members[order[at]]), _limits(certificate))[low:high]
                )
                at += 1
        return cls(start[low:high] - w[low:high], nothing)


def _whole(certificate: Certificate, drawn: Records, slot: Ints, start: Floats, i: int, me: int) -> Floats:
    """Return the displacement by the objective's steps on these records, cut to the clip; 0 if they fail."""
    terms, (low, high) = certificate.terms, certificate.terms.block(i, len(start))
    etas = terms.etas(i, me)
    ends = np.cumsum(np.bincount(slot, minlength=len(etas)))  # how many records are in slot h or before
    slots = Slots(np.arange(len(slot)), etas, ends, terms.moving(i, len(start)), float(terms.blocks))
    try:
        stepper = certificate.objective.stepper(drawn)
        stepper.load(start.copy())
        stepper.advance(slots, 0, len(slots))
        moved = (start - stepper.read())[low:high]
    except Exception:
        return np.zeros(high - low)
    if not np.isfinite(moved).all():
        return np.zeros(high - low)
    return _cut(moved, certificate.clip)


def _cut(vector: Floats, limit: float) -> Floats:
    """A vector of at most this length. Numbers of any size: squares are taken where they neither overflow nor vanish.

    >>> _cut(np.array([3e200, 4e200]), 5.0), _cut(np.array([1e308] * 4), 2.0), _cut(np.array([0.0, 1e-300]), 1.0)
    (array([3., 4.]), array([1., 1., 1., 1.]), array([0.e+000, 1.e-300]))
    """
    exponent = int(np.frexp(np.abs(vector).max(initial=0.0))[1])
    scaled = np.ldexp(vector, -exponent)
    length = math.hypot(*scaled) if len(scaled) < 1000 else float(np.linalg.norm(scaled))
    with np.errstate(over="ignore"):
        return vector if np.ldexp(length, exponent) <= limit else scaled * (limit / length)


def _limits(certificate: Certificate) -> list[tuple[int, float]]:
    """How many numbers each layer of a gradient has, and how long it may be; all are one layer where there is one clip."""
    return (
        [(certificate.objective.size, certificate.clip)] if certificate.layers is None else [*certificate.layers.layers]
    )


def _clipped(objective: Objective, w: Floats, data: Records, k: int, limits: list[tuple[int, float]]) -> Floats:
    """One record's gradient, no layer longer than its limit; 0 if it cannot be computed or is not finite."""
    try:
        gradient = np.array(objective.gradient(w.copy(), _alone(objective, data, k), _ONE), dtype=np.float64)
    except Exception:
        return np.zeros_like(w)
    if gradient.shape != w.shape or not np.isfinite(gradient).all():
        return np.zeros_like(w)
    first = 0
    for numbers, limit in limits:
        gradient[first : first + numbers] = _cut(gradient[first : first + numbers], limit)
        first += numbers
    return gradient


def _alone(objective: Objective, data: Records, k: int) -> Records:
    """Record k and no other. The project's own code is shown one object again; a user's may write into what it is shown."""
    if not objective.traits.clips:
        return data.take(np.array([k]))
    known = _ALONE.setdefault(data, {})
    if k not in known:
        known[k] = data.take(np.array([k]))
    return known[k]


def _shrunk(start: Floats, step: float, l2: float, slots: int) -> tuple[Floats, float]:
    """How far that many shrinks by 1 - step l2 move a model, and how far off float64 may be about it.

    With u = 2^-53, the product and the difference are off by 2 u together, which the power multiplies by the slots; the power,
    the difference from 1 and the product with the model add 2 u, 2 u and 2 u of what is kept or moved. All that is in proportion
    to the model and not to the move: a model of 1e9 that is moved by 1e3 rounds the move at its tenth digit.
    """
    kept = _kept(step, l2, slots)
    error = (2 * slots + 6) * _U * max(1.0, abs(kept[0])) * float(np.abs(start).max(initial=0.0))
    return start * kept[1], error


@lru_cache(maxsize=4096)
def _kept(step: float, l2: float, slots: int) -> tuple[float, float]:
    """(1 - step l2)^slots and 1 less that, each computed to 60 digits and rounded once.

    >>> _kept(0.5, 2.0**-40, 2)[1] == 2.0**-40 * (1 - 2.0**-42), _kept(1.0, 1e-20, 1)
    (True, (1.0, 1e-20))
    """
    with localcontext(Context(prec=_DIGITS, traps=[])):
        kept = (1 - Decimal(step) * Decimal(l2)) ** slots
        return float(kept), float(1 - kept)


def bounded(certificate: Certificate, data: Records) -> Records:
    """Records whose (x, 1) is longer than the bound keep their direction and get shorter; x alone, without an intercept."""
    if certificate.norm_bound is None:
        return data
    one = float(certificate.objective.traits.intercept)
    longest = math.sqrt(max(certificate.norm_bound**2 - one, 0.0))
    x = np.array(data.x, dtype=np.float64)
    for row in x:
        length = float(np.linalg.norm(row))
        if length > longest:
            row *= longest / length
    return as_records(x, data.y)


def shortened(model: Floats, bound: float) -> Floats:
    """A start model of at most the certified length, to the last bit as a client has it: gradients are taken there."""
    length = float(np.linalg.norm(model))
    if length <= bound:
        return model
    if length == np.inf:  # only its square is too large
        model = model / np.abs(model).max()
        length = float(np.linalg.norm(model))
    return model * (bound / length)


def normal_numbers(words: Uints) -> tuple[Floats, Floats]:
    """The normal numbers that first words stand for, and how far further words can move each.

    A word says in which of 2^52 cells of the lower half of the uniforms a number lies, and on which side of 0. The cell at 0 has
    no end: its numbers are beyond 8.2.
    """
    from scipy.special import ndtri

    cells = (words >> np.uint64(12)).astype(np.float64)
    lower = ndtri((cells + 0.5) * 2.0**-53)
    spread = np.where(cells > 0, 0.64 / np.maximum(cells, 1) - 2.0**-44 * lower, 40.0)
    return np.where(words & np.uint64(1), -lower, lower), spread


def public_grid(scale: float) -> float:
    """2^(floor(log2 scale) - 20): what every number with noise of this scale is a multiple of."""
    return math.ldexp(1.0, math.frexp(scale)[1] - 21)


class Mirror:
    """The start model of a client's next round, from its updates and the broadcasts alone."""

    def __init__(self, certificate: Certificate, model: Floats) -> None:
        self._terms, self._bound = certificate.terms, certificate.model_bound
        self._base, self.below = np.array(model, dtype=np.float64), 0
        self._sent: dict[int, Floats] = {}

    def told(self, model: Floats, below: int) -> None:
        """A broadcast that has all of this client's rounds below ``below``."""
        self._base, self.below = np.array(model, dtype=np.float64), below
        self._sent = {i: delta for i, delta in self._sent.items() if i >= below}

    def sends(self, i: int, delta: Array) -> None:
        self._sent[i] = np.asarray(delta, dtype=np.float64)

    def view(self) -> Floats:
        """The newest model less this client's updates that are not in it; where clients wait for each other, that model alone."""
        view = self._base.copy()
        if self._terms.ahead == 0:
            return view
        for i, delta in sorted(self._sent.items()):
            low, high = self._terms.block(i, len(view))
            view[low:high] -= delta
        return view

    def start(self) -> Floats:
        return shortened(self.view(), self._bound)
