"""Every public keyword of a call against every objective on six real tables: is each result sensible, doubted or refused?

    python -m tests.calls.every_keyword --out FILE.jsonl        # all combinations; those in the file are not run again

A combination is a table of scikit-learn's, an objective and one keyword with one value. It is

- *sensible* if the score is at least a constant answer's and within `NEAR` of the plain call's, or the keyword is one that makes
  a model worse by intent (noise, few gradients) and the score is at least a constant answer's;
- *doubted* if the result says by itself that it is no success (a divergence, or a sentence beside the score);
- *refused* by an error of ours, in one sentence;
- *wrong* otherwise: a bad score without a word, a traceback, or an error of more than one paragraph.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets

import crescendo
from crescendo.calls.keywords import PATHS
from crescendo.errors import CrescendoError
from crescendo.report.references import GUESSES
from tests.calls.own_models import OwnSoftmax, jax_softmax, torch_mlp

NEAR = 0.1  # a score this far below that of the plain call needs a word, or further below where the test part is small
SLACK = 0.02  # of a constant answer's, where test parts are small

TABLES: dict[str, Callable[..., Any]] = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "diabetes": datasets.load_diabetes,
    "linnerud": datasets.load_linnerud,
}
OBJECTIVES: dict[str, Callable[[int, int], Any]] = {
    "usual": lambda features, classes: None,
    "logistic": lambda features, classes: "logistic",
    "softmax": lambda features, classes: "softmax",
    "least-squares": lambda features, classes: "least-squares",
    "own": OwnSoftmax,
    "torch": torch_mlp,
    "jax": jax_softmax,
}
COMBINE = "combine"
PRIVATE = {"epsilon": 8.0, "records": 25}
WORSE = {"epsilon", "sigma", "mechanism", "delta", "clip", "norm_bound", "records"}  # noise may cost any accuracy

VALUES: dict[str, list[dict[str, Any]]] = {
    "clients": [{"clients": 1}, {"clients": 20}],
    "split": [{"split": "label"}, {"split": "dirichlet"}],
    "alpha": [{"split": "dirichlet", "alpha": 0.1}],
    "weights": [{"weights": "uniform"}, {"weights": [0.6, 0.1, 0.1, 0.1, 0.1]}],
    COMBINE: [{COMBINE: "sum"}],
    "l2": [{"l2": "1/N"}, {"l2": 0.01}],
    "label_range": [{"label_range": (0.0, 400.0)}],
    "epochs": [{"epochs": 2}, {"epochs": 50}],
    "gradients": [{"gradients": 3000}, {"gradients": 3000, "rounds": 10}],
    "rounds": [{"rounds": 1}, {"rounds": 10}, {"rounds": 60}, {"rounds": 10, "epochs": 20}],
    "sizes": [
        {"sizes": {"kind": "constant", "size": 50}},
        {"sizes": {"kind": "power", "power": 1}},
        {"sizes": {"kind": "constant", "size": 50}, "rounds": 40},
    ],
    "steps": [
        {"steps": {"kind": "constant", "eta": 0.05}},
        {"steps": {"kind": "diminishing", "eta0": 0.1, "beta": 0.001}},
    ],
    "wait": [{"wait": 0}, {"wait": 3}],
    "timing": [{"timing": "staggered"}, {"timing": "heterogeneous"}],
    "mechanism": [{**PRIVATE, "mechanism": "local", "norm_bound": 8.0}, {**PRIVATE, "mechanism": "batch-clip"}],
    "epsilon": [PRIVATE, {**PRIVATE, "epsilon": 0.3}],
    "delta": [{**PRIVATE, "delta": 1e-3}],
    "sigma": [{"sigma": 0.8, "records": 25}],
    "clip": [{**PRIVATE, "clip": 0.1}, {**PRIVATE, "clip": 100.0}],
    "norm_bound": [{**PRIVATE, "norm_bound": 4.0}],
    "records": [{**PRIVATE, "records": [20, 25, 25, 25, 30]}, {"records": 25}],
    "optimizer": [{"optimizer": "adam"}, {"optimizer": "sgd"}],
    "classes": [{"classes": "all"}],
    "test": [{"test": 0.5}, {"test": 0.02}],
    "schema": [{"schema": {"columns": {}}}],
    "drop": [{"drop": ["x0"]}],
    "categories": [{"categories": ["x0"]}],
    "missing": [{"missing": [-999]}],
    "scale": [{"scale": True}, {"scale": False}],
    "seed": [{"seed": 7}],
}
"""One or more uses of each keyword; a private use states classes, and a range for labels that are numbers."""


@dataclass(frozen=True)
class Combination:
    """One call to be made: its table, its objective and what it is asked."""

    table: str
    objective: str
    keyword: str
    use: int

    @property
    def name(self) -> str:
        return f"{self.table} | {self.objective} | {self.keyword} {self.use}"


def combinations() -> Iterator[Combination]:
    """Yield all of them; every keyword must have a use."""
    assert VALUES.keys() == PATHS.keys(), VALUES.keys() ^ PATHS.keys()
    for table in TABLES:
        for objective in OBJECTIVES:
            for keyword, uses in VALUES.items():
                yield from (Combination(table, objective, keyword, use) for use in range(len(uses)))


@cache
def records(table: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = TABLES[table](return_X_y=True)
    return x, (y[:, 0] if y.ndim == 2 else y)


def outcome(one: Combination) -> dict[str, Any]:
    """Make the call and judge it."""
    x, y = records(one.table)
    classes = 0 if one.table in ("diabetes", "linnerud") else len(set(y))
    asked = dict(VALUES[one.keyword][one.use])
    if asked.get("classes") == "all" or "records" in asked:
        asked.pop("classes", None)
        asked |= {"classes": sorted(set(y.tolist()))} if classes else {"label_range": (0.0, 400.0)}
    model = OBJECTIVES[one.objective](x.shape[1], classes or 1)
    score, plain, guess, says, kind = None, None, None, "", ""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            result = crescendo.simulate(x, y, objective=model, **asked)
            measure = "accuracy" if result.metrics[-1].get("accuracy") is not None else "r2"
            score, guess = result.metrics[-1][measure], _guess(result, measure)
            says = str(result.diverged or (result.doubt.says if result.doubt else ""))
            plain = _plain(one.table, one.objective, measure)
            near = max(
                NEAR, 1 / np.sqrt(max(1, len(result.prepared.dataset.test or ())))
            )  # two standard errors of an accuracy
            none = score is None  # R2 of one test record
            kind = ("doubted" if says else "wrong") if none else _judged(one, float(score), guess, plain, says, near)
        except CrescendoError as error:
            says, kind = str(error), "refused" if "\n\n" not in str(error) else "wrong"
        except Exception as error:
            says, kind = f"{type(error).__name__}: {error}", "wrong"
    return {"name": one.name, "kind": kind, "score": score, "plain": plain, "guess": guess, "says": says[:400]}


def _guess(result: Any, measure: str) -> float:
    """The score of a constant answer."""
    return float(dict(result.references.of(measure)).get(GUESSES[measure], 0.0))


def _judged(one: Combination, score: float, guess: float, plain: float | None, says: str, near: float) -> str:
    if says:
        return "doubted"
    good = plain is None or score >= plain - near or one.keyword in WORSE
    return "sensible" if score >= guess - SLACK and good else "wrong"


@cache
def _plain(table: str, objective: str, measure: str) -> float | None:
    """The score without the keyword; None where the objective does not take the table, or scores by another measure."""
    x, y = records(table)
    classes = 0 if table in ("diabetes", "linnerud") else len(set(y))
    try:
        last = crescendo.simulate(x, y, objective=OBJECTIVES[objective](x.shape[1], classes or 1)).metrics[-1]
    except CrescendoError:
        return None
    return None if last.get(measure) is None else float(last[measure])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="run those alone whose name contains this text")
    said = parser.parse_args()
    lines = said.out.read_text().splitlines() if said.out.exists() else []
    found = {one["name"]: one for one in map(json.loads, lines)}
    for one in combinations():
        if one.name not in found and said.only in one.name:
            found[one.name] = outcome(one)
            with said.out.open("a") as file:
                file.write(json.dumps(found[one.name]) + "\n")
    for one in found.values():
        if one["kind"] == "wrong":
            print(f"{one['name']}: {one['score']} (plain {one['plain']}, constant {one['guess']}) {one['says']}")
    print(len(found), "combinations:", dict(Counter(one["kind"] for one in found.values())))


if __name__ == "__main__":
    main()
