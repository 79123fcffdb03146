"""Peers that break every rule, for the tests of what a server does about them: raw streams, a liar that can rejoin, mutations."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
from google.protobuf.message import DecodeError

from crescendo.apps.terms import Agreed
from crescendo.core.messages import Settled
from crescendo.runtimes import tree_pb2 as tree
from crescendo.runtimes import wire_pb2 as pb
from crescendo.runtimes.network.link import JOIN
from crescendo.runtimes.wire import PART, encode
from crescendo.runtimes.wire_messages import LARGEST, Hello, VoidRound, to_server, update_parts

DEADLINE = 60.0  # seconds without a word after which the server counts as stuck: to fail by, never to pass by
Raw = bytes | pb.ToServer | tree.Up


@dataclass(frozen=True)
class End:
    """The stream is over."""

    code: grpc.StatusCode
    details: str


# gRPC's own words, on this side, for a write to a stream that the other side has just closed
BROKEN = End(grpc.StatusCode.INTERNAL, "Internal error from Core")


class Line:
    """One stream to the server, on which any bytes can be sent."""

    def __init__(self, channel: grpc.aio.Channel, method: str = JOIN, answer: Any = pb.ToClient) -> None:
        make = channel.stream_stream(method, request_serializer=_raw, response_deserializer=answer.FromString)
        self._call: Any = make()
        self.end: End | None = None

    async def say(self, *messages: Raw) -> None:
        """Send; on a stream that is over, nothing happens."""
        for message in messages:
            try:
                async with asyncio.timeout(DEADLINE):
                    await self._call.write(message)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return

    async def hear(self) -> pb.ToClient | End:
        try:
            async with asyncio.timeout(DEADLINE):
                answer = await self._call.read()
                if answer is not grpc.aio.EOF:
                    return answer  # type: ignore[no-any-return]
                self.end = End(await self._call.code(), str(await self._call.details()))
        except grpc.aio.AioRpcError as error:
            self.end = End(error.code(), str(error.details()))
        return self.end

    async def half_close(self) -> None:
        await self._call.done_writing()

    def cut(self) -> None:
        self._call.cancel()


def _raw(message: Raw) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()


@asynccontextmanager
async def channel_to(
    port: int, compression: Any = None, options: Sequence[tuple[str, Any]] = ()
) -> AsyncIterator[grpc.aio.Channel]:
    """A connection of its own, with none of the limits that a sound client has."""
    own = [("grpc.max_send_message_length", -1), ("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
    address = f"127.0.0.1:{port}"
    async with grpc.aio.insecure_channel(address, options=[*own, *options], compression=compression) as channel:
        async with asyncio.timeout(DEADLINE):
            await channel.channel_ready()
        yield channel


# -- what an answer must be --------------------------------------------------------------------------------------------


def check_clear(reason: str) -> None:
    """One sentence for people: no traceback, no class names, nothing of the machine."""
    assert 10 < len(reason) <= 1000 and reason.isprintable(), reason
    assert not re.search(r"Traceback|<class|\w+Error\b|/work|\.py\b", reason), reason


def check_end(end: End, sent: list[Raw]) -> None:
    """A stream may be closed, or dropped for being too large or undecodable; an exception in the server is a bug."""
    fine = {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    if any(kind_of(message) is None for message in sent):
        fine |= {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT}
    assert end == BROKEN or end.code in fine, end


def kind_of(message: Raw) -> str | None:
    """Which kind of message the bytes are; "" for none, None if they are not a message at all."""
    try:
        parsed = pb.ToServer.FromString(message) if isinstance(message, bytes) else message
    except DecodeError:
        return None
    return parsed.WhichOneof("message") or ""


def memory_of(pid: int) -> int:
    """The resident bytes of a process."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


# -- the liar ----------------------------------------------------------------------------------------------------------


@dataclass
class Mallory:
    """A named client that knows the protocol, joins again after every refusal, and says what it likes."""

    channel: grpc.aio.Channel
    agreed: Agreed
    me: int
    token: str = ""
    line: Line | None = None
    settled: Settled = field(default_factory=lambda: Settled(0))
    k: int = 0
    epoch: int = 0
    joins: int = 0
    target: int | None = None  # the round that its updates are about; None: the first open one
    _barriers: int = 0

    @property
    def instance(self) -> str:
        return f"{self.me:032x}"

    def hello(self, **changes: Any) -> Hello:
        agreed = self.agreed
        said = {"name": agreed.names[self.me], "instance": self.instance, "federation": agreed.federation}
        return Hello(**{**said, "digest": agreed.digest, "last": self.last, "token": self.token, **changes})

    @property
    def last(self) -> int:
        return max(self.settled.below - 1, *self.settled.beyond, -1)

    @property
    def round(self) -> int:
        """The first round that is not settled and in which it has a share."""
        i = self.settled.below
        while i in self.settled or not self.agreed.terms.share(i, self.me):
            i += 1
            if i >= self.agreed.terms.rounds:
                return self.agreed.terms.rounds - 1
        return i

    async def join(self, **changes: Any) -> pb.ToClient | End:
        """Open a stream; the answer. It may have forgotten its last rounds, so it tries a few."""
        answer: pb.ToClient | End = End(grpc.StatusCode.OK, "")
        for ahead in range(4):
            if self.line is not None:
                self.line.cut()
            self.line, self.joins = Line(self.channel), self.joins + 1
            await self.line.say(to_server(self.hello(**{"last": self.last + ahead, **changes})))
            answer = await self.hear()
            if not (isinstance(answer, pb.ToClient) and "older than" in answer.refusal.reason):
                break
        return answer

    async def hear(self) -> pb.ToClient | End:
        assert self.line is not None
        answer = await self.line.hear()
        if isinstance(answer, pb.ToClient):
            self._learn(answer)
        return answer

    def _learn(self, answer: pb.ToClient) -> None:
        kind = answer.WhichOneof("message")
        if kind == "welcome":
            self.epoch, self.settled = answer.welcome.epoch, _settled(answer.welcome.received)
        elif kind == "ack":
            self.epoch, self.settled = answer.ack.epoch, _settled(answer.ack.yours)
        elif kind == "broadcast":
            self.epoch, self.k = answer.broadcast.epoch, answer.broadcast.vector.about
            if answer.broadcast.HasField("yours"):
                self.settled = _settled(answer.broadcast.yours)
        elif kind == "refusal":
            check_clear(answer.refusal.reason)

    async def fire(self, *messages: Raw) -> list[pb.ToClient | End]:
        """Send messages, and all that comes until the server has dealt with them: refusals, or the end of the stream.

        What the server said before it closed the stream is lost if gRPC, on this side, was just writing: then once more.
        """
        for _ in range(5):
            heard = await self._fire_once(messages)
            if heard != [BROKEN]:
                break
        return heard

    async def _fire_once(self, messages: tuple[Raw, ...]) -> list[pb.ToClient | End]:
        if self.line is None or self.line.end is not None:
            answer = await self.join()
            assert isinstance(answer, pb.ToClient) and answer.HasField("welcome"), answer
        assert self.line is not None
        self._barriers += 1
        barrier = LARGEST - self._barriers  # a round that cannot be: the server's no to it comes after all others
        await self.line.say(*messages, to_server(VoidRound(barrier, self.agreed.federation, self.agreed.digest)))
        heard: list[pb.ToClient | End] = []
        while True:
            answer = await self.hear()
            if isinstance(answer, End):
                check_end(answer, list(messages))
                return [*heard, answer]
            if answer.HasField("refusal"):
                if answer.refusal.HasField("round") and answer.refusal.round == barrier:
                    return heard
                heard.append(answer)

    async def break_rules(self, most: int, message: Raw = b"") -> int:
        """Send broken messages, each on a stream of its own, until it is told that these are too many; how many it took."""
        for broken in range(most):
            answer = await self.join()
            assert isinstance(answer, pb.ToClient), answer
            if answer.HasField("refusal"):
                assert "too many" in answer.refusal.reason, answer
                return broken
            assert self.line is not None
            await self.line.say(message)
            while not isinstance(await self.hear(), End):
                pass
        return most

    def update(self, round: int | None = None, value: float = 1e-4, **changes: Any) -> list[pb.ToServer]:
        """The messages of an update that a sound client could send."""
        agreed, i = self.agreed, round
        if i is None:
            i = self.round if self.target is None else self.target
        low, high = agreed.terms.block(i, agreed.objective.size)
        data = changes.pop("data", None) or encode(np.full(high - low, value), agreed.wire)
        about = {"federation": agreed.federation, "digest": agreed.digest, **changes}
        return list(update_parts(i, data, agreed.wire, **about))

    async def behave(self) -> None:
        """Send a sound update of the next round, and wait until everybody's updates have completed that round."""
        i = self.round
        heard = await self.fire(*self.update(i))
        assert heard == [], heard
        while self.k <= i:
            answer = await self.hear()
            assert isinstance(answer, pb.ToClient), answer

    async def train(self) -> None:
        """Behave to the end of the run."""
        if self.line is None or self.line.end is not None:
            await self.join()
        while self.settled.below < self.agreed.terms.rounds:
            await self.behave()


def _settled(settled: pb.Settled) -> Settled:
    return Settled(settled.below, frozenset(settled.beyond))


# -- mutations ---------------------------------------------------------------------------------------------------------

EDGES = (0, 1, 2, 3, 2**16, 2**31 - 1, 2**32 - 1, 2**32, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
STRANGE = (np.nan, np.inf, -np.inf)
Mutation = Callable[[random.Random, Mallory], list[Raw]]


def base(rng: random.Random, bad: Mallory) -> pb.ToServer:
    """A sound message."""
    about = bad.agreed.federation, bad.agreed.digest
    kinds = [bad.update()[0], to_server(bad.hello()), to_server(VoidRound(bad.round, *about))]
    return rng.choices(kinds, weights=(6, 1, 1))[0]


def flipped_bits(rng: random.Random, bad: Mallory) -> list[Raw]:
    data = bytearray(base(rng, bad).SerializeToString())
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return [bytes(data)]


def truncated(rng: random.Random, bad: Mallory) -> list[Raw]:
    data = base(rng, bad).SerializeToString()
    return [data[: rng.randrange(len(data))]]


def spliced(rng: random.Random, bad: Mallory) -> list[Raw]:
    one, two = base(rng, bad).SerializeToString(), base(rng, bad).SerializeToString()
    return [one + two if rng.random() < 0.5 else one[: rng.randrange(len(one))] + two[rng.randrange(len(two)) :]]


def random_fields(rng: random.Random, bad: Mallory) -> list[Raw]:
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


def edge_numbers(rng: random.Random, bad: Mallory) -> list[Raw]:
    """Huge and negative numbers in one or two fields of an update's header."""
    message = bad.update()[0]
    part = message.update.vector
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(("about", "part", "parts", "numbers", "floats"))
        most = 2**32 if name in ("part", "parts") else 2**31 if name == "floats" else 2**64
        setattr(part, name, rng.choice([edge for edge in EDGES if edge < most]))
    return [message]


def swapped_fields(rng: random.Random, bad: Mallory) -> list[Raw]:
    message = bad.update()[0]
    update, part = message.update, message.update.vector
    if rng.random() < 0.5:
        update.federation, update.digest = update.digest, update.federation
    part.about, part.numbers = part.numbers + 10**6, part.about
    part.part, part.parts = part.parts, part.part
    return [message]


def not_finite(rng: random.Random, bad: Mallory) -> list[Raw]:
    numbers = np.full(bad.agreed.objective.size, 1e-4, dtype=np.float32)
    numbers[rng.randrange(len(numbers))] = rng.choice(STRANGE)
    return [*bad.update(data=numbers.tobytes())]


def too_long_a_vector(rng: random.Random, bad: Mallory) -> list[Raw]:
    """Finite, and longer than the terms allow."""
    return [*bad.update(value=rng.choice((1e6, -1e20, 3e38)))]


def wrong_length(rng: random.Random, bad: Mallory) -> list[Raw]:
    message = bad.update()[0]
    part = message.update.vector
    part.data = rng.choice((b"", part.data[:-1], part.data + b"\0", part.data[:4], bytes(4 * PART // 64)))
    if rng.random() < 0.5:
        part.numbers = len(part.data) // 4 if len(part.data) // 4 != bad.agreed.objective.size else 1
    return [message]


def wrong_floats(rng: random.Random, bad: Mallory) -> list[Raw]:
    message = bad.update()[0]
    message.update.vector.floats = rng.choice([pb.UNSTATED, pb.FLOAT64, pb.FLOAT16, pb.BFLOAT16])
    return [message]


def another_federation(rng: random.Random, bad: Mallory) -> list[Raw]:
    changes: dict[str, Any] = rng.choice(
        ({"federation": "other"}, {"digest": "0" * 64}, {"digest": "f"}, {"federation": "\n"})
    )
    return [*bad.update(**changes)]


def parts_out_of_order(rng: random.Random, bad: Mallory) -> list[Raw]:
    """More parts than there can be, a part that was never begun, one that has come already."""
    first, other = bad.update()[0], bad.update()[0]
    other.update.vector.part, other.update.vector.parts = rng.choice(((1, 2), (1, 1), (5, 2), (7, 2**32 - 1)))
    return [other] if rng.random() < 0.5 else [other, first, other]


def out_of_turn(rng: random.Random, bad: Mallory) -> list[Raw]:
    messages: list[Raw] = [to_server(bad.hello()), pb.ToServer(), b""]
    return [rng.choice(messages)]


def oversized(rng: random.Random, bad: Mallory) -> list[Raw]:
    message = bad.update()[0]
    if rng.random() < 0.2:
        message.update.vector.data = bytes(PART + 1)
    elif rng.random() < 0.5:
        message.update.federation = "f" * 100_000
    else:
        return [pb.ToServer(hello=pb.Hello(acknowledged=pb.Settled(beyond=range(1, 70_000))))]
    return [message]


def impossible_round(rng: random.Random, bad: Mallory) -> list[Raw]:
    rounds = bad.agreed.terms.rounds
    i = rng.choice((rounds, rounds + 1, 10**9, 2**52))
    about = bad.agreed.federation, bad.agreed.digest
    if rng.random() < 0.5:
        return [to_server(VoidRound(i, *about))]
    message = bad.update()[0]
    message.update.vector.about = i
    return [message]


def conflicting(rng: random.Random, bad: Mallory) -> list[Raw]:
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


def mutant(rng: random.Random, bad: Mallory, private: bool) -> tuple[Mutation, list[Raw]]:
    """Some messages that no sound client sends. A leave would end the game, and is left to a test of its own."""
    certain = (*MUST_BE_REFUSED, too_long_a_vector) if private else MUST_BE_REFUSED
    while True:
        mutation = rng.choice(HARMLESS_AT_TIMES if rng.random() < 0.6 else certain)
        messages = mutation(rng, bad)
        if all(kind_of(message) != "leave" for message in messages):
            return mutation, messages


# -- as a stranger -----------------------------------------------------------------------------------------------------


def strange_hello(rng: random.Random, bad: Mallory) -> Raw:
    """A first message of a stream that cannot be let in as it is."""
    hello = to_server(bad.hello())
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
    choice = rng.random()
    if choice < 0.1:
        return rng.randbytes(rng.randrange(1, 60))
    if choice < 0.2:
        return bad.update()[0]
    return hello


# -- as an aggregator ----------------------------------------------------------------------------------------------------


def parsed(message: Raw) -> tree.Up | None:
    """The message in the bytes; None if there is none."""
    try:
        return tree.Up.FromString(_raw(message))
    except DecodeError:
        return None


def bad_sum(rng: random.Random, bad: Mallory) -> Raw:
    """Something that no sound aggregator says; nothing that makes a client leave."""
    while True:
        message = _bad_sum(rng, bad)
        found = parsed(message)
        if found is None or found.below.message.WhichOneof("message") != "leave":
            return message


def _bad_sum(rng: random.Random, bad: Mallory) -> Raw:
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
        tree.Up(below=tree.Below(name=name, message=rng.choice((inner, part, to_server(bad.hello(digest="0" * 64)))))),
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
