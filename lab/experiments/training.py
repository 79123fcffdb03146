"""Trials: one configuration trained with several seeds, and the settings that the paper's experiments share."""

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
    """lambda = 1/N (N counts all training records) makes the logistic problem strongly convex; plain convex has none."""
    return {"l2": "1/N"} if convexity == "strongly convex" else {"l2": 0.0}


def falling(convexity: str, eta0: float, per: str = "round") -> Config:
    """eta0 / (1 + 0.001 t) for strongly convex problems, eta0 / (1 + 0.01 sqrt(t)) for others."""
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
    """A run file of logistic regression: clients of equal shares that may run one round ahead."""
    return {
        "clients": {"count": clients, "combine": combine, "split": split, "weights": "uniform"},
        "objective": problem(convexity),
        "schedule": {"gradients": gradients, "sizes": sizes, "steps": steps, "wait": {"rounds": 1}},
        "timing": {"preset": timing},
    }


def grid(**axes: Iterable[Any]) -> list[Config]:
    """Every combination of the values, the last axis fastest.

    >>> grid(a=[1, 2], b="x")
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    """
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


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
    source: str,
    config: Config,
    seeds: Sequence[int],
    *,
    every: int | None = None,
    auc: bool = False,
    classes: Sequence[int] | None = None,
) -> Config:
    """Rounds and every seed's accuracy on the test part, None for a run that broke off; of private runs epsilon too.

    With ``every`` accuracy is followed during training too, every so many broadcasts; ``auc`` asks for the area under the ROC
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
    """At every measured round: gradients so far, and the mean, least and largest accuracy over the seeds.

    Late messages may complete several rounds at once, in some seeds and not in others. A seed without a model of exactly some
    round has the first model that holds it.
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
    """The share of the test part's commonest class: the accuracy of a model that has learned nothing else."""
    assert data.test is not None
    counts = np.unique(data.test.y, return_counts=True)[1]
    return rounded(float(counts.max() / counts.sum()))


def rounded(value: float | None) -> float | None:
    """To six decimals; None for what is no number."""
    return None if value is None or not np.isfinite(value) else round(float(value), 6)
