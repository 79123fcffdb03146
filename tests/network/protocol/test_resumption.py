"""A vector whose stream breaks goes on where it stopped: whatever comes between, the receiver has the sender's bytes or none."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.core.messages import Settled, Sum
from crescendo.core.vectors import encode
from crescendo.errors import PeerError
from crescendo.network.protocol import resumption, vector_parts
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.encoded_broadcasts import EncodedBroadcast
from crescendo.network.protocol.resumption import Held, Resumed, resumed
from crescendo.network.protocol.tree_messages import TO_NODE, TO_PARENT, NodeHello, NodeWelcome, SumPart, WordPart
from crescendo.network.protocol.vector_parts import Assembly, Part
from crescendo.network.protocol.wire_messages import TO_CLIENT, TO_SERVER, Hello, UpdatePart, Welcome

WIRE, NUMBERS = "float64", 29  # 232 bytes: 4 parts of 64, the last of 40; 15 small ones of 16, the last of 8
DATA = encode(np.arange(float(NUMBERS)), WIRE)
DIGEST = "ab" * 32


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (vector_parts, resumption):
        monkeypatch.setattr(module, "PART", 64)
        monkeypatch.setattr(module, "SMALL_PART", 16)


def cut_after(parts: int, data: bytes = DATA, about: int = 7) -> Assembly:
    """A receiver to which so many parts have come when its stream breaks."""
    assembly = Assembly(NUMBERS)
    for part in list(Part.split(about, data, WIRE))[:parts]:
        assert assembly.add(part) is None
    return assembly


def on_next_stream(before: Assembly, data: bytes = DATA, about: int = 7) -> tuple[Assembly, list[Part]]:
    """The receiver on the next stream, and what the sender of ``data`` sends it there."""
    kept = before.hand_over()
    held = Held() if kept is None else kept.claim()
    return Assembly(NUMBERS, kept=kept), list(Part.split(about, data, WIRE, resumed(data, held)))


@pytest.mark.parametrize("parts", range(4))
def test_a_vector_goes_on_at_the_part_where_its_stream_broke(parts: int) -> None:
    assembly, rest = on_next_stream(cut_after(parts))
    assert sum(len(part.data) for part in rest) == len(DATA) - 64 * parts
    assert [assembly.add(part) for part in rest] == [None] * (len(rest) - 1) + [DATA]
    assert assembly.held == 0 and assembly.hand_over() is None


@pytest.mark.parametrize("parts", range(4))
@pytest.mark.parametrize("small", range(4))
def test_it_breaks_again_and_again_and_no_part_comes_twice(parts: int, small: int) -> None:
    """On each of the later streams ``small`` parts arrive; where that is none, streams that carry nothing come between."""
    assembly, came, streams = cut_after(parts), 64 * parts, 0
    while True:
        assembly, rest = on_next_stream(assembly)
        streams += 1
        arrives = rest[: max(small, streams % 2)]
        came += sum(len(part.data) for part in arrives)
        if [whole for part in arrives if (whole := assembly.add(part)) is not None] == [DATA]:
            break
    assert came == len(DATA)


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("wrong", ["another byte", "shorter", "longer", "another start"])
def test_another_vector_begins_with_its_first_part(parts: int, wrong: str) -> None:
    other = {
        "another byte": DATA[: 64 * parts - 1] + b"\x01" + DATA[64 * parts :],
        "shorter": DATA[: 64 * parts],
        "longer": bytes(8) + DATA,
        "another start": bytes(64) + DATA[64:],
    }[wrong][: len(DATA)]
    assembly, sent = on_next_stream(cut_after(parts), other)
    assert sent[0].part == 0 and not sent[0].whole
    assert [assembly.add(part) for part in sent][-1] == other


def test_what_is_the_same_up_to_there_goes_on_as_the_newer_one() -> None:
    newer = DATA[:128] + bytes(len(DATA) - 128)
    assembly, rest = on_next_stream(cut_after(2), newer, about=8)
    assert rest[0].part == 8 and rest[0].about == 8
    assert [assembly.add(part) for part in rest][-1] == newer


WRONG = {
    "goes on earlier": lambda p: replace(p, part=p.part - 1),
    "goes on later": lambda p: replace(p, part=p.part + 1),
    "has other parts": lambda p: replace(p, parts=p.parts + 1),
    "has large parts": lambda p: replace(p, part=2, parts=4),
    "is longer": lambda p: replace(p, numbers=p.numbers + 1),
    "is shorter": lambda p: replace(p, numbers=p.numbers - 8),
    "has other floats": lambda p: replace(p, wire="float32"),
    "has no hash": lambda p: replace(p, whole=b""),
    "has another length": lambda p: replace(p, data=bytes(p.data)[:-1]),
    "is empty": lambda p: replace(p, data=b""),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_sender_that_goes_on_wrongly_is_refused_and_begins_again(wrong: str) -> None:
    assembly, rest = on_next_stream(cut_after(2))
    with pytest.raises(PeerError, match="dropped"):
        assembly.add(WRONG[wrong](rest[0]))
    assert assembly.held == 0
    with pytest.raises(PeerError, match="out of turn"):  # what was held is gone: no second try at the same
        assembly.add(rest[0])
    assert [assembly.add(part) for part in Part.split(7, DATA, WIRE)][-1] == DATA


@pytest.mark.parametrize("at", range(1, 7))
def test_a_part_that_comes_twice_or_too_early_ends_the_vector(at: int) -> None:
    for wrong in (at - 1, at + 1):
        assembly, rest = on_next_stream(cut_after(2))
        for part in rest[:at]:
            assert assembly.add(part) is None
        bad = rest[wrong] if wrong < len(rest) else replace(rest[-1], whole=bytes(32))
        with pytest.raises(PeerError, match="out of turn"):
            assembly.add(bad)
        assert assembly.held == 0 and assembly.hand_over() is None


def test_a_mixture_of_two_versions_is_never_a_vector() -> None:
    other = DATA[:-8] + bytes(8)
    for lie in (hashlib.sha256(other).digest(), bytes(32)):
        assembly, rest = on_next_stream(cut_after(2))
        *most, last = [replace(rest[0], whole=lie), *rest[1:]]
        for part in most:
            assert assembly.add(part) is None
        with pytest.raises(PeerError, match=r"another SHA-256 than its sender says; dropped, begin again with part 0"):
            assembly.add(last)
        assert assembly.held == 0 and assembly.hand_over() is None


def test_nothing_goes_on_that_was_not_asked_for() -> None:
    _, rest = on_next_stream(cut_after(2))
    for assembly in (Assembly(NUMBERS), cut_after(2), cut_after(0)):
        with pytest.raises(PeerError, match="out of turn"):
            assembly.add(rest[0])
        assert assembly.held == 0


def test_a_stream_that_was_replaced_takes_nothing_more() -> None:
    old = cut_after(2)
    new, rest = on_next_stream(old)
    later = list(Part.split(7, DATA, WIRE))[2:]
    assert [old.add(part) for part in later] == [None] * len(later) and old.hand_over() is None
    assert [new.add(part) for part in rest][-1] == DATA


@given(st.lists(st.integers(0, 300), max_size=4), st.binary(max_size=40))
@settings(deadline=None)
def test_a_claim_is_believed_only_if_it_is_true(lengths: list[int], noise: bytes) -> None:
    for length in lengths:
        for digest in (hashlib.sha256(DATA[:length]).digest(), hashlib.sha256(noise).digest(), b""):
            found = resumed(DATA, Held(0, length, digest))
            if found.start:
                assert found.start == length and DATA[:length] + DATA[found.start :] == DATA
                assert digest == hashlib.sha256(DATA[:length]).digest() and length < len(DATA)
            assert found == Resumed() or found.whole == hashlib.sha256(DATA).digest()


# -- the messages ------------------------------------------------------------------------------------------------------

HELD = Held(3, 128, bytes(range(32)))
MESSAGES = [
    (TO_SERVER, Hello("a", "0" * 32, held=HELD, in_memory=True)),
    (TO_SERVER, Hello("a", "0" * 32, held=Held())),
    (TO_CLIENT, Welcome("{}", "f", 0, 0, 0, Settled(0), held=HELD)),
    (TO_PARENT, NodeHello("a", held=HELD)),
    (TO_NODE, NodeWelcome("{}", "f", held=Held())),
]


@pytest.mark.parametrize(("codec", "message"), MESSAGES)
def test_what_is_held_comes_back_as_it_was(codec: object, message: object) -> None:
    assert codec.decode(codec.encode(message)) == message  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "held",
    [pb.Held(length=1), pb.Held(sha256=bytes(32)), pb.Held(length=1, sha256=bytes(31)), pb.Held(length=2**60, sha256=bytes(32))],
)  # fmt: skip
def test_a_claim_that_cannot_be_is_refused_in_a_sentence(held: pb.Held) -> None:
    with pytest.raises(PeerError, match="dropped"):
        TO_SERVER.decode(pb.ToServer(hello=pb.Hello(name="a", instance="0" * 32, held=held)))


def test_a_side_that_never_lost_a_stream_says_what_it_always_said() -> None:
    hello = TO_SERVER.encode(Hello("a", "0" * 32)).hello
    assert not hello.HasField("held") and not hello.in_memory
    assert not TO_CLIENT.encode(Welcome("{}", "f", 0, 0, 0, Settled(0))).welcome.HasField("held")
    assert all(not part.whole for part in Part.split(7, DATA, WIRE))


def test_what_goes_with_a_vector_comes_with_its_first_part_on_each_stream() -> None:
    how = resumed(DATA, cut_after(2).hand_over().claim())  # type: ignore[union-attr]
    yours = Settled(3)
    down = [
        TO_CLIENT.decode(pb.ToClient.FromString(raw)) for raw in EncodedBroadcast(8, 2, DATA, WIRE).messages(yours, how)
    ]
    assert [part.yours for part in down] == [yours, *[None] * (len(down) - 1)]
    assert down[0].vector.part == 8 and down[0].vector.whole == hashlib.sha256(DATA).digest()
    words = [TO_NODE.decode(TO_NODE.encode(part)) for part in WordPart.split(8, 2, {1: yours}, DATA, WIRE, how)]
    assert [bool(word.yours) for word in words] == [True, *[False] * (len(words) - 1)]
    sums = SumPart.split(Sum(((3, 1),), np.zeros(NUMBERS)), DATA, WIRE, "f", DIGEST, how)
    up = [TO_PARENT.decode(TO_PARENT.encode(part)) for part in sums]
    assert [part.pairs for part in up] == [((3, 1),), *[()] * (len(up) - 1)]
    first, second, *_ = UpdatePart.split(3, DATA, WIRE, "f", DIGEST, how)
    assert TO_SERVER.decode(TO_SERVER.encode(first)).vector.whole and not second.vector.whole
