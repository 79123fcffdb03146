"""Resumption: a vector whose stream broke half way continues on the next stream where it stopped.

Theory of operation
-------------------
Streams break on bad lines. If every stream began its vectors from the first byte, a line that breaks more often than one vector
takes would never carry one. So the receiver keeps the bytes that have arrived (`Unfinished`), and reports their number and their
SHA-256 in the first message of the next stream (`Held`). The sender compares this with the bytes that it is about to send
(`resumed`). If they begin with the same bytes, it sends the rest, and with it the SHA-256 of the whole, which the receiver checks
at the end. In any other case it begins with part 0, and the receiver drops the bytes that it held.

So a vector is identified by its bytes, not by a number: after a restart or a late update the same round, k or epoch may mean
another vector, and the comparison shows it. The data that go with a vector (rounds, epoch, pairs) come with its first part on
each stream, so data of an older version never mix with bytes of a newer one.

The receiver knows that its line is bad, and reports it even if it holds nothing. The sender then uses small parts, because a
break loses the part that is on its way. To a receiver that reports no break it sends the usual parts.
"""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from crescendo.core.vectors import Raw
from crescendo.errors import PeerError
from crescendo.network.protocol.codec import NUMBER, FieldKind

PART = 1 << 20  # bytes of a vector in one message; gRPC's limit is 4 MiB
SMALL_PART = 1 << 16  # bytes on a line that broke: the next break loses no more


def _read_sha256(what: str, digest: bytes) -> bytes:
    if len(digest) not in (0, 32):
        raise PeerError("a message came with a hash of a vector that is not a SHA-256; dropped, check the sender")
    return digest


SHA256 = FieldKind(_read_sha256)


@dataclass(frozen=True, slots=True)
class Held:
    """The receiver of a vector about ``about`` holds its first ``length`` bytes. Length 0 only reports a bad line."""

    about: Annotated[int, NUMBER] = 0
    length: Annotated[int, NUMBER._replace(label="length")] = 0
    sha256: Annotated[bytes, SHA256] = b""

    def check(self) -> None:
        """Raise `PeerError` for a length without a hash, or a hash without a length."""
        if bool(self.length) != bool(self.sha256):
            raise PeerError("a part of a vector is held without a hash of it; dropped, check the sender")


class Resumed(NamedTuple):
    """How to send a vector on a bad line: from byte ``start`` on; if that is not 0, with ``whole``, the vector's SHA-256."""

    start: int = 0
    whole: bytes = b""


def resumed(data: Raw, held: Held) -> Resumed:
    """Return how to send ``data`` to a receiver that holds ``held``. This hashes all of ``data``: use a thread for a long one.

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
    """A vector of which the first ``held`` bytes have arrived in ``room``. ``hash``, if there is one, covers those bytes."""

    about: int
    wire: str
    numbers: int
    room: memoryview
    part_bytes: int
    held: int = 0
    hash: Any = None
    whole: bytes = field(default=b"", repr=False)  # the SHA-256 of the whole vector, as the sender gave it

    def add(self, data: Raw) -> None:
        """Append the next bytes."""
        self.room[self.held : self.held + len(data)] = data
        self.held += len(data)
        if self.hash is not None:
            self.hash.update(data)

    def copied(self) -> Self:
        """Return a copy that shares no memory with this one."""
        room = np.empty(len(self.room), np.uint8).data
        room[: self.held] = self.room[: self.held]
        return replace(self, room=room, hash=None if self.hash is None else self.hash.copy())

    def claim(self) -> Held:
        """Return the `Held` for the next stream. The first call hashes the bytes held: use a thread if there are many."""
        if self.hash is None:
            self.hash = hashlib.sha256(self.room[: self.held])
        return Held(self.about, self.held, self.hash.digest())

    def check_whole(self) -> None:
        """Raise `PeerError` if the SHA-256 of the bytes is not the one that the sender gave."""
        if self.whole and self.hash.digest() != self.whole:
            raise PeerError(
                f"the vector about {self.about} was resumed, and together its parts have another SHA-256 than its sender says; "
                f"dropped, begin again with part 0"
            )
