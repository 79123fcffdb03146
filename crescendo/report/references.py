"""Reference scores of a simulated run: the commonest class, a fit on all records at one place, the run without its noise.

A simulation holds all records and may look at them. A federation does not, so its reports have no references.
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

_MOST_NUMBERS = 1000  # in a model to be fitted: Newton's method solves equations of this size
_MOST_WORK = {"sparse": 1e8, "dense": 2e9}  # multiplications in a step of Newton's method: a fraction of a second
_GAP = 1e-4
_LITTLE_L2 = 1e-3  # so that a fit converges even if a plane separates the classes
_NO_LINE = "There is no line for all records at one place: {}."
REGRESSION = "regression"
GUESSES = {"accuracy": "commonest class", "r2": "mean label"}  # the constant answer that each measure is compared with
MEASURED = ("accuracy", "r2", "rmse")  # on the test part

SEEN_IN_SIMULATIONS_ONLY = (
    "These lines are computed from the records themselves. Only a simulation can have them: no epsilon covers them, and the "
    "report of a real federation has none."
)


@dataclass(frozen=True)
class Reference:
    """A level to compare with: its short ``name``, its meaning in words, and its values by measure."""

    name: str
    means: str
    values: dict[str, float]


@dataclass(frozen=True)
class References:
    """The references of a result, and sentences on their meaning and on a missing one."""

    found: list[Reference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, dict[str, float]]:
        """Return the values by name, as stored in JSON."""
        return {one.name: one.values for one in self.found}

    @classmethod
    def from_plain(cls, raw: Any) -> References:
        """Read the output of `plain`, which lacks the meanings of the names. Raise ValueError for anything else."""
        if not isinstance(raw, dict) or not all(isinstance(values, dict) for values in raw.values()):
            raise ValueError("these are not references")
        numbers = [value for values in raw.values() for value in values.values()]
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers):
            raise ValueError("a reference is not a number")
        return cls([Reference(str(name), "", values) for name, values in raw.items()])

    def of(self, measure: str) -> list[tuple[str, float]]:
        return [(one.name, one.values[measure]) for one in self.found if measure in one.values]


def references_of(result: Any) -> References:
    """Return the references of a simulated run."""
    found, notes = [], []
    if result.noise_free is not None:
        found.append(
            Reference("without noise", "the same run with the same draws, without its noise", _known(result.noise_free))
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
    """Return the test score of an answer that ignores the record."""
    if test is None or not len(test):
        return None
    if row.get("accuracy") is not None:
        share = float(np.unique(test.y, return_counts=True)[1].max()) / len(test)
        return Reference("commonest class", "always answering with the class of most test records", {"accuracy": share})
    if row.get("rmse") is not None:
        spread = float(np.std(test.y))
        return Reference("mean label", "always answering with the mean of the test part", {"rmse": spread, "r2": 0.0})
    return None


def _pooled(prepared: Any) -> Reference | str:
    """Fit the run's objective on all records, or return why not. No clock decides this, so a page can be made again."""
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
    means = f"the same objective with all training records at one place, fitted until its loss is within {_GAP:g} of the minimum"
    return Reference("pooled", means, _known({**tested, **values}))


def _regression(data: Any) -> Reference | str:
    """Fit a softmax regression on standardised features. A user's model should score about as well."""
    if data.train.shape or len(data.classes) < 2:
        return _NO_LINE.format("it is drawn for regressions, and for classifiers of flat records")
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
    """Return the training loss and the test scores of the fitted model."""
    fitted = near_optimum if isinstance(goal, MarginModel) else descended
    model = fitted(goal, data.train, weights, _GAP)
    values = goal.evaluate(model, data.train, weights, metrics=("loss",))
    tested = goal.evaluate(model, data.test, None, metrics=goal.traits.scores) if data.test is not None else {}
    return values, tested
