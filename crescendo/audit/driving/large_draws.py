"""Evidence for the check of large draws: the number of drawn records by region. The draws are not kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crescendo.audit.driving.subject import Subject
from crescendo.core.arrays import Ints

_REGIONS = 64
_MOST = (1 << 21) + 12_345  # records of one draw: some twice as many as a sampler handles at once
_CROSSING = (1 << 20) + (1 << 18), 2.0**-6  # records and rate of a draw that crosses such a border
_ENOUGH = 1 << 20  # records to be drawn from over all draws of a sample
_MOST_DRAWS = 64


@dataclass(frozen=True, eq=False)
class Sample:
    """``draws`` draws of one kind: ``hits`` in regions of these ``sizes``. ``odd`` describes a draw that no law allows."""

    rate: float
    draws: int
    sizes: Ints
    hits: Ints
    odd: str | None


@dataclass(frozen=True, eq=False)
class LargeDraws:
    """Draws at the declared number of records, at the certified rates and at one record a draw; and at more than a chunk."""

    samples: tuple[Sample, ...]

    @classmethod
    def collected(cls, subject: Subject, rng: np.random.Generator) -> LargeDraws:
        certificate, me = subject.certificate, subject.me
        records = min(certificate.records[me], _MOST)
        rates = {certificate.rate(i, me) for pair in subject.pairs() for i in pair}
        kinds = {(records, min(rates)), (records, max(rates)), (records, 1 / records), _CROSSING}
        return cls(tuple(_sampled(subject, *kind, rng) for kind in sorted(kinds)))


def _sampled(subject: Subject, records: int, rate: float, rng: np.random.Generator) -> Sample:
    draws = int(np.clip(_ENOUGH // records, 1, _MOST_DRAWS))
    regions = min(_REGIONS, records)
    ends = np.arange(1, regions + 1) * records // regions
    hits, odd = np.zeros(regions, dtype=np.int64), None
    source = subject.source(rng)
    for i in range(draws):
        drawn = np.sort(source.members(i, records, rate))
        if len(drawn) and not 0 <= drawn[0] <= drawn[-1] < records:
            odd = f"a draw of {records:,} records has one with the number {int(drawn[-1]):,}"
            break
        if (drawn[1:] == drawn[:-1]).any():
            odd = f"a record is twice in a draw of {records:,} at rate {rate:.6g}"
        hits += np.diff(np.searchsorted(drawn, ends), prepend=0)
    return Sample(rate, draws, np.diff(ends, prepend=0), hits, odd)
