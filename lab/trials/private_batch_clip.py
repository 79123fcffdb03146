"""`batch-clip` on MNIST, at the budgets of `lab.trials.private_lenet`: LeNet-5, and softmax regression for comparison.

    python -m lab.trials.private_batch_clip search|final|tables

The search chooses the clip by accuracy on training records that no client has, at epsilon 8 with one seed; the final runs use
the test files. The mechanism clips a client's whole update to S and adds noise for 2 S to every number of the model: the larger
the model, the longer the noise vector.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from crescendo.data import Dataset, load
from crescendo.errors import DataError
from lab.trials.mnist_runs import net, run
from lab.trials.page_tables import write_tables
from lab.trials.private_lenet import CLIENTS, PAGE, RESULTS, SEEDS, parts, private_run, tables, tenth
from lab.trials.stored_results import FOLDER, StoredResults

Values = dict[str, Any]
SEARCHED = FOLDER / "private_batch_clip_search.jsonl"
NETS = {"jax:softmax": 0.05, "jax:lenet": 0.05}  # the step size for batches of 10
PERCEPTRON: dict[str, tuple[str, Values]] = {
    "jax:softmax": ("jax:mlp", {"hidden": []})
}  # without a hidden layer: softmax regression in batches
CLIPS, SIZE = (0.001, 0.003, 0.01, 0.1), 100
SCALES = {"centre": 0.1307, "spread": 0.3081, "batch": 10}


def run_file(case: Values) -> Values:
    schedule = {
        "gradients_per_client": case["gradients"],
        "sizes": {"kind": "constant", "size": CLIENTS * case["size"]},
        "steps": {"kind": "constant", "eta": NETS[case["net"]]},
    }
    privacy = {"clip": case["clip"], "epsilon": case["epsilon"]}
    return {**private_run("batch-clip", schedule, "staggered", privacy), "run": {"seed": case["seed"]}}


def measured(results: StoredResults, case: Values, data: Dataset) -> Values:
    kind, more = PERCEPTRON.get(case["net"], (case["net"], {}))
    found = results.measured(case, partial(run, run_file(case), net(kind, {**SCALES, **more}, data), data, tenth))
    print(found["accuracy"], found["sigma"], case, flush=True)
    return found


def search(results: StoredResults, data: Dataset) -> None:
    for kind in NETS:
        for clip in CLIPS:
            case = {"net": kind, "epsilon": 8.0, "gradients": 20_000, "size": SIZE, "clip": clip, "seed": 0}
            measured(results, case, data)


def final(searched: StoredResults, results: StoredResults, data: Dataset) -> None:
    for kind in NETS:
        tried = [(found["accuracy"] or 0.0, case) for case, found in searched if case["net"] == kind]
        if not tried:
            raise SystemExit(f"no setting for {kind} was tried; search first")
        best = max(tried, key=lambda one: one[0])[1]
        for epsilon in (8.0, 2.0):
            for seed in range(SEEDS):
                case = {**best, "epsilon": epsilon, "seed": seed}
                measured(results, {"mechanism": "batch-clip", **case}, data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["search", "final", "tables"])
    said = parser.parse_args()
    searched, results = StoredResults(SEARCHED), StoredResults(RESULTS)
    if said.what != "tables":
        try:
            data = load("mnist")
        except DataError as error:
            raise SystemExit(f"{error}") from None
        if said.what == "search":
            search(searched, parts(data, tested=False))
        else:
            final(searched, results, parts(data, tested=True))
    write_tables(PAGE, tables(results))


if __name__ == "__main__":
    main()
