"""Many mutated messages, one after the other, each of which must be answered or dropped."""

from __future__ import annotations

import random
from collections import Counter

from crescendo.network.protocol import wire_pb2 as pb
from tests.network.hostile_client import HostileClient
from tests.network.mutations import MUST_BE_REFUSED, mutant, strange_hello, too_long_a_vector
from tests.network.raw_streams import End, RawStream, check_clear, check_end


async def fuzz(bad: HostileClient, rng: random.Random, count: int, below: int) -> Counter[str]:
    """Mutated messages on a stream that has joined; every one is answered, dropped or, if it happens to be sound, taken.

    Most settle the round that they are about. They are about rounds before ``below``, so that later ones are left.
    """
    seen: Counter[str] = Counter()
    while seen["messages"] < count:
        is_open, bad.target = bad.round < below, rng.randrange(max(1, bad.round))
        if is_open and rng.random() < 0.15:
            bad.target = bad.round
        mutation, messages = mutant(rng, bad, private=True)
        heard = await bad.fire(*messages)
        seen["messages"] += len(messages)
        seen["refused"] += any(isinstance(one, pb.ToClient) for one in heard)
        seen["hung up"] += any(isinstance(one, End) for one in heard)
        seen["taken or nothing to say"] += not heard
        assert heard or mutation not in (*MUST_BE_REFUSED, too_long_a_vector), (mutation.__name__, messages)
    return seen


async def fuzz_the_door(bad: HostileClient, rng: random.Random, count: int) -> Counter[str]:
    """Mutated first messages, each on a stream of its own."""
    seen: Counter[str] = Counter()
    await bad.fire()  # its name is taken by its own instance
    for _ in range(count):
        line, message = RawStream(bad.channel), strange_hello(rng, bad)
        await line.say(message)
        answer = await line.hear()
        seen["messages"] += 1
        if isinstance(answer, End):
            check_end(answer, [message])
            seen["hung up"] += 1
        else:
            assert answer.HasField("refusal"), (message, answer)
            check_clear(answer.refusal.reason)
            seen["refused"] += 1
        line.cut()
    return seen
