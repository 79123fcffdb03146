"""Answers of a trained model about new records, and their score: shared by results, loaded runs and loaded federations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.data.from_arrays import records_of
from crescendo.data.labels import Classes, as_numbers, one_by_one
from crescendo.data.records import Column, Label, Records
from crescendo.data.scaling import Scaling
from crescendo.data.tables.feature_schema import Schema
from crescendo.errors import DataError
from crescendo.objectives import Objective
from crescendo.objectives.score import Measured
from crescendo.runs import result_view
from crescendo.runs.models.new_records import NewRecords


@dataclass(frozen=True, eq=False)
class LearnedRecords:
    """The form of the records from which a model learned."""

    features: int
    shape: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    schema: Schema | None = None
    scaling: Scaling | None = None
    label: str | None = None  # the column that has the labels of a table, where it is known


@dataclass(frozen=True, eq=False)
class Answers:
    """A model's predictions for some records, its score on those with known labels, and notes."""

    predictions: Array
    score: Measured | None
    notes: tuple[str, ...]


def answers(
    goal: Objective, model: Floats, kept: LearnedRecords, classes: tuple[Label, ...], x: Any, y: Any = None
) -> Answers:
    """Return the model's answers about ``x``. ``y`` are the labels or the name of their column, if they are known."""
    given = NewRecords.of(x, kept.schema, kept.names, kept.features, y if isinstance(y, str) else kept.label)
    if isinstance(y, str) and given.labels is None:
        raise DataError(f"the records have no column '{y:.60}' with labels; name one that they have, or leave it out")
    like = Records(np.zeros((0, kept.features)), np.zeros(0), kept.shape)
    records = records_of(given.x, like, kept.schema, kept.names, kept.scaling)
    predictions = result_view.predicted(goal, model, records, classes)
    labels = given.labels if y is None or isinstance(y, str) else one_by_one(y)
    if labels is None:
        return Answers(predictions, None, given.notes)
    score, notes = _scored(goal, model, records, labels, classes)
    return Answers(predictions, score, (*given.notes, *notes))


def scores(found: Answers) -> dict[str, Any]:
    """Return the score as plain data; DataError without any known label."""
    if found.score is None:
        raise DataError(
            "none of these records has a label that the model knows; give the labels, or the name of their column, as y"
        )
    return found.score.plain()


def _scored(
    goal: Objective, model: Floats, records: Records, labels: Column, classes: tuple[Label, ...]
) -> tuple[Measured | None, tuple[str, ...]]:
    """Return the score over the records whose label the model knows, and a note about the others."""
    if labels.ndim != 1 or len(labels) != len(records):
        raise DataError(
            f"there are {len(records):,} records, and labels of shape {labels.shape}; one label a record is needed"
        )
    if goal.traits.numbers:
        y = as_numbers(labels)
        known = np.isfinite(y)
    else:
        places = Classes(classes).places(labels)
        known, y = places >= 0, places.astype(np.float64)
    if known.all():
        return Measured.of(goal, model, replace(records, y=y)), ()
    some = f"{int(np.count_nonzero(~known)):,} of {len(records):,} records have a label that the model does not know"
    if not known.any():
        return None, (f"{some}, so there is no score",)
    rows = np.flatnonzero(known)
    measured = Measured.of(goal, model, replace(records.take(rows), y=y[rows]))
    return measured, (f"{some}, and count in no score",)
