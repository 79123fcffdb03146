"""Messages between a client and its server, the limits of their fields, and a codec for each direction.

Vectors travel as `UpdatePart` and `BroadcastPart`; `crescendo.network.protocol.vector_parts.Assembly` assembles them again.
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


# -- messages of a client ----------------------------------------------------------------------------------------------


class _AboutTerms:
    """A message that names its federation and terms."""

    __slots__ = ()
    federation: str
    digest: str

    def check_about(self, agreement: Agreement) -> None:
        """Raise `PeerError` if the message names another federation or other terms than those of ``agreement``."""
        if (self.federation, self.digest) != (agreement.federation, agreement.digest):
            raise PeerError(
                f'a message is about another federation or other terms than "{agreement.federation}"; dropped'
            )


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of a stream: the client's name, and what it has seen and sent (``last``: its last round, -1 for none).

    ``held`` is set if the last stream broke. With ``in_memory`` the server need not resend the broadcast of ``epoch`` and ``k``.
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
    version: PeerVersion | None = None  # None: the client is older than this field
    held: Held | None = None
    in_memory: bool = False

    def check(self) -> None:
        """Raise `PeerError` for an empty name, or an impossible instance id or round."""
        if not self.name:
            raise PeerError("a client came without a name; refused, join with --as NAME")
        if not re.fullmatch("[0-9a-f]{32}", self.instance):
            raise PeerError(
                "a client came with an instance id that is not 32 hex digits; refused, check its state folder"
            )
        if not -1 <= self.last < LARGEST:
            raise PeerError(f"a client says that its last round is {self.last}; refused, check its state folder")

    def check_version(self, here: PeerVersion, role: str) -> None:
        """Raise `PeerError` if this client and the side that it joins (``role``) speak no common protocol."""
        here.speak_with(self.version, f"the {role}", f'"{self.name}"')

    def client_in(self, agreement: Agreement) -> int:
        """Return the index of this client; `PeerError` if the name, federation or terms do not match the agreement."""
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
    """A part of the update of round ``vector.about``."""

    federation: Annotated[str, NAME]
    digest: Annotated[str, DIGEST]
    vector: Part

    @classmethod
    def split(
        cls, round: int, data: Raw, wire: str, federation: str, digest: str, how: Resumed | None = None
    ) -> Iterator[Self]:
        """Return the parts of an update whose wire bytes are ``data``."""
        return (cls(federation, digest, part) for part in Part.split(round, data, wire, how))


@dataclass(frozen=True, slots=True)
class VoidRound(_AboutTerms):
    """The update of ``round`` will never come."""

    round: Annotated[int, ROUND]
    federation: Annotated[str, NAME]
    digest: Annotated[str, DIGEST]


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The client leaves for good; or, if ``finished``, it has received the end of the run and needs nothing more."""

    reason: Annotated[str, REASON] = ""
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a ping."""

    number: int = 0


# -- messages of the server --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Welcome:
    """The terms and the receiver's state: its index, the first round that it may send, and the rounds already received.

    ``held`` is set if the last stream broke, or if part of an update has arrived.
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
    """A part of the model at k = ``vector.about``. Only the first part on a stream has ``yours``; in the others it is None."""

    epoch: Annotated[int, NUMBER]
    yours: Annotated[Settled | None, SETTLED]
    vector: Part

    def check(self) -> None:
        """Raise `PeerError` if ``yours`` comes with the wrong part."""
        if (self.yours is not None) != self.vector.is_first:
            raise PeerError("the first part of a broadcast, and no other, says which rounds it contains; dropped")


@dataclass(frozen=True, slots=True)
class Ack:
    """These rounds of the receiver are on the server's disk."""

    yours: Annotated[Settled, SETTLED]
    epoch: Annotated[int, NUMBER] = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal with its reason. ``final``: do not try again. ``round``: the receiver's update of it is refused and now void."""

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
    """Messages of clients. `Framed.parse` has cut off the floats of a large update; `decode` puts them back."""

    def decode(self, message: Any) -> Any:
        if not isinstance(message, Framed):
            return super().decode(message)
        update = super().decode(message.message)
        return replace(update, vector=replace(update.vector, data=message.data))


TO_SERVER = _ToServer(pb.ToServer, "a client", hello=Hello, update=UpdatePart, void=VoidRound, leave=Goodbye, pong=Pong)
TO_CLIENT = Codec(
    pb.ToClient, "the server", welcome=Welcome, broadcast=BroadcastPart, ack=Ack, refusal=Refusal, ping=Ping
)
