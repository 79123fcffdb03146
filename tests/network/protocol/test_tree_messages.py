"""Messages between aggregators and their parents: what is sent arrives as it was, and nonsense is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.core.messages import Settled, Sum
from crescendo.errors import PeerError
from crescendo.network.protocol import tree_pb2 as pb
from crescendo.network.protocol import wire_pb2 as wire_pb
from crescendo.network.protocol.resumption import PART
from crescendo.network.protocol.tree_messages import (
    TO_NODE,
    TO_PARENT,
    Above,
    Acks,
    Alive,
    Below,
    NodeHello,
    NodeWelcome,
    Over,
    SumPart,
    SumRefusal,
    WordPart,
)
from crescendo.network.protocol.vector_parts import Assembly
from crescendo.network.protocol.wire_messages import Ack, Goodbye, Hello, Ping, Refusal, VoidRound, Welcome

ID, DIGEST = "0123456789abcdef" * 2, "ab" * 32
UP: list[Any] = [
    NodeHello("edge", "f", DIGEST, (0, 7), "secret"),
    NodeHello("edge"),
    Below("alice", Hello("alice", "0" * 32, "f", DIGEST, 3, 1, 2, Settled(1, ((3, 4),)))),
    Below("alice", VoidRound(4, "f", DIGEST)),
    Below("alice", Goodbye("enough")),
    Below("alice"),
    Alive(3, (1, 2)),
]
DOWN: list[Any] = [
    NodeWelcome("{}", "f"),
    Above("alice", Welcome("{}", "f", 1, 2, 3, Settled(4))),
    Above("alice", Refusal("no", True)),
    Acks({0: Ack(Settled(1), 3), 5: Ack(Settled(2, ((9, 10),)), 3)}),
    SumRefusal(ID, ((0, 1), (2, 3)), "because"),
    Refusal("no", False),
    Ping(8),
    Over(),
]


def there(message: Any) -> Any:
    return TO_PARENT.decode(pb.Up.FromString(TO_PARENT.encode(message).SerializeToString()))


def back(message: Any) -> Any:
    return TO_NODE.decode(pb.Down.FromString(TO_NODE.encode(message).SerializeToString()))


@pytest.mark.parametrize("message", UP, ids=lambda message: type(message).__name__)
def test_what_goes_up_arrives_as_it_was(message: Any) -> None:
    assert there(message) == message


@pytest.mark.parametrize("message", DOWN, ids=lambda message: type(message).__name__)
def test_what_goes_down_arrives_as_it_was(message: Any) -> None:
    assert back(message) == message


def test_a_sum_arrives_in_parts_with_its_pairs_in_the_first() -> None:
    data, pairs = bytes(2 * PART + 80), ((1, 2), (3, 0))
    total = Sum(pairs, np.zeros(1))
    assembly, got = Assembly(10**6, ("float64",)), []
    for sent in SumPart.split(total, data, "float64", "f", DIGEST):
        part = there(sent)
        assert isinstance(part, SumPart) and (part.id, part.part.federation, part.part.digest) == (
            total.id,
            "f",
            DIGEST,
        )
        got.append(part.pairs)
        whole = assembly.add(part.part.vector)
    assert got == [pairs, (), ()] and whole == data


def test_a_word_arrives_in_parts_with_everybody_s_yours_in_the_first() -> None:
    data, yours = bytes(PART + 8), {0: Settled(1), 4: Settled(0, ((2, 3),))}
    parts = [back(sent) for sent in WordPart.split(5, 2, yours, data, "float32")]
    assert all(isinstance(part, WordPart) and part.part.epoch == 2 and part.part.vector.about == 5 for part in parts)
    assert [part.yours for part in parts] == [{c: Ack(settled, 2) for c, settled in yours.items()}, {}]


GOOD_SUM = TO_PARENT.encode(next(SumPart.split(Sum(((1, 2), (3, 0)), np.zeros(2)), bytes(16), "float64", "f", DIGEST)))


def changed(**fields: Any) -> pb.Up:
    copy = pb.Up()
    copy.CopyFrom(GOOD_SUM)
    for name, value in fields.items():
        copy.sum.ClearField(name)
        if isinstance(value, list):
            getattr(copy.sum, name).extend(value)
        elif value is not None:
            setattr(copy.sum, name, value)
    return copy


PAIR = pb.Pair(round=1, client=2)


@pytest.mark.parametrize(
    "bad",
    [
        pb.Up(),
        pb.Up(hello=pb.NodeHello()),
        pb.Up(hello=pb.NodeHello(name="a\n")),
        pb.Up(hello=pb.NodeHello(name="a", digest="x")),
        pb.Up(below=pb.Below(message=wire_pb.ToServer(leave=wire_pb.Leave()))),
        pb.Up(below=pb.Below(name="a", message=wire_pb.ToServer())),
        changed(id=""),
        changed(id="Z" * 32),
        changed(pairs=None),
        changed(pairs=[PAIR, PAIR]),
        changed(pairs=[pb.Pair(round=2, client=1)]),
        changed(pairs=[PAIR, pb.Pair(round=2**60, client=1)]),
        changed(part=None),
    ],
)
def test_nonsense_from_below_is_refused(bad: pb.Up) -> None:
    with pytest.raises(PeerError):
        TO_PARENT.decode(bad)


def test_nonsense_from_above_is_refused() -> None:
    for bad in (
        pb.Down(),
        pb.Down(word=pb.WordPart()),
        pb.Down(refused=pb.SumRefusal(id="1")),
        pb.Down(above=pb.Above(name="a")),
    ):
        with pytest.raises(PeerError):
            TO_NODE.decode(bad)


SAMPLES = [TO_PARENT.encode(message).SerializeToString() for message in UP] + [GOOD_SUM.SerializeToString()]
SAMPLES += [TO_NODE.encode(message).SerializeToString() for message in DOWN]


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=6),
    st.binary(max_size=20),
)
def test_mutated_bytes_are_understood_or_refused_and_never_break_anything(
    sample: bytes, changes: list[tuple[int, int]], more: bytes
) -> None:
    mutated = bytearray(sample + more)
    for place, value in changes:
        if mutated:
            mutated[place % len(mutated)] = value
    kinds: list[tuple[Any, Any]] = [(pb.Up, TO_PARENT.decode), (pb.Down, TO_NODE.decode)]
    for kind, read in kinds:
        try:
            message = kind.FromString(bytes(mutated))
        except DecodeError:
            continue
        try:
            read(message)
        except PeerError as error:
            assert str(error)
