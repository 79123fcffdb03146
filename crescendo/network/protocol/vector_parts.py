"""Parts of long vectors: cuts a vector's bytes into messages, and assembles them again.

A vector longer than `PART` bytes travels in parts, in order, each `PART` bytes long except the last; on a bad line the parts have
`SMALL_PART` bytes. A part 0 begins a vector and drops an unfinished one: a newer broadcast supersedes an older one half way. So a
receiver holds at most one unfinished vector per peer. It knows the vector's length from the first part, and uses memory only for
the bytes that have arrived. The unfinished vector outlives its stream (`resumption`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np

from crescendo.core.buffer_pool import BufferPool
from crescendo.core.vectors import WIRES, Raw, item_bytes
from crescendo.errors import PeerError
from crescendo.network.protocol.codec import NUMBER, ROUND, FieldKind
from crescendo.network.protocol.resumption import PART, SHA256, SMALL_PART, Resumed, Unfinished

_NUMBERS = {"float32": 1, "float64": 2, "float16": 3, "bfloat16": 4}  # as in wire.proto
assert set(_NUMBERS) == set(WIRES)


_WIRES = {number: wire for wire, number in _NUMBERS.items()}


def _read_floats(what: str, number: int) -> str:
    if number not in _WIRES:
        raise PeerError(f"a vector came with floats of the unknown kind {number}; dropped")
    return _WIRES[number]


_FLOATS = FieldKind(_read_floats, _NUMBERS.__getitem__, proto="floats")
_LENGTH = NUMBER._replace(label="length")
_DATA = FieldKind(write=bytes)


def _parts_of(size: int, part_bytes: int) -> int:
    """Return the number of parts of a vector of ``size`` bytes."""
    return max(1, -(-size // part_bytes))


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A part of a vector of ``numbers`` floats; ``about`` is the round of an update, or the k of a broadcast.

    ``whole`` is the vector's SHA-256; only the part that continues a vector after a break has it.
    """

    about: Annotated[int, ROUND]
    part: int
    parts: int
    wire: Annotated[str, _FLOATS]
    numbers: Annotated[int, _LENGTH]
    data: Annotated[Raw, _DATA]
    whole: Annotated[bytes, SHA256] = b""

    @classmethod
    def split(cls, about: int, data: Raw, wire: str, how: Resumed | None = None) -> Iterator[Self]:
        """Yield the parts of a vector as views, not copies; with ``how``, small parts that begin at ``how.start``."""
        size, (start, whole) = PART if how is None else SMALL_PART, how or Resumed()
        numbers, parts, view = len(data) // item_bytes(wire), _parts_of(len(data), size), memoryview(data)
        for part in range(start // size, parts):
            yield cls(about, part, parts, wire, numbers, view[part * size : (part + 1) * size], whole)
            whole = b""

    @property
    def is_first(self) -> bool:
        """True for the first part of its vector on this stream, at the beginning or after a break."""
        return self.part == 0 or bool(self.whole)

    def check(self) -> None:
        """Raise `PeerError` for an impossible part number, or for too many bytes."""
        if not 0 <= self.part < self.parts or (self.whole and not self.part):
            raise PeerError(f"a part {self.part} of {self.parts} came, which cannot be; dropped")
        if len(self.data) > PART:
            raise PeerError(f"a part {self.part} of {self.parts} came with {len(self.data)} bytes; dropped")


class Assembly:
    """Assembles vectors from the parts that one peer sends, one vector at a time.

    ``longest`` is the most numbers that a vector may have. ``wires`` are the float types that the terms allow. ``buffers``, which
    several assemblies may share, lends the memory for whole vectors. ``kept`` is the unfinished vector of the peer's last stream,
    which the peer knows of. A part that breaks the rules is refused and drops the current vector; a part 0 begins the next.
    """

    def __init__(
        self,
        longest: int,
        wires: tuple[str, ...] = WIRES,
        buffers: BufferPool | None = None,
        kept: Unfinished | None = None,
    ) -> None:
        self._longest, self._wires, self._buffers = longest, wires, buffers
        self._vector: Unfinished | None = None
        self._kept = kept
        self._is_over = False

    @property
    def held(self) -> int:
        """The number of bytes of the current vector that have arrived."""
        return 0 if self._vector is None else self._vector.held

    def add(self, part: Part) -> Raw | None:
        """Add a part. Return the bytes of the whole vector if this part completes it, otherwise None."""
        if self._is_over:
            return None
        try:
            return self._add(part)
        except PeerError:
            self.drop()
            raise

    def drop(self) -> None:
        """Forget the unfinished vector."""
        self._vector = self._kept = None

    def hand_over(self) -> Unfinished | None:
        """Return the unfinished vector for the peer's next stream. From now on this assembly ignores all parts."""
        vector, self._is_over = self._vector or self._kept, True
        self.drop()
        return replace(vector) if vector is not None and vector.held else None

    def copy(self) -> Unfinished | None:
        """Return a copy of the unfinished vector. This assembly stays in use: the streams may belong to two peers of one name."""
        vector = self._vector or self._kept
        return vector.copied() if vector is not None and vector.held else None

    def _add(self, part: Part) -> Raw | None:
        if part.part == 0:
            self.drop()
            self._vector = self._begun(part)
        elif part.whole:
            self._vector, self._kept = self._continued(part), None
        vector = self._vector
        if vector is None or (part.part * vector.part_bytes, part.parts) != (vector.held, self._parts(vector)):
            raise self._out_of_turn(part)
        if (part.about, part.wire, part.numbers) != (vector.about, vector.wire, vector.numbers):
            raise self._out_of_turn(part)
        if len(part.data) != min(vector.part_bytes, self._size(vector) - vector.held):
            raise PeerError(
                f"part {part.part} of {part.parts} about {part.about} came with {len(part.data)} bytes, which is not its "
                f"length; dropped, send parts of {vector.part_bytes} bytes and a shorter last one"
            )
        if part.parts == 1:
            self.drop()
            return part.data
        if part.part == 0:  # room for the whole vector; the system provides memory only for the pages written
            vector.room = (self._buffers or BufferPool()).room(self._size(vector), np.dtype(np.uint8)).data
        vector.add(part.data)
        if vector.held < self._size(vector):
            return None
        vector.check_whole()
        self.drop()
        return vector.room.toreadonly()

    def _begun(self, part: Part) -> Unfinished:
        self._check_first(part)
        size = part.numbers * item_bytes(part.wire)
        part_bytes = PART if part.parts == _parts_of(size, PART) else SMALL_PART
        return Unfinished(part.about, part.wire, part.numbers, memoryview(b""), part_bytes)

    def _check_first(self, part: Part) -> None:
        if part.wire not in self._wires:
            raise PeerError(f"a vector comes as {str(part.wire)[:20]!r}, agreed is {' or '.join(self._wires)}; dropped")
        if not 1 <= part.numbers <= self._longest:
            raise PeerError(
                f"a vector of {part.numbers} numbers is announced, at most {self._longest} are agreed; dropped"
            )
        size = part.numbers * item_bytes(part.wire)
        if part.parts not in (_parts_of(size, PART), _parts_of(size, SMALL_PART)):
            raise PeerError(
                f"{part.parts} parts are announced for {part.numbers} numbers of {part.wire}; dropped, use parts of {PART} bytes"
            )

    def _continued(self, part: Part) -> Unfinished:
        """Return the kept vector with the sender's current ``about``: another k may have the same bytes."""
        kept = self._kept
        if kept is None or kept.hash is None or (kept.wire, kept.numbers) != (part.wire, part.numbers):
            raise self._out_of_turn(part)
        kept.about, kept.part_bytes, kept.whole = part.about, SMALL_PART, part.whole
        return kept

    def _out_of_turn(self, part: Part) -> PeerError:
        return PeerError(
            f"part {part.part} of {part.parts} about {part.about} came out of turn; dropped, begin again with part 0"
        )

    @staticmethod
    def _size(vector: Unfinished) -> int:
        return vector.numbers * item_bytes(vector.wire)

    def _parts(self, vector: Unfinished) -> int:
        return _parts_of(self._size(vector), vector.part_bytes)
