"""The largest and least of a schedule's rates, steps and slots, over all rounds and clients, in one pass over the rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crescendo.core.arrays import Floats, Ints
from crescendo.core.terms import Terms
from crescendo.privacy.mechanisms.passes import passes


@dataclass(frozen=True, eq=False)
class Extremes:
    """``rate`` is the largest, in round ``round`` of client ``client``; ``step`` the largest step size, whatever its sign.

    For each client: ``least`` is the smallest of its rounds' largest steps (infinite if it takes none), ``slots`` the most
    slots it has in a round.
    """

    rate: float
    round: int
    client: int
    step: float
    lowest: float  # the least step, with its sign
    least: Floats
    slots: Ints


def extremes(terms: Terms, records: tuple[int, ...]) -> Extremes:
    """Look at every round once."""
    least, slots = np.full(terms.clients, np.inf), np.zeros(terms.clients, dtype=np.int64)
    declared, best, step, lowest = np.asarray(records, dtype=np.float64), (0.0, 0, 0), 0.0, np.inf
    for part in passes(terms):
        least = np.minimum(least, np.where(part.shares > 0, part.steps, np.inf).min(axis=0))
        slots, step = np.maximum(slots, part.shares.max(axis=0)), max(step, float(part.steps.max()))
        lowest = min(lowest, float(np.where(part.shares.any(axis=1), part.least, np.inf).min()))
        rates = part.shares / declared
        row, c = divmod(int(rates.argmax()), terms.clients)
        best = max(best, (float(rates[row, c]), part.first + row, c))
    return Extremes(*best, step, lowest, least, slots)
