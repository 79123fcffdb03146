"""One algorithm of a comparison: its options, and its outcome for every seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crescendo.studies.intervals import Interval, limits, mean_of
from crescendo.studies.points import Outcome
from crescendo.studies.tuning import Tuned

_POINTS = 300  # of a curve


@dataclass(frozen=True, eq=False)
class Contestant:
    """An algorithm and its outcomes, one per seed, in the order of the seeds that all algorithms share."""

    name: str
    about: str
    options: Mapping[str, Any]
    outcomes: tuple[Outcome, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)  # set by the caller, not searched
    tuned: Tuned | None = None

    def values(self, measure: str) -> list[float | None]:
        """Return a measure per seed: score, accuracy, r2, rmse, loss, virtual_seconds, bytes, or a count."""
        return [_value(one, measure) for one in self.outcomes]

    def mean(self, measure: str) -> Interval | None:
        """Return the mean over seeds; None if a seed lacks the measure."""
        return mean_of(self.values(measure), limits(measure_of(self.outcomes, measure)))

    def reached(self, target: float, measure: str) -> list[float | None]:
        """Return, per seed, the least ``measure`` at which a model had the score ``target``."""
        return [one.reached(target, measure) for one in self.outcomes]

    def count(self, status: str) -> int:
        return sum(one.status == status for one in self.outcomes)

    @property
    def epsilon(self) -> float | None:
        """The epsilon of a run: the largest over seeds, though it should not depend on the seed."""
        found = [one.privacy["epsilon"] for one in self.outcomes if one.privacy]
        return None if None in found else max(found, default=None)

    @property
    def sigma(self) -> Any:
        return next((one.privacy["sigma"] for one in self.outcomes if one.privacy), None)


def measure_of(outcomes: Sequence[Outcome], measure: str) -> str:
    """Return the measure, with "score" resolved to accuracy or, for regression, to R²."""
    if measure != "score":
        return measure
    return "r2" if any(one.accuracy is None and one.r2 is not None for one in outcomes) else "accuracy"


def _value(outcome: Outcome, measure: str) -> float | None:
    if measure in ("score", "accuracy", "r2", "rmse", "loss", "virtual_seconds", "bytes"):
        value: float | None = getattr(outcome, measure)
        return value
    return outcome.counts.get(measure)


def course(outcomes: Sequence[Outcome], measure: str) -> tuple[list[float], list[Interval | None]]:
    """Return the mean score along ``measure``, using each run's newest model at each x; empty if a run has no curve."""
    if not outcomes or not all(one.curve for one in outcomes):
        return [], []
    ends = [one.curve[measure][-1] for one in outcomes]
    starts = [one.curve[measure][0] for one in outcomes]
    assert None not in ends and None not in starts
    grid = np.linspace(max(float(x or 0) for x in starts), max(float(x or 0) for x in ends), _POINTS)
    columns = [_held(one, measure, grid) for one in outcomes]
    return [float(f"{x:.6g}") for x in grid], [
        mean_of(values, limits(measure_of(outcomes, "score"))) for values in zip(*columns, strict=True)
    ]


def _held(outcome: Outcome, measure: str, grid: Any) -> list[float | None]:
    """Return the last score measured at or before each x; a run that has ended keeps its last score."""
    xs, scores = np.asarray(outcome.curve[measure], dtype=np.float64), outcome.scores
    places = np.searchsorted(xs, grid * (1 + 1e-12), side="right") - 1
    return [scores[place] if place >= 0 else None for place in places]
