"""Trials: one configuration trained with several seeds, and the settings that the paper's experiments share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from crescendo.data import Dataset, catalogue, load
from crescendo.errors import PeerError, UsageError
from crescendo.runs.result import Result
from crescendo.runs.simulate import simulate

COMBINATIONS = ("sum", "mean")
TIMINGS = ("lock-step", "staggered", "heterogeneous")
CONVEXITIES = ("strongly convex", "plain convex")
SAME = 0.01  # accuracies no further apart than this count as the same
SEEDS = 5

Config = dict[str, Any]


def problem(convexity: str) -> Config:
    """lambda = 1/N (N counts all training records) makes the logistic problem strongly convex; plain convex has none."""
    return {"l2": "1/N"} if convexity == "strongly convex" else {"l2": 0.0}


def falling(convexity: str, eta0: float, per: str = "round") -> Config:
    """eta0 / (1 + .001 t) for strongly convex problems, eta0 / (1 + .01 sqrt(t)) for others."""
    if convexity == "strongly convex":
        return {"kind": "diminishing", "eta0": eta0, "beta": 0.001, "per": per}
    return {"kind": "diminishing", "eta0": eta0, "beta": 0.01, "root": True, "per": per}


def source_for(source: str, quick: bool) -> str:
    """The source itself; a quick run takes a small one in place of data that are not there."""
    if not quick or source in _here():
        return source
    return "digits" if source == "mnist" else "breast_cancer"


@lru_cache(maxsize=1)
def _here() -> frozenset[str]:
    return frozenset(one.name for one in catalogue() if one.here)


@lru_cache(maxsize=2)
def dataset(source: str, classes: tuple[int, ...] | None = None) -> Dataset:
    """Records, kept for the next trial; what is held out for testing is the same in every trial."""
    return load(source, classes=classes)


def trained(
    source: str, config: Config, seeds: int, curve: bool = False, classes: Sequence[int] | None = None
) -> Config:
    """Rounds and every seed's accuracy on the test part, None for a run that broke off; with ``curve`` after every round too."""
    data = dataset(source, None if classes is None else tuple(classes))
    results = [_result(data, {**config, "evaluate": {"every": 1 if curve else 10**9}}, seed) for seed in range(seeds)]
    whole = [one for one in results if one is not None]
    found: Config = {
        "rounds": whole[0].rounds if whole else None,
        "accuracies": [None if one is None else rounded(one.accuracy) for one in results],
    }
    if curve:
        found["curve"] = _curve(whole)
    return found


def _result(data: Dataset, config: Mapping[str, Any], seed: int) -> Result | None:
    try:
        return simulate({**config, "run": {"seed": seed}}, data=data)
    except UsageError as error:
        if isinstance(error.__cause__, PeerError):  # the model has left all bounds: an outcome, not a mistake
            return None
        raise


def _curve(results: Sequence[Result]) -> Config:
    """After every round: gradients so far, and the mean, least and largest accuracy over the seeds."""
    scores = np.array([[row["accuracy"] for row in one.metrics] for one in results], dtype=np.float64)
    gradients = np.array([[row["gradients"] for row in one.metrics] for one in results], dtype=np.float64)
    if not len(scores):
        return {"gradients": [], "mean": [], "low": [], "high": []}
    return {
        "gradients": [rounded(value) for value in gradients.mean(axis=0)],
        "mean": [rounded(value) for value in scores.mean(axis=0)],
        "low": [rounded(value) for value in scores.min(axis=0)],
        "high": [rounded(value) for value in scores.max(axis=0)],
    }


def rounded(value: float | None) -> float | None:
    """To six decimals; None for what is no number."""
    return None if value is None or not np.isfinite(value) else round(float(value), 6)


def mean(accuracies: Sequence[float | None]) -> float | None:
    """None if a run broke off.

    >>> mean([0.25, 0.75]), mean([0.25, None])
    (0.5, None)
    """
    known = [one for one in accuracies if one is not None]
    return float(np.mean(known)) if known and len(known) == len(accuracies) else None


def spread(accuracies: Sequence[float | None]) -> str:
    """Mean and standard deviation over seeds, as text.

    >>> spread([0.84, 0.85]), spread([0.84, None])
    ('.8450 ± .0050', 'broke off (1 of 2)')
    """
    known = [one for one in accuracies if one is not None]
    if len(known) < len(accuracies):
        return f"broke off ({len(accuracies) - len(known)} of {len(accuracies)})"
    return f"{short(float(np.mean(known)))} ± {short(float(np.std(known)))}"


def short(value: float | None, digits: int = 4) -> str:
    """
    >>> short(0.8443), short(1.0), short(None), short(-0.25, 2)
    ('.8443', '1.0000', 'broke off', '-.25')
    """
    if value is None:
        return "broke off"
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"


def span(values: Sequence[float | None]) -> str:
    """The least and the largest of several means.

    >>> span([0.84, 0.8312]), span([0.5, 0.5]), span([0.5, None])
    ('.8312 to .8400', '.5000', '.5000, or broke off')
    """
    known = sorted({short(one) for one in values if one is not None}, key=float)
    text = " to ".join(dict.fromkeys([known[0], known[-1]])) if known else ""
    broke = "broke off" if any(one is None for one in values) else ""
    return ", or ".join(part for part in (text, broke) if part)
