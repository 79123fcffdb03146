"""What a client and its server say to each other: the messages, what each field may hold, and a codec for each direction.

Vectors travel as `UpdatePart` and `BroadcastPart`; `crescendo.network.protocol.vector_parts.Assembly` puts them together again.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

from crescendo.core.messages import Settled
from crescendo.core.vectors import Raw
from crescendo.errors import PeerError
from crescendo.federation.agreement import Agreement
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.codec import (
    AGREED_TERMS,
    DIGEST,
    DIGEST_IF_ANY,
    LARGEST,
    NAME,
    NUMBER,
    REASON,
    ROUND,
    SETTLED,
    Codec,
)
from crescendo.network.protocol.framing import Framed
from crescendo.network.protocol.resumption import Held, Resumed
from crescendo.network.protocol.vector_parts import Part
from crescendo.network.protocol.versions import PeerVersion

SERVICE = "crescendo.v1.Federation"
NOTHING = Settled(0)


# -- what a client says ------------------------------------------------------------------------------------------------


class _AboutTerms:
    """A message that names the federation and the terms that it is about."""

    __slots__ = ()
    federation: str
    digest: str

    def check_about(self, agreement: Agreement) -> None:
        """`PeerError` if it is about others than these."""
        if (self.federation, self.digest) != (agreement.federation, agreement.digest):
            raise PeerError(
                f'a message is about another federation or other terms than "{agreement.federation}"; dropped'
            )


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of a stream: who is there, and what it has seen and sent (``last``: its last round, -1 for none).

    ``held`` is there on a line that broke. ``in_memory``: the broadcast of ``epoch`` and ``k`` need not come again.
    """

    name: Annotated[str, NAME]
    instance: str
    federation: Annotated[str, NAME] = ""
    digest: Annotated[str, DIGEST_IF_ANY] = ""
    last: int = -1
    epoch: Annotated[int, NUMBER] = 0
    k: Annotated[int, NUMBER] = 0
    acknowledged: Annotated[Settled, SETTLED] = NOTHING
    token: Annotated[str, NAME] = field(default="", repr=False)  # a secret: never in a log
    version: PeerVersion | None = None  # none: of a client from before there were any
    held: Held | None = None
    in_memory: bool = False

    def check(self) -> None:
        """`PeerError` for what no sound client sends."""
        if not self.name:
            raise PeerError("a client came without a name; refused, join with --as NAME")
        if not re.fullmatch("[0-9a-f]{32}", self.instance):
            raise PeerError(
                "a client came with an instance id that is not 32 hex digits; refused, check its state folder"
            )
        if not -1 <= self.last < LARGEST:
            raise PeerError(f"a client says that its last round is {self.last}; refused, check its state folder")

    def check_version(self, here: PeerVersion, role: str) -> None:
        """`PeerError` if this client and the side that it joins, a ``role``, speak no common protocol."""
        here.speak_with(self.version, f"the {role}", f'"{self.name}"')

    def client_in(self, agreement: Agreement) -> int:
        """The number of this client, or `PeerError` for one that is not part of the federation."""
        c = agreement.indices.get(self.name)
        if c is None:
            raise PeerError(f'"{self.name}" is not among the clients of this federation; join as one of those it names')
        if self.federation and self.federation != agreement.federation:
            raise PeerError(f'this is federation "{agreement.federation}", not "{self.federation}"; check the address')
        if self.digest and self.digest != agreement.digest:
            raise PeerError(
                f'"{self.name}" signed off other terms of federation "{agreement.federation}" than the server has; a changed '
                f"federation needs an id of its own"
            )
        return c


@dataclass(frozen=True, slots=True, eq=False)
class UpdatePart(_AboutTerms):
    """A piece of the update of round ``vector.about``."""

    federation: Annotated[str, NAME]
    digest: Annotated[str, DIGEST]
    vector: Part

    @classmethod
    def split(
        cls, round: int, data: Raw, wire: str, federation: str, digest: str, how: Resumed | None = None
    ) -> Iterator[Self]:
        """The pieces of an update whose wire bytes are ``data``."""
        return (cls(federation, digest, part) for part in Part.split(round, data, wire, how))


@dataclass(frozen=True, slots=True)
class VoidRound(_AboutTerms):
    """The update of ``round`` will never come."""

    round: Annotated[int, ROUND]
    federation: Annotated[str, NAME]
    digest: Annotated[str, DIGEST]


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The client leaves for good; or, if it is ``finished``, has heard the end of the run and needs nothing more."""

    reason: Annotated[str, REASON] = ""
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a ping."""

    number: int = 0


# -- what the server says ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Welcome:
    """The terms, and where the receiver stands: its index, the least round to go on with, what was received of it.

    ``held`` is there on a line that broke, or if a part of an update came before.
    """

    terms: Annotated[str, AGREED_TERMS]
    federation: Annotated[str, NAME]
    epoch: Annotated[int, NUMBER]
    client: int
    start: Annotated[int, NUMBER]
    received: Annotated[Settled, SETTLED]
    version: PeerVersion | None = None
    held: Held | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BroadcastPart:
    """A piece of the model at k = ``vector.about``. ``yours`` is there in the first on a stream, None in the others."""

    epoch: Annotated[int, NUMBER]
    yours: Annotated[Settled | None, SETTLED]
    vector: Part

    def check(self) -> None:
        """`PeerError` for what no sound peer sends."""
        if (self.yours is not None) != self.vector.is_first:
            raise PeerError("the first part of a broadcast, and no other, says which rounds it contains; dropped")


@dataclass(frozen=True, slots=True)
class Ack:
    """These rounds of the receiver are on the server's disk."""

    yours: Annotated[Settled, SETTLED]
    epoch: Annotated[int, NUMBER] = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """No, and why. ``final``: not to be tried again. ``round``: that round of the receiver was refused and is void now."""

    reason: Annotated[str, REASON]
    final: bool = False
    round: Annotated[int | None, NUMBER] = None


@dataclass(frozen=True, slots=True)
class Ping:
    """Are you there?"""

    number: int = 0


FromClient = Hello | UpdatePart | VoidRound | Goodbye | Pong
FromServer = Welcome | BroadcastPart | Ack | Refusal | Ping


class _ToServer(Codec):
    """What clients say; of a large update the floats were cut off before, and are put in again."""

    def decode(self, message: Any) -> Any:
        if not isinstance(message, Framed):
            return super().decode(message)
        update = super().decode(message.message)
        return replace(update, vector=replace(update.vector, data=message.data))


TO_SERVER = _ToServer(pb.ToServer, "a client", hello=Hello, update=UpdatePart, void=VoidRound, leave=Goodbye, pong=Pong)
TO_CLIENT = Codec(
    pb.ToClient, "the server", welcome=Welcome, broadcast=BroadcastPart, ack=Ack, refusal=Refusal, ping=Ping
)
