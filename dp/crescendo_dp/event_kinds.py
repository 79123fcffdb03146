"""Kinds of events as columns, and a plan of very many kinds priced by fewer.

A million kinds are three arrays. An object is made only of a kind that is looked at.
"""

from __future__ import annotations

import base64
import math
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crescendo_dp.arrays import Array, Floats, Ints
from crescendo_dp.errors import UsageError
from crescendo_dp.events import Counted, Event, tally

LISTED = 10_000  # rounds and kinds up to which they are written one by one, as a person can read them
_MOST_SIGMAS = 16  # kinds of noise in a plan of very many different rounds that is priced by fewer


@dataclass(frozen=True, eq=False, slots=True)
class EventKinds:
    """Events, or None where nothing is sent: kind j is ``types[which[j]]`` of ``rates[j]`` and ``sigmas[j]``.

    >>> from crescendo_dp.events import PoissonGaussian
    >>> kinds = EventKinds.of([PoissonGaussian(0.2, 2.0), None])
    >>> len(kinds), kinds[0], kinds[1]
    (2, PoissonGaussian(rate=0.2, sigma=2.0), None)
    """

    types: tuple[type[Event] | None, ...]  # None first, then by name
    which: Ints
    rates: Floats
    sigmas: Floats

    def __post_init__(self) -> None:
        if len(self.which) != len(self.rates) or len(self.rates) != len(self.sigmas):
            raise ValueError("columns of events have unequal lengths")
        fine = (self.rates >= 0) & (self.rates <= 1) & (self.sigmas >= 0) & (self.sigmas < math.inf)
        for j in np.flatnonzero(~fine)[:1]:
            Event(float(self.rates[j]), float(self.sigmas[j]))  # raises the error

    @classmethod
    def of(cls, events: Iterable[Event | None]) -> EventKinds:
        """The columns of these events."""
        events = list(events)
        for event in events:
            if event is not None and not isinstance(event, Event):
                raise UsageError(f"an event is a PoissonGaussian(rate, sigma), got {event!r}")
        types = _by_name(type(event) for event in events if event is not None)
        number = {kind: j for j, kind in enumerate(types)}
        return cls(
            types,
            np.array([0 if event is None else number[type(event)] for event in events], np.uint16),
            np.array([0.0 if event is None else event.rate for event in events], np.float64),
            np.array([0.0 if event is None else event.sigma for event in events], np.float64),
        )

    @classmethod
    def alike(cls, kind: type[Event], rates: Floats, sigmas: Floats) -> EventKinds:
        """Events of one type; nothing is sent where the rate is 0."""
        sent = rates > 0
        return cls((None, kind), sent.astype(np.uint16), rates, np.where(sent, sigmas, 0.0))

    @classmethod
    def joined(cls, parts: Sequence[EventKinds]) -> EventKinds:
        """One after the other."""
        types = _by_name(kind for part in parts for kind in part.types if kind is not None)
        numbers = [np.array([types.index(kind) for kind in part.types], np.uint16) for part in parts]
        return cls(
            types,
            np.concatenate([number[part.which] for number, part in zip(numbers, parts, strict=True)]),
            np.concatenate([part.rates for part in parts]),
            np.concatenate([part.sigmas for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.rates)

    def __getitem__(self, j: int) -> Event | None:
        kind = self.types[self.which[j]]
        return None if kind is None else kind(float(self.rates[j]), float(self.sigmas[j]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EventKinds):
            return NotImplemented
        columns = ((self.which, other.which), (self.rates, other.rates), (self.sigmas, other.sigmas))
        return self.types == other.types and all(np.array_equal(mine, theirs) for mine, theirs in columns)

    def __hash__(self) -> int:
        return hash((self.types, self.which.tobytes(), self.rates.tobytes(), self.sigmas.tobytes()))

    def at(self, rows: Ints) -> EventKinds:
        """These kinds, of the types that they need."""
        which = self.which[rows]
        used = np.unique(which).tolist()
        types = (None, *(self.types[w] for w in used if w))
        number: Array = np.zeros(len(self.types), np.uint16)
        number[[w for w in used if w]] = np.arange(1, len(types))
        return EventKinds(types, number[which], self.rates[rows], self.sigmas[rows])

    def numbered(self) -> tuple[EventKinds, Ints]:
        """The different ones, in the order in which each first comes, and the number of each of these among them."""
        size = np.min_scalar_type(len(self))  # a plan of a million kinds is gone through in the shortest whole numbers
        order = np.lexsort((self.sigmas, self.rates, self.which)).astype(
            size
        )  # stable: of equal ones the first is first
        new = np.zeros(len(self), np.bool_)
        new[:1] = True
        for column in (self.which, self.rates, self.sigmas):
            along = column[order]
            new[1:] |= along[1:] != along[:-1]
            del along
        comes_first = np.zeros(len(self), np.bool_)
        comes_first[order[new]] = True
        rank = np.cumsum(comes_first, dtype=size)[order[new]] - size.type(1)
        codes: Array = np.empty(len(self), size)
        codes[order] = rank[np.cumsum(new, dtype=size) - size.type(1)]
        del order, new, rank
        return self.at(np.flatnonzero(comes_first)), codes

    def fewer(self, most: int = 512) -> EventKinds:
        """For each the one that prices it, at most ``most`` different ones: rates go up, sigmas down to others that are there."""
        if len(self) <= most:
            return self
        noises = min(len(np.unique(self.sigmas)), _MOST_SIGMAS)
        rates = _stand_ins(self.rates, most // noises, up=True)
        return EventKinds(self.types, self.which, rates, _stand_ins(self.sigmas, noises, up=False))

    # -- as plain data ---------------------------------------------------------------------------------------------------

    def to_json(self) -> Any:
        """A list of kinds, or the packed columns of very many; `from_json` the way back."""
        if len(self) <= LISTED:
            return [
                None if event is None else list(event.to_json().values())
                for event in map(self.__getitem__, range(len(self)))
            ]
        return {
            "number": len(self),
            "events": [kind.__name__ for kind in self.types if kind is not None],
            "which": packed(self.which, "<u2"),
            "rates": packed(self.rates, "<f8"),
            "sigmas": packed(self.sigmas, "<f8"),
        }

    @classmethod
    def from_json(cls, raw: Any) -> EventKinds:
        """Return the columns that `to_json` wrote, in either form."""
        if isinstance(raw, list):
            return cls.of(None if event is None else Event.from_json(*event) for event in raw)
        types, number = (None, *(Event.named(name) for name in raw["events"])), raw["number"]
        which = unpacked(raw["which"], "<u2", number)
        if which.max(initial=0) >= len(types):
            raise ValueError("a plan names types of events that it does not have")
        return cls(types, which, unpacked(raw["rates"], "<f8", number), unpacked(raw["sigmas"], "<f8", number))


def fewer(events: Counted, most: int = 512) -> Counted:
    """At most ``most`` different events that cost no less: rates go up and sigmas down to others that are there.

    A party that proposes a plan of a million different rounds must not decide how long it takes to price.

    >>> from crescendo_dp.events import PoissonGaussian
    >>> many = tally(PoissonGaussian(i / 2000, 1.0) for i in range(1, 2000))
    >>> few = fewer(many)
    >>> len(few) <= 512, sum(count for _, count in few), few[-1] == many[-1], fewer(few) == few
    (True, 1999, True, True)
    """
    if len(events) <= most:
        return events
    kinds = EventKinds.of(event for event, _ in events).fewer(most)
    return tally((event, count) for j, (_, count) in enumerate(events) if (event := kinds[j]) is not None)


def packed(numbers: Array, form: str) -> str:
    """Numbers as letters; `unpacked` the way back."""
    return base64.b64encode(zlib.compress(numbers.astype(form).tobytes())).decode()


def unpacked(text: str, form: str, number: int) -> Array:
    """So many numbers, of which more than one byte too many is never unpacked: few letters can unfold into any number."""
    most = number * np.dtype(form).itemsize
    try:
        found = zlib.decompressobj().decompress(base64.b64decode(text), most + 1)
    except zlib.error as error:
        raise ValueError(f"a plan cannot be unpacked ({error})") from None
    if len(found) != most:
        raise ValueError("a plan has not as many rounds and kinds as it says")
    return np.frombuffer(found, form)


def _by_name(types: Iterable[type[Event]]) -> tuple[type[Event] | None, ...]:
    return (None, *sorted(dict.fromkeys(types), key=lambda kind: kind.__name__))


def _stand_ins(values: Floats, most: int, *, up: bool) -> Floats:
    """For each value the greatest, or least, of its class; classes are equally wide in logarithms.

    A class is a stretch of the sorted values, so that logarithms are taken where one ends and not of each value.
    """
    found = np.unique(values)
    least = next((float(value) for value in found if value > 0), 1.0)

    def log(value: float) -> float:
        ratio = float(value) / least
        return math.log(ratio) if ratio < math.inf else math.log(value) - math.log(least)

    width = (log(found[-1]) or 1.0) / max(1, most - 2) if found[-1] > 0 else 1.0

    def number(value: float) -> int:
        return -1 if value == 0 else int(log(value) / width)

    result, begin = np.empty_like(found), 0
    while begin < len(found):
        end = bisect_right(found, number(found[begin]), begin, key=number)
        result[begin:end] = found[end - 1] if up else found[begin]
        begin = end
    return result[np.searchsorted(found, values)]
