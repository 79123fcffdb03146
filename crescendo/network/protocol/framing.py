"""Framing: writes and reads messages with a part of a vector, copying the floats once. The bytes are plain protobuf.

Protobuf copies a field of bytes three or four times each way, which at ten million floats takes as long as all other work on the
message. In our messages the floats are the last field of the last field, so this module cuts them off and leaves the small rest
to protobuf. Protobuf parses messages of any other layout whole, so every valid encoding can be read.

Updates and broadcasts have the same layout: field 2 of the message holds the vector as field 3, and that the data as field 6.
"""

from typing import NamedTuple, Self

from google.protobuf.message import DecodeError

from crescendo.core.vectors import Raw
from crescendo.network.protocol import wire_pb2 as pb

MESSAGE, VECTOR, DATA = 0x12, 0x1A, 0x32  # tags of the length-delimited fields 2, 3 and 6
SMALL = 1 << 14  # bytes; protobuf parses messages up to this size whole


class Framed(NamedTuple):
    """A message without its floats, and the floats."""

    message: pb.ToServer
    data: Raw

    @staticmethod
    def join(fields: bytes, part: bytes, data: Raw) -> bytes:
        """Return a message from its serialized ``fields`` (without the vector), and the vector's ``part`` fields and ``data``."""
        before = part + bytes([DATA]) + _number(len(data))
        inside = fields + bytes([VECTOR]) + _number(len(before) + len(data)) + before
        return b"".join((bytes([MESSAGE]), _number(len(inside) + len(data)), inside, data))

    @classmethod
    def parse(cls, raw: bytes) -> pb.ToServer | Self:
        """Parse a client's message. Invalid bytes become an empty message, which the codec refuses with a clear error."""
        found = cls.cut(raw) if len(raw) > SMALL else None
        try:
            return pb.ToServer.FromString(raw) if found is None else cls(pb.ToServer.FromString(found[0]), found[1])
        except DecodeError:
            return pb.ToServer()

    @staticmethod
    def cut(raw: bytes) -> tuple[bytes, memoryview] | None:
        """Split a message into the rest and its floats; None if its layout is not that of `join`."""
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
    """Return where the bytes of the field at ``at`` begin; ValueError if it is not the last field."""
    length, begin = _read(raw, at + 1)
    if raw[at] != field or begin + length != len(raw) or raw[at + 1 : begin] != _number(length):
        raise ValueError
    return begin


def _find(raw: bytes, at: int, field: int) -> int:
    """Return the position of the first field with tag ``field`` from ``at`` on."""
    while raw[at] != field:
        kind = raw[at] & 7
        number, following = _read(raw, at + 1)
        if raw[at] >= 0x80 or kind not in (
            0,
            2,
        ):  # none of our fields: they are numbers or bytes, with a tag of one byte
            raise ValueError
        at = following + (number if kind == 2 else 0)
    return at


def _number(number: int) -> bytes:
    """Encode a varint: seven bits a byte, the lowest first."""
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _read(raw: bytes, at: int) -> tuple[int, int]:
    """Decode a varint; return the number and the position after it."""
    number = 0
    for i in range(10):
        number |= (raw[at + i] & 0x7F) << 7 * i
        if raw[at + i] < 0x80:
            return number, at + i + 1
    raise ValueError
