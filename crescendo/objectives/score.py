"""By what studies tell better from worse: the accuracy of an objective for classes, the R² of one that predicts numbers."""

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
    """A measure of the test part; the higher, the better, and 1 is the most. The rest are the words to tell it with.

    ``grained`` scores are multiples of one over the test records. ``low`` is the least that the score can be.
    """

    name: str  # of the metric
    words: str
    target: str  # what --target takes
    higher: str
    lower: str
    guess: str  # what a constant answer is called in a figure
    guessing: str
    remedy: str  # for a run that measures none
    low: float = float("-inf")
    grained: bool = False

    def of_guessing(self, test: Records) -> float:
        """What the best constant answer scores on the test part: that share of it has its commonest class; its mean has R² 0."""
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
    """The score of an objective, by its name in a run file; models of one's own are scored by accuracy.

    >>> score_of("softmax").name, score_of("least-squares").name, score_of("model.py:Mine").name
    ('accuracy', 'r2', 'accuracy')
    """
    return R2 if kind in OBJECTIVES and OBJECTIVES[kind].numbers else ACCURACY


_MEASURES = ("accuracy", "rmse", "r2")


@dataclass(frozen=True)
class Measured:
    """What a model is worth on some records, beside the best constant answer.

    >>> print(Measured(40, {"accuracy": 0.925}, "commonest class", 0.55))
    accuracy 0.9250 on 40 records (commonest class 0.5500)
    """

    records: int
    scores: dict[str, float]
    guess: str
    guessing: float

    @classmethod
    def of(cls, objective: Any, model: Vector, records: Records) -> Measured | None:
        """Measure a model on records with labels; None where there are none, or where the objective has no such measure."""
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
        """As JSON has it."""
        return {"records": self.records, **self.scores, self.guess: self.guessing}

    @classmethod
    def from_plain(cls, raw: Any) -> Measured:
        """What `plain` gave; ValueError for anything else."""
        if not isinstance(raw, dict) or not all(type(one) in (int, float) for one in raw.values()):
            raise ValueError("these are no scores")
        scores = {name: float(raw[name]) for name in _MEASURES if name in raw}
        guess = next((by.guess for by in (ACCURACY, R2) if by.guess in raw), None)
        if not scores or guess is None or "records" not in raw:
            raise ValueError("these are no scores")
        return cls(int(raw["records"]), scores, guess, float(raw[guess]))
