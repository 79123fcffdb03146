"""Messages that no sound aggregator sends."""

from __future__ import annotations

import random

import numpy as np
from google.protobuf.message import DecodeError

from crescendo.network.protocol import tree_pb2 as tree
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.wire_messages import TO_SERVER
from tests.network.hostile_client import HostileClient
from tests.network.raw_streams import Raw, as_bytes


def parsed(message: Raw) -> tree.Up | None:
    """The message in the bytes; None if there is none."""
    try:
        return tree.Up.FromString(as_bytes(message))
    except DecodeError:
        return None


def bad_sum(rng: random.Random, bad: HostileClient) -> Raw:
    """Something that no sound aggregator says; nothing that makes a client leave."""
    while True:
        message = _bad_sum(rng, bad)
        found = parsed(message)
        if found is None or found.below.message.WhichOneof("message") != "leave":
            return message


def _bad_sum(rng: random.Random, bad: HostileClient) -> Raw:
    rounds = bad.agreed.terms.rounds
    numbers = np.full(bad.agreed.objective.size, rng.choice((1e6, np.nan, 1e38)), dtype=np.float32)
    part = bad.update(0, data=numbers.tobytes())[0]
    edges = [0, 1, rounds - 1, rounds, 2**31, 2**53 - 1, 2**53, 2**64 - 1]
    pairs = [
        tree.Pair(round=rng.choice(edges), client=rng.choice((0, 1, 2, 3, 2**32 - 1))) for _ in range(rng.randrange(4))
    ]
    if pairs and rng.random() < 0.9:
        part.update.vector.about = min(pair.round for pair in pairs)
    total = tree.SumPart(id=rng.choice(("0" * 32, "", "x" * 32)), pairs=pairs, part=part.update)
    name = rng.choice(("client 0", "nobody", "", "a\nb"))
    inner = pb.ToServer(void=pb.Void(round=rng.choice(edges), federation="x", digest="0" * 64))
    messages = [
        tree.Up(sum=total),
        tree.Up(sum=total),
        tree.Up(
            below=tree.Below(name=name, message=rng.choice((inner, part, TO_SERVER.encode(bad.hello(digest="0" * 64)))))
        ),
        tree.Up(below=tree.Below(name=name)),
        tree.Up(alive=tree.Alive(number=rng.choice(edges), heard=[0, 1, 2**32 - 1])),
        tree.Up(),
    ]
    message = rng.choice(messages)
    if rng.random() < 0.3:
        data = bytearray(message.SerializeToString() or b"\0")
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(data)
    return message
