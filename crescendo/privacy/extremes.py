"""The largest and least of a schedule's rates, steps and slots, over all rounds and clients, in one pass over the rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crescendo.core.setup import Terms


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
    least: npt.NDArray[np.float64]
    slots: npt.NDArray[np.int64]


def extremes(terms: Terms, records: tuple[int, ...]) -> Extremes:
    """Look at every round once.

    The slots of a round have the same step sizes for all clients, some run more of them than others: so the largest steps of all
    clients are read off one running maximum.
    """
    least, slots = np.full(terms.clients, np.inf), np.zeros(terms.clients, dtype=np.int64)
    declared, best, step = np.asarray(records, dtype=np.float64), (0.0, 0, 0), 0.0
    for i in range(terms.rounds):
        shares = terms.shares(i)
        most = int(shares.argmax())
        if not shares[most]:
            continue
        reached = np.maximum.accumulate(np.abs(terms.distinct_etas(i, most)))
        least = np.minimum(least, np.where(shares > 0, reached[np.minimum(shares, len(reached)) - 1], np.inf))
        slots, step = np.maximum(slots, shares), max(step, float(reached[-1]))
        rates = shares / declared
        c = int(rates.argmax())
        best = max(best, (float(rates[c]), i, c))
    return Extremes(*best, step, least, slots)
