"""What clients and aggregators hear: a model is one that the server had at that round and epoch, whatever line and stream it came
by, and comes with the client's rounds that are in it; the newest is taken in; what is settled is what the server said in that
epoch."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from crescendo.core.aggregator import Aggregator, Child
from crescendo.core.messages import Broadcast, Settled, Word
from crescendo.core.vectors import encode
from crescendo.network.client.participant import Participant
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.server.service import Service
from crescendo.storage.journal.durable_server import DurableServer, Published


class Models:
    """The models that the server had, by epoch and k, each with what was settled in it of each client that it was for, and what
    is wrong with those that clients heard."""

    def __init__(self) -> None:
        self._made: defaultdict[tuple[int, int], set[tuple[str, int, Settled]]] = defaultdict(set)
        self._settled: defaultdict[tuple[int, int], Settled] = defaultdict(lambda: Settled(0))  # by epoch and client
        self.highest = 0  # k
        self.problems: list[str] = []

    def made(self, word: Word, wire: str) -> None:
        """The server's own state, not what it encoded: those are the same unless the server is wrong."""
        assert word.model is not None
        model = _digest(encode(word.model, wire))
        self._made[word.epoch, word.k] |= {(model, c, yours) for c, yours in word.yours.items()}
        self.highest = max(self.highest, word.k)

    def heard(self, name: str, c: int, broadcast: Broadcast, wire: str) -> None:
        made, model = self._made[broadcast.epoch, broadcast.k], _digest(encode(broadcast.model, wire))
        if (model, c, broadcast.yours) in made:
            return
        known = any(model == one for one, _, _ in made)
        wrong = "with other rounds of its own than are in it" if known else "that no server made"
        self.problems.append(f"{name} heard a model of k={broadcast.k} in epoch {broadcast.epoch} {wrong}")

    def taken_in(self, one: Participant, heard: Broadcast) -> None:
        """A client has looked at what it heard: nothing older may be what it works from."""
        if (newest := one._client._newest()) < (heard.epoch, heard.k):
            self.problems.append(f"{one.name} heard epoch and k {(heard.epoch, heard.k)} and works from {newest}")

    def said(self, epoch: int, settled: Mapping[int, Settled]) -> None:
        """What is on the server's disk, and may be said from now on."""
        for c, yours in settled.items():
            self._settled[epoch, c] |= yours

    def known(self, core: Aggregator) -> None:
        """What an aggregator takes for settled, which it tells its clients."""
        for c in range(core.terms.clients):
            if core.settled(c) | (said := self._settled[core.epoch, c]) != said:
                self.problems.append(
                    f"an aggregator has {core.settled(c)} of client {c} for settled in epoch {core.epoch}, and {said} was said"
                )


def _digest(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def overheard(models: Models) -> Iterator[None]:
    """While this lasts ``models`` knows what servers make and what clients hear."""
    encoded, publish, hear = Service._encoded, DurableServer._publish, Participant.hear
    take_up, hear_word = Participant._take_up_notes, Aggregator.hear

    def noted(service: Service, word: Word) -> EncodedBroadcast:
        models.made(word, service.agreement.wire)
        return encoded(service, word)

    def checked(one: Participant, broadcast: Broadcast) -> None:
        models.heard(one.name, one.me, broadcast, one.agreement.wire)
        hear(one, broadcast)

    def published(durable: DurableServer, news: Any) -> Published:
        models.said(news.word.epoch, {**durable._settled, **news.word.yours})
        return publish(durable, news)

    def taken_up(one: Participant) -> None:
        heard = one._news
        take_up(one)
        if heard is not None:
            models.taken_in(one, heard)

    def passed_on(core: Aggregator, word: Word) -> dict[Child, Word]:
        words = hear_word(core, word)
        models.known(core)
        return words

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Service, "_encoded", noted)
        patch.setattr(DurableServer, "_publish", published)
        patch.setattr(Participant, "hear", checked)
        patch.setattr(Participant, "_take_up_notes", taken_up)
        patch.setattr(Aggregator, "hear", passed_on)
        yield
