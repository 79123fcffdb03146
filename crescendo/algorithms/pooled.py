"""Plain SGD on pooled data: one machine with all records, as fast as all clients together, without messages.

It is not a federated algorithm but an upper reference: no update is stale, no client waits, and the records are not
split. A step draws a record of client c with probability p_c / N_c, so it minimises the same sum p_c F_c.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.core.random import Purpose, aim
from crescendo.core.terms import Terms
from crescendo.objectives.base import Slots
from crescendo.privacy.mechanisms.mechanism import Plain
from crescendo.simulator.timing import FASTEST, Timing

if TYPE_CHECKING:
    from crescendo.algorithms.rival_terms import EqualTerms


def pooled_terms(terms: EqualTerms) -> Terms:
    """Return the same rounds for one client with all their slots."""
    agreed = {field.name: getattr(terms, field.name) for field in dataclasses.fields(terms) if field.init}
    return type(terms)(**{**agreed, "weights": (1.0,)})


def pooled_timing(timing: Timing) -> Timing:
    """Return the timing of one client as fast as all together, with no latency."""
    return Timing(speeds=(min(sum(timing.speeds), FASTEST),), starts=(0.0,))


class PooledRecords(Plain):
    """Draws from all records: row r with probability ``weights[r]``, uniformly for None."""

    def __init__(self, terms: Terms, records: int, weights: Floats | None, seed: int) -> None:
        super().__init__(terms, 0, np.arange(records), seed)
        self._below = None if weights is None else np.cumsum(weights)[:-1]

    def draw(self, i: int, size: int) -> Slots:
        slots = super().draw(i, size)
        if self._below is None:
            return slots
        rng = aim(self._generator, self._seed, Purpose.SAMPLE, self._me, i)
        rows = np.searchsorted(self._below, rng.random(len(slots)), side="right")
        return dataclasses.replace(slots, rows=rows)
