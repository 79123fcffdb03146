"""Resumption: a vector whose stream broke half way goes on where it stopped, on the next stream.

Theory of operation
-------------------
Streams break on bad lines. If every stream began its vectors from the first byte, a line that breaks more often than one vector
takes would never carry one. So the receiver keeps what it has of the vector in hand (`Unfinished`), and says in the first
message of the next stream how many bytes that is and what their SHA-256 is (`Held`). The sender compares this with the bytes
that it is about to send (`resumed`). If they begin with what is held, it sends the rest, and with it the SHA-256 of the whole,
which the receiver checks at the end. In any other case it begins with part 0, which drops what was held.

So a vector is identified by its bytes, not by a number: the round, k or epoch may mean another vector by now, after a restart
or a late update, and the comparison shows it. Whatever goes with a vector (rounds, epoch, pairs) comes with its first part on
each stream, so that nothing of an older version is mixed with the bytes of a newer one.

The side that was cut knows that the line is bad, and says so even if it holds nothing. What is sent to it then goes in small
parts, as a cut loses the part that is on its way. A side that never says so is sent the same bytes as ever.
"""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from crescendo.core.vectors import Raw
from crescendo.errors import PeerError
from crescendo.network.protocol.codec import NUMBER, FieldKind

PART = 1 << 20  # bytes of a vector in one message; gRPC's limit is 4 MiB
SMALL_PART = 1 << 16  # on a line that broke: what the next break loses


def _read_sha256(what: str, digest: bytes) -> bytes:
    if len(digest) not in (0, 32):
        raise PeerError("a message came with a hash of a vector that is not a SHA-256; dropped, check the sender")
    return digest


SHA256 = FieldKind(_read_sha256)


@dataclass(frozen=True, slots=True)
class Held:
    """The sender of this holds the first ``length`` bytes of a vector about ``about``; with length 0, none: the line is bad."""

    about: Annotated[int, NUMBER] = 0
    length: Annotated[int, NUMBER._replace(label="length")] = 0
    sha256: Annotated[bytes, SHA256] = b""

    def check(self) -> None:
        """`PeerError` for what no sound peer sends."""
        if bool(self.length) != bool(self.sha256):
            raise PeerError("a part of a vector is held without a hash of it; dropped, check the sender")


class Resumed(NamedTuple):
    """How a vector is sent to a receiver on a bad line: from byte ``start`` on, and the SHA-256 of the whole unless that is 0."""

    start: int = 0
    whole: bytes = b""


def resumed(data: Raw, held: Held) -> Resumed:
    """How to send ``data`` to a receiver that holds ``held``. It hashes all of ``data``: in a thread, if that is long.

    >>> data = bytes(3 * SMALL_PART)
    >>> resumed(data, Held(0, SMALL_PART, hashlib.sha256(data[:SMALL_PART]).digest())).start == SMALL_PART
    True
    >>> resumed(data, Held(0, SMALL_PART, hashlib.sha256(b"of another version").digest()))
    Resumed(start=0, whole=b'')
    """
    if not 0 < held.length < len(data) or held.length % SMALL_PART:
        return Resumed()
    view = memoryview(data)
    whole = hashlib.sha256(view[: held.length])
    if whole.digest() != held.sha256:
        return Resumed()
    whole.update(view[held.length :])
    return Resumed(held.length, whole.digest())


@dataclass(eq=False, slots=True)
class Unfinished:
    """A vector of which the first ``held`` bytes have come, into ``room``. Once it has a ``hash``, that is of those bytes."""

    about: int
    wire: str
    numbers: int
    room: memoryview
    part_bytes: int
    held: int = 0
    hash: Any = None
    whole: bytes = field(default=b"", repr=False)  # what the sender says that the SHA-256 of all of it is

    def add(self, data: Raw) -> None:
        """Put the next bytes in their place."""
        self.room[self.held : self.held + len(data)] = data
        self.held += len(data)
        if self.hash is not None:
            self.hash.update(data)

    def copied(self) -> Self:
        """The same in memory of its own."""
        room = np.empty(len(self.room), np.uint8).data
        room[: self.held] = self.room[: self.held]
        return replace(self, room=room, hash=None if self.hash is None else self.hash.copy())

    def claim(self) -> Held:
        """What to tell the sender on the next stream. The first time it hashes what is held: in a thread, if that is long."""
        if self.hash is None:
            self.hash = hashlib.sha256(self.room[: self.held])
        return Held(self.about, self.held, self.hash.digest())

    def check_whole(self) -> None:
        """`PeerError` if the bytes are not those that the sender means."""
        if self.whole and self.hash.digest() != self.whole:
            raise PeerError(
                f"the vector about {self.about} was resumed, and together its parts have another SHA-256 than its sender says; "
                f"dropped, begin again with part 0"
            )
