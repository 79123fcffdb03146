"""The state that a journal's entries determine: the core's server and the registered instances. No I/O; deterministic."""

from typing import Any, Self

from crescendo.core.arrays import Vector
from crescendo.core.messages import Settled, Sum, Update
from crescendo.core.server import Server
from crescendo.core.terms import Terms
from crescendo.errors import PeerError, UsageError
from crescendo.storage.journal.journal_entries import (
    Absent,
    Back,
    Entry,
    Left,
    NewEpoch,
    Opened,
    Received,
    Registered,
    Summed,
    Voided,
    delta_of,
)

EPOCHS_AHEAD = 1_000_000  # a client more epochs ahead of ours is refused


class OtherInstance(PeerError):
    """The name is registered to another instance: a copy of the client's folder, or an impostor. Refuse it."""


class ServerState:
    """The state after some entries. `apply` checks first and changes second: a refused entry leaves no trace."""

    def __init__(self, digest: str, server: Server) -> None:
        self.digest, self.server, self.terms = digest, server, server.terms
        self.instances: dict[int, str] = {}

    @classmethod
    def opened(cls, entry: Opened, terms: Terms) -> Self:
        """The state after the first entry."""
        return cls(entry.digest, Server(terms, entry.model, entry.present))

    def apply(self, entry: Entry, delta: Vector | None = None) -> bool:
        """Apply an entry; return False if it changes nothing and need not be stored. ``delta`` is its numbers, if decoded."""
        match entry:
            case Received(round, client):
                self.server.receive(Update(round, client, delta_of(entry) if delta is None else delta))
            case Summed(pairs):
                self.server.receive_sum(Sum(pairs, delta_of(entry) if delta is None else delta))
            case Voided(round, client):
                known = round in self.server.settled(client)
                self.server.void(round, client)
                return not known
            case Absent(client):
                known = not self._present(client)
                self.server.absent(client)
                return not known
            case Back(client, last):
                known = self._present(client) and self.server.last(client) == last
                self.server.back(client, last)
                return not known
            case Registered(client, instance):
                return self._join(client, instance)
            case Left(client):
                self.server.leave(client)
            case NewEpoch(epoch):
                if epoch <= self.server.epoch:
                    raise UsageError(f"epoch {epoch} is not after epoch {self.server.epoch}; epochs only grow")
                self.server.epoch = epoch
            case Opened():
                raise UsageError("a federation is opened once")
        return True

    def low(self, round: int) -> int:
        """Return the offset of a round's block in the model."""
        return self.terms.block(round, len(self.server.model))[0]

    def epoch_after(self, client: int, epoch: int, k: int, acknowledged: Settled) -> int | None:
        """Return the epoch to begin if a client has seen a later state of this federation than ours; None otherwise."""
        server = self.server
        seen = max(k, acknowledged.end)
        if seen > self.terms.rounds or epoch > server.epoch + EPOCHS_AHEAD:
            raise PeerError(
                f"client {client} has seen k={k} in epoch {epoch}, which cannot be in this run; check its terms"
            )
        if epoch < server.epoch:
            return None
        lacking = epoch > server.epoch or k > server.k or self._lacks(client, acknowledged)
        return epoch + 1 if lacking else None

    # -- as plain data -------------------------------------------------------------------------------------------------

    def export(self) -> dict[str, Any]:
        """Export the state except the terms, as arrays and plain data."""
        registered = sorted([c, name] for c, name in self.instances.items())
        return {**self.server.export(), "digest": self.digest, "instances": registered}

    @classmethod
    def restore(cls, terms: Terms, exported: dict[str, Any]) -> Self:
        """Restore an exported state, bit for bit."""
        state = cls(str(exported["digest"]), Server.restore(terms, exported))
        state.instances = {int(c): str(name) for c, name in exported["instances"]}
        return state

    # -- inside --------------------------------------------------------------------------------------------------------

    def _present(self, client: int) -> bool:
        return 0 <= client < self.terms.clients and bool(self.server.present[client])

    def _join(self, client: int, instance: str) -> bool:
        self.server.settled(client)  # refuses a client that is not in the terms, or that has left
        known = self.instances.get(client)
        if known is not None and known != instance:
            raise OtherInstance(
                f"client {client} is registered as another instance; two copies of one client, or a lost state folder: "
                f"go on with the folder it began with; if that is lost, it has to be a new client of a new federation"
            )
        self.instances[client] = instance
        return known is None

    def _lacks(self, client: int, acknowledged: Settled) -> bool:
        here = self.server.settled(client)
        claimed = [(here.below, acknowledged.below), *acknowledged.beyond]
        missing = (gap for first, stop in claimed for gap in here.gaps(first, stop))
        return any(self.terms.share(i, client) for first, stop in missing for i in range(first, stop))
