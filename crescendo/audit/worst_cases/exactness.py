"""Exact checks: noise whose rounding the first word leaves open, sums in any order, and the bounds of records.

Other parts of the audit compare with formulas up to an allowed rounding. Three parts of the proof allow none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from crescendo.audit.driving.lead import Faults
from crescendo.audit.driving.literal import public_grid
from crescendo.audit.driving.subject import Draw, Script, Subject
from crescendo.core.arrays import Floats, Ints, Uints
from crescendo.data.records import Records, as_records
from crescendo.privacy.mechanisms.admission import admitted, most_records
from crescendo.privacy.mechanisms.noise import Source

NOISE, SUMS, RECORDS = "public grid", "certified formula", "records admitted"
_TAILS = 6  # numbers whose bits are chosen
_FURTHER = 8  # words after the first
_BITS = 53 + 64 * _FURTHER
_DRAWN = 3
_NEAR, _NEAR_FLOAT32 = 1e-9, 1e-5
_LEAST_RATIO = 0.01  # of a unit, that a product with the step may leave of an exact sum


def probe_exactness(subject: Subject, rng: np.random.Generator, faults: Faults) -> None:
    """All three."""
    with faults.noting("noise that one word leaves open"):
        _noise(subject, rng, faults)
    with faults.noting("a sum in another order"):
        _sums(subject, rng, faults)
    with faults.noting("records of all kinds"):
        _records(subject, rng, faults)


# -- noise ---------------------------------------------------------------------------------------------------------------


class _Chosen:
    """A source that draws no record, and whose noise has these bits: a first word for each number, and further ones."""

    simulated = True

    def __init__(self, cells: list[int], signs: Ints) -> None:
        self._cells, self._signs = cells, signs

    def members(self, i: int, records: int, rate: float) -> Ints:
        return np.empty(0, np.int64)

    def tags(self, i: int, count: int) -> Floats:
        return np.empty(0)

    def words(self, i: int, size: int) -> Uints:
        first = [(cell >> 64 * _FURTHER) << 12 for cell in self._cells]
        return np.array(first, dtype=np.uint64) | self._signs.astype(np.uint64)

    def more(self, i: int, number: int) -> Iterator[int]:
        for word in reversed(range(_FURTHER)):
            yield (self._cells[number] >> 64 * word) & (2**64 - 1)


def _noise(subject: Subject, rng: np.random.Generator, faults: Faults) -> None:
    """An empty draw at the model 0 hides zeros, so that every number is its noise's nearest multiple of the grid, exactly.

    The bits are chosen next to the edge between two multiples: far enough that they decide, and only the last words do.
    """
    from mpmath import mp

    i, size = subject.rounds()[0], subject.objective.size
    scale, (low, high) = subject.scale(i), subject.certificate.terms.block(subject.rounds()[0], size)
    count = high - low
    g, signs = public_grid(scale), rng.integers(0, 2, count)
    with mp.workprec(_BITS + 100):

        def edge(m: int) -> int:
            """The uniform at which multiple m begins."""
            return int(mp.floor(mp.ncdf((mp.mpf(1) / 2 - m) * mp.mpf(g) / mp.mpf(scale)) * mp.mpf(2) ** _BITS))

        usual = max(1, round(scale / g))
        cells, due = [(edge(usual) + edge(usual + 1)) // 2] * count, [usual] * count
        for j in range(min(_TAILS, count)):
            m = max(1, round(float(rng.uniform(0.5, 6.0)) * scale / g))
            away = 1 << int(rng.integers(64, 64 * (_FURTHER - 1)))
            # a smaller uniform is a longer number
            cells[j], due[j] = (edge(m) - away, m) if rng.integers(2) else (edge(m) + away, m - 1)
    data = subject.plain_records(rng, 1)
    source: Source = _Chosen(cells, signs)
    one = replace(subject, wire="float64")
    sent = one.releases(data, np.arange(1), source, (i,), (np.zeros(size),))[0]
    exact = np.where(signs == 1, 1, -1) * np.array(due, dtype=np.float64) * g
    wrong = np.flatnonzero(np.abs(sent - exact) > 2.0**-40 * np.abs(exact))  # a mean is made and undone
    if len(wrong):
        j = int(wrong[0])
        faults.note(
            NOISE,
            f"noise next to the edge of a step of the grid is rounded to {sent[j] / g:.17g} steps, and not {exact[j] / g:g}",
        )


# -- sums ----------------------------------------------------------------------------------------------------------------


def _sums(subject: Subject, rng: np.random.Generator, faults: Faults) -> None:
    """The hidden sum of `minibatch` is the step times a multiple of the unit, and the same in any order."""
    certificate, size = subject.certificate, subject.objective.size
    if certificate.mechanism != "minibatch" or certificate.unit is None or certificate.terms.combined != 1:
        return
    i = subject.rounds()[0]
    quiet = replace(subject.without_noise(), wire="float64")
    data, start = subject.plain_records(rng, _DRAWN), (np.zeros(size),)
    members = np.arange(_DRAWN)
    tags = np.sort(rng.random(_DRAWN))
    sent = [
        quiet.releases(data, members, Script({i: Draw(order, tags)}), (i,), start)[0]
        for order in (members, members[::-1])
    ]
    if not np.array_equal(sent[0], sent[1]):
        faults.note(SUMS, f"round {i} is another one where the same records come in another order")
    step = float(certificate.terms.etas(i, subject.me)[0]) * certificate.terms.blocks
    units = sent[0] / step / certificate.unit
    rest = np.abs(units - np.rint(units))
    if (np.abs(units) < 2.0**44).all() and (rest > _LEAST_RATIO).any():
        faults.note(SUMS, f"round {i} hides {units[int(rest.argmax())]:.17g} units of its gradients, which are whole")


# -- records -------------------------------------------------------------------------------------------------------------


def _records(subject: Subject, rng: np.random.Generator, faults: Faults) -> None:
    """Which records are admitted, and as what: each by itself, dense and sparse, in both types of floats."""
    declared = subject.certificate.records[subject.me]
    if not declared <= most_records(declared) <= 2 * declared:
        faults.note(RECORDS, f"a client may have {most_records(declared)} records where {declared} are declared")
    bound, intercept = subject.certificate.norm_bound, subject.objective.traits.intercept
    labels = subject.labels
    for kind in (np.float64, np.float32):
        x, y = _hard(bound or 3.0, labels, 5, rng)
        for data in (as_records(x.astype(kind), y), _sparse(x.astype(kind), y)):
            many, sound = admitted(data, bound, intercept, labels)
            _judged(data, many, sound, bound, intercept, labels, faults)
            for k in range(0, len(y), 5):
                alone, its = admitted(data.take(np.array([k])), bound, intercept, labels)
                if its[0] != sound[k] or (sound[k] and not np.array_equal(_rows(alone)[0], _rows(many)[k])):
                    faults.note(RECORDS, "what becomes of a record depends on which others are there")


def _hard(bound: float, labels: tuple[float, ...], width: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    x = rng.normal(size=(40, width))
    x *= (bound * 10 ** rng.uniform(-3, 3, 40) / np.linalg.norm(x, axis=1))[:, None]
    x[rng.random(x.shape) < 0.3] = 0.0
    x[0], x[1], x[2, 0], x[3, 1], x[4, 2] = 0.0, 1e30, np.nan, np.inf, -np.inf
    y = np.asarray(rng.choice(labels, len(x)), dtype=np.float64)
    y[5], y[6], y[7] = np.nan, np.inf, max(labels) + 0.5
    return x, y


def _sparse(x: Floats, y: Floats) -> Records:
    from scipy.sparse import csr_array

    return as_records(csr_array(x), y)


def _rows(data: Records) -> Floats:
    return np.asarray(data.x if isinstance(data.x, np.ndarray) else data.x.toarray(), dtype=np.float64)


def _judged(
    before: Records,
    after: Records,
    sound: np.ndarray[tuple[int], np.dtype[np.bool_]],
    bound: float | None,
    intercept: bool,
    labels: tuple[float, ...],
    faults: Faults,
) -> None:
    x, y, made = _rows(before), np.asarray(before.y, dtype=np.float64), _rows(after)
    near = _NEAR if before.x.dtype == np.float64 else _NEAR_FLOAT32
    for k in range(len(y)):
        fine = all(math.isfinite(value) for value in x[k]) and float(y[k]) in labels
        if bool(sound[k]) != fine:
            faults.note(RECORDS, f"record {x[k].tolist()} with label {y[k]:g} is {'not ' if fine else ''}admitted")
        if not fine:
            continue
        longest = math.inf if bound is None else math.sqrt(bound**2 - 1) if intercept else bound
        length = math.hypot(*x[k])
        due = x[k] * min(1.0, longest / length) if length else x[k]
        if bound is not None and math.hypot(*made[k], float(intercept)) > bound:
            faults.note(RECORDS, f"a record is longer than the bound of {bound:g} by rounding, or by more")
        if not np.allclose(made[k], due, rtol=near, atol=0.0) or (
            length < longest * (1 - near) and (made[k] != x[k]).any()
        ):
            faults.note(
                RECORDS, f"a record of length {length:g} has length {math.hypot(*made[k]):g} where the bound is {bound}"
            )
