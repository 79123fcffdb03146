"""A trained model that can predict new records: the common base of a loaded run and a loaded federation."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.data.records import Label
from crescendo.errors import DataError, UsageError
from crescendo.objectives import Objective
from crescendo.runs.models.answers import Answers, LearnedRecords, answers, scores


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
        return scores(self.answers(x, y))

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
        return answers(goal, self.model, kept, classes, x, y)


def check_sizes(options: Mapping[str, Any], features: int, most: int) -> None:
    """Refuse a network larger than the model: two neighbouring layers have one number for each pair of their units."""
    hidden = options.get("hidden", 1)
    widths = [features, *(hidden if isinstance(hidden, list | tuple) else [hidden]), options.get("classes", 1)]
    whole = all(type(width) is int and width > 0 for width in widths)
    if not whole or any(a * b > most for a, b in itertools.pairwise(widths)):
        raise DataError("the run file's objective.options do not fit the model in the same folder; run it again")
