"""Messages between server and clients: frozen data, so that two sides that share no code can agree on them."""

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
Ranges = tuple[tuple[int, int], ...]  # of rounds: first and stop; ascending, with gaps between
_first = itemgetter(0)


class Settled(NamedTuple):
    """A set of one client's rounds: all rounds below a number, and later ranges (first, stop).

    A round is settled once no more updates are expected for it: it was applied, is void, or has no share. The set
    takes no more space after an absence of a million rounds than after one of two.

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
        """Return the set of these rounds."""
        return cls(0).joined([(i, i + 1) for i in rounds])

    def __contains__(self, round: object) -> bool:
        if not isinstance(round, int) or round < self.below:
            return isinstance(round, int)
        at = bisect_right(self.beyond, round, key=_first)
        return at > 0 and round < self.beyond[at - 1][1]

    def __or__(self, other: Settled) -> Settled:
        """Return the union."""
        if other.below <= self.below and (not other.beyond or other.beyond == self.beyond):
            return self
        return self.joined([(0, other.below), *other.beyond])

    def joined(self, ranges: Iterable[tuple[int, int]]) -> Settled:
        """Return the union with these ranges, given in any order."""
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
        """The number of rounds in the set."""
        return self.below + sum(stop - first for first, stop in self.beyond)

    @property
    def end(self) -> int:
        """The round after the last one in the set."""
        return self.beyond[-1][1] if self.beyond else self.below

    def gaps(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges between ``first`` and ``stop`` - 1 that are not in the set."""
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
    """The displacement of the model by ``client`` in ``round``, step sizes and noise included.

    In a masked round only the round's block of coordinates moves, and ``delta`` has the block's length.
    """

    round: int
    client: int
    delta: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """The sum of several updates: ``delta`` is the total displacement by all ``pairs`` (round, client).

    The server applies a sum whole or not at all. Its ``id`` is a hash of its content, so a resent sum keeps its id,
    and any change gives another. All pairs of a sum move the same block.

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
        """Return an update as a sum of one."""
        return Sum(((update.round, update.client),), update.delta)

    @property
    def clients(self) -> frozenset[int]:
        return frozenset(c for _, c in self.pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Broadcast:
    """The global model at a moment when every update of every round before ``k`` is in it, void, or of an absent
    client.

    The model may also contain updates of later rounds. ``yours`` has the *receiver*'s own rounds in the model, and
    acknowledges them. A larger ``epoch`` means that the server was opened from an older state, so ``k`` may have
    fallen.
    """

    model: Vector
    k: int
    yours: Settled
    epoch: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Word:
    """The server's message to a whole subtree: the settled rounds of each client at one instant.

    With a ``model`` it is every client's broadcast in one message, and the model contains exactly the rounds in
    ``yours``: the two are never recombined. Without a model it only acknowledges.
    """

    yours: Mapping[int, Settled]
    k: int
    epoch: int = 0
    model: Vector | None = None

    def among(self, clients: Iterable[int]) -> Word:
        """Return the part that concerns ``clients``."""
        return Word({c: self.yours[c] for c in clients if c in self.yours}, self.k, self.epoch, self.model)

    def to(self, c: int) -> Broadcast:
        """Return client c's broadcast."""
        assert self.model is not None
        return Broadcast(self.model, self.k, self.yours[c], self.epoch)


# -- reasons for refusing a message; none of these cases changes any state


class DuplicateUpdate(PeerError):
    """The pair (round, client) is already settled. Drop the message.

    ``void`` has the pairs that were declared void and never applied: they are not repetitions, and both sides log them.
    """

    def __init__(self, why: str, void: tuple[Pair, ...] = ()) -> None:
        super().__init__(why)
        self.void = void


class ConflictingUpdate(PeerError):
    """The pair (round, client) came earlier with other bytes: two instances of one client, or a forgery. Raise an alarm."""


class SumOverlaps(DuplicateUpdate):
    """Some pairs of a sum, ``settled``, are already settled; nothing was applied. Send the rest as a new sum."""

    def __init__(self, settled: tuple[Pair, ...], of: int, void: tuple[Pair, ...] = ()) -> None:
        super().__init__(
            f"{len(settled)} of the {of} updates in this sum are here already, the first is round {settled[0][0]} of client "
            f"{settled[0][1]}; nothing was applied, send the others as a new sum",
            void,
        )
        self.settled = settled


class RefusedSum(PeerError):
    """A sum with inadmissible members, ``pairs``; if empty, its numbers are at fault. Nothing was applied."""

    def __init__(self, why: str, pairs: tuple[Pair, ...] = ()) -> None:
        super().__init__(why)
        self.pairs = pairs
