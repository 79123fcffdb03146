"""Planned events: what each round of a plan costs, kept as few kinds of events and a small number for each round.

Terms may have a million rounds, of which few are different. A client keeps its plan for as long as it takes part, and its
ledger for good, so neither keeps an object for every round.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from crescendo.core.arrays import Ints
from crescendo.privacy.accounting.events import Counted, Event, tally

_LISTED = 10_000  # rounds up to which a plan is written round by round, as every version of a ledger reads it
_TOGETHER = 1 << 16  # rounds that are coded together


class PlannedEvents(Sequence[Event | None]):
    """The event of every round, from round 0; None where nothing is sent.

    >>> from crescendo.privacy.accounting.events import PoissonGaussian
    >>> big, small = PoissonGaussian(0.2, 2.0), PoissonGaussian(0.1, 2.0)
    >>> plan = PlannedEvents.of([big, None, small, big])
    >>> len(plan), plan[1], plan[3] == big, plan.counted == ((small, 1), (big, 2))
    (4, None, True, True)
    """

    def __init__(self, kinds: tuple[Event | None, ...], codes: Ints) -> None:
        self._kinds, self._codes = kinds, codes

    @classmethod
    def of(cls, events: Iterable[Event | None]) -> PlannedEvents:
        """A plan from its rounds. Kinds are numbered as they come, so that equal plans have equal numbers."""
        if isinstance(events, PlannedEvents):
            return events
        known: dict[Event | None, int] = {}
        parts, part = [], list[int]()
        for event in events:
            part.append(known.setdefault(event, len(known)))
            if len(part) == _TOGETHER:
                parts.append(_narrow(part))
                part = []
        codes = np.concatenate([*parts, _narrow(part)])
        codes.flags.writeable = False
        return cls(tuple(known), codes)

    def __len__(self) -> int:
        return len(self._codes)

    @overload
    def __getitem__(self, i: int) -> Event | None: ...
    @overload
    def __getitem__(self, i: slice) -> PlannedEvents: ...
    def __getitem__(self, i: int | slice) -> Event | PlannedEvents | None:
        if isinstance(i, slice):
            return PlannedEvents.of(self._kinds[code] for code in self._codes[i])
        return self._kinds[int(self._codes[i])]

    def __iter__(self) -> Iterator[Event | None]:
        return (self._kinds[code] for code in self._codes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlannedEvents):
            return NotImplemented
        return self._kinds == other._kinds and np.array_equal(self._codes, other._codes)

    def __hash__(self) -> int:
        return hash((self._kinds, self._codes.tobytes()))

    def __repr__(self) -> str:
        return f"PlannedEvents({len(self)} rounds of {len(self._kinds)} kinds)"

    @property
    def counted(self) -> Counted:
        """The events that are sent, and how often each."""
        counts = np.bincount(self._codes, minlength=len(self._kinds)).tolist()
        return tally((event, count) for event, count in zip(self._kinds, counts, strict=True) if event is not None)

    # -- as plain data ---------------------------------------------------------------------------------------------------

    def to_json(self) -> Any:
        """A list of rounds, or, for a long plan, its kinds and the packed numbers of its rounds; `from_json` the way back."""
        kinds = [None if event is None else list(event.to_json().values()) for event in self._kinds]
        if len(self) <= _LISTED:
            return [kinds[code] for code in self._codes]
        packed = base64.b64encode(zlib.compress(self._codes.astype("<u4").tobytes())).decode()
        return {"rounds": len(self), "kinds": kinds, "codes": packed}

    @classmethod
    def from_json(cls, raw: Any) -> PlannedEvents:
        """What `to_json` made, in either form."""
        if isinstance(raw, list):
            return cls.of(None if event is None else Event.from_json(*event) for event in raw)
        kinds = tuple(None if event is None else Event.from_json(*event) for event in raw["kinds"])
        codes = np.frombuffer(_unpacked(raw["codes"], 4 * raw["rounds"]), dtype="<u4")
        if len(codes) != raw["rounds"] or codes.max() >= len(kinds):
            raise ValueError("a plan names kinds of rounds that it does not have")
        return cls(kinds, _narrow(codes))


def _narrow(codes: Iterable[int]) -> Ints:
    """Numbers as the shortest whole numbers that hold them."""
    found = np.asarray(codes, dtype=np.int64)
    return found.astype(np.min_scalar_type(int(found.max(initial=0))))


def _unpacked(text: str, most: int) -> bytes:
    """The bytes, of which more than one too many are never unpacked: few letters can unfold into any number."""
    try:
        return zlib.decompressobj().decompress(base64.b64decode(text), most + 1)
    except zlib.error as error:
        raise ValueError(f"a plan cannot be unpacked ({error})") from None
