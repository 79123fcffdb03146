"""A model that shows what it contains.

Its first K coordinates are a tally: slot (c, i, h) moves coordinate rho(c,i,h) by 1, so that the updates in a model can be read
off it. Three more coordinates move as real gradients do, by what the model is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crescendo.core.terms import Terms
from tests.objectives.bare import Bare
from tests.paper import Gradient, Vector, rho

REAL = 3


def first_model(labels: int, seed: int = 0) -> Vector:
    return np.append(np.zeros(labels), np.random.default_rng(seed).normal(size=REAL))


def step(assignment: Sequence[Sequence[int]], w: Vector, c: int, i: int, h: int) -> Vector:
    """The displacement of one slot: its mark in the tally, and a pull on the last three coordinates."""
    displacement = np.zeros_like(w)
    displacement[rho(assignment, c, i, h)] = 1.0
    pull = np.array([0.1 * c, 0.01 * i, 0.001 * h])
    displacement[-REAL:] = 0.1 * (w[-REAL:] * np.array([1.0, 0.5, 0.25]) - pull)
    return displacement


def contents(w: Vector) -> frozenset[int]:
    """The labels of the updates in a model; an AssertionError if one is in it more than once, or in part."""
    tally = w[:-REAL]
    assert np.isin(tally, [0.0, -1.0]).all(), f"an update is in a model more than once: {tally}"
    return frozenset(np.flatnonzero(tally).tolist())


class TallyStepper:
    """Runs the tally's slots and keeps a book of what every gradient's model contained."""

    def __init__(self, terms: Terms, client: int, assignment: Any, book: list[Gradient]) -> None:
        self.client, self.assignment, self.book = client, assignment, book
        self.rounds = {terms.before(i): i for i in range(terms.rounds)}
        self.w: Vector = np.zeros(0)

    def load(self, w: Any) -> None:
        self.w = np.array(w, dtype=np.float64)

    def advance(self, slots: Any, h0: int, h1: int) -> None:
        assert len(slots.etas) == len(slots.rows) and h1 <= len(slots.etas)
        for h in range(h0, h1):
            i = self.rounds[int(slots.etas[h]) - 1]  # the steps of `tests.core.strategies.Coded`
            self.book.append(Gradient(self.client, i, h, -1, contents(self.w)))
            self.w = self.w - step(self.assignment, self.w, self.client, i, h)

    def translate(self, by: Any) -> None:
        self.w = self.w + by

    def read(self) -> Vector:
        return self.w.copy()


class Tally(Bare):
    """The tally as an objective of one client."""

    def __init__(self, terms: Terms, client: int, assignment: Any, book: list[Gradient]) -> None:
        self.size = sum(map(len, assignment)) + REAL
        self._stepper = TallyStepper(terms, client, assignment, book)

    def initial(self, rng: np.random.Generator) -> Vector:
        return first_model(self.size - REAL)

    def stepper(self, data: Any) -> TallyStepper:
        return self._stepper
