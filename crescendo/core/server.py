"""Paper [alg:server]: the global model, and the rule for broadcasts.

Theory of operation
-------------------
The server holds a model v and a counter k. Each update moves v at once, in order of arrival. Round k is complete when
the pair (k, c) of every *present* client c is settled: applied, void, or without a share. Then k rises, and keeps
rising while later rounds are complete too (the paper has "if"; late messages can complete several rounds at once),
and one broadcast is due.

An absent client delays no round: k passes its open rounds. Its later updates are still applied, once, and counted as
late. With no client present k stands still, since a broadcast would contain nothing new.

The server applies a sum from an aggregator only if none of its pairs is settled. So a resent sum, or one that shares
a member with another sum, can never be applied twice. The answer names the settled pairs, and the aggregator, which
kept the members, sends the rest as a new sum.

A message is fully checked before any change, so a refused one leaves no trace. Every new model is a new array, so an
earlier Broadcast stays valid. A peer cannot make the state grow: rounds beyond `Terms.furthest` are refused, and a
client's settled rounds are at most the rounds of the run.

In a later epoch the server has lost part of its broadcasts, so it does not know how far clients may be. It then
believes a client about its last sent round, and about the round that it was working on when it returned. This affects
only the client's own rounds, at most as many as the run has.
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
    """Adds updates in order of arrival, without waiting for any client.

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
        self._reach = _largest_of(self.model)  # upper bound on |numbers| of the model, often loose
        self.largest = float(np.finfo(np.float64).max)  # bound on the model's numbers; a runtime may lower it
        self._present = np.zeros(terms.clients, dtype=np.bool_)
        self._present[list(range(terms.clients) if present is None else present)] = True
        self._gone = np.zeros(terms.clients, dtype=np.bool_)
        self._rounds, self._duplicates, self._void = SettledRounds(terms), Duplicates(), RoundRanges()
        self._last = np.full(terms.clients, -1, dtype=np.int64)  # the last round known to be sent by each client
        self._start: tuple[Floats, SettledRounds] | None = None
        self._keep_start()
        self._open = self._count_open()
        self._advance()  # the clients present may have no share in the first rounds

    @property
    def finished(self) -> bool:
        """True once every round of the run is complete."""
        return self.k == self.terms.rounds

    @property
    def present(self) -> Bools:
        """The clients that a round waits for (a copy)."""
        return self._present.copy()

    # -- messages in ---------------------------------------------------------------------------------------------------

    def receive(self, update: Update) -> bool:
        """Apply one update; return True if k rose, so that a Broadcast is due."""
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
        """Apply a sum of updates, or nothing if any pair is settled or faulty; return True if k rose."""
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
        """Declare the pair (i, c) void, which counts as arrived; return True if k rose. Repeating it changes nothing."""
        self._check_pair(i, c)
        if self._settled(i, c):
            return False
        self._void.add(c, i, i + 1)
        return self._settle(i, c)

    # -- presence ------------------------------------------------------------------------------------------------------

    def absent(self, c: int) -> bool:
        """Declare client c absent: rounds do not wait for it until it is `back`. Return True if k rose."""
        self._check_client(c)
        if not self._present[c]:
            return False
        self._present[c] = False
        self._open -= not self._settled(self.k, c)
        return self._advance()

    def back(self, c: int, last: int) -> int:
        """Admit client c, whose last sent round is ``last`` (-1: none); return the round at which it must resume.

        That round is max(k, last + 1). The rounds between become void; rounds up to ``last`` stay open for its resent
        updates. With a client present again k may rise: compare it.
        """
        self.check_last(c, last)
        self._last[c] = last
        start = max(self.k, last + 1)
        if not self._present[c]:
            self._rounds.mark_all(last + 1, start, c)
            self._void.add(c, last + 1, start)  # none of them was sent
            self._present[c] = True
            self._open = self._count_open()
            self._advance()
        return start

    def check_last(self, c: int, last: int, new_epoch: bool = False) -> None:
        """Refuse an impossible last round from client c; ``new_epoch`` checks for the epoch after this one."""
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
        """Return the last round that client c can have finished."""
        if self.epoch > 0:
            return self.terms.rounds - 1
        return max(self.terms.furthest(self.k), int(self._last[c]))

    def _sent_by(self, c: int, last: int) -> int:
        """Return the last round up to ``last`` in which client c has a share: clients skip the others."""
        while last >= 0 and not self.terms.share(last, c):
            last -= 1
        return last

    def leave(self, c: int) -> bool:
        """Remove client c permanently: no round waits for it, and its messages are refused. Return True if k rose."""
        rose = self.absent(c)
        self._gone[c] = True
        return rose

    # -- messages out --------------------------------------------------------------------------------------------------

    def settled(self, c: int) -> Settled:
        """Return the settled rounds of client c."""
        self._check_client(c)
        return self._rounds.of(c)

    def is_void(self, i: int, c: int) -> bool:
        """Return True if round i of client c was declared void, or passed while c was absent."""
        return self._void.has(i, c)

    def last(self, c: int) -> int:
        """Return the last round known to be sent by client c, -1 if there is none."""
        return int(self._last[c])

    def broadcast(self, c: int) -> Broadcast:
        """Return the current broadcast for client c."""
        return Broadcast(self.model, self.k, self.settled(c), self.epoch)

    def word(self, clients: Iterable[int], model: bool = True) -> Word:
        """Return the current word for these clients, including one that has left; without the model, only settled rounds."""
        yours = {c: self._rounds.of(c) if self._gone[c] else self.settled(c) for c in clients}
        return Word(yours, self.k, self.epoch, self.model if model else None)

    @property
    def start(self) -> tuple[Floats, SettledRounds] | None:
        """With d = 0: v_k, the model when round k became due, and its settled rounds. Otherwise None.

        A client that joins in the middle of round k starts it from v_k, like the others.
        """
        return None if self.finished else self._start

    # -- state ---------------------------------------------------------------------------------------------------------

    def export(self) -> dict[str, Any]:
        """Export the state except the terms, as arrays, numbers, strings and lists. `restore` continues from it bit for bit."""
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
        """Return a server that continues from an exported state; ``new_epoch`` if it may be older than the last broadcast."""
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
        server._void.restore(state.get("void", []))  # missing in an earlier version's state
        server._keep_start()
        if "start" in state and server._start is not None:  # missing in an earlier version's state
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
        """Return the model after ``delta``, the displacement of round i's block; refuse a wrong shape or size."""
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
        if not reach <= self.largest:  # the bound may be loose, or NaN
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
        """Return the number of present clients that round k still waits for."""
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
    """Return a read-only copy of a model: one row of finite float64."""
    own = np.array(vector, dtype=np.float64)
    if own.ndim != 1 or not np.isfinite(own).all():
        raise UsageError(
            f"a model is a row of finite numbers, got an array of shape {own.shape}; check the start model"
        )
    own.flags.writeable = False
    return own


def _largest_of(vector: Vector) -> float:
    """Return the largest absolute value; NaN if there is a NaN."""
    return max(float(-vector.min(initial=0.0)), float(vector.max(initial=0.0)))
