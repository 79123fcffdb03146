"""Messages with a piece of a vector, to bytes and back with one copy of the floats. The bytes are protobuf's own.

Protobuf copies a field of bytes three or four times each way, which at ten million floats costs as much as the rest. In our
messages the floats are the last field of the last field, so they can be cut off, and the small rest left to protobuf. What
is not laid out like that is protobuf's wholly: any sound message can be read, whatever wrote it.

Updates and broadcasts have the same layout: field 2 of the message, in it the vector as field 3, in it the data as field 6.
"""

from typing import NamedTuple, Self

from google.protobuf.message import DecodeError

from crescendo.core.vectors import Raw
from crescendo.network.protocol import wire_pb2 as pb

MESSAGE, VECTOR, DATA = 0x12, 0x1A, 0x32  # field 2, 3 and 6, each with its length before it
SMALL = 1 << 14  # bytes of a message that is left to protobuf


class Framed(NamedTuple):
    """A message whose floats were cut off, and those."""

    message: pb.ToServer
    data: Raw

    @staticmethod
    def join(fields: bytes, part: bytes, data: Raw) -> bytes:
        """The message whose part has these fields (serialized, without the vector), whose vector has ``part`` and ``data``."""
        before = part + bytes([DATA]) + _number(len(data))
        inside = fields + bytes([VECTOR]) + _number(len(before) + len(data)) + before
        return b"".join((bytes([MESSAGE]), _number(len(inside) + len(data)), inside, data))

    @classmethod
    def parse(cls, raw: bytes) -> pb.ToServer | Self:
        """What a client says. Bytes that are no message are taken for an empty one, so that they are refused in a sentence."""
        found = cls.cut(raw) if len(raw) > SMALL else None
        try:
            return pb.ToServer.FromString(raw) if found is None else cls(pb.ToServer.FromString(found[0]), found[1])
        except DecodeError:
            return pb.ToServer()

    @staticmethod
    def cut(raw: bytes) -> tuple[bytes, memoryview] | None:
        """A message without its floats, and those; None if it is not laid out as `join` does."""
        try:
            fields = _inside(raw, 0, MESSAGE)
            vector = _find(raw, fields, VECTOR)
            part = _inside(raw, vector, VECTOR)
            data = _find(raw, part, DATA)
            floats = _inside(raw, data, DATA)
        except (IndexError, ValueError):
            return None
        rest = raw[fields:vector] + bytes([VECTOR]) + _number(data - part) + raw[part:data]
        return bytes([MESSAGE]) + _number(len(rest)) + rest, memoryview(raw)[floats:]


def _inside(raw: bytes, at: int, field: int) -> int:
    """Where the bytes of a field begin that is the last one."""
    length, begin = _read(raw, at + 1)
    if raw[at] != field or begin + length != len(raw) or raw[at + 1 : begin] != _number(length):
        raise ValueError
    return begin


def _find(raw: bytes, at: int, field: int) -> int:
    """Where the first field of that kind stands, from ``at`` on."""
    while raw[at] != field:
        kind = raw[at] & 7
        number, following = _read(raw, at + 1)
        if raw[at] >= 0x80 or kind not in (0, 2):  # a field of a number or of bytes that we have
            raise ValueError
        at = following + (number if kind == 2 else 0)
    return at


def _number(number: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _read(raw: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends."""
    number = 0
    for i in range(10):
        number |= (raw[at + i] & 0x7F) << 7 * i
        if raw[at + i] < 0x80:
            return number, at + i + 1
    raise ValueError
