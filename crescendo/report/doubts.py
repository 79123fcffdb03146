"""Doubts about a run: a score below a constant answer's, or far below a pooled fit's, with the likely cause and a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from crescendo.objectives.linear.linear_model import LinearModel
from crescendo.privacy.cautions import about_noise
from crescendo.report.numbers import number
from crescendo.report.references import GUESSES, REGRESSION, References

_FAR = 0.5  # of the way from a constant answer to a pooled fit
_FEW_PASSES = 3.0
_UNLIKE = 30.0  # times that one column is larger than another
_BOLD = 7.0  # times what is surely stable: automatic steps go to 6
_LARGE = 8.0  # features beyond it make the first steps of a user's own model too long
_FEW_TESTED = 5  # records: one answer more or less is a fifth of the accuracy
STOOD_STILL = (
    "the run did not learn: the model is where it began, as if every gradient were zero; see that the model's gradient depends "
    "on the records and that features are no constants"
)
_MOSTLY = 0.9  # of the records in one class: accuracy hardly tells models apart


@dataclass(frozen=True)
class Doubt:
    """``says`` is the sentence. A run ``fails`` whose answers are worse than a constant one."""

    says: str
    fails: bool

    @classmethod
    def of(cls, result: Any) -> Self | None:
        """The doubt about a run that did not diverge, if any. Only plain runs must come near a pooled fit."""
        last, references = result.metrics[-1], result.references
        if result.privacy is None and _stood_still(result):
            return cls(STOOD_STILL, fails=True)
        for measure, guess in GUESSES.items():
            levels, found = dict(references.of(measure)), last.get(measure)
            level, (name, pooled) = levels.get(guess), _pooled(levels)
            if level is None or found is None:
                continue
            cause = next(_causes(result, references, measure, level))
            if found < level:
                return cls(
                    f"{measure} {number(found)} is below the {number(level)} of the {guess}: {cause}", fails=True
                )
            if pooled is not None and result.privacy is None and found - level < _FAR * (pooled - level):
                return cls(
                    f"{measure} {number(found)} is far below the {number(pooled)} of {name}: {cause}", fails=False
                )
        few = _few_tested(result)
        return None if few is None else cls.few(few)

    @classmethod
    def few(cls, tested: int) -> Self:
        """That the scores rest on so few records that they say next to nothing."""
        some = "one test record" if tested == 1 else f"{tested} test records"
        return cls(
            f"the scores rest on {some} alone; hold out more, such as test = 0.2, or give a test part", fails=False
        )


def _few_tested(result: Any) -> int | None:
    """The test records, if they are very few. In a private run their number is no one else's to know."""
    test = result.prepared.dataset.test
    private = result.privacy is not None
    return len(test) if test is not None and 0 < len(test) < _FEW_TESTED and not private else None


def _stood_still(result: Any) -> bool:
    """Whether a run with gradients ended at the model that it began with."""
    return result.gradients > 0 and bool(np.array_equal(result.model, result.prepared.agreement.initial()))


def _pooled(levels: dict[str, float]) -> tuple[str, float | None]:
    """The fit on all records that there is, and its score: of the objective itself, or of a plain regression."""
    if REGRESSION in levels:
        return "a regression on the pooled records", levels[REGRESSION]
    return "a pooled fit", levels.get("pooled")


def _causes(result: Any, references: References, measure: str, level: float) -> Iterator[str]:
    """What is likely wrong, the likeliest first."""
    prepared, config = result.prepared, result.prepared.config
    private = prepared.privacy if result.privacy is not None else None
    if private is not None and (drowned := about_noise(private.certificate)) is not None:
        yield drowned
    if measure == "r2" and private is None and (cut := _cut_labels(prepared)) is not None:
        yield cut
    if (unlike := unlike_columns(prepared.dataset, private is not None)) is not None:
        yield unlike
    if (large := _large_columns(prepared)) is not None:
        yield large
    room = prepared.step_room
    if room is not None and room * _BOLD < 1:
        yield f"the step sizes are {1 / room:.2g} times the largest that are surely stable; try smaller ones"
    if measure == "accuracy" and level > _MOSTLY:
        yield (
            "nearly all records are of one class, so that accuracy says little; set evaluate.auc = true for logistic "
            "regression, or train for longer"
        )
    passes = result.gradients / max(1, len(prepared.dataset.train))
    if passes < _FEW_PASSES:
        yield f"the run made {passes:.2g} passes over the records; try more gradients"
    _, pooled = _pooled(dict(references.of(measure)))
    if pooled is not None and pooled < level:
        yield f"a pooled fit scores {number(pooled)} as well, so the features may say little about the label"
    smaller = "" if config.schedule.is_auto or isinstance(prepared.objective, LinearModel) else "other step sizes, "
    yield f"try {smaller}more gradients, or more rounds of fewer gradients each"


def _cut_labels(prepared: Any) -> str | None:
    """The sentence about a label range outside which most labels lie."""
    stated, labels = prepared.config.objective.label_range, prepared.dataset.train.y
    if stated is None or np.mean((labels < stated[0]) | (labels > stated[1])) <= _FAR:
        return None
    return (
        f"most labels lie outside of label_range = [{stated[0]:g}, {stated[1]:g}] and count as its nearer end, and they go from "
        f"{labels.min():.4g} to {labels.max():.4g}; state a range that has them"
    )


def _large_columns(prepared: Any) -> str | None:
    """The sentence about features that are large for a model whose step sizes are not fitted to them."""
    train = prepared.dataset.train
    if isinstance(prepared.objective, LinearModel) or train.shape or not train.x.shape[1]:
        return None
    largest = float(abs(train.x).max())
    if largest <= _LARGE:
        return None
    return (
        f"the features go up to {largest:.3g}, and usual step sizes suit features of about 1; bring them there, by scale=True "
        "in a call or data.scale = true for a table"
    )


def unlike_columns(data: Any, private: bool = False) -> str | None:
    """That columns differ in size by more than one step size can suit; to a private run no number of the records is said."""
    if data.scaling is not None or data.schema is not None or data.train.shape or data.train.sparse:
        return None
    largest = np.abs(data.train.x).max(axis=0)
    largest = largest[largest > 0]
    if not len(largest) or largest.max() <= _UNLIKE * largest.min():
        return None
    if private:
        return (
            "the features differ in size, which no step size suits; divide each by a public bound on it, or state the ranges of "
            "a table's columns in a schema"
        )
    return (
        f"the features differ in size, from {largest.min():.3g} to {largest.max():.3g} at most, which no step size suits; "
        "bring them to one size, by scale=True in a call or data.scale = true for a table"
    )
