"""Aggregator: sits between some clients and the server, and sends up sums, so that the server gets one stream.

Theory of operation
-------------------
A child, which is a client or another aggregator, submits *parcels*: an update, or a sum of updates. A parcel cannot
be split, so it is kept or dropped whole. `pack` freezes a sum of parcels; a frozen sum is resent byte for byte until
the server's word settles it.

Every parcel is kept until that word, which removes the settled ones. The server never accepts a partly settled
parcel, since it accepts a sum only if none of its pairs is settled. Such a parcel is removed too: the child gets the
same word, still has the parts, and sends the rest as a new parcel. The other parcels of the sum are packed again.

Only the server decides which updates are applied. An aggregator that loses its state does no harm: only the server's
word, passed down, empties a client's outbox, and clients resend its content. The worst that a faulty aggregator can
do is to send a sum that is refused.

A word with a model is a broadcast for all clients. It is passed down with each child's part of ``yours`` and never
altered: a model must keep the settled rounds of its own instant, or a client would count an update as contained that
is not.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.core.messages import ConflictingUpdate, Pair, Settled, Sum, Update, Word
from crescendo.core.terms import Terms
from crescendo.errors import PeerError, UsageError

Child = Hashable  # the runtime's identifier of a child

HELD_PER_CHILD = 256  # waiting parcels per child; more are refused, to bound memory
HELD_BYTES = 256 << 20  # and their bytes; one parcel is always accepted


class TooMany(PeerError):
    """A child exceeded its limit of waiting parcels. It must resend later; nothing is lost."""


@dataclass(slots=True, eq=False)
class _Parcel:
    content: Sum
    child: Child
    within: str | None = None  # id of the frozen sum that contains it
    alone: bool = False  # a sum with it was refused: send it separately, to find the faulty one


class Aggregator:
    """Keeps its children's parcels until the server's word; sends sums up and words down.

    >>> from crescendo.schedules.sizes import ConstantSizes
    >>> from crescendo.schedules.steps import ConstantSteps
    >>> terms = Terms(ConstantSizes(4), ConstantSteps(0.1), weights=(0.5, 0.5), rounds=3, ahead=1)
    >>> node = Aggregator(terms, size=2)
    >>> for c in (0, 1):
    ...     node.join(f"client {c}", [c])
    ...     node.receive(f"client {c}", Update(0, c, np.ones(2)))
    >>> total = node.pack()
    >>> total.pairs, total.delta, node.pack()
    (((0, 0), (0, 1)), array([2., 2.]), None)
    >>> sorted(node.hear(Word({0: Settled(1), 1: Settled(1)}, k=1))), node.unanswered()
    (['client 0', 'client 1'], [])
    """

    def __init__(
        self, terms: Terms, size: int, held_per_child: int = HELD_PER_CHILD, held_bytes: int = HELD_BYTES
    ) -> None:
        self.terms, self.size, self.epoch = terms, size, 0
        self._held_per_child, self._held_bytes = held_per_child, held_bytes
        self._below: dict[Child, set[int]] = {}  # the clients that a child has ever represented
        self._route: dict[int, Child] = {}  # the child that each client is behind now
        self._known: dict[int, Settled] = {}  # rounds known to be settled at the server, in this epoch
        self._newest: Word | None = None  # the newest word with a model
        self._parcels: dict[str, _Parcel] = {}  # by id, oldest first
        self._frozen: dict[str, Sum] = {}  # unanswered sums, oldest first

    # -- children ------------------------------------------------------------------------------------------------------

    def join(self, child: Child, clients: Iterable[int], carries: Iterable[int] = ()) -> None:
        """Register ``child`` with the ``clients`` behind it, some of which may have been behind another child before.

        An aggregator may also ``carries`` updates of clients that have moved elsewhere: it may send them, but the
        clients' broadcasts take the new route.
        """
        clients, carries = frozenset(clients), frozenset(carries)
        for c in clients | carries:
            if not 0 <= c < self.terms.clients:
                raise PeerError(f"client {c} is not part of this run, which has clients 0 to {self.terms.clients - 1}")
        self._below.setdefault(child, set()).update(clients, carries)
        self._route.update(dict.fromkeys(clients, child))

    def part(self, child: Child) -> None:
        """Unregister a disconnected ``child``, which must join again. Its parcels are kept and sent."""
        self._below.pop(child, None)
        self._route = {c: other for c, other in self._route.items() if other != child}

    @property
    def clients(self) -> frozenset[int]:
        """All clients currently below this node."""
        return frozenset(self._route)

    @property
    def carries(self) -> frozenset[int]:
        """The clients with updates in this node's parcels, also those no longer below it."""
        return frozenset(c for parcel in self._parcels.values() for c in parcel.content.clients)

    # -- up ------------------------------------------------------------------------------------------------------------

    def receive(self, child: Child, message: Update | Sum) -> Word | None:
        """Keep a child's parcel; if any part of it is already settled, return the word for that child instead."""
        content = Sum.of(message) if isinstance(message, Update) else message
        self._check(child, content)
        if any(self._settled(pair) for pair in content.pairs):
            return Word(self._known, 0, self.epoch).among(sorted(content.clients))
        held = self._parcels.get(content.id)
        if held is not None:
            held.child = child
        else:
            self._check_new(child, content)
            self._parcels[content.id] = _Parcel(content, child)
        return None

    def pack(self) -> Sum | None:
        """Freeze the sum of all waiting parcels that can be added, or return None. The sum counts as sent from now on."""
        chosen, total = self._choose()
        if not chosen:
            return None
        if len(chosen) == 1:
            packed = chosen[0].content  # unchanged: a single update keeps its bytes, so the server can detect a forgery
        else:
            packed = Sum(tuple(pair for parcel in chosen for pair in parcel.content.pairs), total)
        self._frozen[packed.id] = packed
        for parcel in chosen:
            parcel.within = packed.id
        return packed

    def unanswered(self) -> list[Sum]:
        """Return the unanswered sums, oldest first, to resend byte for byte after a disconnect."""
        return list(self._frozen.values())

    @property
    def waiting(self) -> int:
        """The number of parcels in no sum yet."""
        return sum(parcel.within is None for parcel in self._parcels.values())

    def refused(self, id: str, pairs: Iterable[Pair] = ()) -> list[tuple[Child, Sum]]:
        """Handle the server's final refusal of the sum ``id``, because of ``pairs`` or, if empty, because of its
        numbers.

        Remove and return the faulty parcels, so that the caller can notify their children: the refusal is final for
        an update, and a child aggregator handles it as here. If the faulty parcel is unknown, each is sent separately
        from now on.
        """
        if self._frozen.pop(id, None) is None:
            return []
        members = [parcel for parcel in self._parcels.values() if parcel.within == id]
        bad = frozenset(pairs)
        guilty = [p for p in members if not bad.isdisjoint(p.content.pairs)] or (members if len(members) == 1 else [])
        for parcel in members:
            parcel.within, parcel.alone = None, parcel.alone or not guilty
        for parcel in guilty:
            del self._parcels[parcel.content.id]
        return [(parcel.child, parcel.content) for parcel in guilty]

    # -- down ----------------------------------------------------------------------------------------------------------

    def hear(self, word: Word) -> dict[Child, Word]:
        """Apply the server's word; return the part to forward to each child concerned."""
        if word.epoch < self.epoch:
            return {}
        if word.epoch > self.epoch:  # the server was opened from an older state, and may have lost rounds
            self.epoch, self._newest = word.epoch, None
            self._known.clear()
        for c, yours in word.yours.items():
            self._known[c] = self._known.get(c, Settled(0)) | yours  # words may arrive in any order
        if word.model is not None and (self._newest is None or self._newest.k < word.k):
            self._newest = word
        return self._parts(word, self._forget_what_is_settled())

    def settled(self, c: int) -> Settled:
        """Return the rounds of client c known to be settled at the server, in this epoch."""
        return self._known.get(c, Settled(0))

    def newest(self, child: Child) -> Word | None:
        """Return the newest broadcast for a child that has just joined; None if only the server can provide one."""
        clients = [c for c, behind in self._route.items() if behind == child]
        known = self._newest is not None and all(c in self._newest.yours for c in clients)
        return self._newest.among(clients) if known and self._newest is not None else None

    # -- inside --------------------------------------------------------------------------------------------------------

    def _settled(self, pair: Pair) -> bool:
        return pair[1] in self._known and pair[0] in self._known[pair[1]]

    def _parts(self, word: Word, forgotten: Iterable[_Parcel]) -> dict[Child, Word]:
        """Split a word by child: the clients behind it, and all clients in its parcels that were just removed.

        The latter may have moved elsewhere, but the child still waits for a word on its parcel.
        """
        concerns: dict[Child, set[int]] = {}
        for c in word.yours:
            if c in self._route:
                concerns.setdefault(self._route[c], set()).add(c)
        for parcel in forgotten:
            concerns.setdefault(parcel.child, set()).update(parcel.content.clients)
        return {child: word.among(sorted(clients)) for child, clients in concerns.items()}

    def _forget_what_is_settled(self) -> list[_Parcel]:
        for id, total in list(self._frozen.items()):
            if any(self._settled(pair) for pair in total.pairs):
                del self._frozen[id]
        forgotten = [p for p in self._parcels.values() if any(self._settled(pair) for pair in p.content.pairs)]
        for parcel in forgotten:
            del self._parcels[parcel.content.id]
        for parcel in self._parcels.values():
            if parcel.within not in self._frozen:
                parcel.within = None
        return forgotten

    def _choose(self) -> tuple[list[_Parcel], Floats]:
        """Choose waiting parcels, oldest first, of one block and without a common pair; return them and their finite sum."""
        taken = {pair for total in self._frozen.values() for pair in total.pairs}
        chosen: list[_Parcel] = []
        total = np.zeros(0)
        for parcel in self._parcels.values():
            content = parcel.content
            if parcel.within is not None or not taken.isdisjoint(content.pairs):
                continue
            if not chosen:
                total = content.delta.astype(np.float64)
            elif parcel.alone or self._block(content) != self._block(chosen[0].content):
                continue
            else:
                with np.errstate(over="ignore"):
                    more = total + content.delta
                if not np.isfinite(more).all():
                    continue
                total = more
            chosen.append(parcel)
            taken.update(content.pairs)
            if parcel.alone:
                break
        return chosen, total

    def _block(self, content: Sum) -> tuple[int, int]:
        return self.terms.block(content.pairs[0][0], self.size)

    def _check(self, child: Child, content: Sum) -> None:
        if child not in self._below:
            raise UsageError(f"{child} has handed something in before it joined; call join first")
        if not content.pairs or len(set(content.pairs)) < len(content.pairs):
            raise PeerError(f"a sum of {child} must name its updates, each once; dropped, check that aggregator")
        for i, c in content.pairs:
            if c not in self._below[child]:
                raise PeerError(
                    f"{child} speaks for client {c}, which is not behind it; dropped, check its certificate"
                )
            if not (0 <= i < self.terms.rounds and self.terms.share(i, c)):
                raise PeerError(f"client {c} has no share in a round {i} of this run; dropped, check its terms")
        if len({self.terms.block(i, self.size) for i, _ in content.pairs}) > 1:
            raise PeerError(f"a sum of {child} mixes rounds that move different blocks; dropped, check that aggregator")
        low, high = self._block(content)
        if (
            content.delta.dtype.kind != "f"
            or content.delta.shape != (high - low,)
            or not np.isfinite(content.delta).all()
        ):
            raise PeerError(
                f"what {child} handed in is not {high - low} finite floats; dropped, check data and step size"
            )

    def _check_new(self, child: Child, content: Sum) -> None:
        held = [parcel.content.delta.nbytes for parcel in self._parcels.values() if parcel.child == child]
        if len(held) >= self._held_per_child or (held and sum(held) + content.delta.nbytes > self._held_bytes):
            raise TooMany(
                f"{child} has handed in {len(held)} messages that the server has not settled; send this one later"
            )
        if len(content.pairs) == 1 and any(parcel.content.pairs == content.pairs for parcel in self._parcels.values()):
            i, c = content.pairs[0]
            raise ConflictingUpdate(
                f"client {c} sent round {i} before with other bytes; refused, as two instances use this name or one is forged"
            )
