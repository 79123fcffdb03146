"""`steps = "auto"` against tuned step sizes, on every data set of the project; writes the tables of docs/auto_steps.md.

    python -m lab.trials.auto_steps measure|tables

`crescendo compare` does the tuning: 20 trials with one seed, scored on a fifth of the training records, from which the trials
do not learn. Two shapes are tuned by a factor from 1/32 to 32: the step sizes of the examples, and those of "auto". Then auto
and both tuned shapes run with the same five seeds on all training records and are scored on the test part.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from crescendo.algorithms.algorithm_kinds import ALGORITHMS, OURS
from crescendo.config.loading import read
from crescendo.data import Dataset, load
from crescendo.errors import CrescendoError
from crescendo.runs.prepare import prepare
from crescendo.studies.point_store import PointStore
from crescendo.studies.points import StudyPoint, run_point
from crescendo.studies.tuning import Tuned, trial_points, tune
from lab.experiments.training import falling, problem
from lab.trials.page_tables import write_tables
from lab.trials.stored_results import FOLDER, StoredResults

Values = dict[str, Any]
RESULTS, PAGE = FOLDER / "auto_steps.jsonl", "auto_steps.md"
TRIALS, SEEDS, CLIENTS, GRADIENTS = 20, 5, 5, 20_000
BAR = 0.005
PLAIN = ("a9a", "w8a", "phishing", "ijcnn1", "covtype.binary", "mnist")
CONVEXITIES = ("strongly convex", "plain convex")
# data set: the norm bound and the clip of its private runs, typed in as an owner of such records would
PRIVATE = {"a9a": (3.9, 1.0), "ijcnn1": (2.0, 1.0), "covtype.binary": (2.5, 1.0)}
ROUNDS, EPSILON, DELTA = 30, 1.0, 1e-6


def settings() -> Iterator[Values]:
    for source in PLAIN:
        for combine in ("sum", "mean"):
            for convexity in CONVEXITIES:
                yield {"data": source, "combine": combine, "problem": convexity, "epsilon": None}
    for source in PRIVATE:
        for combine in ("sum", "mean"):
            yield {"data": source, "combine": combine, "problem": "plain convex", "epsilon": EPSILON}


def run_file(case: Values, records: int, steps: Any) -> Values:
    kind = {"kind": "softmax"} if case["data"] == "mnist" else {}
    found: Values = {
        "data": {"source": case["data"]},
        "clients": {"count": CLIENTS, "combine": case["combine"], "weights": "uniform"},
        "objective": {**problem(case["problem"]), **kind},
        "timing": {"preset": "staggered"},
        "evaluate": {"every": 10**9},
    }
    if case["epsilon"] is None:
        sizes = {"kind": "power", "scale": 100, "per_client": True}
        return {**found, "schedule": {"gradients": GRADIENTS, "sizes": sizes, "steps": steps}}
    bound, clip = PRIVATE[case["data"]]
    each = records // CLIENTS // 100 * 100  # declared records, rounded down to a hundred
    sizes = {"kind": "power", "scale": max(1, each // 300), "per_client": True}
    privacy = {
        "mechanism": "minibatch",
        "epsilon": case["epsilon"],
        "delta": DELTA,
        "clip": clip,
        "norm_bound": bound,
        "records": each,
    }
    return {**found, "schedule": {"rounds": ROUNDS, "sizes": sizes, "steps": steps}, "privacy": privacy}


def example_steps(case: Values) -> Values:
    """Return the step sizes of the examples, in the middle of the tuned range."""
    if case["epsilon"] is not None:
        return {"kind": "constant", "eta": 0.01}
    return falling(case["problem"], 0.1)


def compared(case: Values, data: Dataset) -> Values:
    """Return the choice of auto, and every seed's accuracy with it and with both tuned step sizes."""
    records = len(data.train)
    auto = read(run_file(case, records, "auto"))
    table = prepare(auto, data=data).config.schedule.steps.model_dump()
    shapes = {"example": example_steps(case), "own": {name: table[name] for name in ("kind", "eta0", "beta")}}
    found: Values = {"steps": shapes["own"], "auto": [_accuracy(auto, data, seed, {}) for seed in range(SEEDS)]}
    for shape, steps in shapes.items():
        config = read(run_file(case, records, steps))
        points = trial_points(ALGORITHMS[OURS], config, replace(data, test=None), TRIALS, {})
        tuned = tune(points, PointStore(None))
        found[shape] = _tuned(tuned, [_accuracy(config, data, seed, _options(tuned)) for seed in range(SEEDS)])
    return found


def _options(tuned: Tuned) -> Values:
    return {} if tuned.best is None else dict(tuned.best.options)


def _tuned(tuned: Tuned, accuracies: list[float | None]) -> Values:
    scale = _options(tuned).get("step_scale")
    return {"step_scale": scale, "at_edge": tuned.at_edge, "accuracies": accuracies}


def _accuracy(config: Any, data: Dataset, seed: int, options: Values) -> float | None:
    seeded = config.model_copy(update={"run": config.run.model_copy(update={"seed": seed})})
    outcome = run_point(StudyPoint(f"seed {seed}", seeded, OURS, options, data))
    if outcome.status == "failed":
        raise SystemExit(outcome.says)
    return None if outcome.accuracy is None else round(outcome.accuracy, 5)


def measure(results: StoredResults, names: list[str]) -> None:
    for source in PLAIN:
        if names and source not in names:
            continue
        for private in (False, True):
            cases = [c for c in settings() if c["data"] == source and (c["epsilon"] is not None) == private]
            if not cases:
                continue
            try:
                data = load(source, private=private, classes=_classes(source) if private else None)
                for case in cases:
                    found = results.measured(case, lambda case=case, data=data: compared(case, data))  # type: ignore[misc]
                    print(case, found, flush=True)
            except CrescendoError as error:
                print(f"{source}: {error}", flush=True)


def _classes(source: str) -> list[int]:
    return [1, 2] if source == "covtype.binary" else [-1, 1]


# -- the page ---------------------------------------------------------------------------------------------------------


def mean(accuracies: list[float | None]) -> float:
    """Return the mean accuracy; a run that broke off counts as 0."""
    return float(np.mean([accuracy or 0.0 for accuracy in accuracies]))


def miss(found: Values) -> float:
    """Return how far auto is below the better of the two tuned shapes, in the mean over the seeds; negative if it is above."""
    return max(mean(found[shape]["accuracies"]) for shape in ("example", "own")) - mean(found["auto"])


def tables(results: StoredResults) -> dict[str, list[str]]:
    rows = {True: list[str](), False: list[str]()}
    misses: list[float] = []
    for case, found in sorted(results, key=lambda run: _order(run[0])):
        private, by = case["epsilon"] is not None, miss(found)
        what = [case["data"], case["combine"]] + ([] if private else [case["problem"]])
        tuned = [f"{mean(found[shape]['accuracies']):.4f}" for shape in ("example", "own")]
        edge = "".join("*" if found[shape]["at_edge"] else "" for shape in ("example", "own"))
        verdict = "yes" if by <= BAR else "**no**"
        cells = [
            *what,
            f"{found['steps']['eta0']:g}",
            f"{mean(found['auto']):.4f}",
            *tuned,
            f"{by:+.4f}{edge}",
            verdict,
        ]
        rows[private].append("| " + " | ".join(cells) + " |")
        misses += [] if private else [by]
    head = "auto's eta0 | auto | tuned, examples' shape | tuned, auto's shape | auto falls short by | within 0.005"
    rule = "|---|---|---|" + "---|" * 6
    return {
        "plain": [f"| data | combined as | problem | {head} |", rule, *rows[False]],
        "private": [f"| data | combined as | {head} |", rule.removesuffix("---|"), *rows[True]],
        "verdict": [f"Within 0.005 in {sum(by <= BAR for by in misses)} of {len(misses)} settings without privacy."],
    }


def _order(case: Values) -> tuple[int, ...]:
    return (PLAIN.index(case["data"]), ("sum", "mean").index(case["combine"]), CONVEXITIES.index(case["problem"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["measure", "tables"])
    parser.add_argument("names", nargs="*")
    asked, results = parser.parse_args(), StoredResults(RESULTS)
    if asked.what == "measure":
        measure(results, asked.names)
    else:
        write_tables(PAGE, tables(results))


if __name__ == "__main__":
    main()
