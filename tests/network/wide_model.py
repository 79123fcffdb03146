"""A model of as many numbers as a test wants, which cost next to nothing to train: what takes time is to send it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conformance.cases import case

KIND = f"{Path(__file__).resolve()}:Wide"


class Wide:
    """A parabola around the mean of the records' first feature, in each coordinate."""

    def __init__(self, features: int, classes: int, numbers: int) -> None:
        self.numbers = numbers

    def initial(self, rng: Any) -> Any:
        return rng.standard_normal(self.numbers)

    def gradient(self, w: Any, data: Any, rows: Any) -> Any:
        return len(rows) * w - data.x[rows, 0].sum()

    def evaluate(self, w: Any, data: Any) -> dict[str, float]:
        return {"loss": float(((w - data.x[:, 0].mean()) ** 2).mean())}


def wide(numbers: int, rounds: int, clients: int = 2) -> dict[str, Any]:
    """A run file of such a model: each number is 4 bytes on the wire."""
    raw = case(
        run={"wire": "float32"},
        clients={"count": clients},
        schedule={"rounds": rounds, "sizes": {"kind": "constant", "size": 2 * clients}, "wait": {"rounds": 0}},
        data={"classes": [-1, 1]},
        serve={"federation": "wide", "absent_after": 60.0},
    )
    return {**raw, "objective": {"kind": KIND, "options": {"classes": 2, "numbers": numbers}}}
