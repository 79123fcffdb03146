"""What server and clients say to each other: frozen data, so that two sides that share no code can agree on it."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from crescendo.core.arrays import Vector
from crescendo.errors import PeerError

Pair = tuple[int, int]  # (round, client)
Ranges = tuple[tuple[int, int], ...]  # of rounds: first, and the one after the last; ascending, with gaps between
_first = itemgetter(0)


class Settled(NamedTuple):
    """A set of one client's rounds: all below a number, and ranges (first, and the one after the last) that overtook.

    A round is settled when nothing more will come of it: applied, void, or without a share. It takes as little room after an
    absence of a million rounds as after one of two.

    >>> some = Settled(below=2, beyond=((3, 5), (7, 8)))
    >>> [i for i in range(9) if i in some], some.rounds, some.end, list(some.gaps(0, 10))
    ([0, 1, 3, 4, 7], 5, 8, [(2, 3), (5, 7), (8, 10)])
    >>> some | Settled(3, ((8, 9),)), Settled.of({0, 1, 4})
    (Settled(below=5, beyond=((7, 9),)), Settled(below=2, beyond=((4, 5),)))
    """

    below: int
    beyond: Ranges = ()

    @classmethod
    def of(cls, rounds: Iterable[int]) -> Settled:
        """The set of these rounds."""
        return cls(0).joined([(i, i + 1) for i in rounds])

    def __contains__(self, round: object) -> bool:
        if not isinstance(round, int) or round < self.below:
            return isinstance(round, int)
        at = bisect_right(self.beyond, round, key=_first)
        return at > 0 and round < self.beyond[at - 1][1]

    def __or__(self, other: Settled) -> Settled:
        """What either has."""
        if other.below <= self.below and (not other.beyond or other.beyond == self.beyond):
            return self
        return self.joined([(0, other.below), *other.beyond])

    def joined(self, ranges: Iterable[tuple[int, int]]) -> Settled:
        """It and these ranges, in any order."""
        below, beyond = self.below, list[tuple[int, int]]()
        for first, stop in sorted([*self.beyond, *ranges]):
            if first <= below:
                below = max(below, stop)
            elif beyond and first <= beyond[-1][1]:
                beyond[-1] = beyond[-1][0], max(beyond[-1][1], stop)
            elif first < stop:
                beyond.append((first, stop))
        return Settled(below, tuple(beyond))

    @property
    def rounds(self) -> int:
        """How many rounds it has."""
        return self.below + sum(stop - first for first, stop in self.beyond)

    @property
    def end(self) -> int:
        """The round after the last that it has."""
        return self.beyond[-1][1] if self.beyond else self.below

    def gaps(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """The ranges of the rounds from ``first`` to ``stop`` - 1 that it lacks."""
        begin = max(first, self.below)
        for low, high in self.beyond[max(0, bisect_right(self.beyond, begin, key=_first) - 1) :]:
            if low >= stop:
                break
            if begin < low:
                yield begin, low
            begin = max(begin, high)
        if begin < stop:
            yield begin, stop


@dataclass(frozen=True, slots=True, eq=False)  # eq=False: arrays do not compare to one bool
class Update:
    """What client ``client`` did in round ``round``: how far it moved the model, step sizes and noise included.

    In a masked round only the round's block of coordinates moves, and ``delta`` has the block's length.
    """

    round: int
    client: int
    delta: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """Several updates added up: ``delta`` is what all the ``pairs`` (round, client) moved the model by.

    A sum is taken whole or not at all. Its ``id`` follows from its content, so that a sum sent again is known to be the
    same, and one with another member or another bit has another id. All pairs of a sum move the same block.

    >>> Sum.of(Update(2, 0, np.ones(3))).pairs, Sum(((2, 1), (0, 0)), np.ones(3)).pairs
    (((2, 0),), ((0, 0), (2, 1)))
    """

    pairs: tuple[Pair, ...]
    delta: Vector
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", tuple(sorted(self.pairs)))
        hashed = hashlib.sha256(repr((self.pairs, self.delta.dtype.str)).encode())
        hashed.update(np.ascontiguousarray(self.delta).data)
        object.__setattr__(self, "id", hashed.hexdigest()[:32])

    @staticmethod
    def of(update: Update) -> Sum:
        """An update as the sum of itself alone."""
        return Sum(((update.round, update.client),), update.delta)

    @property
    def clients(self) -> frozenset[int]:
        return frozenset(c for _, c in self.pairs)


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


@dataclass(frozen=True, slots=True, eq=False)
class Word:
    """The server's word to a whole subtree: which rounds of each client are settled, taken at one instant.

    With a ``model`` it is everybody's broadcast in one message, and the model contains exactly the rounds that ``yours``
    says: the two are never parted or paired anew. Without one it only acknowledges.
    """

    yours: Mapping[int, Settled]
    k: int
    epoch: int = 0
    model: Vector | None = None

    def among(self, clients: Iterable[int]) -> Word:
        """The part of it that concerns ``clients``."""
        return Word({c: self.yours[c] for c in clients if c in self.yours}, self.k, self.epoch, self.model)

    def to(self, c: int) -> Broadcast:
        """Client c's broadcast."""
        assert self.model is not None
        return Broadcast(self.model, self.k, self.yours[c], self.epoch)


# -- why a message is not taken; nothing was changed in any of these cases


class DuplicateUpdate(PeerError):
    """The pair (round, client) is settled already. Drop the message.

    ``void`` are those of its pairs that were declared void and never applied: that is no repetition, and both sides log it.
    """

    def __init__(self, why: str, void: tuple[Pair, ...] = ()) -> None:
        super().__init__(why)
        self.void = void


class ConflictingUpdate(PeerError):
    """The pair (round, client) came before with other bytes: two instances of one client, or a forgery. Raise an alarm."""


class SumOverlaps(DuplicateUpdate):
    """Some pairs of a sum are settled already; nothing was applied. ``settled`` has them: send the rest as a new sum."""

    def __init__(self, settled: tuple[Pair, ...], of: int, void: tuple[Pair, ...] = ()) -> None:
        super().__init__(
            f"{len(settled)} of the {of} updates in this sum are here already, the first is round {settled[0][0]} of client "
            f"{settled[0][1]}; nothing was applied, send the others as a new sum",
            void,
        )
        self.settled = settled


class RefusedSum(PeerError):
    """A sum with members that will never be taken, ``pairs``; if empty, the fault is in the numbers. Nothing was applied."""

    def __init__(self, why: str, pairs: tuple[Pair, ...] = ()) -> None:
        super().__init__(why)
        self.pairs = pairs
