"""Messages that are laid out oddly are protobuf's: what it refuses (7 does, and 6 does not) is not read by hand either."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError

from crescendo.network.protocol import framing
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.framing import Framed


def number(length: int, zeros: int) -> bytes:
    """A length with zeros before its first digit, which are written last."""
    found = bytes([length & 0x7F | 0x80, length >> 7])
    return found if not zeros else found[:1] + bytes([found[1] | 0x80]) + b"\x80" * (zeros - 1) + b"\x00"


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("zeros", [0, 1, 7])
def test_a_length_with_zeros_before_it_is_left_to_protobuf(
    place: int, zeros: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framing, "SMALL", 0)
    made = bytes(200)
    for at, tag in enumerate((framing.DATA, framing.VECTOR, framing.MESSAGE)):
        made = bytes([tag]) + number(len(made), zeros if at == place else 0) + made
    try:
        sound = pb.ToServer.FromString(made)
    except DecodeError:
        sound = pb.ToServer()
    assert (Framed.cut(made) is None) == (zeros > 0)
    assert zeros == 0 or Framed.parse(made) == sound
