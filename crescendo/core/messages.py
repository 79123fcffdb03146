"""What server and clients say to each other: frozen data, so that two sides that share no code can agree on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.floating[Any]]


class Settled(NamedTuple):
    """A set of one client's rounds: all below a number, and any that overtook.

    A round is settled when nothing more will come of it: applied, void, or without a share.

    >>> 3 in Settled(below=2, beyond=frozenset({3})), 2 in Settled(below=2, beyond=frozenset({3}))
    (True, False)
    """

    below: int
    beyond: frozenset[int] = frozenset()

    def __contains__(self, round: object) -> bool:
        return round in self.beyond or (isinstance(round, int) and round < self.below)


@dataclass(frozen=True, slots=True, eq=False)  # eq=False: arrays do not compare to one bool
class Update:
    """What client ``client`` did in round ``round``: how far it moved the model, step sizes and noise included.

    In a masked round only the round's block of coordinates moves, and ``delta`` has the block's length.
    """

    round: int
    client: int
    delta: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Broadcast:
    """The global model at a moment when every update of every round before ``k`` was in it, or was declared void or absent.

    Updates of later rounds may be in it too; ``yours`` says which rounds of the *receiver* are, and is the
    acknowledgement of those. A larger ``epoch`` means that the server was opened from an older state, so that ``k`` may
    have fallen.
    """

    model: Vector
    k: int
    yours: Settled
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Void:
    """The update of ``round`` from ``client`` will never come: it counts as arrived and adds nothing."""

    round: int
    client: int


@dataclass(frozen=True, slots=True)
class Leave:
    """``client`` is gone for good and holds up no round from now on."""

    client: int
