"""Messages that no sound client sends: sound ones mutated, and strange first words of a stream."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.resumption import PART
from crescendo.network.protocol.wire_messages import TO_SERVER, VoidRound
from tests.network.hostile_client import HostileClient
from tests.network.raw_streams import Raw, kind_of

EDGES = (0, 1, 2, 3, 2**16, 2**31 - 1, 2**32 - 1, 2**32, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
STRANGE = (np.nan, np.inf, -np.inf)
Mutation = Callable[[random.Random, HostileClient], list[Raw]]


def base(rng: random.Random, bad: HostileClient) -> pb.ToServer:
    """A sound message."""
    about = bad.agreed.federation, bad.agreed.digest
    kinds: list[pb.ToServer] = [
        bad.update()[0],
        TO_SERVER.encode(bad.hello()),
        TO_SERVER.encode(VoidRound(bad.aim, *about)),
    ]
    return rng.choices(kinds, weights=(6, 1, 1))[0]


def flipped_bits(rng: random.Random, bad: HostileClient) -> list[Raw]:
    data = bytearray(base(rng, bad).SerializeToString())
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return [bytes(data)]


def truncated(rng: random.Random, bad: HostileClient) -> list[Raw]:
    data = base(rng, bad).SerializeToString()
    return [data[: rng.randrange(len(data))]]


def spliced(rng: random.Random, bad: HostileClient) -> list[Raw]:
    one, two = base(rng, bad).SerializeToString(), base(rng, bad).SerializeToString()
    return [one + two if rng.random() < 0.5 else one[: rng.randrange(len(one))] + two[rng.randrange(len(two)) :]]


def random_fields(rng: random.Random, bad: HostileClient) -> list[Raw]:
    """Something that has the form of a message, nested a few times."""

    def some(depth: int) -> bytes:
        made = b""
        for _ in range(rng.randrange(5)):
            number, wire = rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 15)), rng.choice((0, 1, 2, 2, 2, 5))
            made += _varint(number << 3 | wire)
            if wire == 2:
                inner = some(depth + 1) if depth < 4 else rng.randbytes(rng.randrange(40))
                made += _varint(len(inner)) + inner
            else:
                made += _varint(rng.choice(EDGES)) if wire == 0 else rng.randbytes(8 if wire == 1 else 4)
        return made

    inner = some(0)
    return [
        inner if rng.random() < 0.3 else bytes([rng.choice((0x0A, 0x12, 0x1A, 0x2A))]) + _varint(len(inner)) + inner
    ]


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


def edge_numbers(rng: random.Random, bad: HostileClient) -> list[Raw]:
    """Huge and negative numbers in one or two fields of an update's header."""
    message = bad.update()[0]
    part = message.update.vector
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(("about", "part", "parts", "numbers", "floats"))
        most = 2**32 if name in ("part", "parts") else 2**31 if name == "floats" else 2**64
        setattr(part, name, rng.choice([edge for edge in EDGES if edge < most]))
    return [message]


def swapped_fields(rng: random.Random, bad: HostileClient) -> list[Raw]:
    message = bad.update()[0]
    update, part = message.update, message.update.vector
    if rng.random() < 0.5:
        update.federation, update.digest = update.digest, update.federation
    part.about, part.numbers = part.numbers + 10**6, part.about
    part.part, part.parts = part.parts, part.part
    return [message]


def not_finite(rng: random.Random, bad: HostileClient) -> list[Raw]:
    numbers = np.full(bad.agreed.objective.size, 1e-4, dtype=np.float32)
    numbers[rng.randrange(len(numbers))] = rng.choice(STRANGE)
    return [*bad.update(data=numbers.tobytes())]


def too_long_a_vector(rng: random.Random, bad: HostileClient) -> list[Raw]:
    """Finite, and longer than the terms allow."""
    return [*bad.update(value=rng.choice((1e6, -1e20, 3e38)))]


def wrong_length(rng: random.Random, bad: HostileClient) -> list[Raw]:
    message = bad.update()[0]
    part = message.update.vector
    part.data = rng.choice((b"", part.data[:-1], part.data + b"\0", part.data[:4], bytes(4 * PART // 64)))
    if rng.random() < 0.5:
        part.numbers = len(part.data) // 4 if len(part.data) // 4 != bad.agreed.objective.size else 1
    return [message]


def wrong_floats(rng: random.Random, bad: HostileClient) -> list[Raw]:
    message = bad.update()[0]
    message.update.vector.floats = rng.choice([pb.UNSTATED, pb.FLOAT64, pb.FLOAT16, pb.BFLOAT16])
    return [message]


def another_federation(rng: random.Random, bad: HostileClient) -> list[Raw]:
    changes: dict[str, Any] = rng.choice(
        ({"federation": "other"}, {"digest": "0" * 64}, {"digest": "f"}, {"federation": "\n"})
    )
    return [*bad.update(**changes)]


def parts_out_of_order(rng: random.Random, bad: HostileClient) -> list[Raw]:
    """More parts than there can be, a part that was never begun, one that has come already."""
    first, other = bad.update()[0], bad.update()[0]
    other.update.vector.part, other.update.vector.parts = rng.choice(((1, 2), (1, 1), (5, 2), (7, 2**32 - 1)))
    return [other] if rng.random() < 0.5 else [other, first, other]


def out_of_turn(rng: random.Random, bad: HostileClient) -> list[Raw]:
    messages: list[Raw] = [TO_SERVER.encode(bad.hello()), pb.ToServer(), b""]
    return [rng.choice(messages)]


def oversized(rng: random.Random, bad: HostileClient) -> list[Raw]:
    message = bad.update()[0]
    if rng.random() < 0.2:
        message.update.vector.data = bytes(PART + 1)
    elif rng.random() < 0.5:
        message.update.federation = "f" * 100_000
    else:
        return [pb.ToServer(hello=pb.Hello(acknowledged=pb.Settled(ranges=range(1, 70_001))))]
    return [message]


def impossible_round(rng: random.Random, bad: HostileClient) -> list[Raw]:
    rounds = bad.agreed.terms.rounds
    i = rng.choice((rounds, rounds + 1, 10**9, 2**52))
    about = bad.agreed.federation, bad.agreed.digest
    if rng.random() < 0.5:
        return [TO_SERVER.encode(VoidRound(i, *about))]
    message = bad.update()[0]
    message.update.vector.about = i
    return [message]


def conflicting(rng: random.Random, bad: HostileClient) -> list[Raw]:
    """A round that was sent, with other bytes: once soundly, then changed. Of a round that is void it says nothing new."""
    return [*bad.update(value=1e-4), *bad.update(value=2e-4)]


HARMLESS_AT_TIMES: tuple[Mutation, ...] = (
    flipped_bits,
    truncated,
    spliced,
    random_fields,
    edge_numbers,
    conflicting,
)
MUST_BE_REFUSED: tuple[Mutation, ...] = (
    swapped_fields,
    not_finite,
    wrong_length,
    wrong_floats,
    another_federation,
    parts_out_of_order,
    out_of_turn,
    oversized,
    impossible_round,
)


def mutant(rng: random.Random, bad: HostileClient, private: bool) -> tuple[Mutation, list[Raw]]:
    """Some messages that no sound client sends. A leave would end the game, and is left to a test of its own."""
    certain = (*MUST_BE_REFUSED, too_long_a_vector) if private else MUST_BE_REFUSED
    while True:
        mutation = rng.choice(HARMLESS_AT_TIMES if rng.random() < 0.6 else certain)
        messages = mutation(rng, bad)
        if all(kind_of(message) != "leave" for message in messages):
            return mutation, messages


def strange_hello(rng: random.Random, bad: HostileClient) -> Raw:
    """A first message of a stream that cannot be let in as it is."""
    hello: pb.ToServer = TO_SERVER.encode(bad.hello())
    changes: list[tuple[str, Any]] = [
        ("name", rng.choice(("", "nobody", "x" * 129, "a\nb", "client 0\u202e"))),
        ("instance", rng.choice(("", "0", "g" * 32, "0" * 31, "f" * 32))),
        ("federation", rng.choice(("other", "x" * 200))),
        ("digest", rng.choice(("0" * 64, "xyz"))),
        ("last", rng.choice((-2, -(2**63), 2**53, 2**63 - 1, bad.agreed.terms.rounds))),
        ("epoch", rng.choice((2**53, 2**64 - 1, 10**8))),
        ("k", rng.choice((2**53, bad.agreed.terms.rounds + 1))),
        ("token", "t" * 1000),
    ]
    name, value = rng.choice(changes)
    setattr(hello.hello, name, value)
    if rng.random() < 0.1:
        hello.hello.acknowledged.below, hello.hello.acknowledged.beyond[:] = 9, [5, 3]
    if rng.random() < 0.1:
        hello.hello.acknowledged.ranges[:] = rng.choice([[5, 3], [5, 5], [7], [2**60, 2**61]])
    choice = rng.random()
    if choice < 0.1:
        return rng.randbytes(rng.randrange(1, 60))
    if choice < 0.2:
        return bad.update()[0]
    return hello
