"""Extremes of a schedule: the largest and least rates, steps and slots over all rounds and clients.

They are found in one pass over blocks of rounds: a peer may send terms with a million rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crescendo.core.arrays import Floats, Ints
from crescendo.core.terms import Terms
from crescendo.errors import Refused

_MOST_SLOTS = 10_000_000  # steps examined one by one: terms come from a peer and must not take all memory


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds from ``first`` on: one row per round, one column per client.

    ``steps`` holds each client's largest absolute step, 0 without a share; ``least`` the round's least step.
    """

    first: int
    shares: Ints
    steps: Floats
    least: Floats

    @classmethod
    def all_of(cls, terms: Terms) -> Iterator[Rounds]:
        """Yield all rounds, many at a time."""
        before = np.zeros(terms.clients, np.int64)
        for first, stop in terms.parts():
            shares = terms.shares_of_rounds(first, stop)
            if terms.steps.per == "round":
                etas = np.asarray(terms.steps.at(terms.labels(first, stop)[:-1]), dtype=np.float64)
                yield cls(first, shares, np.where(shares > 0, np.abs(etas)[:, None], 0.0), etas)
            else:
                after = before + np.cumsum(shares, axis=0)
                yield cls._slot_by_slot(terms, first, shares, after - shares)
                before = after[-1]

    @classmethod
    def _slot_by_slot(cls, terms: Terms, first: int, shares: Ints, before: Ints) -> Rounds:
        """Examine steps that change within a round: the first and last slot of a falling rule, every slot of any other."""
        rounds, most = shares.max(axis=1), int(shares.max())
        if most > _MOST_SLOTS:
            raise Refused(
                f"round {first + int(rounds.argmax())} has {most} slots of one client, and where steps change from slot to slot "
                f'{_MOST_SLOTS} are allowed; schedule.steps.per = "round" would pass'
            )
        active, steps = shares > 0, np.zeros(shares.shape)
        least = np.full(shares.shape, np.inf)
        if terms.steps.falls:
            last = before + np.maximum(shares, 1) - 1
            steps = np.where(active, terms.steps.at(before * terms.strides), 0.0)
            least = np.where(active, terms.steps.at(last * terms.strides), np.inf)
        else:
            for row, c in np.argwhere(active):
                etas = terms.etas(first + int(row), int(c))
                steps[row, c], least[row, c] = np.abs(etas).max(), etas.min()
        return cls(first, shares, steps, np.where(rounds > 0, least.min(axis=1), 0.0))


@dataclass(frozen=True, eq=False)
class Extremes:
    """``rate`` is the largest rate, in round ``round`` of client ``client``; ``step`` is the largest absolute step size.

    Per client, ``least`` is the smallest of its rounds' largest steps (infinite if it takes none), and ``slots`` the most
    slots that it has in a round.
    """

    rate: float
    round: int
    client: int
    step: float
    lowest: float  # the least step, with its sign
    least: Floats
    slots: Ints

    @classmethod
    def of(cls, terms: Terms, records: tuple[int, ...]) -> Extremes:
        """Find the extremes in one pass over the rounds."""
        least, slots = np.full(terms.clients, np.inf), np.zeros(terms.clients, dtype=np.int64)
        declared, best, step, lowest = np.asarray(records, dtype=np.float64), (0.0, 0, 0), 0.0, np.inf
        for part in Rounds.all_of(terms):
            least = np.minimum(least, np.where(part.shares > 0, part.steps, np.inf).min(axis=0))
            slots, step = np.maximum(slots, part.shares.max(axis=0)), max(step, float(part.steps.max()))
            lowest = min(lowest, float(np.where(part.shares.any(axis=1), part.least, np.inf).min()))
            rates = part.shares / declared
            row, c = divmod(int(rates.argmax()), terms.clients)
            best = max(best, (float(rates[row, c]), part.first + row, c))
        return cls(*best, step, lowest, least, slots)
