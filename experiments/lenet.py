"""LeNet-5 on MNIST, four clients: constant and growing rounds, the sum and the mean, unbiased and biased data.

    python -m experiments.lenet [--seeds 3] [--gradients 20000] [--only WORD]

The paper's settings: K = 20000 gradients over all clients, batches of one record. Constant rounds of 100 a client with
eta = .0025 (the paper: .947); rounds of 100 (i + 1) a client with eta = .1 / (1 + .01 sqrt(t)). Biased: each client has
digits of its own.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from torch import nn

import crescendo
from crescendo.data import load
from crescendo.errors import CrescendoError, DataError

STEPS = {
    "constant": {"kind": "constant", "eta": 0.0025},
    "growing": {"kind": "diminishing", "eta0": 0.1, "beta": 0.01, "root": True},
}
SIZES = {
    "constant": {"kind": "constant", "size": 400},
    "growing": {"kind": "power", "scale": 100, "per_client": True},
}


class LeNet5(nn.Sequential):
    """The LeNet-5 of most papers on federated learning: 61,706 numbers."""

    def __init__(self) -> None:
        super().__init__(
            nn.Unflatten(1, (1, 28, 28)),
            *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
        )


def config(rounds: str, combine: str, split: str, gradients: int, seed: int) -> dict[str, Any]:
    return {
        "data": {"source": "mnist"},
        "clients": {"count": 4, "combine": combine, "split": split, "weights": "uniform"},
        "schedule": {"gradients": gradients, "sizes": SIZES[rounds], "steps": STEPS[rounds], "wait": {"rounds": 1}},
        "evaluate": {"every": 10**6},
        "run": {"seed": seed},
    }


def accuracy(data: Any, asked: dict[str, Any]) -> tuple[float, int]:
    """Of the last model, and the number of rounds. A run that diverged so far that it broke off has none."""
    try:
        found = crescendo.simulate(asked, objective=crescendo.torch.model(LeNet5), data=data)
    except CrescendoError:
        return float("nan"), 0
    return float("nan") if found.accuracy is None else found.accuracy, found.rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--gradients", type=int, default=20_000)
    parser.add_argument("--only", default="")
    said = parser.parse_args()
    try:
        data = load("mnist")
    except DataError as error:
        raise SystemExit(f"{error}") from None
    print("| rounds | combined as | data | seeds: accuracy | rounds run |")
    print("|---|---|---|---|---|", flush=True)
    for rounds in SIZES:
        for combine in ("sum", "mean"):
            for split in ("iid", "label"):
                if said.only not in f"{rounds} {combine} {split}":
                    continue
                runs = [
                    accuracy(data, config(rounds, combine, split, said.gradients, seed)) for seed in range(said.seeds)
                ]
                scores = ", ".join("diverged" if np.isnan(score) else f"{score:.4f}" for score, _ in runs)
                print(f"| {rounds} | {combine} | {split} | {scores} | {runs[0][1]} |", flush=True)


if __name__ == "__main__":
    main()
