"""A trained model that can predict new records: the common base of a loaded run and a loaded federation."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.calls.new_records import NewRecords
from crescendo.calls.stored_run import LearnedRecords
from crescendo.core.arrays import Array, Floats
from crescendo.data.from_arrays import records_of
from crescendo.data.labels import Classes, as_numbers, one_by_one
from crescendo.data.records import Column, Label, Records
from crescendo.errors import DataError, UsageError
from crescendo.objectives import Objective
from crescendo.objectives.score import Measured
from crescendo.runs import result_view


@dataclass(frozen=True, eq=False)
class Answers:
    """A model's predictions for some records, its score on those with known labels, and notes."""

    predictions: Array
    score: Measured | None
    notes: tuple[str, ...]


class LoadedModel(ABC):
    """A trained model that can predict records."""

    @property
    @abstractmethod
    def place(self) -> Path:
        """The folder or file from which it was loaded."""

    @property
    @abstractmethod
    def model(self) -> Floats:
        """The trained model as a vector."""

    @abstractmethod
    def _known(self) -> tuple[Objective, LearnedRecords, tuple[Label, ...]]:
        """Return the objective, the form of its training records, and its classes; refuse if they are not stored."""

    def predict(self, x: Any) -> Array:
        """Predict the label, as it was written, of each row of ``x``: an array, data frame, tensor or file.

        A data frame, or a file of a table, needs the columns of the training table, in any order, with or without the label:
        texts, missing cells and numbers of any size become features as they did in training.
        """
        return self.answers(x).predictions

    def score(self, x: Any, y: Any = None) -> dict[str, Any]:
        """Return the model's score on records with labels, accuracy (or rmse and R²), and that of the best constant prediction.

        ``y`` holds the labels or names their column; it may be left out if training named that column.
        """
        found = self.answers(x, y).score
        if found is None:
            raise DataError(
                "none of these records has a label that the model knows; give the labels, or the name of their column, as y"
            )
        return found.plain()

    def answers(self, x: Any, y: Any = None) -> Answers:
        """Return the predictions of `predict`, with a score over the records whose label is known."""
        if not np.isfinite(self.model).all():
            raise UsageError(
                f"the model in {self.place} has numbers that are not finite: the run diverged, or the file was changed"
            )
        goal, kept, classes = self._known()
        if goal.size != len(self.model):
            raise UsageError(
                f"objective has {goal.size:,} numbers, and the model in {self.place} {len(self.model):,}; give the "
                "one that was trained"
            )
        given = NewRecords.of(x, kept.schema, kept.names, kept.features, y if isinstance(y, str) else kept.label)
        if isinstance(y, str) and given.labels is None:
            raise DataError(
                f"the records have no column '{y:.60}' with labels; name one that they have, or leave it out"
            )
        like = Records(np.zeros((0, kept.features)), np.zeros(0), kept.shape)
        records = records_of(given.x, like, kept.schema, kept.names, kept.scaling)
        predictions = result_view.predicted(goal, self.model, records, classes)
        labels = given.labels if y is None or isinstance(y, str) else one_by_one(y)
        if labels is None:
            return Answers(predictions, None, given.notes)
        score, notes = _scored(goal, self.model, records, labels, classes)
        return Answers(predictions, score, (*given.notes, *notes))


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


def check_sizes(options: Mapping[str, Any], features: int, most: int) -> None:
    """Refuse a network larger than the model: two neighbouring layers have one number for each pair of their units."""
    hidden = options.get("hidden", 1)
    widths = [features, *(hidden if isinstance(hidden, list | tuple) else [hidden]), options.get("classes", 1)]
    whole = all(type(width) is int and width > 0 for width in widths)
    if not whole or any(a * b > most for a, b in itertools.pairwise(widths)):
        raise DataError("the run file's objective.options do not fit the model in the same folder; run it again")
