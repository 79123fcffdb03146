"""Planned events: the cost of each round of a plan, kept as kinds of events and a small number per round.

Terms may have a million rounds, and as many kinds of them. A client keeps its plan for as long as it takes part, and its
ledger for good, so neither keeps an object for a round or for a kind.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, overload

import numpy as np

from crescendo_dp.arrays import Array, Ints
from crescendo_dp.event_kinds import LISTED, EventKinds, packed, unpacked
from crescendo_dp.events import Counted, Event, tally

_TOGETHER = 1 << 16  # rounds that are numbered together
_SHARED = 1 << 12  # kinds of which one object serves all rounds that are looked at one after the other


class PlannedEvents(Sequence[Event | None]):
    """The event of every round, from round 0; None where nothing is sent.

    >>> from crescendo_dp.events import PoissonGaussian
    >>> big, small = PoissonGaussian(0.2, 2.0), PoissonGaussian(0.1, 2.0)
    >>> plan = PlannedEvents.of([big, None, small, big])
    >>> len(plan), plan[1], plan[3] == big, plan.counted == ((small, 1), (big, 2))
    (4, None, True, True)
    """

    def __init__(self, kinds: EventKinds, codes: Ints) -> None:
        self._kinds, self._codes = kinds, codes

    @classmethod
    def of(cls, events: Iterable[Event | None]) -> PlannedEvents:
        """A plan from its rounds."""
        if isinstance(events, PlannedEvents):
            return events
        coming = iter(events)
        parts = iter(lambda: list(islice(coming, _TOGETHER)), [])
        return cls.joined(EventKinds.of(part) for part in parts)

    @classmethod
    def joined(cls, parts: Iterable[EventKinds]) -> PlannedEvents:
        """A plan from its rounds, some at a time. Kinds are numbered as they come, so that equal plans have equal numbers."""
        kinds, codes = [EventKinds.of(())], [_narrow(np.zeros(0))]
        for part in parts:
            among, code = part.numbered()
            kinds.append(among)
            codes.append(code)
        ends = np.cumsum([len(among) for among in kinds])[:-1]
        together = EventKinds.joined(kinds)
        kinds.clear()  # there may be as many as there are rounds
        different, numbers = together.numbered()
        pairs = zip(np.split(numbers, ends), codes, strict=True)
        return cls(different, np.concatenate([_narrow(number[code]) for number, code in pairs]))

    def __len__(self) -> int:
        return len(self._codes)

    @overload
    def __getitem__(self, i: int) -> Event | None: ...
    @overload
    def __getitem__(self, i: slice) -> PlannedEvents: ...
    def __getitem__(self, i: int | slice) -> Event | PlannedEvents | None:
        if isinstance(i, slice):
            return self.at(np.arange(len(self))[i])
        return self._kinds[int(self._codes[i])]

    def at(self, rounds: Ints | Sequence[int]) -> PlannedEvents:
        """The plan of these rounds alone."""
        return PlannedEvents.joined([self._kinds.at(self._codes[np.asarray(rounds, np.int64)])])

    def __iter__(self) -> Iterator[Event | None]:
        kind = functools.lru_cache(_SHARED)(self._kinds.__getitem__)
        return (kind(int(code)) for code in self._codes)

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
        """The events that are sent, and how often each: an object for each kind, however many there are."""
        return _counted(self._kinds, np.bincount(self._codes, minlength=len(self._kinds)))

    @property
    def priced(self) -> Counted:
        """`fewer` of the events that are sent, without an object for each kind."""
        counts = np.bincount(self._codes, minlength=len(self._kinds))
        sent = np.flatnonzero((counts > 0) & (self._kinds.which > 0))
        kinds, codes = self._kinds.at(sent).fewer().numbered()
        together = np.zeros(len(kinds), np.int64)
        np.add.at(together, codes, counts[sent])
        return _counted(kinds, together)

    # -- as plain data ---------------------------------------------------------------------------------------------------

    def to_json(self) -> Any:
        """A list of rounds, or, for a long plan, its kinds and the packed numbers of its rounds; `from_json` the way back."""
        if len(self) <= LISTED:
            kinds = self._kinds.to_json()
            return [kinds[code] for code in self._codes]
        return {"rounds": len(self), "kinds": self._kinds.to_json(), "codes": packed(self._codes, "<u4")}

    @classmethod
    def from_json(cls, raw: Any) -> PlannedEvents:
        """Return the plan that `to_json` wrote, in either form."""
        if isinstance(raw, list):
            return cls.of(None if event is None else Event.from_json(*event) for event in raw)
        kinds, codes = EventKinds.from_json(raw["kinds"]), unpacked(raw["codes"], "<u4", raw["rounds"])
        if codes.max(initial=0) >= len(kinds):
            raise ValueError("a plan names kinds of rounds that it does not have")
        return cls(kinds, _narrow(codes))


def _counted(kinds: EventKinds, counts: Ints) -> Counted:
    return tally((event, count) for j, count in enumerate(counts.tolist()) if (event := kinds[j]) is not None)


def _narrow(codes: Array) -> Ints:
    """Numbers as the shortest whole numbers that hold them."""
    return codes.astype(np.min_scalar_type(int(codes.max(initial=0))))
