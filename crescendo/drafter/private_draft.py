"""Private draft: a schema, and the other statements of a private run, from noisy counts of private records.

Each column is counted once: numbers by their octaves, missing cells and dates in separate places, and all others by
their text. Where numbers stand out of the noise they are counted a second time, in narrow bins between the octaves
found. The rest is arithmetic on these releases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.data.labels import Classes, as_numbers
from crescendo.data.records import Label
from crescendo.data.tables.cells import Table, numbers
from crescendo.data.tables.drafting import MOST_VALUES
from crescendo.data.tables.feature_schema import MOST_FEATURES, CategoryColumn, NumberColumn, Schema
from crescendo.data.tables.stated_columns import PublicRange
from crescendo.data.tables.written_numbers import PLAIN
from crescendo.drafter import cell_places as cells_at
from crescendo.drafter.draft_certificate import DraftCertificate
from crescendo.drafter.draft_request import DraftRequest, Kind, Questions
from crescendo.drafter.inner_range import Stretch, inner_bins, inner_octaves, middle
from crescendo.drafter.noisy_counts import NoisyCounts
from crescendo.errors import DataError

_MOST_BITS, _LEAST_BITS = (
    7,
    2,
)  # a range is measured in 64 to 128 bins; with more noise in fewer, or not at all
_NOISE_OF_A_RANGE = 0.05  # limit on the noise of all bins together, relative to the records
_MOST_CLASSES = 100
_CLASS = 0.2  # of the records
_MOSTLY = 0.8  # share of the records whose labels must stand out to count as classes


@dataclass(frozen=True)
class PrivateDraft:
    """The release, public from now on."""

    schema: Schema | None  # None if no column stood out of the noise
    left_out: dict[str, str]
    classes: tuple[Label, ...] | None
    label_range: tuple[float, float] | None
    records: int
    certificate: DraftCertificate

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `from_json`."""
        return {
            "schema": None if self.schema is None else self.schema.plain(),
            "left_out": self.left_out,
            "classes": None if self.classes is None else list(self.classes),
            "label_range": None if self.label_range is None else list(self.label_range),
            "records": self.records,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any], certificate: DraftCertificate) -> Self:
        """Rebuild a draft from `to_json`."""
        return cls(
            None if body["schema"] is None else Schema.of(body["schema"]),
            dict(body["left_out"]),
            None if body["classes"] is None else tuple(body["classes"]),
            None if body["label_range"] is None else (body["label_range"][0], body["label_range"][1]),
            body["records"],
            certificate,
        )

    def usable(self, name: str) -> Schema:
        """Return the schema, or raise DataError if there is none."""
        if self.schema is not None:
            return self.schema
        made = self.certificate
        raise DataError(
            f"no column of {name} stands out of the noise, which is {made.noise:.3g} for each count, and epsilon "
            f"{made.epsilon:g} is spent on knowing that; state columns with --range and --values, or spend more, and add "
            f"--records: too little is then refused before it is paid"
        )


def private_draft(table: Table, request: DraftRequest, questions: Questions, counts: NoisyCounts) -> PrivateDraft:
    """Count, and make a draft from the counts: a release that must be charged before it is shown."""
    return _Drafting(table, request, questions, counts).draft()


@dataclass
class _Drafting:
    table: Table
    request: DraftRequest
    questions: Questions
    counts: NoisyCounts
    records: float = 0.0
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def noise(self) -> float:
        return self.counts.certificate.noise

    def draft(self) -> PrivateDraft:
        self.records = self.counted_records()
        self.left_out = dict(self.questions.left_out)
        found = list(self.questions.stated)
        for name, kind in self.questions.asked.items():
            written = self.request.kinds.get(name, PLAIN)
            plain = written == PLAIN
            cells = (
                self.table.columns[name]
                if plain
                else written.numbers(self.table.written(name), self.table.decimal_comma)
            )
            column = self.column(name, cells, kind)
            if isinstance(column, NumberColumn):
                column = replace(column, written=written)
            if column is not None:
                found.append(column)
        classes, label_range = self.label(self.table.columns[self.questions.label])
        return PrivateDraft(
            self.schema(found),
            self.left_out,
            classes,
            label_range,
            _rounded_down(self.records),
            self.counts.certificate,
        )

    def counted_records(self) -> float:
        if self.request.records is not None:
            return float(self.request.records)
        return float(self.counts.of_places(np.array([float(self.table.rows)]))[0])

    def schema(self, found: Sequence[NumberColumn | CategoryColumn]) -> Schema | None:
        """Return a schema of the columns that stood out, in name order, up to a schema's limit; None if there are none."""
        room, kept = MOST_FEATURES, list[NumberColumn | CategoryColumn]()
        for column in sorted(found, key=lambda one: one.name):
            room -= len(column.features)
            if room < 0:
                self.left_out[column.name] = f"beyond the {MOST_FEATURES:,} features that a schema may have"
            else:
                kept.append(column)
        plain = {"label": self.questions.label, "columns": {one.name: one.plain() for one in kept}}
        return Schema.of(plain) if kept else None

    # -- one column ------------------------------------------------------------------------------------------------------

    def column(self, name: str, cells: Array, kind: Kind) -> NumberColumn | CategoryColumn | None:
        counted, said = cells_at.places(cells, by_number=kind != "category", by_text=kind != "number")
        known, texts = self.counts.of_places_and_texts(counted, said)
        run = None if kind == "category" else self.octaves(known)
        text_mass, dates = sum(texts.values()), float(known[cells_at.DATE])
        if run is not None and run.mass >= max(text_mass, dates):
            if run.last - run.first == 1 and cells_at.edge(run.first) == cells_at.edge(run.last):
                self.left_out[name] = "always 0, as far as can be seen"
                return None
            return self.number(name, cells, run, float(known[cells_at.MISSING]) + text_mass)
        if texts and text_mass >= max(dates, (self.records - float(known[cells_at.MISSING])) / 2):
            return self.category(name, texts, float(known[cells_at.MISSING]))
        seldom = "text of which few values repeat" if texts else "nothing in it stands out of the noise"
        self.left_out[name] = "dates" if dates > max(self.surely, text_mass) else seldom
        return None

    @property
    def surely(self) -> float:
        """A count that noise alone almost never reaches."""
        return 4 * self.noise

    def octaves(self, known: Floats) -> Stretch | None:
        columns = len(self.questions.asked) + self.questions.asks_label
        total = self.records - float(known[cells_at.MISSING])
        return inner_octaves(known[: cells_at.OCTAVES], self.noise, total, columns)

    def narrowed(self, cells: Array, octaves: Stretch) -> tuple[float, float, float]:
        """Return low, high and a middle, from a second count between the octaves found if the noise allows one."""
        low, high = cells_at.edge(octaves.first), cells_at.edge(octaves.last)
        bits = self.bits(octaves.mass)
        if bits < _LEAST_BITS:
            return low, high, low / 2 + high / 2
        step = 2.0 ** (math.frexp(high - low)[1] - bits)
        start = math.floor(low / step) * step
        many = math.ceil((high - start) / step)
        noisy = self.counts.of_places(cells_at.bins(numbers(cells), start, step, many))
        run = inner_bins(noisy, self.noise, octaves.mass)
        if run is None:
            return low, high, low / 2 + high / 2
        at = middle(noisy, run)
        return start + run.first * step, start + run.last * step, start + (at + 0.5) * step

    def bits(self, mass: float) -> int:
        """Return the largest number of bits with which the noise of all 2^bits bins is small next to the records."""
        most = (_NOISE_OF_A_RANGE * max(mass, 0.0) / self.noise) ** 2
        return min(_MOST_BITS, math.floor(math.log2(max(most, 1.0))))

    def number(self, name: str, cells: Array, octaves: Stretch, absent: float) -> NumberColumn:
        low, high, filled = self.narrowed(cells, octaves)
        wants = absent > max(self.surely, 0.005 * self.records)
        return NumberColumn.of(name, {"low": low, "high": high, "missing": filled, "indicator": bool(wants)})

    def category(self, name: str, texts: Mapping[str, float], absent: float) -> CategoryColumn | None:
        frequent = sorted(texts, key=lambda text: (-texts[text], text))[:MOST_VALUES]
        rest = self.records - absent - sum(texts[text] for text in frequent)
        other = len(frequent) < len(texts) or rest > max(
            0.02 * self.records, 3 * self.noise * (len(frequent) + 2) ** 0.5
        )
        wants = absent > max(self.surely, 0.005 * self.records)
        if len(frequent) + other + wants < 2:
            self.left_out[name] = "always the same, as far as can be seen"
            return None
        return CategoryColumn(name, tuple(sorted(frequent)), bool(other), bool(wants))

    # -- the label -------------------------------------------------------------------------------------------------------

    def label(self, cells: Array) -> tuple[tuple[Label, ...] | None, tuple[float, float] | None]:
        """Return classes if few labels cover nearly all records, otherwise a range for numbers, otherwise neither.

        If the noise would hide a class with a fifth of the records, numeric labels may still be classes: return
        neither.
        """
        stated = self.questions.labels
        if stated is not None:
            return (None, stated) if isinstance(stated, PublicRange) else (stated, None)
        known, texts = self.counts.of_places_and_texts(*cells_at.places(cells, by_number=False, by_text=True))
        labelled = self.records - float(known[cells_at.MISSING])
        labels = _distinct(texts)
        if 2 <= len(labels) <= _MOST_CLASSES and sum(texts.values()) >= _MOSTLY * labelled:
            return tuple(Classes.stated(labels)), None
        if texts or _CLASS * self.records < self.counts.certificate.threshold:
            return None, None
        run = self.octaves(self.counts.of_places_and_texts(*cells_at.places(cells, by_number=True, by_text=False))[0])
        if run is None or run.mass < _MOSTLY * self.records:
            return None, None
        low, high, _ = self.narrowed(cells, run)
        return None, (low, high)


def _distinct(texts: Iterable[str]) -> list[str]:
    """Return the labels that are different classes: numbers are compared by value.

    >>> _distinct(["1", "01", "late", "1e0"])
    ['1', 'late']
    """
    known: dict[float | str, str] = {}
    for text in sorted(texts, key=lambda text: (len(text), text)):
        value = float(as_numbers(np.array([text], dtype=object))[0])
        known.setdefault(text if math.isnan(value) else value, text)
    return list(known.values())


def _rounded_down(records: float) -> int:
    """Round down to two figures.

    >>> _rounded_down(10_482.7), _rounded_down(7.9), _rounded_down(-3.0)
    (10000, 7, 1)
    """
    if records < 1:
        return 1
    whole = math.floor(records)
    step = int(f"1{'0' * max(0, len(str(whole)) - 2)}")
    return whole // step * step
