"""A draft as the black-box audit sees a mechanism: tables in, every count that was released out, and bugs planted in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.data.tables.cells import Table, objects
from crescendo.drafter.cell_places import DATE, MISSING, OCTAVES, octaves
from crescendo.drafter.draft_certificate import DraftCertificate
from crescendo.drafter.draft_request import DraftRequest
from crescendo.drafter.noisy_counts import NoisyCounts
from crescendo.drafter.private_draft import private_draft

CELLS = objects(["100", "", "red", "green", "never seen", "2024-02-29", "-3"])
COLUMNS = ("low", "high", "level", "colour", "label")
REQUEST = DraftRequest(1.0, 1e-2, numbers=("l[eo][vw]*", "high"))
USUAL, RARE = (0, 0, 0, 2, 3), (0, 0, 0, 4, 4)  # a record like the others, and one with texts that no other has
_WATCHED = [*octaves(np.array([100.0, -3.0])).tolist(), MISSING, DATE]
_ABSENT = -100.0  # what stands for a text that was not released


@dataclass
class Words:
    """The auditor's generator as a source of noise."""

    rng: np.random.Generator
    simulated = True

    def words(self, i: int, size: int) -> Array:
        return self.rng.integers(0, 2**64, size, dtype=np.uint64)

    def more(self, i: int, number: int) -> Any:
        while True:
            yield int(self.rng.integers(0, 2**64, dtype=np.uint64))


class Seen(NoisyCounts):
    """Keeps what it released."""

    def __init__(self, made: DraftCertificate, source: Any) -> None:
        super().__init__(made, source)
        self.released = list[list[float]]()

    def of_places_and_texts(self, counts: Floats, said: Mapping[str, int]) -> tuple[Floats, dict[str, float]]:
        known, texts = super().of_places_and_texts(counts, said)
        self.keep(known, texts)
        return known, texts

    def keep(self, known: Floats, texts: Mapping[str, float]) -> None:
        watched = known[_WATCHED] if len(known) > OCTAVES else np.array([known.max(), 0.0, 0.0, 0.0])
        self.released.append([*watched.tolist(), *(texts.get(text, _ABSENT) for text in CELLS[2:5])])


@dataclass
class Attacked:
    """``(records, rng) -> release``: a record is a row of places in `CELLS`."""

    counts: Callable[[DraftCertificate, Any], Seen] = Seen
    weaker: Callable[[DraftCertificate], DraftCertificate] = lambda made: made
    records: Array = field(default_factory=lambda: np.array([USUAL] * 400))
    canaries: Array = field(default_factory=lambda: np.array([USUAL, RARE]))

    def __call__(self, records: Array, rng: np.random.Generator) -> Floats:
        columns = {name: CELLS[records[:, at]] for at, name in enumerate(COLUMNS)}
        table = Table("a table", columns, len(records))
        questions = REQUEST.questions(COLUMNS, "a table")
        counts = self.counts(self.weaker(_certified()), Words(rng))
        draft = private_draft(table, REQUEST, questions, counts)
        found = np.zeros((counts.certificate.histograms, 7))
        found[: len(counts.released)] = counts.released
        usual = np.maximum(found[:, [0, 4, 5]], 0.0).sum()  # where a record like the others is counted
        return np.array([usual, *found.ravel(), draft.records])


_made: list[DraftCertificate] = []


def _certified() -> DraftCertificate:
    if not _made:
        _made.append(DraftCertificate.of(REQUEST, REQUEST.questions(COLUMNS, "a table")))
    return _made[0]


# -- bugs -----------------------------------------------------------------------------------------------------------------


class _OneHistogram(Seen):
    """The noise of a draft of one histogram, in each of them."""

    def __init__(self, made: DraftCertificate, source: Any) -> None:
        super().__init__(made, source)
        self._noise = made.sigma


class _LowThreshold(Seen):
    def __init__(self, made: DraftCertificate, source: Any) -> None:
        super().__init__(made, source)
        self._threshold = made.noise


class _EmptyReleased(Seen):
    """A text is released if a record has it, whatever its count."""

    def __init__(self, made: DraftCertificate, source: Any) -> None:
        super().__init__(made, source)
        self._threshold = -np.inf


class _ExactRecords(Seen):
    def of_places_and_texts(self, counts: Floats, said: Mapping[str, int]) -> tuple[Floats, dict[str, float]]:
        known, texts = super().of_places_and_texts(counts, said)
        if len(counts) == 1:
            self.released[-1][0] = float(counts[0])
        return known, texts


class _NoiseWhereThereIsSomething(Seen):
    """Places that are empty are released as such."""

    def of_places_and_texts(self, counts: Floats, said: Mapping[str, int]) -> tuple[Floats, dict[str, float]]:
        known, texts = super().of_places_and_texts(counts, said)
        known = np.where(counts > 0, known, 0.0)
        self.released.pop()
        self.keep(known, texts)
        return known, texts


class _CutNoise(Seen):
    """Noise is cut off where it would be large."""

    def of_places_and_texts(self, counts: Floats, said: Mapping[str, int]) -> tuple[Floats, dict[str, float]]:
        known, texts = super().of_places_and_texts(counts, said)
        known = counts + np.clip(known - counts, -self._noise / 10, self._noise / 10)
        self.released.pop()
        self.keep(known, texts)
        return known, texts


PLANTED: dict[str, Attacked] = {
    "the noise forgets that a record is in every histogram": Attacked(_OneHistogram, canaries=np.array([USUAL])),
    "the noise is a fourth of what was certified": Attacked(
        weaker=lambda made: replace(made, sigma=made.sigma / 4), canaries=np.array([USUAL])
    ),
    "the threshold is too low": Attacked(_LowThreshold, canaries=np.array([RARE])),
    "a text is released for being there": Attacked(_EmptyReleased, canaries=np.array([RARE])),
    "the number of records is exact": Attacked(_ExactRecords, canaries=np.array([USUAL])),
    "empty places get no noise": Attacked(_NoiseWhereThereIsSomething, canaries=np.array([(6, 6, 6, 2, 3)])),
    "noise is cut off": Attacked(_CutNoise, canaries=np.array([USUAL])),
}
