"""A trained model with all that is needed to ask it about new records: what a loaded run and a loaded federation share."""

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
    """What a model says of some records: a label or number for each, what it is worth where labels are known, and notes."""

    predictions: Array
    score: Measured | None
    notes: tuple[str, ...]


class LoadedModel(ABC):
    """A trained model that can be asked about records."""

    @property
    @abstractmethod
    def place(self) -> Path:
        """Where it was loaded from."""

    @property
    @abstractmethod
    def model(self) -> Floats:
        """The trained model as a vector."""

    @abstractmethod
    def _known(self) -> tuple[Objective, LearnedRecords, tuple[Label, ...]]:
        """The objective, how the records look that it learned from, and its classes; an error, in a sentence, without them."""

    def predict(self, x: Any) -> Array:
        """The label, as it was written, that the trained model gives each row of ``x``: an array, data frame, tensor or file.

        A data frame, or a file of a table, has the columns of the table that was trained on, in any order and with or without the
        label's: texts, missing cells and numbers of any size become features as they did in training.
        """
        return self.answers(x).predictions

    def score(self, x: Any, y: Any = None) -> dict[str, Any]:
        """What the model is worth on records with labels: its accuracy (or rmse and R²), beside the best constant answer's.

        ``y`` are the labels, or the column that has them; it may be left out where the table of the training named that column.
        """
        found = self.answers(x, y).score
        if found is None:
            raise DataError(
                "none of these records has a label that the model knows; give the labels, or the name of their column, as y"
            )
        return found.plain()

    def answers(self, x: Any, y: Any = None) -> Answers:
        """What `predict` gives, with a score over those records whose label is known."""
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
    """The score over the records whose label the model can give, and a note about the others."""
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
        return None, (f"{some}, so that there is no score",)
    rows = np.flatnonzero(known)
    measured = Measured.of(goal, model, replace(records.take(rows), y=y[rows]))
    return measured, (f"{some}, and count in no score",)


def check_sizes(options: Mapping[str, Any], features: int, most: int) -> None:
    """DataError for a network that would have more numbers than the model has: two layers side by side have a number a pair."""
    hidden = options.get("hidden", 1)
    widths = [features, *(hidden if isinstance(hidden, list | tuple) else [hidden]), options.get("classes", 1)]
    whole = all(type(width) is int and width > 0 for width in widths)
    if not whole or any(a * b > most for a, b in itertools.pairwise(widths)):
        raise DataError("the run file's objective.options do not fit the model beside it; run it again")
