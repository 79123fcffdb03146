"""Check of Paper [thmalg] on a recorded run: every gradient's model must hold all the updates that it requires.

Gradients are ordered by labels. The (h+1)-th gradient of client c in round i has the label

    t  =  rho(c, i, h)  =  s_0 + .. + s_{i-1}  +  the place of c's (h+1)-th entry in the assignment of round i

and its model must hold all updates labelled 0 .. t - tau(t) - 1. Under the rule of rounds it must hold every update
of the rounds below i - d. Pairs that were declared absent or void are excluded from the check, and listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from crescendo.core.arrays import Array
from crescendo.core.terms import Terms
from crescendo.errors import CrescendoError
from crescendo.simulator.trace import TABLES, Trace

_KEPT = 64  # cached assignments of rounds


class Inconsistent(CrescendoError):
    """A recorded gradient was computed on a model that lacked updates which Paper [thmalg] requires."""


@dataclass(frozen=True)
class Violation:
    """Client ``client`` computed the gradient ``label`` of ``round`` without the update labelled ``lacks`` (by ``of``)."""

    label: int
    client: int
    round: int
    lacks: int
    of: int

    def __str__(self) -> str:
        return (
            f"the gradient labelled {self.label} (client {self.client}, round {self.round}) was computed without the update "
            f"labelled {self.lacks} (client {self.of}), which the delay bound requires"
        )


@dataclass(frozen=True)
class Consistency:
    """The result of the check. ``delay`` is the largest delay, of the gradient ``label``, whose bound is ``allowed``.

    A gradient's delay is t minus the lowest label that its model lacks: the least tau(t) that it is consistent with.
    ``wrong`` counts the gradients that break the bound, and ``first`` is the first of them on record. ``excluded`` has
    pairs (round, client).
    """

    gradients: int
    delay: int
    label: int
    allowed: float
    wrong: int
    first: Violation | None
    excluded: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, trace: Trace, terms: Terms) -> Consistency:
        missing, assignments = list(_first_missing(terms, trace)), dict[int, Array]()
        checked, wrong, first, worst = 0, 0, None, (0, 0, 0)
        for c, i, begin, end, basis in _segments(trace):
            if i not in assignments:
                assignments = {} if len(assignments) >= _KEPT else assignments
                assignments[i] = terms.assignment(i)
            labels = terms.before(i) + np.flatnonzero(assignments[i] == c)[begin:end]
            if not len(labels):
                continue
            lacks, of = missing[basis + 1].for_client(c)
            broken = labels[_required(terms, i, labels) > lacks]
            if len(broken) and first is None:
                first = Violation(int(broken[0]), c, i, int(lacks), of)
            checked, wrong = checked + len(labels), wrong + len(broken)
            last = int(labels[-1])
            worst = max(worst, (max(0, last - int(lacks)) if lacks < math.inf else 0, last, i))
        delay, label, round = worst
        allowed = label - float(_required(terms, round, np.array([label]))[0])
        excluded = trace.tables["excluded"]
        pairs = tuple(sorted(zip(excluded["round"].tolist(), excluded["client"].tolist(), strict=True)))
        return cls(checked, delay, label, allowed, wrong, first, pairs)


def check(trace: Trace, terms: Terms) -> int:
    """Return the number of checked gradients; raise `Inconsistent` for the first one that breaks the bound."""
    found = Consistency.of(trace, terms)
    if found.first is not None:
        raise Inconsistent(str(found.first))
    return found.gradients


def _segments(trace: Trace) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the client, round, first slot, end slot and basis of every stretch of gradients on one model."""
    segments = trace.tables["segments"]
    return zip(*(segments[name].tolist() for name in TABLES["segments"][:5]), strict=True)


def _required(terms: Terms, i: int, labels: Array) -> Array:
    """Return, per gradient, the number of leading labels that its model must hold."""
    if terms.tau is None:
        assert terms.ahead is not None
        return np.full(len(labels), terms.before(max(0, i - terms.ahead)))
    required: Array = np.ceil(labels - np.asarray(terms.tau(labels), dtype=np.float64))
    return required


@dataclass(frozen=True)
class _Missing:
    """The lowest label that a model lacks, its owner, and the lowest such label of any other client."""

    lowest: float
    owner: int
    of_others: float
    other: int

    def for_client(self, c: int) -> tuple[float, int]:
        """Return the lowest label missing for client c, whose model always holds its own updates."""
        return (self.of_others, self.other) if c == self.owner else (self.lowest, self.owner)


def _first_missing(terms: Terms, trace: Trace) -> Iterator[_Missing]:
    """Yield the lowest missing labels of the first model, and then of each broadcast."""
    updates, broadcasts = trace.tables["updates"], trace.tables["broadcasts"]
    pairs = list(zip(updates["round"].tolist(), updates["client"].tolist(), strict=True))
    excluded = trace.tables["excluded"]
    held = set(zip(excluded["round"].tolist(), excluded["client"].tolist(), strict=True))
    taken = full = 0  # every pair of the rounds below ``full`` is held
    for applied in [0, *broadcasts["applied"].tolist()]:
        held.update(pairs[taken:applied])
        taken = applied
        while full < terms.rounds and not _lacking(terms, full, held):
            full += 1
        yield _lowest_missing(terms, full, held)


def _lowest_missing(terms: Terms, full: int, held: set[tuple[int, int]]) -> _Missing:
    lowest, owner = math.inf, -1
    for i in range(full, terms.rounds):
        for label, c in _lacking(terms, i, held):
            if owner < 0:
                lowest, owner = label, c
            elif c != owner:
                return _Missing(lowest, owner, label, c)
    return _Missing(lowest, owner, math.inf, -1)


def _lacking(terms: Terms, i: int, held: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the missing pairs of round i as (label of the client's first gradient, client), lowest label first."""
    owners, positions = _first_entries(terms, i)
    return sorted((terms.before(i) + at, c) for c, at in zip(owners, positions, strict=True) if (i, c) not in held)


@lru_cache(maxsize=256)
def _first_entries(terms: Terms, i: int) -> tuple[list[int], list[int]]:
    """Return the clients with a share in round i, and the position of each one's first entry in the assignment."""
    owners, positions = np.unique(terms.assignment(i), return_index=True)
    return owners.tolist(), positions.tolist()
