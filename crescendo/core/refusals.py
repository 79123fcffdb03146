"""Why the server, or an aggregator, does not take a message. Nothing was changed in any of these cases."""

from __future__ import annotations

from crescendo.core.messages import Pair
from crescendo.errors import PeerError


class DuplicateUpdate(PeerError):
    """The pair (round, client) is settled already; the network repeated a message. Drop it."""


class ConflictingUpdate(PeerError):
    """The pair (round, client) came before with other bytes: two instances of one client, or a forgery. Raise an alarm."""


class SumOverlaps(DuplicateUpdate):
    """Some pairs of a sum are settled already; nothing was applied. ``settled`` has them: send the rest as a new sum."""

    def __init__(self, settled: tuple[Pair, ...], of: int) -> None:
        super().__init__(
            f"{len(settled)} of the {of} updates in this sum are here already, the first is round {settled[0][0]} of client "
            f"{settled[0][1]}; nothing was applied, send the others as a new sum"
        )
        self.settled = settled


class RefusedSum(PeerError):
    """A sum with members that will never be taken, ``pairs``; if empty, the fault is in the numbers. Nothing was applied."""

    def __init__(self, why: str, pairs: tuple[Pair, ...] = ()) -> None:
        super().__init__(why)
        self.pairs = pairs
