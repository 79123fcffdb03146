"""Messages to protobuf and back: a sound message comes back equal, any other is refused with `PeerError` and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.core.messages import Settled
from crescendo.core.vectors import WIRES, encode
from crescendo.errors import PeerError, UsageError
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.codec import BEYOND, LARGEST, LISTED, RANGES, TERMS, TEXT
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.resumption import PART
from crescendo.network.protocol.vector_parts import Assembly, Part
from crescendo.network.protocol.versions import PeerVersion
from crescendo.network.protocol.wire_messages import (
    TO_CLIENT,
    TO_SERVER,
    Ack,
    BroadcastPart,
    FromClient,
    FromServer,
    Goodbye,
    Hello,
    Ping,
    Pong,
    Refusal,
    UpdatePart,
    VoidRound,
    Welcome,
)

quick = settings(deadline=None, max_examples=60)
DIGEST, INSTANCE = "ab" * 32, "cd" * 16

small = st.integers(0, LARGEST - 1)
names = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20)
hexes = st.text("0123456789abcdef", min_size=64, max_size=64)


@st.composite
def settled(draw: st.DrawFn) -> Settled:
    below = draw(st.integers(0, 1000))
    return Settled(below).joined((i, i + 1) for i in draw(st.sets(st.integers(below + 1, below + 20), max_size=9)))


@st.composite
def parts(draw: st.DrawFn) -> Part:
    of = draw(st.integers(1, 9))
    place, data = draw(st.integers(0, of - 1)), draw(st.binary(max_size=30))
    return Part(draw(small), place, of, draw(st.sampled_from(WIRES)), draw(small), data)


versions = st.none() | st.builds(PeerVersion, st.just("1.2.3"), st.integers(1, 9), st.integers(9, 2**32 - 1))
hellos = st.builds(
    Hello,
    names,
    st.just(INSTANCE),
    names,
    st.one_of(hexes, st.just("")),
    st.integers(-1, 99),
    small,
    small,
    settled(),
    names,
    versions,
)
client_messages = st.one_of(
    hellos,
    st.builds(UpdatePart, names, hexes, parts()),
    st.builds(VoidRound, small, names, hexes),
    st.builds(Goodbye, names, st.booleans()),
    st.builds(Pong, small),
)
server_messages = st.one_of(
    st.builds(Welcome, names, names, small, st.integers(0, 99), small, settled(), versions),
    st.builds(
        lambda epoch, yours, part: BroadcastPart(epoch, None if part.part else yours, part), small, settled(), parts()
    ),
    st.builds(Ack, settled(), small),
    st.builds(Refusal, names, st.booleans(), st.one_of(st.none(), small)),
    st.builds(Ping, small),
)


def plain(message: object) -> Any:
    """A message as comparable data: vectors do not compare by themselves."""
    return type(message), dataclasses.asdict(message)  # type: ignore[call-overload]


@pytest.mark.slow
@quick
@given(client_messages)
def test_what_a_client_says_arrives(message: FromClient) -> None:
    assert plain(TO_SERVER.decode(pb.ToServer.FromString(TO_SERVER.encode(message).SerializeToString()))) == plain(
        message
    )


@pytest.mark.slow
@quick
@given(server_messages)
def test_what_a_server_says_arrives(message: FromServer) -> None:
    assert plain(TO_CLIENT.decode(pb.ToClient.FromString(TO_CLIENT.encode(message).SerializeToString()))) == plain(
        message
    )


@pytest.mark.slow
@quick
@given(st.one_of(client_messages, server_messages), st.data())
def test_mutated_bytes_are_read_or_refused_and_nothing_else_happens(message: Any, data: st.DataObject) -> None:
    for_server = isinstance(message, FromClient)
    raw = bytearray((TO_SERVER.encode(message) if for_server else TO_CLIENT.encode(message)).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        if for_server:
            read: Any = TO_SERVER.decode(pb.ToServer.FromString(bytes(raw)))
            again: Any = TO_SERVER.decode(TO_SERVER.encode(read))
        else:
            read = TO_CLIENT.decode(pb.ToClient.FromString(bytes(raw)))
            again = TO_CLIENT.decode(TO_CLIENT.encode(read))
    except (PeerError, DecodeError):
        return
    assert plain(again) == plain(read)  # what was let in is a message like any other


@pytest.mark.parametrize("numbers", [1, 123, PART // 4, PART // 4 + 1, 3 * PART // 4 - 1])
def test_an_update_and_a_broadcast_of_any_length_arrive_byte_for_byte(numbers: int) -> None:
    data = encode(np.arange(numbers, dtype=float), "float32")
    up, down = Assembly(numbers), Assembly(numbers)
    got: list[object] = []
    for sent in map(TO_SERVER.encode, UpdatePart.split(5, data, "float32", "f", DIGEST)):
        assert sent.ByteSize() < PART + 1000
        read = TO_SERVER.decode(sent)
        assert isinstance(read, UpdatePart) and (read.federation, read.digest, read.vector.about) == ("f", DIGEST, 5)
        got.append(up.add(read.vector))
    for broadcast in EncodedBroadcast(8, 2, data, "float32").messages(Settled(3, ((5, 6),))):
        heard = TO_CLIENT.decode(pb.ToClient.FromString(broadcast))
        assert isinstance(heard, BroadcastPart) and (heard.epoch, heard.vector.about) == (2, 8)
        assert heard.yours == (None if heard.vector.part else Settled(3, ((5, 6),)))
        got.append(down.add(heard.vector))
    assert [whole for whole in got if whole is not None] == [data, data]


def hello(**changed: Any) -> pb.ToServer:
    made: pb.ToServer = TO_SERVER.encode(dataclasses.replace(Hello("a", INSTANCE), **changed))
    return made


def part(**changed: Any) -> pb.Part:
    fields: dict[str, Any] = {"about": 0, "part": 0, "parts": 1, "floats": pb.FLOAT32, "numbers": 1, "data": bytes(4)}
    fields.update(changed)
    return pb.Part(**fields)


def acknowledging(**fields: Any) -> pb.ToServer:
    return pb.ToServer(hello=pb.Hello(name="a", instance=INSTANCE, acknowledged=pb.Settled(**fields)))


def update(**changed: Any) -> pb.ToServer:
    return pb.ToServer(update=pb.UpdatePart(federation="f", digest=DIGEST, vector=part(**changed)))


REFUSED = {
    "nothing": pb.ToServer(),
    "no name": hello(name=""),
    "a long name": hello(name="x" * 129),
    "a name with control characters": hello(name="a\nb"),
    "no instance": hello(instance=""),
    "an instance that is not hex": hello(instance="g" * 32),
    "an instance and a line": hello(instance=INSTANCE + "\n"),
    "a digest of another length": hello(digest="ab"),
    "a round before the first": hello(last=-2),
    "a round beyond any": hello(last=LARGEST),
    "an epoch beyond any": hello(epoch=LARGEST),
    "a k beyond any": hello(k=LARGEST),
    "a long token": hello(token="x" * 129),
    "rounds out of order": acknowledging(beyond=[5, 3]),
    "rounds twice": acknowledging(beyond=[3, 3]),
    "a round that is below": acknowledging(below=4, beyond=[4]),
    "too many rounds one by one": acknowledging(beyond=range(1, BEYOND + 2)),
    "too many ranges": acknowledging(ranges=range(1, 2 * RANGES + 3)),
    "half a range": acknowledging(ranges=[3, 4, 5]),
    "ranges out of order": acknowledging(ranges=[5, 7, 3, 4]),
    "an empty range": acknowledging(ranges=[3, 3]),
    "ranges without a gap": acknowledging(ranges=[3, 5, 5, 6]),
    "a range from below on": acknowledging(below=3, ranges=[3, 5]),
    "a range beyond any": acknowledging(ranges=[3, LARGEST]),
    "floats of no kind": update(floats=pb.UNSTATED),
    "floats of an unknown kind": update(floats=77),
    "a part beyond the last": update(part=1),
    "no parts": update(parts=0),
    "a part that is too long": update(data=bytes(PART + 1)),
    "a length beyond any": update(numbers=LARGEST),
    "a round of an update beyond any": update(about=LARGEST),
    "no vector": pb.ToServer(update=pb.UpdatePart(federation="f", digest=DIGEST)),
    "no digest": pb.ToServer(void=pb.Void(round=1, federation="f")),
    "a long reason": pb.ToServer(leave=pb.Leave(reason="x" * (TEXT + 1))),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_client_is_refused_that_sends(what: str) -> None:
    with pytest.raises(PeerError) as refused:
        TO_SERVER.decode(REFUSED[what])
    assert len(str(refused.value)) < 250 and "\n" not in str(refused.value)


def test_a_server_is_refused_that_sends_a_broadcast_without_the_receivers_rounds_or_no_known_message() -> None:
    later = part(part=1, parts=2, data=bytes(4))
    for bad in (
        pb.ToClient(),
        pb.ToClient(broadcast=pb.BroadcastPart(vector=part())),
        pb.ToClient(broadcast=pb.BroadcastPart(vector=later, yours=pb.Settled())),
        pb.ToClient(welcome=pb.Welcome(terms="x" * (TERMS + 1))),
        pb.ToClient(refusal=pb.Refusal(round=LARGEST)),
    ):
        with pytest.raises(PeerError):
            TO_CLIENT.decode(bad)


def test_a_token_is_not_in_what_is_printed_and_long_reasons_are_cut() -> None:
    assert "secret" not in repr(Hello("a", INSTANCE, token="secret"))
    assert len(TO_CLIENT.encode(Refusal("x" * 5000)).refusal.reason) == TEXT
    with pytest.raises(UsageError, match="at most"):
        TO_CLIENT.encode(Welcome("x" * (TERMS + 1), "f", 0, 0, 0, Settled(0)))


# -- sets of rounds


def sent(settled: Settled) -> pb.Settled:
    made: pb.Settled = TO_CLIENT.encode(Ack(settled)).ack.yours
    return made


def heard(settled: pb.Settled) -> Settled:
    ack = TO_CLIENT.decode(pb.ToClient(ack=pb.Ack(yours=settled)))
    assert isinstance(ack, Ack)
    return ack.yours


@pytest.mark.parametrize("away", [65_535, 65_536, 65_537, 1_000_000])
def test_an_absence_of_any_length_is_one_range_on_the_wire(away: int) -> None:
    settled = Settled(3, ((7, 7 + away),))
    made = sent(settled)
    assert heard(made) == settled and made.ByteSize() < 3000
    made.ClearField("beyond")
    assert heard(made) == settled and made.ByteSize() < 20, "what it comes to once no older side is left"


def test_a_peer_from_before_ranges_hears_rounds_one_by_one_and_is_heard() -> None:
    settled = Settled(3, ((5, 7), (9, 2000)))
    made = sent(settled)
    assert list(made.beyond) == [5, 6, *range(9, 9 + LISTED - 2)], "the first of them: it takes the others for open"
    assert heard(pb.Settled(below=3, beyond=[5, 6, 9])) == Settled(3, ((5, 7), (9, 10)))
    assert not sent(Settled(8)).beyond and sent(Settled(8)).SerializeToString() == b"\x08\x08", "as it was"


@pytest.mark.parametrize("many", [RANGES - 1, RANGES, RANGES + 1])
def test_so_many_ranges_go_into_a_message(many: int) -> None:
    """More can only be more than a server lets a client have; the rest counts as open."""
    settled = Settled(0, tuple((2 * i + 1, 2 * i + 2) for i in range(many)))
    assert heard(sent(settled)) == Settled(0, settled.beyond[:RANGES])


@pytest.mark.parametrize("many", [BEYOND - 1, BEYOND, BEYOND + 1])
def test_so_many_rounds_one_by_one_are_read(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crescendo.network.protocol.codec.BEYOND", 9)
    made = pb.Settled(beyond=range(2, 2 + many - BEYOND + 9))
    if many > BEYOND:
        with pytest.raises(PeerError, match="10 that overtook"):
            heard(made)
    else:
        assert heard(made).rounds == many - BEYOND + 9
