"""Progress events of a study, and the loop that runs its points one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from crescendo.runs.run_events import Event
from crescendo.studies.point_store import PointStore
from crescendo.studies.points import Outcome, StudyPoint, run_point


@dataclass(frozen=True, eq=False)
class PointBegan:
    """Run ``number`` of ``total``, counted from 1, is next."""

    point: StudyPoint
    number: int
    total: int


@dataclass(frozen=True, eq=False)
class PointWent:
    """An event of the current run."""

    event: Event


@dataclass(frozen=True, eq=False)
class PointEnded:
    """A run has ended, or its outcome was already stored (``kept``)."""

    point: StudyPoint
    outcome: Outcome
    kept: bool


StudyEvent = PointBegan | PointWent | PointEnded
Listener = Callable[[StudyEvent], None]


def unheard(event: StudyEvent) -> None:
    """Ignore the event."""


def counted(tell: Listener, total: int) -> Listener:
    """Wrap a listener for a study of several parts: number its points in sequence, up to ``total``."""
    number = 0

    def told(event: StudyEvent) -> None:
        nonlocal number
        if isinstance(event, PointBegan):
            number += 1
            event = PointBegan(event.point, number, total)
        tell(event)

    return told


def run_all(points: Sequence[StudyPoint], store: PointStore, tell: Listener = unheard) -> list[Outcome]:
    """Run every point and store its outcome as soon as it ends; reuse outcomes already stored."""
    found = []
    for number, point in enumerate(points, 1):
        tell(PointBegan(point, number, len(points)))
        outcome = store.kept(point)
        kept = outcome is not None
        if outcome is None:
            outcome = run_point(point, [lambda event: tell(PointWent(event))])
            store.keep(point, outcome)
        tell(PointEnded(point, outcome, kept))
        found.append(outcome)
    return found
