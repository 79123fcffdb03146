"""What an aggregator and its parent say to each other, to protobuf and back, checked field by field as in `wire_messages`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from crescendo.core.messages import Pair, Settled
from crescendo.errors import PeerError
from crescendo.runtimes import tree_pb2 as pb
from crescendo.runtimes import wire_pb2 as wire_pb
from crescendo.runtimes.peer_text import cleaned
from crescendo.runtimes.wire import Part, Raw, split
from crescendo.runtimes.wire_messages import (
    LARGEST,
    NAME,
    TERMS,
    TEXT,
    Ack,
    BroadcastPart,
    FromClient,
    FromServer,
    Ping,
    Refusal,
    UpdatePart,
    from_client,
    from_server,
    to_client,
    to_server,
)

RELAY = "/crescendo.v1.Tree/Relay"
SERVICE = "crescendo.v1.Tree"
MANY = 1 << 17  # pairs, or clients, in one message


@dataclass(frozen=True, slots=True)
class NodeHello:
    """The first message of an aggregator: who it is, what it works under, and of which clients it still holds updates."""

    name: str
    federation: str = ""
    digest: str = ""
    carries: tuple[int, ...] = ()
    token: str = field(default="", repr=False)  # a secret: never in a log


@dataclass(frozen=True, slots=True)
class Below:
    """Client ``name`` says something; without a message, its stream has ended."""

    name: str
    message: FromClient | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SumPart:
    """A piece of the sum ``id``. ``pairs`` are there in part 0, None in the others."""

    id: str
    pairs: tuple[Pair, ...] | None
    federation: str
    digest: str
    vector: Part


@dataclass(frozen=True, slots=True)
class Alive:
    """The answer to a ping, and which clients were heard of since the last."""

    number: int
    heard: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeWelcome:
    """The terms that the subtree works under."""

    terms: str
    federation: str


@dataclass(frozen=True, slots=True)
class Above:
    """The server says something to client ``name``."""

    name: str
    message: FromServer


@dataclass(frozen=True, slots=True, eq=False)
class WordPart:
    """A piece of the model at k = ``vector.about``, for several clients. ``yours`` is there in part 0, None in the others."""

    yours: Mapping[int, Settled] | None
    epoch: int
    vector: Part


@dataclass(frozen=True, slots=True)
class Acks:
    """These rounds of these clients are on the server's disk."""

    yours: Mapping[int, Settled]
    epoch: int


@dataclass(frozen=True, slots=True)
class SumRefusal:
    """The sum ``id`` will never be taken, because of ``pairs`` or (if there are none) because of its numbers."""

    id: str
    pairs: tuple[Pair, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Over:
    """The run is over, and every client that took part has said that it heard of it: nothing more will come."""


FromNode = NodeHello | Below | SumPart | Alive
FromParent = NodeWelcome | Above | WordPart | Acks | SumRefusal | Refusal | Ping | Over


# -- making ------------------------------------------------------------------------------------------------------------


def to_parent(message: FromNode) -> pb.Up:
    """The protobuf message an aggregator sends up."""
    match message:
        case NodeHello(name, federation, digest, carries, token):
            hello = pb.NodeHello(name=name, federation=federation, digest=digest, carries=carries, token=token)
            return pb.Up(hello=hello)
        case Below(name, inner):
            return pb.Up(below=pb.Below(name=name, message=None if inner is None else to_server(inner)))
        case SumPart(id, pairs, federation, digest, vector):
            part = to_server(UpdatePart(federation, digest, vector)).update
            return pb.Up(sum=pb.SumPart(id=id, pairs=_pairs(pairs or ()), part=part))
        case Alive(number, heard):
            return pb.Up(alive=pb.Alive(number=number, heard=heard))


def to_node(message: FromParent) -> pb.Down:
    """The protobuf message a parent sends down."""
    match message:
        case NodeWelcome(terms, federation):
            return pb.Down(welcome=pb.NodeWelcome(terms=terms, federation=federation))
        case Above(name, inner):
            return pb.Down(above=pb.Above(name=name, message=to_client(inner)))
        case WordPart(yours, epoch, vector):
            part = to_client(BroadcastPart(epoch, None if yours is None else Settled(0), vector)).broadcast
            return pb.Down(word=pb.WordPart(yours=_yours(yours or {}, epoch), part=part))
        case Acks(yours, epoch):
            return pb.Down(acks=pb.Acks(yours=_yours(yours, epoch)))
        case SumRefusal(id, pairs, reason):
            return pb.Down(refused=pb.SumRefusal(id=id, pairs=_pairs(pairs), reason=reason[:TEXT]))
        case Refusal():
            return pb.Down(refusal=to_client(message).refusal)
        case Ping(number):
            return pb.Down(ping=wire_pb.Ping(number=number))
        case Over():
            return pb.Down(over=pb.Over())


def sum_parts(id: str, pairs: tuple[Pair, ...], data: Raw, wire: str, federation: str, digest: str) -> Iterator[pb.Up]:
    """The messages that carry a sum whose wire bytes are ``data``."""
    for part in split(pairs[0][0], data, wire):
        yield to_parent(SumPart(id, None if part.part else pairs, federation, digest, part))


def word_parts(k: int, epoch: int, yours: Mapping[int, Settled], data: Raw, wire: str) -> Iterator[pb.Down]:
    """The messages that carry a broadcast to several clients."""
    for part in split(k, data, wire):
        yield to_node(WordPart(None if part.part else yours, epoch, part))


def _pairs(pairs: Iterable[Pair]) -> list[pb.Pair]:
    return [pb.Pair(round=i, client=c) for i, c in pairs]


def _yours(yours: Mapping[int, Settled], epoch: int) -> list[pb.Yours]:
    return [pb.Yours(client=c, ack=to_client(Ack(settled, epoch)).ack) for c, settled in yours.items()]


# -- reading -----------------------------------------------------------------------------------------------------------


def from_node(message: pb.Up) -> FromNode:
    """What an aggregator said, or `PeerError`."""
    match message.WhichOneof("message"):
        case "hello":
            hello = message.hello
            digest = "" if not hello.digest else _about(hello.federation, hello.digest)
            return NodeHello(_name(hello.name), _name(hello.federation, True), digest, _few(hello.carries), hello.token)
        case "below":
            inner = from_client(message.below.message) if message.below.HasField("message") else None
            return Below(_name(message.below.name), inner)
        case "sum":
            return _read_sum(message.sum)
        case "alive":
            return Alive(message.alive.number, _few(message.alive.heard))
        case _:
            raise PeerError("an aggregator sent a message of no kind that is known here; dropped, check its version")


def from_parent(message: pb.Down) -> FromParent:
    """What the parent of an aggregator said, or `PeerError`."""
    match message.WhichOneof("message"):
        case "welcome":
            if len(message.welcome.terms) > TERMS:
                raise PeerError(f"terms came that are longer than {TERMS} characters; dropped")
            return NodeWelcome(message.welcome.terms, _name(message.welcome.federation))
        case "above":
            return Above(_name(message.above.name), from_server(message.above.message))
        case "word":
            part = from_server(wire_pb.ToClient(broadcast=message.word.part))
            assert isinstance(part, BroadcastPart)
            yours = _read_yours(message.word.yours)[0] if part.yours is not None else None
            return WordPart(yours, part.epoch, part.vector)
        case "acks":
            return Acks(*_read_yours(message.acks.yours))
        case "refused":
            refused = message.refused
            return SumRefusal(_id(refused.id), _read_pairs(refused.pairs), cleaned(refused.reason[:TEXT]))
        case "refusal":
            refusal = from_server(wire_pb.ToClient(refusal=message.refusal))
            assert isinstance(refusal, Refusal)
            return refusal
        case "ping":
            return Ping(message.ping.number)
        case "over":
            return Over()
        case _:
            raise PeerError("the parent sent a message of no kind that is known here; dropped, check its version")


def _read_sum(message: pb.SumPart) -> SumPart:
    part = from_client(wire_pb.ToServer(update=message.part))
    assert isinstance(part, UpdatePart)
    if bool(message.pairs) != (part.vector.part == 0):
        raise PeerError("the first part of a sum, and no other, says which updates it contains; dropped")
    pairs = _read_pairs(message.pairs) if message.pairs else None
    if pairs is not None and pairs[0][0] != part.vector.about:
        raise PeerError("a sum says that it is about another round than its first; dropped")
    return SumPart(_id(message.id), pairs, part.federation, part.digest, part.vector)


def _read_pairs(pairs: Iterable[pb.Pair]) -> tuple[Pair, ...]:
    found = tuple((pair.round, pair.client) for pair in pairs)
    if len(found) > MANY or any(i >= LARGEST for i, _ in found) or len(set(found)) < len(found):
        raise PeerError("a list of updates came with repeats, or too long; dropped, check the aggregator")
    return tuple(sorted(found))


def _read_yours(yours: Iterable[pb.Yours]) -> tuple[dict[int, Settled], int]:
    found: dict[int, Settled] = {}
    epoch = 0
    for one in yours:
        ack = from_server(wire_pb.ToClient(ack=one.ack))
        assert isinstance(ack, Ack)
        found[one.client], epoch = ack.yours, ack.epoch
    if len(found) > MANY:
        raise PeerError(f"an acknowledgement came for {len(found)} clients, at most {MANY} can be; dropped")
    return found, epoch


def _few(clients: Iterable[int]) -> tuple[int, ...]:
    found = tuple(clients)
    if len(found) > MANY:
        raise PeerError(f"a list of {len(found)} clients came, at most {MANY} can be; dropped")
    return found


def _about(federation: str, digest: str) -> str:
    """A digest is checked as everywhere else."""
    void = from_client(wire_pb.ToServer(void=wire_pb.Void(federation=federation, digest=digest)))
    return str(getattr(void, "digest", ""))


def _id(text: str) -> str:
    if len(text) != 32 or not set(text) <= set("0123456789abcdef"):
        raise PeerError("a sum came without a proper id; dropped, check the aggregator")
    return text


def _name(text: str, or_none: bool = False) -> str:
    if len(text) > NAME or not text.isprintable() or not (text or or_none):
        raise PeerError(f"a name came that is empty, cannot be printed, or is over {NAME} characters; dropped")
    return text
