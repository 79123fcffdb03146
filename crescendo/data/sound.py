"""Sound records: the records of a file that a private run may use, each judged by itself, the file's header and the terms.

So adding or removing a record affects neither the numbers of the others nor their use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crescendo.data.held_out import held_out
from crescendo.data.labels import NUMBERS, Classes, as_numbers
from crescendo.data.records import Label, Raw, Records, as_records, finite_rows


@dataclass(frozen=True, eq=False)
class Sound:
    """The usable records, and counts of the others by reason, for the owner only."""

    records: Records
    unreadable: int = 0  # lines that are not a record
    other_label: int = 0  # records whose label is not a class
    not_finite: int = 0  # records with a class whose features are not all finite
    notes: tuple[str, ...] = ()  # warnings about the records
    label: str | None = None  # the label column, if a schema names it
    held_out: Records | None = None  # records to measure the model on, kept from training

    def holding_out(self, share: float) -> Sound:
        """Return a copy with about ``share`` of the records held out, by a rule on each record alone."""
        if not share:
            return self
        apart = held_out(self.records, share)
        return replace(self, records=self.records.take(~apart), held_out=self.records.take(apart))

    @property
    def left_out(self) -> int:
        return self.unreadable + self.other_label + self.not_finite

    @classmethod
    def of(cls, raw: Raw, classes: tuple[Label, ...]) -> tuple[Sound, Raw]:
        """Return the sound records, whose labels are among ``classes`` (in the order of `Classes.stated`), and their raw form.

        Without classes (`NUMBERS`) a label is a finite number. The test part is not examined.

        >>> raw = Raw(np.array([[1.0], [np.inf], [3.0]]), np.array(["no", "no", "maybe"], dtype=object), unreadable=2)
        >>> found, rest = Sound.of(raw, ("no", "yes"))
        >>> found.records.y, (found.unreadable, found.other_label, found.not_finite), len(rest)
        (array([0.]), (2, 1, 1), 1)
        """
        known, finite = Classes(classes), finite_rows(raw.x)
        if known == NUMBERS:
            labels = as_numbers(raw.y)
            readable = np.isfinite(labels)
        else:
            place = known.places(raw.y)
            labels, readable = known.numbered(place), place >= 0
        kept = finite & readable
        rest = raw.take(kept)
        records = as_records(rest.x, labels[kept])
        other_label = int(np.count_nonzero(~readable))
        unsound, label = len(raw) - other_label - len(records), None if raw.schema is None else raw.schema.label
        return cls(records, raw.unreadable, other_label, unsound, raw.notes, label), rest
