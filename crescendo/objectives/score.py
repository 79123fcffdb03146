"""Scores that rank models in studies: accuracy for classification, R² for regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from crescendo.core.arrays import Vector
from crescendo.data.records import Records
from crescendo.objectives.objective_kinds import OBJECTIVES


@dataclass(frozen=True)
class Score:
    """A measure on the test part; higher is better, and 1 is the maximum. The other fields are its wording.

    ``grained`` scores are multiples of one over the test records. ``low`` is the lowest possible score.
    """

    name: str  # of the metric
    words: str
    target: str  # the value of --target
    higher: str
    lower: str
    guess: str  # name of a constant answer in a figure
    guessing: str
    remedy: str  # for a run that does not measure it
    low: float = float("-inf")
    grained: bool = False

    def of_guessing(self, test: Records) -> float:
        """Return the score of the best constant answer: the share of the commonest class; for R² 0, that of the mean."""
        return float(np.unique(test.y, return_counts=True)[1].max()) / len(test) if self.grained else 0.0


ACCURACY = Score(
    "accuracy",
    "accuracy",
    "an accuracy",
    "more accurate than",
    "less accurate than",
    "commonest class",
    "always answering with the commonest class",
    "return one in evaluate() of your model (`crescendo sweep` compares by loss)",
    low=0.0,
    grained=True,
)
R2 = Score(
    "r2",
    "R²",
    "an R²",
    "a better fit than",
    "a worse fit than",
    "mean label",
    "always answering with the mean label",
    "its test part needs labels that differ, so give data.test more records",
)


def score_of(kind: str) -> Score:
    """Return the score of an objective, by its name in a run file; users' own models are scored by accuracy.

    >>> score_of("softmax").name, score_of("least-squares").name, score_of("model.py:Mine").name
    ('accuracy', 'r2', 'accuracy')
    """
    return R2 if kind in OBJECTIVES and OBJECTIVES[kind].numbers else ACCURACY


_MEASURES = ("accuracy", "rmse", "r2")


@dataclass(frozen=True)
class Measured:
    """A model's score on some records, with that of the best constant answer.

    >>> print(Measured(40, {"accuracy": 0.925}, "commonest class", 0.55))
    accuracy 0.9250 on 40 records (commonest class 0.5500)
    """

    records: int
    scores: dict[str, float]
    guess: str
    guessing: float

    @classmethod
    def of(cls, objective: Any, model: Vector, records: Records) -> Measured | None:
        """Measure a model on labelled records; None without records, or if the objective has no such measure."""
        if not len(records):
            return None
        found = objective.evaluate(model, records, None, metrics=objective.traits.scores)
        by = next((one for one in (ACCURACY, R2) if math.isfinite(found.get(one.name, math.nan))), None)
        if by is None:
            return None
        scores = {name: float(found[name]) for name in _MEASURES if name in found}
        return cls(len(records), scores, by.guess, by.of_guessing(records))

    def __str__(self) -> str:
        said = ", ".join(f"{name} {value:.4f}" for name, value in self.scores.items())
        return f"{said} on {self.records:,} record{'s' if self.records != 1 else ''} ({self.guess} {self.guessing:.4f})"

    def plain(self) -> dict[str, Any]:
        """Return the measurement as plain data."""
        return {"records": self.records, **self.scores, self.guess: self.guessing}

    @classmethod
    def from_plain(cls, raw: Any) -> Measured:
        """Read a result of `plain`; raise ValueError for anything else."""
        if not isinstance(raw, dict) or not all(type(one) in (int, float) for one in raw.values()):
            raise ValueError("these are no scores")
        scores = {name: float(raw[name]) for name in _MEASURES if name in raw}
        guess = next((by.guess for by in (ACCURACY, R2) if by.guess in raw), None)
        if not scores or guess is None or "records" not in raw:
            raise ValueError("these are no scores")
        return cls(int(raw["records"]), scores, guess, float(raw[guess]))
