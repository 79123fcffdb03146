"""What the page of a study tells, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crescendo.report.figures.study_figures import StudyLine


@dataclass(frozen=True, eq=False)
class Listing:
    """A table: its head, its rows as texts, and which columns hold numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class SweepStory:
    """All that the page of a sweep is made of."""

    title: str
    subtitle: str
    headline: Sequence[tuple[str, str, str]]  # label, value, what it means
    measure: str
    x: str  # the key that the figure runs along; empty for no figure
    lines: Sequence[StudyLine]
    groups: Listing
    points: Listing
    troubles: Sequence[str]  # a sentence for each point that failed or diverged
    notes: Sequence[str]
    config: str
    log: bool = False


@dataclass(frozen=True, eq=False)
class ComparisonStory:
    """All that the page of a comparison is made of."""

    title: str
    subtitle: str
    headline: Sequence[tuple[str, str, str]]  # label, value, what it means
    says: str  # the sentence above all others
    verdicts: Listing
    verdict_note: str
    curves: dict[str, list[StudyLine]]  # by what they run along: seconds, gradients, bytes
    results: Listing
    equal: Sequence[str]  # sentences
    runs: Listing
    troubles: Sequence[str]
    config: str
    measure: str  # what the curves show
    least: float  # that it can be; the most is 1
    tuning: Listing | None = None
    tuning_notes: Sequence[str] = ()
    trials: Sequence[StudyLine] = ()
    privacy_notes: Sequence[str] = ()
    levels: Sequence[tuple[str, float]] = ()  # of the measure, to compare with
