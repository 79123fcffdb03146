"""The a9a job of the paper's table (20,000 gradients, 5 clients, 40 rounds), simulated, against a plain NumPy loop.

Both train the same model from the same draws; the answers are compared before any timing.
"""

from __future__ import annotations

import os
import timeit
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.config.loading import read
from crescendo.core.random import Purpose, stream
from crescendo.data import load
from crescendo.runs.prepare import prepare
from crescendo.runs.simulate import run_prepared

ROOT = Path(__file__).resolve().parents[2]
JOB = {
    "run": {"wire": "float64"},
    "data": {"source": "a9a"},
    "clients": {"count": 5, "combine": "sum"},
    "objective": {"kind": "logistic", "l2": "1/N"},
    "schedule": {
        "gradients": 20000,
        "sizes": {"kind": "constant", "size": 100, "per_client": True},
        "steps": {"kind": "constant", "eta": 0.0025},
        "wait": {"rounds": 1},
    },
    "timing": {"preset": "lock-step"},
}


def plain_loop(prepared: Any) -> np.ndarray[Any, Any]:
    """Do the same rounds by hand: in lock-step every client starts a round from the model with all earlier rounds."""
    x, y, l2 = prepared.dataset.train.x, 2 * prepared.dataset.train.y - 1, prepared.objective.l2
    v = np.zeros(x.shape[1] + 1)
    for i in range(prepared.terms.rounds):
        moved = np.zeros_like(v)
        for c, part in enumerate(prepared.parts):
            w, slots = v.copy(), prepared.terms.share(i, c)
            for r in part[stream(0, Purpose.SAMPLE, c, i).integers(0, len(part), slots)]:
                at = slice(x.indptr[r], x.indptr[r + 1])
                j, values = x.indices[at], x.data[at]
                slope = -y[r] / (1.0 + np.exp(y[r] * (w[j] @ values + w[-1])))
                w *= 1.0 - 0.0025 * l2
                w[j] -= 0.0025 * slope * values
                w[-1] -= 0.0025 * slope
            moved += v - w
        v = v - moved
    return v


def main() -> None:
    folder = Path(os.environ.get("CRESCENDO_DATA", ROOT.parent / "shared" / "data"))
    if not any(folder.glob("a9a*")):
        print("skipped: a9a is not in the data folder; set CRESCENDO_DATA to a folder that has it")
        return
    data = load("a9a", folder=folder, test=0.2, seed=0)
    every, last = (prepare(read({**JOB, "evaluate": {"every": n}}), data=data) for n in (1, 40))
    result = run_prepared(every)
    np.testing.assert_allclose(result.model, plain_loop(every), rtol=1e-9, atol=1e-12)
    print(f"same model as the NumPy loop: {result.rounds} rounds, accuracy {result.accuracy:.4f}")
    loop = min(timeit.repeat(lambda: plain_loop(every), number=1, repeat=3))
    for name, prepared in (("at every round", every), ("at the end", last)):
        job = min(timeit.repeat(lambda prepared=prepared: run_prepared(prepared), number=1, repeat=20))  # type: ignore[misc]
        print(
            f"a9a job, evaluated {name}: {1000 * job:.1f} ms; the NumPy loop, never evaluated, takes {loop / job:.0f} times that"
        )


if __name__ == "__main__":
    main()
