"""Encoded broadcasts: the server encodes a broadcast once for all clients; only the ``yours`` field differs."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from crescendo.core.messages import Settled
from crescendo.core.vectors import Raw
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.codec import MessageType, write_settled
from crescendo.network.protocol.framing import Framed
from crescendo.network.protocol.resumption import Resumed
from crescendo.network.protocol.vector_parts import Part

_PART = MessageType(Part, pb.Part.DESCRIPTOR)


class EncodedBroadcast:
    """The model at ``k``: its bytes ``data``, of float type ``wire``."""

    def __init__(self, k: int, epoch: int, data: Raw, wire: str) -> None:
        self.k, self.epoch, self.data, self.wire = k, epoch, data, wire

    @cached_property
    def parts(self) -> list[bytes]:
        """The messages that carry the model, as bytes; the first still lacks ``yours``."""
        return list(self._written(None))

    def _written(self, how: Resumed | None) -> Iterator[bytes]:
        fields = pb.BroadcastPart(epoch=self.epoch).SerializeToString()
        for part in Part.split(self.k, self.data, self.wire, how):
            yield Framed.join(fields, _PART.write(replace(part, data=b"")).SerializeToString(), part.data)

    def messages(self, yours: Settled, how: Resumed | None = None) -> Iterator[bytes]:
        """Yield the messages for one client. The first gets the client's rounds appended: a parser merges the two halves.

        On a good line all clients share the messages. On a bad one (``how``) they are small, and each is made when it is sent.
        """
        mine = pb.ToClient(broadcast=pb.BroadcastPart(yours=write_settled(yours)))
        messages = iter(self.parts) if how is None else self._written(how)
        yield next(messages) + mine.SerializeToString()
        yield from messages
