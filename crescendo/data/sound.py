"""Which records of a file a private run may use. Each is judged alone: by itself, the file's header and what was stated.

So one record more or less changes nothing about the others, neither their numbers nor whether they are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crescendo.core.arrays import Bools
from crescendo.data import labels
from crescendo.data.records import Column, Label, Raw, Records, as_records, finite_rows


@dataclass(frozen=True, eq=False)
class _Sound:
    """The records that can be used, and how many others there were and why: for the eyes of the owner only."""

    records: Records
    kept: Bools  # of those that could be read
    unreadable: int = 0  # lines that are no record at all
    other_label: int = 0  # whose label is none of the classes
    not_finite: int = 0  # that have one of the labels, and a feature which is no finite number

    @property
    def left_out(self) -> int:
        return self.unreadable + self.other_label + self.not_finite


def sound(raw: Raw, classes: tuple[Label, ...]) -> _Sound:
    """The records of the training part that have one of the ``classes``, as `labels.stated` orders them.

    >>> raw = Raw(np.array([[1.0], [np.inf], [3.0]]), np.array(["no", "no", "maybe"], dtype=object), unreadable=2)
    >>> found = sound(raw, ("no", "yes"))
    >>> found.records.y, (found.unreadable, found.other_label, found.not_finite)
    (array([-1.]), (2, 1, 1))
    """
    return _sound(raw.x, raw.y, classes, raw.unreadable)


def sound_test(raw: Raw, classes: tuple[Label, ...]) -> Records | None:
    """The same of the test part."""
    return None if raw.test is None else _sound(*raw.test, classes, 0).records


def _sound(x: Any, y: Column, classes: tuple[Label, ...], unreadable: int) -> _Sound:
    place, finite = labels.places(y, classes), finite_rows(x)
    kept = finite & (place >= 0)
    records = as_records(x[kept], labels.numbered(place[kept], len(classes)))
    other_label = int(np.count_nonzero(place < 0))
    return _Sound(records, kept, unreadable, other_label, len(kept) - other_label - len(records))
