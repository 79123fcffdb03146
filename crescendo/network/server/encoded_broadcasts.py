"""Broadcasts as they go out: the bytes are made once and shared by all who are told; only what is settled differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True, slots=True, eq=False)
class News:
    """A broadcast for one client."""

    broadcast: EncodedBroadcast
    yours: Settled
