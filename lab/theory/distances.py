"""Distances to the optimum: how far from w* the global model is after t gradients, and the constants of the problem."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crescendo.config.loading import read
from crescendo.core.arrays import Floats
from crescendo.data import cache
from crescendo.objectives.optimum import Optimum
from crescendo.runs.prepare import Prepared, prepare
from crescendo.runs.run_events import Event, RoundCompleted
from crescendo.runs.simulate import run_prepared
from lab.experiments.training import dataset
from lab.pipeline.verdicts import Verdict, all_of, inside

POINTS_PER_DECADE = 12


@dataclass
class _Distances:
    """A sink that records |w - w*|^2 of the first global model at or after each of some numbers of gradients."""

    best: Floats
    marks: list[int]
    found: list[tuple[int, float]]

    def __call__(self, event: Event) -> None:
        if not isinstance(event, RoundCompleted) or not self.marks or event.moment.gradients < self.marks[0]:
            return
        t, distance = event.moment.gradients, significant(np.sum((event.moment.model - self.best) ** 2))
        while self.marks and self.marks[0] <= t:
            self.marks.pop(0)
            self.found.append((t, distance))  # an entry for each mark, so that all seeds have as many


def distances(source: str, config: dict[str, Any], seed: int, at: list[int]) -> dict[str, Any]:
    """Run ``config`` and measure |w - w*|^2 of the first model at or after each number of gradients in ``at``; plain JSON.

    The constants of the problem come with it: L, mu, G = 2 E|grad f(w*)|^2 and |w_0 - w*|^2.
    """
    prepared = prepare(read({**config, "data": {"source": source}, "run": _RUN | {"seed": seed}}), data=dataset(source))
    best = optimum(prepared)
    sink = _Distances(best.model, list(at), [])
    result = run_prepared(prepared, sinks=[sink], cores=1)
    return {
        "t": [t for t, _ in sink.found],
        "distance": [distance for _, distance in sink.found],
        "start": significant(np.sum((prepared.agreement.initial() - best.model) ** 2)),
        "G": significant(best.G),
        "rounds": result.rounds,
        "delay_used": None if result.max_delay_used is None else significant(result.max_delay_used),
        "ahead": result.max_rounds_ahead,
    }


_RUN = {"wire": "float64"}  # measures the algorithm without the rounding of messages


def optimum(prepared: Prepared) -> Optimum:
    """Return w* and G of a run's objective."""
    return Optimum.of(prepared.objective, prepared.dataset.train, prepared.row_weights(), folder=cache.folder())


def marks(first: int, last: int) -> list[int]:
    """Return whole numbers from ``first`` to ``last``, evenly spread on a log scale.

    >>> marks(10, 1000)[:4], marks(10, 1000)[-1], len(marks(10, 1000))
    ([10, 12, 15, 18], 1000, 25)
    """
    many = max(2, round(POINTS_PER_DECADE * math.log10(last / first)) + 1)
    return [round(number) for number in np.geomspace(first, last, many)]


def significant(value: Any, digits: int = 6) -> float:
    """
    >>> significant(0.00123456789), significant(np.float64(2e7))
    (0.00123457, 20000000.0)
    """
    return float(f"{float(value):.{digits}g}")


def over_seeds(runs: Sequence[dict[str, Any]]) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the gradients t, and the mean, least and largest distance over the seeds at each."""
    t = np.mean([one["t"] for one in runs], axis=0)
    several = np.array([one["distance"] for one in runs])
    return t, several.mean(axis=0), several.min(axis=0), several.max(axis=0)


def below_curve(runs: Sequence[dict[str, Any]], curve: Any) -> Verdict:
    """Judge, by the interval over seeds at each point, whether the expected distance lies below a curve everywhere."""
    several = np.array([one["distance"] for one in runs]) / np.asarray(curve)
    return all_of(inside(column.tolist(), high=1.0) for column in several.T)


def where_of(under: Verdict) -> str:
    return {True: "below", False: "above", None: "about"}[under]


def slope(t: Floats, y: Floats, first: float) -> float:
    """Fit the exponent of t by least squares on logarithms, from ``first`` on.

    >>> round(slope(np.array([1.0, 10.0, 100.0]), np.array([5.0, 1.0, 0.1]), first=10), 9)
    -1.0
    """
    late = np.asarray(t) >= first
    return float(np.polyfit(np.log(np.asarray(t)[late]), np.log(np.asarray(y)[late]), 1)[0])


def problem_constants(source: str, l2: float) -> tuple[float, float]:
    """Return L of the steepest record, intercept and L2 included, and mu, of logistic regression on a source."""
    longest = float(dataset(source).train.squared_lengths(True).max())
    return longest / 4 + l2, l2
