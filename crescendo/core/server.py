"""Paper [alg:server]: the global model, and when to tell the clients about it.

Theory of operation
-------------------
The server holds a model v and a counter k. Each update moves v at once, in whatever order it arrives. Round k is
complete when the pair (k, c) of every *present* client c is settled: applied, void, or without a share. Then k rises,
and goes on rising while later rounds are complete too (the paper has "if"; late messages can complete several rounds at
once), and one broadcast is due.

An absent client holds up nothing: k passes its open rounds. What it sends later is still applied, once, and counted as
late. With nobody present k stands still, since a broadcast would then contain nothing new.

A sum from an aggregator is taken only if none of its pairs is settled, else not at all: so a sum that was sent again,
or that shares a member with another one, can never be applied twice. The answer names what the server has, and the
aggregator, which kept the members, sends the rest as a new sum.

A message is checked wholly before anything changes, so a refused one leaves no trace; and every new model is a new
array, so a Broadcast once made stays true. Nothing here grows with what a peer sends: rounds beyond `Terms.furthest`
are refused, and a client's settled rounds are at most the rounds of the run.

In a later epoch the server has forgotten part of what it broadcast, so it does not know how far clients may have come.
Their word is taken: about the last round they sent, and for a round that they had in hand when they came back. It
concerns their own rounds alone, of which there are as many as the run has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from crescendo.core.arrays import Bools, Floats, Vector
from crescendo.core.buffer_pool import BufferPool
from crescendo.core.duplicates import Duplicates
from crescendo.core.messages import (
    Broadcast,
    ConflictingUpdate,
    DuplicateUpdate,
    Pair,
    RefusedSum,
    Settled,
    Sum,
    SumOverlaps,
    Update,
    Word,
)
from crescendo.core.round_ranges import RoundRanges
from crescendo.core.settled import SettledRounds
from crescendo.core.terms import Terms
from crescendo.errors import PeerError, UsageError


class Server:
    """Adds updates in the order they arrive and waits for no one.

    >>> from crescendo.schedules.sizes import ConstantSizes
    >>> from crescendo.schedules.steps import ConstantSteps
    >>> terms = Terms(ConstantSizes(4), ConstantSteps(0.1), weights=(0.5, 0.5), rounds=3, ahead=1)
    >>> server = Server(terms, np.zeros(2))
    >>> server.receive(Update(0, 0, np.ones(2))), server.receive(Update(0, 1, np.ones(2)))
    (False, True)
    >>> server.k, server.model, server.broadcast(1).yours
    (1, array([-2., -2.]), Settled(below=1, beyond=()))
    """

    def __init__(self, terms: Terms, model: Vector, present: Iterable[int] | None = None) -> None:
        self.terms, self.k, self.epoch, self.late = terms, 0, 0, 0
        self.model = _frozen(model)
        self._buffers = BufferPool()
        self._reach = _largest_of(self.model)  # no number in the model is further from 0; often far above
        self.largest = float(np.finfo(np.float64).max)  # the largest number the model may hold; a runtime may lower it
        self._present = np.zeros(terms.clients, dtype=np.bool_)
        self._present[list(range(terms.clients) if present is None else present)] = True
        self._gone = np.zeros(terms.clients, dtype=np.bool_)
        self._rounds, self._duplicates, self._void = SettledRounds(terms), Duplicates(), RoundRanges()
        self._last = np.full(terms.clients, -1, dtype=np.int64)  # the last round each client is known to have sent
        self._start: tuple[Floats, SettledRounds] | None = None
        self._keep_start()
        self._open = self._count_open()
        self._advance()  # whoever is here may have no share in the first rounds

    @property
    def finished(self) -> bool:
        """Every round of the run is complete."""
        return self.k == self.terms.rounds

    @property
    def present(self) -> Bools:
        """Which clients a round waits for (a copy)."""
        return self._present.copy()

    # -- messages in ---------------------------------------------------------------------------------------------------

    def receive(self, update: Update) -> bool:
        """Apply one update. True if k rose, so that a Broadcast is due."""
        i, c, delta = update.round, update.client, np.asarray(update.delta)
        self._check_pair(i, c)
        if self._settled(i, c):
            raise self._repeated(i, c, delta)
        self.model = self._moved(i, delta, f"the update of round {i} from client {c}")
        self._last[c] = max(self._last[c], i)
        self._duplicates.note(i, c, delta)
        self.late += i < self.k
        return self._settle(i, c)

    def receive_sum(self, total: Sum) -> bool:
        """Apply a sum of updates, all of it or, if any pair is settled or faulty, nothing. True if k rose."""
        if len(total.pairs) == 1:
            return self._receive_sum_of_one(total)
        self._check_sum(total)
        try:
            self.model = self._moved(total.pairs[0][0], np.asarray(total.delta), f"a sum of {len(total.pairs)} updates")
        except PeerError as error:
            raise RefusedSum(str(error)) from None
        before = self.k
        self.late += sum(i < before for i, _ in total.pairs)
        for i, c in total.pairs:
            self._last[c] = max(self._last[c], i)
            self._settle(i, c)
        return self.k > before

    def _receive_sum_of_one(self, total: Sum) -> bool:
        [(i, c)] = total.pairs
        try:
            return self.receive(Update(i, c, total.delta))
        except DuplicateUpdate as error:
            raise SumOverlaps(total.pairs, 1, error.void) from None
        except ConflictingUpdate:
            raise
        except PeerError as error:
            raise RefusedSum(str(error), total.pairs) from None

    def void(self, i: int, c: int) -> bool:
        """The pair (i, c) will never come: count it as arrived. True if k rose. Saying it again changes nothing."""
        self._check_pair(i, c)
        if self._settled(i, c):
            return False
        self._void.add(c, i, i + 1)
        return self._settle(i, c)

    # -- who is there --------------------------------------------------------------------------------------------------

    def absent(self, c: int) -> bool:
        """Client c has been silent for too long and holds up no round until it is `back`. True if k rose."""
        self._check_client(c)
        if not self._present[c]:
            return False
        self._present[c] = False
        self._open -= not self._settled(self.k, c)
        return self._advance()

    def back(self, c: int, last: int) -> int:
        """Client c is here (again), and the last round it sent is ``last`` (-1: none). The round it has to go on with.

        That is max(k, last + 1). The rounds between become void; rounds up to ``last`` stay open for its re-sent
        updates. With somebody there again k may rise: compare it.
        """
        self.check_last(c, last)
        self._last[c] = last
        start = max(self.k, last + 1)
        if not self._present[c]:
            self._rounds.mark_all(last + 1, start, c)
            self._void.add(c, last + 1, start)  # it has sent none of them
            self._present[c] = True
            self._open = self._count_open()
            self._advance()
        return start

    def check_last(self, c: int, last: int, new_epoch: bool = False) -> None:
        """Refuse what client c says of its last round if it cannot be; ``new_epoch``: in the epoch after this one."""
        self._check_client(c)
        if not -1 <= last < self.terms.rounds:
            raise PeerError(
                f"client {c} says that its last round is {last}, but this run has rounds 0 to {self.terms.rounds - 1}"
            )
        if not new_epoch and self._sent_by(c, last) > self._furthest(c):
            raise PeerError(
                f"client {c} says that it sent round {last}, which no client can have finished at k={self.k}; check its terms"
            )
        if last < self._last[c]:
            raise PeerError(
                f"client {c} says that its last round is {last}, but it sent round {self._last[c]}: its state is older than "
                f"what it sent; restore the newer state; if it is lost, this has to be a new client of a new "
                f"federation"
            )

    def _furthest(self, c: int) -> int:
        """The last round that client c can have finished."""
        if self.epoch > 0:
            return self.terms.rounds - 1
        return max(self.terms.furthest(self.k), int(self._last[c]))

    def _sent_by(self, c: int, last: int) -> int:
        """The last round up to ``last`` in which client c has a share: a client passes the others by itself."""
        while last >= 0 and not self.terms.share(last, c):
            last -= 1
        return last

    def leave(self, c: int) -> bool:
        """Client c is gone for good: it holds up nothing, and nothing more is taken from it. True if k rose."""
        rose = self.absent(c)
        self._gone[c] = True
        return rose

    # -- messages out --------------------------------------------------------------------------------------------------

    def settled(self, c: int) -> Settled:
        """The rounds of client c of which nothing more will come."""
        self._check_client(c)
        return self._rounds.of(c)

    def is_void(self, i: int, c: int) -> bool:
        """Is round i of client c settled because it was declared void, or passed while c was absent?"""
        return self._void.has(i, c)

    def last(self, c: int) -> int:
        """The last round that client c is known to have sent, -1 for none."""
        return int(self._last[c])

    def broadcast(self, c: int) -> Broadcast:
        """What to tell client c now."""
        return Broadcast(self.model, self.k, self.settled(c), self.epoch)

    def word(self, clients: Iterable[int], model: bool = True) -> Word:
        """What to tell all of these clients now, also one that has left; without the model, only what is settled."""
        yours = {c: self._rounds.of(c) if self._gone[c] else self.settled(c) for c in clients}
        return Word(yours, self.k, self.epoch, self.model if model else None)

    @property
    def start(self) -> tuple[Floats, SettledRounds] | None:
        """With d = 0: the model at the moment when round k became due, v_k, and what was settled in it. Else None.

        A client that comes in the middle of round k starts it from v_k, as the others did.
        """
        return None if self.finished else self._start

    # -- state ---------------------------------------------------------------------------------------------------------

    def export(self) -> dict[str, Any]:
        """Everything but the terms, as arrays, numbers, strings and lists. `restore` continues from it bit for bit."""
        return {
            "model": self.model.copy(),
            "k": self.k,
            "epoch": self.epoch,
            "late": self.late,
            "present": self._present.copy(),
            "gone": self._gone.copy(),
            "last": self._last.copy(),
            **self._rounds.export(),
            "fingerprints": self._duplicates.export(),
            "void": self._void.export(),
            **self._exported_start(),
        }

    def _exported_start(self) -> dict[str, Any]:
        if self._start is None:
            return {}
        model, rounds = self._start
        return {"start": model.copy(), **{f"start_{name}": value for name, value in rounds.export().items()}}

    @classmethod
    def restore(cls, terms: Terms, state: dict[str, Any], new_epoch: bool = False) -> Server:
        """A server that goes on from an exported state. ``new_epoch`` when the state may be older than what was broadcast."""
        server = cls(terms, np.asarray(state["model"]))
        if len(state["present"]) != terms.clients:
            raise UsageError(
                f"this state is of {len(state['present'])} clients, the terms have {terms.clients}; take the state's terms"
            )
        server.k, server.late = int(state["k"]), int(state["late"])
        server.epoch = int(state["epoch"]) + new_epoch
        server._present = np.array(state["present"], dtype=np.bool_)
        server._gone = np.array(state["gone"], dtype=np.bool_)
        server._last = np.array(state["last"], dtype=np.int64)
        server._rounds.restore(state)
        server._duplicates.restore(state["fingerprints"])
        server._void.restore(state.get("void", []))  # a state of an earlier version does not say
        server._keep_start()
        if "start" in state and server._start is not None:  # a state of an earlier version has none
            rounds = SettledRounds(terms)
            rounds.restore({"below": state["start_below"], "overtook": state["start_overtook"]})
            server._start = _frozen(np.asarray(state["start"])), rounds
        server._open = server._count_open()
        return server

    # -- checks --------------------------------------------------------------------------------------------------------

    def _check_client(self, c: int) -> None:
        if not 0 <= c < self.terms.clients:
            raise PeerError(
                f"client {c} is not part of this run, which has clients 0 to {self.terms.clients - 1}; check its id"
            )
        if self._gone[c]:
            raise PeerError(f"client {c} has left this run for good; it has to join a new run")

    def _check_pair(self, i: int, c: int) -> None:
        self._check_client(c)
        if not 0 <= i < self.terms.rounds:
            raise PeerError(
                f"client {c} speaks of round {i}, but this run has rounds 0 to {self.terms.rounds - 1}; check its terms"
            )
        if i > self._furthest(c):
            raise PeerError(
                f"client {c} speaks of round {i}, which no client can have finished at k={self.k}; check its terms"
            )
        if not self.terms.share(i, c):
            raise PeerError(f"client {c} has no share in round {i} and nothing to say about it; check its terms")

    def _check_sum(self, total: Sum) -> None:
        if not total.pairs or len(set(total.pairs)) < len(total.pairs):
            raise RefusedSum("a sum must name its updates, each once; nothing was applied, check the aggregator")
        faults: dict[Pair, str] = {}
        for pair in total.pairs:
            try:
                self._check_pair(*pair)
            except PeerError as error:
                faults[pair] = str(error)
        if faults:
            raise RefusedSum(next(iter(faults.values())), tuple(faults))
        if settled := tuple(pair for pair in total.pairs if self._settled(*pair)):
            raise SumOverlaps(settled, len(total.pairs), tuple(pair for pair in settled if self._void.has(*pair)))
        if len({self.terms.block(i, len(self.model)) for i, _ in total.pairs}) > 1:
            raise RefusedSum("a sum mixes rounds that move different blocks; nothing was applied, check the aggregator")

    def _moved(self, i: int, delta: Vector, what: str) -> Floats:
        """The model after ``delta``, the displacement of round i's block; refused if it is not finite numbers that fit."""
        low, high = self.terms.block(i, len(self.model))
        if delta.dtype.kind != "f" or delta.shape != (high - low,):
            raise PeerError(
                f"{what} has shape {delta.shape} of {delta.dtype}, "
                f"expected {high - low} floats; check that both sides use the same model"
            )
        moved = self._buffers.room(len(self.model), self.model.dtype)
        moved[:low], moved[high:] = self.model[:low], self.model[high:]
        with np.errstate(over="ignore", invalid="ignore"):
            np.subtract(self.model[low:high], delta, out=moved[low:high])
        reach = self._reach + _largest_of(delta)
        if not reach <= self.largest:  # it may be less than that, or not a number
            reach = _largest_of(moved)
            self._check_reach(reach, delta, what)
        self._reach = reach
        moved.flags.writeable = False
        return moved

    def _check_reach(self, reach: float, delta: Vector, what: str) -> None:
        if reach <= self.largest:
            return
        if np.isfinite(delta).all():
            raise PeerError(
                f"{what} would move the model beyond {self.largest:.3g}, the largest number it may hold; refused, check "
                f"that client's step size"
            )
        raise PeerError(f"{what} is not finite; dropped, check that client's data and step size")

    def _repeated(self, i: int, c: int, delta: Vector) -> PeerError:
        if self._duplicates.conflict(i, c, delta):
            return ConflictingUpdate(
                f"client {c} sent round {i} before with other bytes; refused, as two instances use this name or one is forged"
            )
        if self._void.has(i, c):
            return DuplicateUpdate(
                f"round {i} of client {c} was declared void before its update came (k={self.k}); dropped, and never applied",
                ((i, c),),
            )
        return DuplicateUpdate(f"client {c} already sent round {i} (k={self.k}); dropped, not applied twice")

    # -- settling ------------------------------------------------------------------------------------------------------

    def _settled(self, i: int, c: int) -> bool:
        return self._rounds.has(i, c)

    def _settle(self, i: int, c: int) -> bool:
        self._rounds.mark(i, c)
        if i == self.k and self._present[c]:
            self._open -= 1
        return self._advance()

    def _count_open(self) -> int:
        """How many present clients round k still waits for."""
        return 0 if self.finished else self._rounds.count_open(self.k, self._present)

    def _advance(self) -> bool:
        before = self.k
        while not self._open and not self.finished and self._present.any():
            self.k += 1
            self._duplicates.forget_before(self.k)
            self._open = self._count_open()
        if self.k > before:
            self._keep_start()
        return self.k > before

    def _keep_start(self) -> None:
        if self.terms.ahead == 0:
            self._start = self.model, self._rounds.copy()


def _frozen(vector: Vector) -> Floats:
    """A model of our own that nobody can change: one row of finite float64."""
    own = np.array(vector, dtype=np.float64)
    if own.ndim != 1 or not np.isfinite(own).all():
        raise UsageError(
            f"a model is a row of finite numbers, got an array of shape {own.shape}; check the start model"
        )
    own.flags.writeable = False
    return own


def _largest_of(vector: Vector) -> float:
    """The largest |number|; NaN if one is."""
    return max(float(-vector.min(initial=0.0)), float(vector.max(initial=0.0)))
