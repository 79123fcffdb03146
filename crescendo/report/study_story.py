"""Content of study pages as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crescendo.report.figures.study_figures import StudyLine


@dataclass(frozen=True, eq=False)
class Listing:
    """A table: its head, its rows as texts, and the places of its columns of numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class SweepStory:
    """The content of a sweep's page."""

    title: str
    subtitle: str
    headline: Sequence[tuple[str, str, str]]  # label, value, meaning
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
    """The content of a comparison's page."""

    title: str
    subtitle: str
    headline: Sequence[tuple[str, str, str]]  # label, value, meaning
    says: str  # the sentence at the top
    verdicts: Listing
    verdict_note: str
    curves: dict[str, list[StudyLine]]  # by x axis: seconds, gradients, bytes
    results: Listing
    equal: Sequence[str]  # sentences
    runs: Listing
    troubles: Sequence[str]
    config: str
    measure: str  # the measure that the curves show
    least: float  # the least possible value of the measure; the largest is 1
    tuning: Listing | None = None
    tuning_notes: Sequence[str] = ()
    trials: Sequence[StudyLine] = ()
    privacy_notes: Sequence[str] = ()
    levels: Sequence[tuple[str, float]] = ()  # values of the measure to compare with
