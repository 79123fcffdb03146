"""What clients hear: a model is one that the server made for that round and epoch, whatever line and stream it came by."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from crescendo.core.messages import Broadcast, Word
from crescendo.core.vectors import encode
from crescendo.network.client.participant import Participant
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.server.service import Service


class Models:
    """The models that the server made, by epoch and k, and what is wrong with those that clients heard."""

    def __init__(self) -> None:
        self._made: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
        self.highest = 0  # k
        self.problems: list[str] = []

    def made(self, broadcast: EncodedBroadcast) -> None:
        self._made[broadcast.epoch, broadcast.k].add(_digest(broadcast.data))
        self.highest = max(self.highest, broadcast.k)

    def heard(self, name: str, broadcast: Broadcast, wire: str) -> None:
        if _digest(encode(broadcast.model, wire)) not in self._made[broadcast.epoch, broadcast.k]:
            self.problems.append(
                f"{name} heard a model of k={broadcast.k} in epoch {broadcast.epoch} that no server made"
            )


def _digest(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def overheard(models: Models) -> Iterator[None]:
    """While this lasts ``models`` knows what servers make and what clients hear."""
    encoded, hear = Service._encoded, Participant.hear

    def noted(service: Service, word: Word) -> EncodedBroadcast:
        made = encoded(service, word)
        models.made(made)
        return made

    def checked(one: Participant, broadcast: Broadcast) -> None:
        models.heard(one.name, broadcast, one.agreement.wire)
        hear(one, broadcast)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Service, "_encoded", noted)
        patch.setattr(Participant, "hear", checked)
        yield
