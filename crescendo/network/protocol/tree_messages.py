"""Messages between an aggregator and its parent, the limits of their fields, and a codec for each direction."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Self

from crescendo.core.messages import Pair, Settled, Sum
from crescendo.core.vectors import Raw
from crescendo.errors import PeerError
from crescendo.network.protocol import tree_pb2 as pb
from crescendo.network.protocol.codec import (
    AGREED_TERMS,
    DIGEST_IF_ANY,
    LARGEST,
    NAME,
    REASON,
    REQUIRED_NAME,
    Codec,
    FieldKind,
    MessageType,
)
from crescendo.network.protocol.resumption import Held, Resumed
from crescendo.network.protocol.vector_parts import Part
from crescendo.network.protocol.versions import PROGRAM_IF_ANY, PeerVersion
from crescendo.network.protocol.wire_messages import (
    NOTHING,
    TO_CLIENT,
    TO_SERVER,
    Ack,
    BroadcastPart,
    FromClient,
    FromServer,
    Ping,
    Refusal,
    UpdatePart,
)

RELAY = "/crescendo.v1.Tree/Relay"
SERVICE = "crescendo.v1.Tree"
MANY = 1 << 17  # pairs, or clients, in one message
MANY_NODES = 1 << 10  # aggregators in one message


# -- kinds of fields ---------------------------------------------------------------------------------------------------


def _read_id(what: str, text: str) -> str:
    if len(text) != 32 or not set(text) <= set("0123456789abcdef"):
        raise PeerError("a sum came without a proper id; dropped, check the aggregator")
    return text


def _read_clients(what: str, clients: Iterable[int]) -> tuple[int, ...]:
    found = tuple(clients)
    if len(found) > MANY:
        raise PeerError(f"a list of {len(found)} clients came, at most {MANY} can be; dropped")
    return found


def _read_pairs(what: str, pairs: Iterable[pb.Pair]) -> tuple[Pair, ...]:
    found = tuple((pair.round, pair.client) for pair in pairs)
    if len(found) > MANY or any(i >= LARGEST for i, _ in found) or len(set(found)) < len(found):
        raise PeerError("a list of updates came with repeats, or too long; dropped, check the aggregator")
    return tuple(sorted(found))


def _read_yours(what: str, yours: Iterable[pb.Yours]) -> dict[int, Ack]:
    found = {one.client: _ACK.read(one.ack) for one in yours}
    if len(found) > MANY:
        raise PeerError(f"an acknowledgement came for {len(found)} clients, at most {MANY} can be; dropped")
    return found


@dataclass(frozen=True, slots=True)
class NodeVersion:
    """An aggregator, and the version of its program."""

    name: Annotated[str, REQUIRED_NAME]
    program: Annotated[str, PROGRAM_IF_ANY]


def _read_nodes(what: str, nodes: Iterable[pb.NodeVersion]) -> tuple[NodeVersion, ...]:
    found = tuple(nodes)
    if len(found) > MANY_NODES:
        raise PeerError(f"a list of {len(found)} aggregators came, at most {MANY_NODES} can be; dropped")
    return tuple(map(_NODE.read, found))


_NODE = MessageType(NodeVersion, pb.NodeVersion.DESCRIPTOR)
_ACK = MessageType(Ack, pb.Yours.DESCRIPTOR.fields_by_name["ack"].message_type)
_ID, _CLIENTS = FieldKind(_read_id), FieldKind(_read_clients)
_NODES = FieldKind(_read_nodes, lambda nodes: [_NODE.write(node) for node in nodes[:MANY_NODES]])
_PAIRS = FieldKind(_read_pairs, lambda pairs: [pb.Pair(round=i, client=c) for i, c in pairs])
_YOURS = FieldKind(_read_yours, lambda yours: [pb.Yours(client=c, ack=_ACK.write(ack)) for c, ack in yours.items()])


# -- messages ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeHello:
    """The first message of an aggregator: its name, its federation and terms, and the clients of which it holds updates."""

    name: Annotated[str, REQUIRED_NAME]
    federation: Annotated[str, NAME] = ""
    digest: Annotated[str, DIGEST_IF_ANY] = ""
    carries: Annotated[tuple[int, ...], _CLIENTS] = ()
    token: str = field(default="", repr=False)  # a secret: never in a log
    version: PeerVersion | None = None
    held: Held | None = None


@dataclass(frozen=True, slots=True)
class Below:
    """A message from client ``name``; without a message, its stream has ended."""

    name: Annotated[str, REQUIRED_NAME]
    message: Annotated[FromClient | None, FieldKind(lambda _, inner: TO_SERVER.decode(inner), TO_SERVER.encode)] = None


@dataclass(frozen=True, slots=True, eq=False)
class SumPart:
    """A part of the sum ``id``. Only the first part on a stream has ``pairs``."""

    id: Annotated[str, _ID]
    pairs: Annotated[tuple[Pair, ...], _PAIRS]
    part: UpdatePart

    @classmethod
    def split(
        cls, total: Sum, data: Raw, wire: str, federation: str, digest: str, how: Resumed | None = None
    ) -> Iterator[Self]:
        """Yield the parts of a sum whose wire bytes are ``data``."""
        for part in UpdatePart.split(total.pairs[0][0], data, wire, federation, digest, how):
            yield cls(total.id, total.pairs if part.vector.is_first else (), part)

    def check(self) -> None:
        """Raise `PeerError` if ``pairs`` come with the wrong part, or begin with another round than the part's."""
        if bool(self.pairs) != self.part.vector.is_first:
            raise PeerError("the first part of a sum, and no other, says which updates it contains; dropped")
        if self.pairs and self.pairs[0][0] != self.part.vector.about:
            raise PeerError("a sum says that it is about another round than its first; dropped")


@dataclass(frozen=True, slots=True)
class Alive:
    """The answer to a ping: the clients heard from since the last one, and name and version of every aggregator below."""

    number: int
    heard: Annotated[tuple[int, ...], _CLIENTS] = ()
    nodes: Annotated[tuple[NodeVersion, ...], _NODES] = ()


@dataclass(frozen=True, slots=True)
class NodeWelcome:
    """The terms that the subtree works under."""

    terms: Annotated[str, AGREED_TERMS]
    federation: Annotated[str, REQUIRED_NAME]
    version: PeerVersion | None = None
    held: Held | None = None


@dataclass(frozen=True, slots=True)
class Above:
    """A message from the server to client ``name``."""

    name: Annotated[str, REQUIRED_NAME]
    message: Annotated[FromServer, FieldKind(lambda _, inner: TO_CLIENT.decode(inner), TO_CLIENT.encode)]


@dataclass(frozen=True, slots=True, eq=False)
class WordPart:
    """A part of a broadcast to several clients. Only the first part on a stream has ``yours``; ``part.yours`` is empty."""

    yours: Annotated[Mapping[int, Ack], _YOURS]
    part: BroadcastPart

    @classmethod
    def split(
        cls, k: int, epoch: int, yours: Mapping[int, Settled], data: Raw, wire: str, how: Resumed | None = None
    ) -> Iterator[Self]:
        """Yield the parts of a broadcast to the clients in ``yours``; ``data`` are the wire bytes of the model."""
        first, *others = Part.split(k, data, wire, how)
        yield cls({c: Ack(settled, epoch) for c, settled in yours.items()}, BroadcastPart(epoch, NOTHING, first))
        for part in others:
            yield cls({}, BroadcastPart(epoch, None, part))


@dataclass(frozen=True, slots=True)
class Acks:
    """These rounds of these clients are on the server's disk."""

    yours: Annotated[Mapping[int, Ack], _YOURS]


@dataclass(frozen=True, slots=True)
class SumRefusal:
    """The server will never take the sum ``id``, because of ``pairs`` or (if there are none) because of its numbers."""

    id: Annotated[str, _ID]
    pairs: Annotated[tuple[Pair, ...], _PAIRS]
    reason: Annotated[str, REASON]


@dataclass(frozen=True, slots=True)
class Over:
    """The run is over and every client that took part has confirmed it; the parent sends nothing more."""


FromNode = NodeHello | Below | SumPart | Alive
FromParent = NodeWelcome | Above | WordPart | Acks | SumRefusal | Refusal | Ping | Over


TO_PARENT = Codec(pb.Up, "an aggregator", hello=NodeHello, below=Below, sum=SumPart, alive=Alive)
TO_NODE = Codec(
    pb.Down,
    "the parent",
    welcome=NodeWelcome,
    above=Above,
    word=WordPart,
    acks=Acks,
    refused=SumRefusal,
    refusal=Refusal,
    ping=Ping,
    over=Over,
)
