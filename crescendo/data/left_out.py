"""Reasons why a private run leaves records out, in sentences for their owner; they are never sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from crescendo.data.labels import Classes
from crescendo.data.records import Label, Raw
from crescendo.data.sound import Sound
from crescendo.errors import DataError

_SHOWN = 4  # labels per sentence


def nothing_left(name: str, raw: Raw, found: Sound, classes: tuple[Label, ...]) -> DataError:
    """Return the error for a file without a usable record: how many it has, and the commonest reason."""
    reasons = {
        found.unreadable: (
            "are no record; in a private run a record is one line with a cell for each column and every number that the schema "
            "needs, so save the table without line breaks in quoted cells, or state what missing becomes"
        ),
        found.not_finite: "have a feature that is no finite number; correct those cells, or state a data.schema",
        found.other_label: _other_label(raw, classes),
    }
    most = max(reasons)
    if not most:
        return DataError(f"{name} has no records; it needs a line for each record")
    return DataError(f"no record of {name} could be used: of {found.left_out:,} left out, {most:,} {reasons[most]}")


def _other_label(raw: Raw, classes: tuple[Label, ...]) -> str:
    if not classes:
        return "have a label that is no finite number; name another column with data.label"
    met = Counter(str(label) for label in raw.y.tolist())
    read = ", ".join(f"'{label:.40}'" for label, _ in met.most_common(_SHOWN)) + (", .." if len(met) > _SHOWN else "")
    stated = ", ".join(map(str, classes[:_SHOWN])) + (", .." if len(classes) > _SHOWN else "")
    return (
        f"have another label: the file's labels read {read}, and data.classes says {stated}; write them in "
        "data.classes as the file does, or name another column with data.label"
    )


def about_classes(found: Sound, classes: tuple[Label, ...]) -> Iterator[str]:
    """Yield a warning about stated classes that no record has.

    >>> from crescendo.data.records import as_records
    >>> list(about_classes(Sound(as_records([[1.0]], [1.0]), other_label=3), ("nope", "yes")))
    ["no record has the class 'nope' of data.classes, and 3 records have none of these classes; check how the labels are written"]
    """
    if not classes:  # labels are numbers
        return
    times = np.bincount(found.records.y.astype(np.int64), minlength=len(classes))
    absent = [label for label, many in zip(Classes(classes), times, strict=True) if not many]
    if absent:
        more = f" nor {len(absent) - 1} more" if len(absent) > 1 else ""
        yield (
            f"no record has the class '{absent[0]}'{more} of data.classes, and {found.other_label:,} records have none of these "
            "classes; check how the labels are written"
        )
