"""What the numbers of a simulated run are held against: the commonest class, all records at one place, the run without its noise.

A simulation has every record in its hands and may look at them; a federation has not, and gets none of these lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crescendo.data.scaling import Scaling
from crescendo.errors import CrescendoError, UsageError
from crescendo.objectives.linear.linear_model import LinearModel
from crescendo.objectives.linear.margin_model import MarginModel
from crescendo.objectives.optimum import descended, near_optimum
from crescendo.objectives.softmax.softmax_regression import Softmax

_MOST_NUMBERS = 1000  # of a model that is fitted: Newton's method solves equations of this size
_MOST_WORK = {"sparse": 1e8, "dense": 2e9}  # multiplications for each step of Newton's method: a fraction of a second
_GAP = 1e-4
_LITTLE_L2 = 1e-3  # so that a fit ends where a plane separates the classes
_NO_LINE = "There is no line for all records at one place: {}."
REGRESSION = "regression"
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
        return _regression(data)
    if _is_too_much(goal, data.train):
        return _NO_LINE.format("fitting so many would take longer than the report is worth")
    weights = prepared.row_weights()
    try:
        values, tested = _fitted(goal, data, weights)
    except (UsageError, np.linalg.LinAlgError):
        return _NO_LINE.format("the fit failed")
    means = (
        f"the same objective with all training records at one place, fitted until its loss is within {_GAP:g} of the least "
        "there is"
    )
    return Reference("pooled", means, _known({**tested, **values}))


def _regression(data: Any) -> Reference | str:
    """For a model of a user's own: a softmax regression on standardised features, which any model of records should come near."""
    if data.train.shape or len(data.classes) < 2:
        return _NO_LINE.format("it is drawn for regressions, and for models of classes whose records are flat")
    scaling = None if data.scaling is not None else Scaling.of(data.train)
    if scaling is not None:
        test = None if data.test is None else scaling.records(data.test)
        data = replace(data, train=scaling.records(data.train), test=test, scaling=scaling, optimum=None)
    goal = Softmax(data.features, classes=len(data.classes), l2=_LITTLE_L2)
    if _is_too_much(goal, data.train):
        return _NO_LINE.format("fitting so many would take longer than the report is worth")
    try:
        _, tested = _fitted(goal, data, None)
    except (CrescendoError, np.linalg.LinAlgError):
        return _NO_LINE.format("the fit failed")
    means = "a softmax regression on standardised features, with all training records at one place"
    return Reference(REGRESSION, means, {name: value for name, value in _known(tested).items() if name == "accuracy"})


def _is_too_much(goal: Any, train: Any) -> bool:
    x: Any = train.x
    each = float(x.shape[1]) if isinstance(x, np.ndarray) else x.nnz / max(1, len(train))
    most = _MOST_WORK["dense" if isinstance(x, np.ndarray) else "sparse"]
    return bool(goal.size > _MOST_NUMBERS or len(train) * each**2 > most)


def _fitted(goal: Any, data: Any, weights: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The loss on the training records and the scores on the test part of the best model there is."""
    fitted = near_optimum if isinstance(goal, MarginModel) else descended
    model = fitted(goal, data.train, weights, _GAP)
    values = goal.evaluate(model, data.train, weights, metrics=("loss",))
    tested = goal.evaluate(model, data.test, None, metrics=goal.traits.scores) if data.test is not None else {}
    return values, tested
