"""w8a under (1, 5.5e-8): growing sizes against constant size 16, `local` and `minibatch` against no privacy.

The request is Example 3 of the paper: 5 clients with 10,000 records each, 25,000 gradients per client, first size 16, C = 0.1.
Noise is the least that the tight accountant allows for each schedule. Every run is refused if it would spend more than it states.

    python -m experiments.w8a_privacy --folder DATA [--seeds 5] [--gradients 25000]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from crescendo import simulate
from crescendo.data import Dataset, load
from crescendo.errors import Refused
from crescendo.privacy.planning.planner import plan
from crescendo.privacy.planning.plans import Plan

EPSILON, DELTA, RECORDS, FIRST, CLIP, NORM_BOUND = 1.0, 5.5e-8, 10_000, 16, 0.1, 8.0
DIMINISHING = {"kind": "diminishing", "eta0": 0.15, "beta": 0.001}
STEPS: dict[str, dict[str, Any]] = {
    "eta0 .15, beta .001": DIMINISHING,  # the paper's
    "eta0 .5, beta 1e-5": {
        "kind": "diminishing",
        "eta0": 0.5,
        "beta": 1e-5,
    },  # larger, since clipping makes gradients short
    "eta .01": {"kind": "constant", "eta": 0.01},
    "eta .001": {"kind": "constant", "eta": 0.001},
}


def plans(gradients: int) -> dict[str, Plan]:
    """Linear growth from 16 in as many rounds as Example 3 truly has, and constant size 16."""
    growing = plan(
        EPSILON,
        DELTA,
        RECORDS,
        gradients,
        FIRST,
        power=1.0,
        rounds=max(1, round(183 * gradients / 25_000)),
        compare=False,
    )
    constant = plan(EPSILON, DELTA, RECORDS, gradients, FIRST, power=0.0, compare=False)
    return {f"16 to {growing.sizes.last}": growing, "constant 16": constant}


def run_file(found: Plan, mechanism: str, steps: dict[str, Any], seed: int) -> dict[str, Any]:
    privacy: dict[str, Any] = {"mechanism": "none"}
    if mechanism != "none":
        privacy = {
            "mechanism": mechanism,
            "epsilon": EPSILON,
            "delta": DELTA,
            "sigma": found.sigma.to_json(),
            "clip": CLIP,
            "norm_bound": NORM_BOUND,
            "records": RECORDS,
        }
    sizes = {"kind": "list", "values": [list(step) for step in found.staircase], "per_client": True}
    return {
        "run": {"seed": seed},
        "clients": {"count": 5, "weights": "uniform"},
        "objective": {"l2": 1 / (5 * RECORDS)},
        "schedule": {"gradients_per_client": found.gradients, "sizes": sizes, "steps": steps, "wait": {"rounds": 1}},
        "privacy": privacy,
        "evaluate": {"every": 10_000, "auc": True},
    }


def row(data: Dataset, name: str, found: Plan, mechanism: str, steps: str, seeds: int) -> str:
    scores = []
    for seed in range(seeds):
        try:
            result = simulate(run_file(found, mechanism, STEPS[steps], seed), data=data)
        except Refused as error:
            return f"| {mechanism} | {name} | {steps} | | | | refused: {error} | |"
        scores.append((result.accuracy, result.metrics[-1]["auc"]))
    accuracy, auc = np.array(scores, dtype=np.float64).T
    noise = "" if mechanism == "none" else f"{found.sigma:.3f} | {found.aggregated_noise:.2f}"
    return (
        f"| {mechanism} | {name} | {steps} | {found.rounds} | {noise or ' | '} | {accuracy.mean():.4f} ± {accuracy.std():.4f} "
        f"| {auc.mean():.4f} ± {auc.std():.4f} |"
    )


def table(data: Dataset, gradients: int, seeds: int) -> str:
    lines = [
        "| mechanism | sizes per client | steps | rounds | sigma | noise over all rounds | accuracy | AUC |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, found in plans(gradients).items():
        for mechanism in ("local", "minibatch", "none"):
            for steps in STEPS if name == "constant 16" else list(STEPS)[:2]:
                lines.append(row(data, name, found, mechanism, steps, seeds))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--gradients", type=int, default=25_000)
    asked = parser.parse_args()
    print(table(load("w8a", folder=asked.folder), asked.gradients, asked.seeds))


if __name__ == "__main__":
    main()
