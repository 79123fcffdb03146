"""Messages to protobuf and back. What comes from the other side is checked here, field by field, before anything uses it.

`to_server` and `to_client` make the protobuf message; `from_client` and `from_server` read one, and raise `PeerError` for
whatever a sound peer would not send. Nothing is kept between calls. Vectors travel as `UpdatePart` and `BroadcastPart`:
`update_parts` and `broadcast_parts` make them, `crescendo.network.protocol.vector_parts.Assembly` puts them together again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from crescendo.core.messages import Settled
from crescendo.core.vectors import WIRES, Raw
from crescendo.errors import PeerError, UsageError
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.field_checks import (
    LARGEST,
    TERMS,
    TEXT,
    checked_digest,
    checked_name,
    checked_number,
    checked_reason,
    checked_text,
)
from crescendo.network.protocol.framing import Framed, framed
from crescendo.network.protocol.vector_parts import PART, Part, split

SERVICE = "crescendo.v1.Federation"
BEYOND = 1 << 16  # rounds that may have overtaken

NOTHING = Settled(0)

_FLOATS: dict[str, pb.Floats] = {
    "float32": pb.FLOAT32,
    "float64": pb.FLOAT64,
    "float16": pb.FLOAT16,
    "bfloat16": pb.BFLOAT16,
}
_WIRES = {number: wire for wire, number in _FLOATS.items()}
assert set(_FLOATS) == set(WIRES)


# -- what a client says ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of a stream: who is there, and what it has seen and sent (``last``: its last round, -1 for none)."""

    name: str
    instance: str
    federation: str = ""
    digest: str = ""
    last: int = -1
    epoch: int = 0
    k: int = 0
    acknowledged: Settled = NOTHING
    token: str = field(default="", repr=False)  # a secret: never in a log


@dataclass(frozen=True, slots=True, eq=False)
class UpdatePart:
    """A piece of the update of round ``vector.about``."""

    federation: str
    digest: str
    vector: Part


@dataclass(frozen=True, slots=True)
class VoidRound:
    """The update of ``round`` will never come."""

    round: int
    federation: str
    digest: str


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The client leaves for good; or, if it is ``finished``, has heard the end of the run and needs nothing more."""

    reason: str = ""
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a ping."""

    number: int = 0


# -- what the server says ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Welcome:
    """The terms, and where the receiver stands: its index, the least round to go on with, what was received of it."""

    terms: str
    federation: str
    epoch: int
    client: int
    start: int
    received: Settled


@dataclass(frozen=True, slots=True, eq=False)
class BroadcastPart:
    """A piece of the model at k = ``vector.about``. ``yours`` is there in part 0, None in the others."""

    epoch: int
    yours: Settled | None
    vector: Part


@dataclass(frozen=True, slots=True)
class Ack:
    """These rounds of the receiver are on the server's disk."""

    yours: Settled
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """No, and why. ``final``: not to be tried again. ``round``: that round of the receiver was refused and is void now."""

    reason: str
    final: bool = False
    round: int | None = None


@dataclass(frozen=True, slots=True)
class Ping:
    """Are you there?"""

    number: int = 0


FromClient = Hello | UpdatePart | VoidRound | Goodbye | Pong
FromServer = Welcome | BroadcastPart | Ack | Refusal | Ping


# -- making ------------------------------------------------------------------------------------------------------------


def to_server(message: FromClient) -> pb.ToServer:
    """The protobuf message a client sends."""
    match message:
        case UpdatePart(federation, digest, vector):
            return pb.ToServer(update=pb.UpdatePart(federation=federation, digest=digest, vector=_part(vector)))
        case Hello():
            hello = pb.Hello(
                name=message.name,
                instance=message.instance,
                federation=message.federation,
                digest=message.digest,
                last=message.last,
                epoch=message.epoch,
                k=message.k,
                acknowledged=_settled(message.acknowledged),
                token=message.token,
            )
            return pb.ToServer(hello=hello)
        case VoidRound(round, federation, digest):
            return pb.ToServer(void=pb.Void(round=round, federation=federation, digest=digest))
        case Goodbye(reason, finished):
            return pb.ToServer(leave=pb.Leave(reason=reason[:TEXT], finished=finished))
        case Pong(number):
            return pb.ToServer(pong=pb.Pong(number=number))


def to_client(message: FromServer) -> pb.ToClient:
    """The protobuf message a server sends."""
    match message:
        case BroadcastPart(epoch, yours, vector):
            settled = None if yours is None else _settled(yours)
            return pb.ToClient(broadcast=pb.BroadcastPart(epoch=epoch, yours=settled, vector=_part(vector)))
        case Ack(yours, epoch):
            return pb.ToClient(ack=pb.Ack(yours=_settled(yours), epoch=epoch))
        case Welcome():
            if len(message.terms) > TERMS:
                raise UsageError(f"the terms are {len(message.terms)} characters long, at most {TERMS} can be sent")
            welcome = pb.Welcome(
                terms=message.terms,
                federation=message.federation,
                epoch=message.epoch,
                client=message.client,
                start=message.start,
                received=_settled(message.received),
            )
            return pb.ToClient(welcome=welcome)
        case Refusal(reason, final, round):
            return pb.ToClient(refusal=pb.Refusal(reason=reason[:TEXT], final=final, round=round))
        case Ping(number):
            return pb.ToClient(ping=pb.Ping(number=number))


def update_parts(round: int, data: Raw, wire: str, federation: str, digest: str) -> Iterator[pb.ToServer]:
    """The messages that carry an update whose wire bytes are ``data``."""
    for part in split(round, data, wire):
        yield to_server(UpdatePart(federation, digest, part))


def broadcast_parts(k: int, epoch: int, data: Raw, wire: str) -> Iterator[bytes]:
    """The messages that carry a broadcast whose model is ``data`` on the wire, as bytes; the first still lacks `with_yours`."""
    fields = pb.BroadcastPart(epoch=epoch).SerializeToString()
    for part in split(k, data, wire):
        yield framed(fields, _part(replace(part, data=b"")).SerializeToString(), part.data)


def with_yours(first: bytes, yours: Settled) -> bytes:
    """The first part of a broadcast to many, as bytes, with the rounds of one of them: a parser merges the two halves."""
    return first + pb.ToClient(broadcast=pb.BroadcastPart(yours=_settled(yours))).SerializeToString()


def _settled(settled: Settled) -> pb.Settled:
    return pb.Settled(below=settled.below, beyond=sorted(settled.beyond))


def _part(part: Part) -> pb.Part:
    return pb.Part(
        about=part.about,
        part=part.part,
        parts=part.parts,
        floats=_FLOATS[part.wire],
        numbers=part.numbers,
        data=bytes(part.data),
    )


# -- reading -----------------------------------------------------------------------------------------------------------


def from_client(heard: pb.ToServer | Framed) -> FromClient:
    """What a client said, or `PeerError`."""
    message, data = heard if isinstance(heard, Framed) else (heard, None)
    match message.WhichOneof("message"):
        case "update":
            update = message.update
            vector = _read_part(update.vector, data)
            return UpdatePart(checked_name("federation", update.federation), checked_digest(update.digest), vector)
        case "hello":
            return _read_hello(message.hello)
        case "void":
            void, federation = message.void, checked_name("federation", message.void.federation)
            return VoidRound(checked_number("round", void.round), federation, checked_digest(void.digest))
        case "leave":
            return Goodbye(checked_reason(message.leave.reason), message.leave.finished)
        case "pong":
            return Pong(message.pong.number)
        case _:
            raise PeerError("a client sent a message of no kind that is known here; dropped, check its version")


def from_server(message: pb.ToClient) -> FromServer:
    """What the server said, or `PeerError`."""
    match message.WhichOneof("message"):
        case "broadcast":
            return _read_broadcast(message.broadcast)
        case "ack":
            return Ack(_read_settled(message.ack.yours), checked_number("epoch", message.ack.epoch))
        case "welcome":
            welcome = message.welcome
            return Welcome(
                checked_text("terms", welcome.terms, TERMS),
                checked_name("federation", welcome.federation),
                checked_number("epoch", welcome.epoch),
                welcome.client,
                checked_number("start", welcome.start),
                _read_settled(welcome.received),
            )
        case "refusal":
            refusal = message.refusal
            round = checked_number("round", refusal.round) if refusal.HasField("round") else None
            return Refusal(checked_reason(refusal.reason), refusal.final, round)
        case "ping":
            return Ping(message.ping.number)
        case _:
            raise PeerError("the server sent a message of no kind that is known here; dropped, check its version")


def _read_hello(hello: pb.Hello) -> Hello:
    if not hello.name:
        raise PeerError("a client came without a name; refused, join with --as NAME")
    if not re.fullmatch("[0-9a-f]{32}", hello.instance):
        raise PeerError("a client came with an instance id that is not 32 hex digits; refused, check its state folder")
    if not -1 <= hello.last < LARGEST:
        raise PeerError(f"a client says that its last round is {hello.last}; refused, check its state folder")
    return Hello(
        checked_name("name", hello.name),
        hello.instance,
        checked_name("federation", hello.federation),
        checked_digest(hello.digest, required=False),
        hello.last,
        checked_number("epoch", hello.epoch),
        checked_number("k", hello.k),
        _read_settled(hello.acknowledged),
        checked_name("token", hello.token),
    )


def _read_broadcast(broadcast: pb.BroadcastPart) -> BroadcastPart:
    vector, epoch = _read_part(broadcast.vector), checked_number("epoch", broadcast.epoch)
    if broadcast.HasField("yours") != (vector.part == 0):
        raise PeerError("the first part of a broadcast, and no other, says which rounds it contains; dropped")
    return BroadcastPart(epoch, _read_settled(broadcast.yours) if vector.part == 0 else None, vector)


def _read_part(part: pb.Part, data: Raw | None = None) -> Part:
    wire = _WIRES.get(part.floats)
    if wire is None:
        raise PeerError(f"a vector came with floats of the unknown kind {int(part.floats)}; dropped")
    data = part.data if data is None else data  # each look at a field of bytes copies it
    if not 0 <= part.part < part.parts or len(data) > PART:
        raise PeerError(f"a part {part.part} of {part.parts} came with {len(data)} bytes; dropped")
    return Part(
        checked_number("round", part.about), part.part, part.parts, wire, checked_number("length", part.numbers), data
    )


def _read_settled(settled: pb.Settled) -> Settled:
    below, beyond = checked_number("round", settled.below), settled.beyond
    if len(beyond) > BEYOND:
        raise PeerError(f"a set of rounds came with {len(beyond)} that overtook, at most {BEYOND} can be; dropped")
    before = below  # the round `below` itself is not settled, or `below` would be larger
    for round in beyond:
        if not before < round < LARGEST:
            raise PeerError("a set of rounds came that is not in rising order; dropped, check the sender")
        before = round
    return Settled(below, frozenset(beyond))
