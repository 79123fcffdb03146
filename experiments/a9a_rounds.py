"""a9a, 20,000 gradients, 5 clients: 40 constant rounds against 9 that grow, under every timing.

The paper's table of constant sample sizes has .8443 for a9a, strongly convex, at 100 samples per client and round; its figures
have 9 rounds for linearly growing sizes. Timing decides results, so all three timings are shown, each over several seeds.

    python -m experiments.a9a_rounds --folder DATA [--seeds 5] [--gradients 20000]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from crescendo import simulate
from crescendo.data import Dataset, load

SCHEDULES: dict[str, dict[str, Any]] = {
    "constant 100, eta .0025": {
        "sizes": {"kind": "constant", "size": 100, "per_client": True},
        "steps": {"kind": "constant", "eta": 0.0025},
    },
    "linear 100 i, diminishing_2, eta0 .1": {
        "sizes": {"kind": "power", "scale": 100.0, "per_client": True},
        "steps": {"kind": "diminishing", "eta0": 0.1, "beta": 0.001},
    },
}
TIMINGS = ("lock-step", "staggered", "heterogeneous")


def accuracies(
    data: Dataset, schedule: dict[str, Any], timing: str, gradients: int, seeds: int
) -> tuple[int, list[float]]:
    """Rounds, and the test accuracy of each seed."""
    found = []
    for seed in range(seeds):
        result = simulate(
            {
                "run": {"seed": seed},
                "clients": {"count": 5},
                "objective": {"l2": "1/N"},
                "schedule": {"gradients": gradients, "wait": {"rounds": 1}, **schedule},
                "timing": {"preset": timing},
                "evaluate": {"every": 1000},
            },
            data=data,
        )
        assert result.accuracy is not None
        found.append(result.accuracy)
    return result.rounds, found


def table(data: Dataset, gradients: int, seeds: int) -> str:
    lines = ["| schedule | timing | rounds | accuracy, mean | least | most |", "|---|---|---|---|---|---|"]
    for name, schedule in SCHEDULES.items():
        for timing in TIMINGS:
            rounds, found = accuracies(data, schedule, timing, gradients, seeds)
            lines.append(
                f"| {name} | {timing} | {rounds} | {np.mean(found):.4f} | {min(found):.4f} | {max(found):.4f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--gradients", type=int, default=20_000)
    asked = parser.parse_args()
    print(table(load("a9a", folder=asked.folder), asked.gradients, asked.seeds))


if __name__ == "__main__":
    main()
