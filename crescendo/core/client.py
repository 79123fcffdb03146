"""Paper [alg:client]: one client's counters and models. It decides the next action; a runtime decides when to ask.

Theory of operation
-------------------
The client works through its rounds without waiting for answers. It knows only the newest broadcast: a model, the
counter k, and the client's own rounds in that model (``yours``). It works from that broadcast *minus its own updates
still in transit*, so a broadcast never discards its recent work (the paper's does).

A round has a frame: the model it started from. A broadcast in the middle of a round moves the frame and the local
model together, so the displacement so far, frame minus local model, does not change. With `whole_rounds` (privacy) a
broadcast is put aside instead, and applied before the next round.

A client moves only by the numbers that it sent: `finish` takes the displacement as the server will decode it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crescendo.core.arrays import Floats, Vector
from crescendo.core.messages import Broadcast, Settled, Update
from crescendo.core.terms import Terms
from crescendo.errors import PeerError, UsageError


@dataclass(frozen=True, slots=True)
class Work:
    """Run up to ``slots`` slots of ``round``, from slot ``first`` on."""

    round: int
    first: int
    slots: int


@dataclass(frozen=True, slots=True)
class Wait:
    """The client must wait for a newer broadcast."""


@dataclass(frozen=True, slots=True)
class Done:
    """The last round of the run is finished."""


class Client:
    """One client's side of the algorithm: no data, no randomness, no clock."""

    def __init__(self, terms: Terms, me: int, model: Vector) -> None:
        if not 0 <= me < terms.clients:
            raise UsageError(f"client {me} is not part of this run, which has clients 0 to {terms.clients - 1}")
        self.terms, self.me = terms, me
        self.k, self.epoch, self.round, self.h = 0, 0, 0, 0
        self._base = np.array(model, dtype=np.float64)
        self._yours = Settled(0)
        self._sent: dict[int, Vector] = {}  # round -> sent delta, for the rounds that the base lacks
        self._frame: Floats | None = None  # start model of the current round; None before it begins
        self._put_aside: Broadcast | None = None
        self._pass_empty_rounds()

    # -- next action ---------------------------------------------------------------------------------------------------

    def next(self) -> Work | Wait | Done:
        """Return the action that the delay bound allows now."""
        if self.round >= self.terms.rounds:
            return Done()
        slots = self.terms.allowed(self.round, self.k, self.me) - self.h
        return Work(self.round, self.h, slots) if slots > 0 else Wait()

    @property
    def round_is_full(self) -> bool:
        """True once all slots of the current round were run and `finish` is due."""
        return self._frame is not None and self.h == self.terms.share(self.round, self.me)

    # -- the current round ---------------------------------------------------------------------------------------------

    def start(self) -> Floats:
        """Begin the round and return its start model."""
        if self._frame is None:
            self._frame = self._own_view()
        return self._frame.copy()

    @property
    def frame(self) -> Floats:
        """The model from which the current round's displacement is measured."""
        if self._frame is None:
            raise UsageError(f"round {self.round} of client {self.me} has not begun; call start() first")
        return self._frame

    def advance(self, slots: int) -> None:
        """Count ``slots`` more slots of the round as run."""
        limit = self.terms.allowed(self.round, self.k, self.me)
        if self._frame is None or slots < 0 or self.h + slots > limit:
            raise UsageError(
                f"client {self.me} may not run {slots} slots now: it is at slot {self.h} of {limit} in round {self.round}"
            )
        self.h += slots

    def finish(self, delta: Vector) -> Update:
        """Finish the round with ``delta``, the displacement as the server will decode it, and move to the next round."""
        if not self.round_is_full:
            raise UsageError(f"round {self.round} of client {self.me} is at slot {self.h}; finish it before sending")
        low, high = self.terms.block(self.round, len(self._base))
        if len(delta) != high - low or not np.isfinite(delta).all():
            raise UsageError(
                f"the update of round {self.round} from client {self.me} is not {high - low} finite numbers; "
                f"the run diverged or does not fit the wire's floats: lower the step size or widen the wire"
            )
        update = Update(self.round, self.me, _read_only(delta))
        self._sent[self.round] = update.delta
        self._go_to(self.round + 1)
        return update

    def restart_round(self) -> None:
        """Discard the unfinished round, as a crash does. Sent updates are kept."""
        self._go_to(self.round)

    def give_up(self, round: int) -> None:
        """Abandon ``round``, which is void and will never be sent, and move to the next round."""
        self._sent.pop(round, None)
        self._go_to(max(self.round, round + 1))

    def resume(self, round: int) -> None:
        """Resume at ``round`` after an absence; the rounds between are void."""
        if any(self.terms.share(i, self.me) for i in range(round, self.round)):
            raise UsageError(f"client {self.me} has sent rounds up to {self.round - 1} and cannot go back to {round}")
        self._go_to(max(round, self.round))  # rounds without a share are skipped, so it may already be further

    # -- broadcasts ----------------------------------------------------------------------------------------------------

    def is_news(self, broadcast: Broadcast) -> bool:
        """Return True if the broadcast is newer than the model that this client works from."""
        return (broadcast.epoch, broadcast.k) > (self.epoch, self.k)

    def receive(self, broadcast: Broadcast) -> Floats | None:
        """Apply a newer global model; return the shift of the current round's local model, or None.

        An old broadcast changes nothing. Within an epoch, newer means a larger k.
        """
        self._check(broadcast)
        if (broadcast.epoch, broadcast.k) <= self._newest():
            return None
        if self._frame is not None and self.terms.whole_rounds:
            self._put_aside = broadcast
            return None
        return self._take_in(broadcast)

    def unacknowledged(self) -> list[Update]:
        """Return the sent updates that are in no broadcast yet, oldest first, to resend byte for byte after a disconnect."""
        return [Update(i, self.me, self._sent[i]) for i in sorted(self._sent)]

    def lost(self) -> list[int]:
        """Return the sent rounds that the server lacks and this client no longer has; they are to be declared void."""
        gaps = self._yours.gaps(0, self.round)
        lacking = (i for first, stop in gaps for i in range(first, stop))
        return [i for i in lacking if i not in self._sent and self.terms.share(i, self.me)]

    # -- state ---------------------------------------------------------------------------------------------------------

    def export(self) -> dict[str, Any]:
        """Export the state except the terms, as arrays, numbers and lists. `restore` continues from it bit for bit."""
        aside = self._put_aside
        return {
            "me": self.me,
            "round": self.round,
            "h": self.h,
            "k": self.k,
            "epoch": self.epoch,
            "base": self._base.copy(),
            "yours": _written(self._yours),
            "sent_rounds": sorted(self._sent),
            "sent": [self._sent[i].copy() for i in sorted(self._sent)],
            "frame": None if self._frame is None else self._frame.copy(),
            "put_aside": None if aside is None else [aside.model.copy(), aside.k, *_written(aside.yours), aside.epoch],
        }

    @classmethod
    def restore(cls, terms: Terms, state: dict[str, Any]) -> Client:
        """Return a client that continues from an exported state."""
        client = cls(terms, int(state["me"]), np.asarray(state["base"]))
        client.round, client.h, client.k, client.epoch = (int(state[name]) for name in ("round", "h", "k", "epoch"))
        below, beyond = state["yours"]
        client._yours = _settled(below, beyond)
        client._sent = {
            int(i): _read_only(np.asarray(delta)) for i, delta in zip(state["sent_rounds"], state["sent"], strict=True)
        }
        client._frame = None if state["frame"] is None else np.array(state["frame"], dtype=np.float64)
        if state["put_aside"] is not None:
            model, k, below, beyond, epoch = state["put_aside"]
            client._put_aside = Broadcast(np.asarray(model), int(k), _settled(below, beyond), int(epoch))
        return client

    # -- inside --------------------------------------------------------------------------------------------------------

    def _go_to(self, round: int) -> None:
        self.round, self.h, self._frame = round, 0, None
        self._pass_empty_rounds()
        if self._put_aside is not None:
            aside, self._put_aside = self._put_aside, None
            self._take_in(aside)

    def _pass_empty_rounds(self) -> None:
        while self.round < self.terms.rounds and not self.terms.share(self.round, self.me):
            self.round += 1

    def _newest(self) -> tuple[int, int]:
        return (self._put_aside.epoch, self._put_aside.k) if self._put_aside is not None else (self.epoch, self.k)

    def _own_view(self) -> Floats:
        """Return the newest global model with this client's updates in transit applied; with d = 0 the model v_k alone."""
        view = self._base.copy()
        if self.terms.ahead == 0:
            return view
        for i in sorted(self._sent):
            low, high = self.terms.block(i, len(view))
            view[low:high] -= self._sent[i]
        return view

    def _take_in(self, broadcast: Broadcast) -> Floats | None:
        self._base, self.k, self.epoch = np.array(broadcast.model, dtype=np.float64), broadcast.k, broadcast.epoch
        self._yours = broadcast.yours
        self._sent = {i: delta for i, delta in self._sent.items() if i not in broadcast.yours}
        if self._frame is None:
            return None
        old, self._frame = self._frame, self._own_view()
        return self._frame - old

    def _check(self, broadcast: Broadcast) -> None:
        """Refuse an invalid broadcast before any change."""
        if np.shape(broadcast.model) != self._base.shape or not np.isfinite(broadcast.model).all():
            raise PeerError(
                f"the server sent a model that is not {len(self._base)} finite numbers; ignored, check the server"
            )
        if not 0 <= broadcast.k <= self.terms.rounds:
            raise PeerError(
                f"the server says k={broadcast.k}, but this run has {self.terms.rounds} rounds; ignored, check its terms"
            )
        ahead = broadcast.yours.end
        if ahead > self.terms.rounds:
            raise PeerError(
                f"the server has round {ahead - 1} of a run with {self.terms.rounds} rounds; ignored, check its terms"
            )
        if any(self.terms.share(i, self.me) for i in range(self.round, ahead) if i in broadcast.yours):
            raise UsageError(
                f"the server has rounds of client {self.me} beyond {self.round - 1}, the last that it sent: this client's "
                f"state is older than what it sent; restore the newer state; if it is lost, this has to be a new client of a new "
                f"federation"
            )


def _written(rounds: Settled) -> list[Any]:
    """Return a set of rounds as plain data."""
    return [rounds.below, [list(one) for one in rounds.beyond]]


def _settled(below: int, beyond: Sequence[int | Sequence[int]]) -> Settled:
    """Read a set of rounds from plain data; an earlier version lists each later round separately."""
    return Settled(int(below)).joined([(one, one + 1) if isinstance(one, int) else (one[0], one[1]) for one in beyond])


def _read_only(delta: Vector) -> Vector:
    own = np.array(delta)
    own.flags.writeable = False
    return own
