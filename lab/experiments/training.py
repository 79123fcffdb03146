"""Training runs: one configuration trained with several seeds, and the settings that the paper's experiments share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from crescendo.data import Dataset, catalogue, load
from crescendo.errors import Diverged
from crescendo.runs.result import Result
from crescendo.runs.simulate import simulate

CONVEXITIES = ("strongly convex", "plain convex")
SEEDS = 8

Config = dict[str, Any]


def problem(convexity: str) -> Config:
    """Return the objective's table: lambda = 1/N (N counts all training records) if strongly convex, else 0."""
    return {"l2": "1/N"} if convexity == "strongly convex" else {"l2": 0.0}


def falling(convexity: str, eta0: float, per: str = "round") -> Config:
    """Return the step rule eta0 / (1 + 0.001 t) for strongly convex problems, eta0 / (1 + 0.01 sqrt(t)) for others."""
    if convexity == "strongly convex":
        return {"kind": "diminishing", "eta0": eta0, "beta": 0.001, "per": per}
    return {"kind": "diminishing", "eta0": eta0, "beta": 0.01, "root": True, "per": per}


def federation(
    convexity: str,
    combine: str,
    timing: str,
    gradients: int,
    sizes: Config,
    steps: Config,
    *,
    clients: int = 5,
    split: str = "iid",
) -> Config:
    """Return a run file of logistic regression: clients with equal shares, at most one round ahead."""
    return {
        "clients": {"count": clients, "combine": combine, "split": split, "weights": "uniform"},
        "objective": problem(convexity),
        "schedule": {"gradients": gradients, "sizes": sizes, "steps": steps, "wait": {"rounds": 1}},
        "timing": {"preset": timing},
    }


def grid(**axes: Iterable[Any]) -> list[Config]:
    """Return every combination of the values, the last axis fastest.

    >>> grid(a=[1, 2], b="x")
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    """
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def source_for(source: str, quick: bool) -> str:
    """Return the source itself, or in a quick run a small one if its data are absent."""
    if not quick or source in _here():
        return source
    return "digits" if source == "mnist" else "breast_cancer"


@lru_cache(maxsize=1)
def _here() -> frozenset[str]:
    return frozenset(one.name for one in catalogue() if one.here)


@lru_cache(maxsize=2)
def dataset(source: str, classes: tuple[int, ...] | None = None) -> Dataset:
    """Return the records, kept for the next run; all runs share one test part."""
    return load(source, classes=classes)


def trained(
    source: str,
    config: Config,
    seeds: Sequence[int],
    *,
    every: int | None = None,
    auc: bool = False,
    classes: Sequence[int] | None = None,
) -> Config:
    """Return the rounds and every seed's accuracy on the test part, None for a run that broke off; for private runs epsilon too.

    ``every`` also records the accuracy during training, once in so many broadcasts; ``auc`` asks for the area under the ROC
    curve of the last models.
    """
    data = dataset(source, None if classes is None else tuple(classes))
    evaluate = {"every": every or 10**9, "auc": auc}
    results = [_result(data, {**config, "evaluate": evaluate}, seed) for seed in seeds]
    whole = [one for one in results if one is not None]
    found: Config = {
        "rounds": whole[0].rounds if whole else None,
        "accuracies": [None if one is None else rounded(one.accuracy) for one in results],
        "commonest": _commonest(data),
    }
    if auc:
        found["aucs"] = [None if one is None else rounded(one.metrics[-1]["auc"]) for one in results]
    if every is not None:
        found["curve"] = _curve(whole)
    if whole and whole[0].privacy is not None:
        found["epsilon"] = rounded(whole[0].privacy["epsilon"])
    return found


def _result(data: Dataset, config: Mapping[str, Any], seed: int) -> Result | None:
    try:
        return simulate({**config, "run": {"seed": seed}}, data=data, cores=1)
    except Diverged:  # an outcome, not a mistake
        return None


def _curve(results: Sequence[Result]) -> Config:
    """Return, at every measured round, the gradients so far and the mean, least and largest accuracy over the seeds.

    Late messages may complete several rounds at once, in some seeds and not in others. A seed that skipped a round contributes
    its first model after it.
    """
    if not results:
        return {"gradients": [], "mean": [], "low": [], "high": []}
    rounds = sorted({row["k"] for one in results for row in one.metrics})
    rows = [[next(row for row in one.metrics if row["k"] >= k) for k in rounds] for one in results]
    scores = np.array([[row["accuracy"] for row in several] for several in rows], dtype=np.float64)
    gradients = np.array([[row["gradients"] for row in several] for several in rows], dtype=np.float64)
    return {
        "gradients": [rounded(value) for value in gradients.mean(axis=0)],
        "mean": [rounded(value) for value in scores.mean(axis=0)],
        "low": [rounded(value) for value in scores.min(axis=0)],
        "high": [rounded(value) for value in scores.max(axis=0)],
    }


def _commonest(data: Dataset) -> float | None:
    """Return the share of the test part's commonest class: the accuracy of a constant answer."""
    assert data.test is not None
    counts = np.unique(data.test.y, return_counts=True)[1]
    return rounded(float(counts.max() / counts.sum()))


def rounded(value: float | None) -> float | None:
    """Round to six decimals; None for a number that is not finite."""
    return None if value is None or not np.isfinite(value) else round(float(value), 6)
