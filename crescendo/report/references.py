"""What the numbers of a simulated run are held against: the commonest class, all records at one place, the run without its noise.

A simulation has every record in its hands and may look at them; a federation has not, and gets none of these lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crescendo.errors import UsageError
from crescendo.objectives.linear.linear_model import LinearModel
from crescendo.objectives.linear.margin_model import MarginModel
from crescendo.objectives.optimum import descended, near_optimum

_MOST_NUMBERS = 1000  # of a model that is fitted: Newton's method solves equations of this size
_MOST_WORK = {"sparse": 1e8, "dense": 2e9}  # multiplications for each step of Newton's method: a fraction of a second
_GAP = 1e-4
GUESSES = {"accuracy": "commonest class", "r2": "mean label"}  # the constant answer that a measure is held against
MEASURED = ("accuracy", "r2", "rmse")  # on the test part

SEEN_IN_SIMULATIONS_ONLY = (
    "These lines look at the records themselves. They exist in this simulation only, no epsilon covers them, and the report of a "
    "real federation could not have them."
)


@dataclass(frozen=True)
class Reference:
    """A level to compare with: its short ``name``, what it ``means``, and its value of each measure that it has."""

    name: str
    means: str
    values: dict[str, float]


@dataclass(frozen=True)
class References:
    """Those that a result has, and a sentence for one that is missing."""

    found: list[Reference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, dict[str, float]]:
        """As JSON has them: the values by name."""
        return {one.name: one.values for one in self.found}

    @classmethod
    def from_plain(cls, raw: Any) -> References:
        """What `plain` gave, without what the names mean; ValueError for anything else."""
        if not isinstance(raw, dict) or not all(isinstance(values, dict) for values in raw.values()):
            raise ValueError("these are no references")
        numbers = [value for values in raw.values() for value in values.values()]
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers):
            raise ValueError("a reference is no number")
        return cls([Reference(str(name), "", values) for name, values in raw.items()])

    def of(self, measure: str) -> list[tuple[str, float]]:
        return [(one.name, one.values[measure]) for one in self.found if measure in one.values]


def references_of(result: Any) -> References:
    """Levels for the measures of a simulated run."""
    found, notes = [], []
    if result.noise_free is not None:
        found.append(
            Reference(
                "without noise", "the same run with the same draws, its noise left out", _known(result.noise_free)
            )
        )
    pooled = _pooled(result.prepared)
    if isinstance(pooled, Reference):
        found.append(pooled)
    else:
        notes.append(pooled)
    guess = _without_features(result.prepared.dataset.test, result.metrics[-1])
    found += [guess] if guess is not None else []
    told = [f"{one.name.capitalize()}: {one.means}." for one in found]
    if result.prepared.privacy is not None and found:
        notes.append(SEEN_IN_SIMULATIONS_ONLY)
    return References(found, [*told, *notes])


def _known(row: dict[str, Any]) -> dict[str, float]:
    return {name: float(row[name]) for name in (*MEASURED, "loss") if row.get(name) is not None}


def _without_features(test: Any, row: dict[str, Any]) -> Reference | None:
    """What an answer that ignores the record is worth on the test part."""
    if test is None or not len(test):
        return None
    if row.get("accuracy") is not None:
        share = float(np.unique(test.y, return_counts=True)[1].max()) / len(test)
        return Reference("commonest class", "always answering with what most test records are", {"accuracy": share})
    if row.get("rmse") is not None:
        spread = float(np.std(test.y))
        return Reference("mean label", "always answering with the mean of the test part", {"rmse": spread, "r2": 0.0})
    return None


def _pooled(prepared: Any) -> Reference | str:
    """The objective of the run at its least, or why that was not computed. What decides is no clock: pages can be made again."""
    goal, data = prepared.objective, prepared.dataset
    if not isinstance(goal, LinearModel):
        return "There is no line for all records at one place: it is drawn for regressions alone."
    x: Any = data.train.x
    each = float(x.shape[1]) if isinstance(x, np.ndarray) else x.nnz / max(1, len(data.train))
    work = len(data.train) * each**2
    if goal.size > _MOST_NUMBERS or work > _MOST_WORK["dense" if isinstance(x, np.ndarray) else "sparse"]:
        return (
            "There is no line for all records at one place: fitting so many would take longer than the report is worth."
        )
    weights = prepared.row_weights()
    fitted = near_optimum if isinstance(goal, MarginModel) else descended
    try:
        model = fitted(goal, data.train, weights, _GAP)
        values = goal.evaluate(model, data.train, weights, metrics=("loss",))
        tested = goal.evaluate(model, data.test, None, metrics=goal.traits.scores) if data.test is not None else {}
    except (UsageError, np.linalg.LinAlgError):
        return "There is no line for all records at one place: the fit failed."
    means = (
        f"the same objective with all training records at one place, fitted until its loss is within {_GAP:g} of the least "
        "there is"
    )
    return Reference("pooled", means, _known({**tested, **values}))
