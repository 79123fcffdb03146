"""What clients put on the wire, noted where it leaves them: every byte of every update, whichever stream it went on."""

from __future__ import annotations

import hashlib
from typing import Any

from crescendo.core.vectors import item_bytes
from crescendo.federation.agreement import Agreement
from crescendo.network.protocol.resumption import PART, SMALL_PART
from crescendo.network.protocol.wire_messages import TO_SERVER, UpdatePart, VoidRound
from tests.network.virtual.hearing import Models


class Sent:
    """The bytes of one update, as far as they were sent."""

    def __init__(self, length: int) -> None:
        self._bytes, self._known = bytearray(length), bytearray(length)

    def add(self, place: int, data: bytes) -> bool:
        """False if other bytes went out in this place before."""
        until = place + len(data)
        if until > len(self._bytes):
            return False
        known = self._known[place:until]
        same = (
            all(not k or a == b for k, a, b in zip(known, self._bytes[place:until], data, strict=True))
            if any(known)
            else True
        )
        self._bytes[place:until] = data
        self._known[place:until] = b"\1" * len(data)
        return same

    @property
    def sha256(self) -> str | None:
        """Of all of it; None if some of it was never sent."""
        return hashlib.sha256(self._bytes).hexdigest() if all(self._known) else None

    @property
    def data(self) -> bytes:
        return bytes(self._bytes)


class WireTap:
    """Updates by (round, client), and rounds that clients declared void."""

    def __init__(self, agreed: Agreement, models: Models) -> None:
        self._item, self._terms, self._models = item_bytes(agreed.wire), agreed.terms, models
        self.sent: dict[tuple[int, int], Sent] = {}
        self.void: set[tuple[int, int]] = set()
        self.problems: list[str] = []
        self.messages = 0
        self.longest = 0  # bytes of a message that is no part of a vector

    def saw(self, c: int, message: Any) -> None:
        """A client's message, as it is handed to gRPC."""
        self.messages += 1
        said = TO_SERVER.decode(message)
        if isinstance(said, VoidRound):
            self.void.add((said.round, c))
        elif isinstance(said, UpdatePart):
            self._add(c, said)
        else:
            self.longest = max(self.longest, message.ByteSize())

    def _add(self, c: int, said: UpdatePart) -> None:
        part, pair = said.vector, (said.vector.about, c)
        if pair[0] > self._terms.furthest(k := min(self._models.highest, self._terms.rounds)):
            self.problems.append(f"client {c} sent round {pair[0]} when the server was at k={k}")
        length = part.numbers * self._item
        sent = self.sent.setdefault(pair, Sent(length))
        size = PART if part.parts == max(1, -(-length // PART)) else SMALL_PART
        if not sent.add(part.part * size, bytes(part.data)):
            self.problems.append(f"client {c} sent other bytes of round {pair[0]} than before")
