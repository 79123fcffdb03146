"""Messages that are put together and cut by hand are protobuf's, byte for byte and whoever wrote them."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from crescendo.errors import PeerError
from crescendo.network.protocol import framing
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.framing import Framed
from crescendo.network.protocol.wire_messages import TO_SERVER, UpdatePart

DIGEST = "ab" * 32
numbers = st.integers(0, 2**40)
data = st.one_of(st.binary(max_size=20), st.sampled_from([0, 127, 128, 16_383, 16_384, 70_000]).map(bytes))
parts = st.builds(
    pb.Part,
    about=numbers,
    part=st.integers(0, 3),
    parts=st.integers(0, 4),
    floats=st.sampled_from([pb.FLOAT32, pb.BFLOAT16]),
    numbers=numbers,
    data=data,
)
updates = st.builds(pb.UpdatePart, federation=st.text(max_size=5), digest=st.just(DIGEST), vector=parts)


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "SMALL", 0)


def rest_of(vector: pb.Part) -> pb.Part:
    rest = pb.Part()
    rest.CopyFrom(vector)
    rest.ClearField("data")
    return rest


def meaning(message: Any) -> Any:
    """What a message comes to, or why it is refused."""
    try:
        read = TO_SERVER.decode(message)
    except PeerError as error:
        return str(error)
    if not isinstance(read, UpdatePart):
        return read
    vector = read.vector
    fields = (vector.about, vector.part, vector.parts, vector.wire, vector.numbers)
    return read.federation, read.digest, fields, bytes(vector.data)


def by_protobuf(raw: bytes) -> pb.ToServer:
    try:
        return pb.ToServer.FromString(raw)
    except DecodeError:
        return pb.ToServer()


@given(updates)
def test_the_bytes_are_those_of_protobuf(update: pb.UpdatePart) -> None:
    fields = pb.UpdatePart(federation=update.federation, digest=update.digest).SerializeToString()
    made = Framed.join(fields, rest_of(update.vector).SerializeToString(), update.vector.data)
    assert pb.ToServer.FromString(made) == pb.ToServer(update=update)
    if update.vector.data:  # protobuf leaves an empty field out
        assert made == pb.ToServer(update=update).SerializeToString()


@given(updates)
def test_what_is_cut_off_are_the_floats(update: pb.UpdatePart) -> None:
    raw = pb.ToServer(update=update).SerializeToString()
    found = Framed.parse(raw)
    assert meaning(found) == meaning(by_protobuf(raw))
    if update.vector.data:
        assert isinstance(found, Framed) and bytes(found.data) == update.vector.data
        assert found.message.update.vector == rest_of(update.vector)


@given(updates, st.data())
def test_a_damaged_message_means_what_protobuf_says(update: pb.UpdatePart, draw: st.DataObject) -> None:
    raw = bytearray(pb.ToServer(update=update).SerializeToString())
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, min(len(raw) - 1, 120)))
        raw[at] = draw.draw(st.integers(0, 255))
    raw = raw[: draw.draw(st.sampled_from([len(raw), len(raw) - 1, len(raw) // 2]))]
    assert meaning(Framed.parse(bytes(raw))) == meaning(by_protobuf(bytes(raw)))


@given(st.binary(max_size=60))
def test_any_bytes_mean_what_protobuf_says(raw: bytes) -> None:
    assert meaning(Framed.parse(raw)) == meaning(by_protobuf(raw))


@given(updates, updates)
def test_two_messages_in_one_are_left_to_protobuf(one: pb.UpdatePart, other: pb.UpdatePart) -> None:
    raw = pb.ToServer(update=one).SerializeToString() + pb.ToServer(update=other).SerializeToString()
    assert Framed.cut(raw) is None
    assert meaning(Framed.parse(raw)) == meaning(by_protobuf(raw))


@given(numbers, numbers, st.integers(1, 40_000))
def test_broadcasts_are_those_of_protobuf(k: int, epoch: int, floats: int) -> None:
    whole = bytes(range(256)) * (floats // 64 + 1)
    whole = whole[: 4 * floats]
    [part] = EncodedBroadcast(k, epoch, whole, "float32").parts
    vector = pb.Part(about=k, part=0, parts=1, floats=pb.FLOAT32, numbers=floats, data=whole)
    assert part == pb.ToClient(broadcast=pb.BroadcastPart(epoch=epoch, vector=vector)).SerializeToString()
