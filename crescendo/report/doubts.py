"""Doubts about a run: a score below a constant answer's, or surely below a pooled fit's, with the likely cause and a remedy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from crescendo.objectives.linear.linear_model import LinearModel
from crescendo.privacy.cautions import about_noise
from crescendo.report.numbers import number
from crescendo.report.references import GUESSES, REGRESSION, References

_FAR = 0.5  # of the way from a constant answer to a pooled fit
_NEAR = {"accuracy": 0.03, "r2": 0.05}  # a plain run so near to a pooled fit is not doubted
_SURE = 2.0  # standard errors, by the number of test records
_FEW_PASSES = 3.0
_FEW_ROUNDS = 10
_TIMID = 20.0  # times below the largest surely stable steps; automatic steps are nearer
_SHIFTED = 5.0  # standard deviations of the labels between 0 and their mean
_UNLIKE = 30.0  # from this ratio of the largest column to the smallest, no step size suits both
_BOLD = 7.0  # times the largest surely stable step; automatic steps go up to 6
_LARGE = 8.0  # larger features make the first steps of a user's model too long
_FEW_TESTED = 5  # with fewer test records, one answer changes the accuracy by a fifth or more
STOOD_STILL = (
    "the run did not learn: the model did not move, as if every gradient were zero; make sure that the model's gradient depends "
    "on the records and that the features are not constant"
)
_MOSTLY = 0.9  # from this share of records in one class, accuracy hardly distinguishes models


@dataclass(frozen=True)
class Doubt:
    """A doubt about a run. ``says`` is the sentence; ``fails`` means that the run scored below a constant answer."""

    says: str
    fails: bool

    @classmethod
    def of(cls, result: Any) -> Self | None:
        """Return the doubt about a run that did not diverge, or None. Only a run without privacy must come near a pooled fit."""
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
            if pooled is None or result.privacy is not None or not pooled > level:
                continue
            far = found - level < _FAR * (pooled - level)
            if far or _surely_below(measure, found, pooled, len(result.prepared.dataset.test)):
                how = "far below" if far else "below"
                return cls(f"{measure} {number(found)} is {how} the {number(pooled)} of {name}: {cause}", fails=False)
        few = _few_tested(result)
        return None if few is None else cls.few(few)

    @classmethod
    def few(cls, tested: int) -> Self:
        """Return the doubt about scores that rest on too few test records."""
        some = "one test record" if tested == 1 else f"{tested} test records"
        return cls(
            f"the scores rest on {some} alone; hold out more, such as test = 0.2, or give a test part", fails=False
        )


def _surely_below(measure: str, found: float, pooled: float, tested: int) -> bool:
    """Return whether a score is further below a pooled fit's than is usual and than ``tested`` records leave to chance.

    The standard error is a binomial share's for accuracy, and 2 r (1 - r^2) / sqrt(n) for R2.

    >>> [_surely_below("accuracy", 0.93, 0.97, tested) for tested in (30, 300)]
    [False, True]
    """
    middle = min(max((found + pooled) / 2, 0.0), 1.0)
    one = math.sqrt(middle * (1 - middle)) if measure == "accuracy" else 2 * math.sqrt(middle) * (1 - middle)
    return pooled - found > max(_NEAR[measure], _SURE * one / math.sqrt(tested))


def _few_tested(result: Any) -> int | None:
    """Return the number of test records if they are very few. In a private run their number is not disclosed."""
    test = result.prepared.dataset.test
    private = result.privacy is not None
    return len(test) if test is not None and 0 < len(test) < _FEW_TESTED and not private else None


def _stood_still(result: Any) -> bool:
    """Return whether a run with gradients ended at its initial model."""
    return result.gradients > 0 and bool(np.array_equal(result.model, result.prepared.agreement.initial()))


def _pooled(levels: dict[str, float]) -> tuple[str, float | None]:
    """Return the name and score of the fit on all records: a plain regression, or a fit of the run's objective."""
    if REGRESSION in levels:
        return "a regression on the pooled records", levels[REGRESSION]
    return "a pooled fit", levels.get("pooled")


def _causes(result: Any, references: References, measure: str, level: float) -> Iterator[str]:
    """Yield the likely causes, the likeliest first."""
    prepared, config = result.prepared, result.prepared.config
    private = prepared.privacy if result.privacy is not None else None
    if private is not None and (drowned := about_noise(private.certificate)) is not None:
        yield drowned
    if measure == "r2" and private is None:
        yield from filter(None, (_cut_labels(prepared), _shifted_labels(prepared.dataset.train.y)))
    if (unlike := unlike_columns(prepared.dataset, private is not None)) is not None:
        yield unlike
    if (large := _large_columns(prepared)) is not None:
        yield large
    room = prepared.step_room
    if room is not None and room * _BOLD < 1:
        yield f"the step sizes are {1 / room:.2g} times the largest that are surely stable; try smaller ones"
    if measure == "accuracy" and level > _MOSTLY:
        yield (
            "nearly all records are of one class, so accuracy means little; set evaluate.auc = true for logistic "
            "regression, or train for longer"
        )
    passes = result.gradients / max(1, len(prepared.dataset.train))
    if passes < _FEW_PASSES:
        yield f"the run made {passes:.2g} passes over the records; try more gradients"
    if room is not None and room > _TIMID and private is None:
        yield f"the step sizes could be {room:.2g} times as large and surely stable; try larger ones, or more gradients"
    _, pooled = _pooled(dict(references.of(measure)))
    if pooled is not None and pooled < level:
        yield f"a pooled fit scores {number(pooled)} as well, so the features may say little about the label"
    if private is None and (rounds := result.rounds) < _FEW_ROUNDS:
        yield f"the run had {rounds} round{'s' if rounds != 1 else ''}; try more rounds of the same gradients"
    smaller = "" if config.schedule.is_auto or isinstance(prepared.objective, LinearModel) else "other step sizes, "
    yield f"try {smaller}more gradients, or more rounds of fewer gradients each"


def _cut_labels(prepared: Any) -> str | None:
    """Return a sentence on a label range that misses most labels, or None."""
    stated, labels = prepared.config.objective.label_range, prepared.dataset.train.y
    if stated is None or np.mean((labels < stated[0]) | (labels > stated[1])) <= _FAR:
        return None
    return (
        f"most labels lie outside of label_range = [{stated[0]:g}, {stated[1]:g}] and count as its nearer end; they go from "
        f"{labels.min():.4g} to {labels.max():.4g}; state a range that contains them"
    )


def _shifted_labels(labels: Any) -> str | None:
    """Return a sentence on labels that lie far from 0 beside their spread, or None."""
    mean, spread = float(np.mean(labels)), float(np.std(labels))
    if not abs(mean) > _SHIFTED * spread > 0:
        return None
    return (
        f"the labels lie far from 0 beside their spread (mean {mean:.4g}, standard deviation {spread:.4g}), which the intercept "
        "learns slowly; subtract a number near their mean from them, or try more gradients"
    )


def _large_columns(prepared: Any) -> str | None:
    """Return a sentence on features that are too large for a model whose step sizes are not fitted to them, or None."""
    train = prepared.dataset.train
    if isinstance(prepared.objective, LinearModel) or train.shape or not train.x.shape[1]:
        return None
    largest = float(abs(train.x).max())
    if largest <= _LARGE:
        return None
    return (
        f"the features go up to {largest:.3g}, and usual step sizes suit features of about 1; scale them, by scale=True in a "
        "call or data.scale = true for a table"
    )


def unlike_columns(data: Any, private: bool = False) -> str | None:
    """Return a sentence on columns too different in size for any one step size, or None.

    For a private run it states no number computed from the records.
    """
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
        f"the largest values of the features range from {largest.min():.3g} to {largest.max():.3g}, and no step size suits them "
        "all; scale them, by scale=True in a call or data.scale = true for a table"
    )
