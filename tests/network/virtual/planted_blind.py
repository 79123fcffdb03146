"""Ten bugs that were planted by someone who had not read the harness: its first test by a stranger.

They were written from the code that they break and from docs/architecture.md alone.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.core.aggregator import Aggregator
from crescendo.core.arrays import Floats
from crescendo.core.client import Client
from crescendo.core.messages import Broadcast, Word
from crescendo.core.settled import SettledRounds
from crescendo.network.client.client_session import _Connection
from crescendo.network.protocol.vector_parts import Assembly
from crescendo.network.server.service import Service
from crescendo.storage.journal.journal import Batch, Journal
from crescendo.storage.journal.snapshots import Snapshot

Patch = pytest.MonkeyPatch


def sent_is_remembered(patch: Patch) -> None:
    """A client takes what went out on a stream that broke for sent, and does not send it again on the next stream."""

    def get(connection: Any) -> set[int]:
        found: set[int] = vars(connection)["_sent"]
        return found

    def put(connection: Any, rounds: set[int]) -> None:
        vars(connection).setdefault("_sent", rounds)

    patch.setattr(_Connection, "_sent", property(get, put), raising=False)


def sums_in_short_floats(patch: Patch) -> None:
    """An aggregator adds updates up in the floats of the wire instead of float64."""
    choose = Aggregator._choose

    def shorter(self: Aggregator) -> tuple[list[Any], Floats]:
        chosen, total = choose(self)
        return chosen, total.astype(chosen[0].content.delta.dtype) if chosen else total

    patch.setattr(Aggregator, "_choose", shorter)


def aggregator_keeps_old_epoch(patch: Patch) -> None:
    """An aggregator hears of a new epoch and still takes what the server had in the old one for settled."""
    hear = Aggregator.hear

    def heard(self: Aggregator, word: Word) -> Any:
        if word.epoch > self.epoch:
            self.epoch, self._newest = word.epoch, None
        return hear(self, word)

    patch.setattr(Aggregator, "hear", heard)


def small_records_first(patch: Patch) -> None:
    """The journal writes the small records of a batch before the large ones, so that acknowledgements need not wait."""
    write = Journal.write

    def written(self: Journal, batch: Batch) -> None:
        write(self, sorted(batch, key=lambda record: sum(map(len, record[1]))))

    patch.setattr(Journal, "write", written)


def k_before_epoch(patch: Patch) -> None:
    """A client compares broadcasts by k first and by epoch second: after a restore it ignores a model with a smaller k."""
    receive = Client.receive

    def received(self: Client, broadcast: Broadcast) -> Floats | None:
        epoch, k = self._newest()
        return None if (broadcast.k, broadcast.epoch) <= (k, epoch) else receive(self, broadcast)

    patch.setattr(Client, "receive", received)


def probation_for_ever(patch: Patch) -> None:
    """A client whose probation ends is not asked to join again, and rounds never wait for it any more."""
    accepted = Service._accepted

    def noted(self: Service, c: int) -> None:
        accepted(self, c)
        self._off_probation.clear()

    patch.setattr(Service, "_accepted", noted)


def short_streams_forget(patch: Patch) -> None:
    """A stream that breaks before a vector goes on forgets the part of it that an earlier stream brought."""
    hand_over = Assembly.hand_over

    def handed_over(self: Assembly) -> Any:
        self._kept = None
        return hand_over(self)

    patch.setattr(Assembly, "hand_over", handed_over)


def absence_settles_all_before(patch: Patch) -> None:
    """The rounds that pass while a client is away are settled together with the open ones before, which are on their way."""
    mark_all = SettledRounds.mark_all

    def marked(self: SettledRounds, first: int, stop: int, c: int) -> None:
        mark_all(self, int(self.below[c]) if stop - first > 1 else first, stop, c)

    patch.setattr(SettledRounds, "mark_all", marked)


def broadcast_is_cached_for_its_k(patch: Patch) -> None:
    """A client that joins gets the model that was encoded when its k came, with what was settled since."""

    def kept(apply: Any) -> Any:
        def applied(self: Service, message: Any) -> None:
            before = self._broadcast
            apply(self, message)
            self._broadcast = before

        return applied

    patch.setattr(Service, "_update", kept(Service._update))
    patch.setattr(Service, "_sum", kept(Service._sum))


def snapshot_in_float32(patch: Patch) -> None:
    """A snapshot keeps the model in float32, which takes half the room."""
    write = Snapshot.write

    def written(self: Snapshot, folder: Path) -> None:
        write(self._replace(state={**self.state, "model": self.state["model"].astype(np.float32)}), folder)

    patch.setattr(Snapshot, "write", written)
