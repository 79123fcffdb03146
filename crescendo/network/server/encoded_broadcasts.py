"""Encoded broadcasts: the server makes the bytes of a broadcast once and shares them between clients; only ``yours`` differs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from crescendo.core.messages import Settled
from crescendo.core.vectors import Raw
from crescendo.network.protocol.wire_messages import broadcast_parts, with_yours


class EncodedBroadcast:
    """The model at ``k``, as ``data`` of floats ``wire``."""

    def __init__(self, k: int, epoch: int, data: Raw, wire: str) -> None:
        self.k, self.epoch, self.data, self.wire = k, epoch, data, wire

    @cached_property
    def _parts(self) -> list[bytes]:
        return list(broadcast_parts(self.k, self.epoch, self.data, self.wire))

    def messages(self, yours: Settled) -> Iterator[bytes]:
        """The messages for one client."""
        first, *others = self._parts
        yield with_yours(first, yours)
        yield from others


def serialize(message: Any) -> bytes:
    """What goes to a client: protobuf messages, and bytes where many clients share them."""
    raw: bytes = message if isinstance(message, bytes) else message.SerializeToString()
    return raw
