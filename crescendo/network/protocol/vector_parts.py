"""Parts of long vectors: a vector's bytes are cut into messages, and put together again.

A vector that is longer than `PART` bytes travels in parts, each `PART` bytes long but for the last, in order; on a line that
breaks, in parts of `SMALL_PART`. A part 0 begins a vector and drops one that was not finished: a newer broadcast supersedes an
older one half way. So a receiver holds at most one unfinished vector per peer, of a length that it knows beforehand, and of that
only what has come. That one outlives its stream (`resumption`).
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
    """How many parts a vector of ``size`` bytes has."""
    return max(1, -(-size // part_bytes))


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A piece of a vector of ``numbers`` floats; ``about`` is the round of an update, or the k of a broadcast.

    ``whole`` is the vector's SHA-256, in the part with which it goes on after a break.
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
        """The parts of a vector, small ones and not from the first on if ``how`` says so; they are views, not copies."""
        size, (start, whole) = PART if how is None else SMALL_PART, how or Resumed()
        numbers, parts, view = len(data) // item_bytes(wire), _parts_of(len(data), size), memoryview(data)
        for part in range(start // size, parts):
            yield cls(about, part, parts, wire, numbers, view[part * size : (part + 1) * size], whole)
            whole = b""

    @property
    def is_first(self) -> bool:
        """Is this the part with which its vector begins, or goes on, on a stream?"""
        return self.part == 0 or bool(self.whole)

    def check(self) -> None:
        """`PeerError` for what no sound peer sends."""
        if not 0 <= self.part < self.parts or (self.whole and not self.part):
            raise PeerError(f"a part {self.part} of {self.parts} came, which cannot be; dropped")
        if len(self.data) > PART:
            raise PeerError(f"a part {self.part} of {self.parts} came with {len(self.data)} bytes; dropped")


class Assembly:
    """Puts the parts that one peer sends together again, one vector at a time.

    ``longest`` is the most numbers a vector may have; ``wires`` are the types that are agreed on; ``buffers``, which several may
    share, has the room for whole ones; ``kept`` is what the peer's stream before has left, and was told of. What breaks the
    rules is refused and ends the vector in hand; a part 0 begins the next.
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
        """Bytes of the vector in hand that are held now."""
        return 0 if self._vector is None else self._vector.held

    def add(self, part: Part) -> Raw | None:
        """The bytes of the whole vector, once its last part is there; else None."""
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
        """What the peer's next stream may go on with. From now on this one takes nothing more."""
        vector, self._is_over = self._vector or self._kept, True
        self.drop()
        return replace(vector) if vector is not None and vector.held else None

    def copy(self) -> Unfinished | None:
        """The same, while this one goes on: it may be that the two streams are of two peers with one name."""
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
        if part.part == 0:  # room for all of it; the system gives memory only for what is written there
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
        """The vector that was kept, with what its sender says about it now: it may be about another k with the same bytes."""
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
