"""How often the black-box audit fails sound mechanisms, and which broken ones it catches.

A sound mechanism claims exactly its true epsilon, so that a bound that is slightly too high would show; the last sound one is
the worst that (epsilon, delta) allows. A sound mechanism may fail with probability 0.1%. A broken mechanism claims the epsilon
that it would have without its bug.

    python -m lab.trials.black_box --seeds 300 --runs 30000
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo_dp.accounting.epsilon import account
from crescendo_dp.black_box.attack import BlackBoxReport, Claim, attack
from crescendo_dp.black_box.callable_mechanism import CallableMechanism
from crescendo_dp.black_box.neighbours import Neighbours, pairs
from crescendo_dp.events import PoissonGaussian

Array = npt.NDArray[Any]
Many = Callable[[Array, np.random.Generator, int], Array]
RECORDS = np.random.Generator(np.random.Philox(7)).normal(0.5, 1.0, (20, 3))
BITS = np.array([[0], [1], [1], [0], [1]])
DELTA = 1e-5


@dataclass(frozen=True, eq=False)
class Case:
    """A mechanism that draws many releases at a time, and its claim."""

    name: str
    many: Many
    epsilon: float
    delta: float = DELTA
    neighbours: Neighbours = "add"
    records: Array = field(default_factory=lambda: RECORDS)
    canaries: Array | None = None

    def attacked(self, runs: int, seed: int, **options: Any) -> BlackBoxReport:
        claim = Claim(self.epsilon, self.delta, neighbours=self.neighbours, **options)
        chosen = pairs(self.records, self.neighbours, None if self.canaries is None else list(self.canaries))
        mechanism = CallableMechanism(self.name, lambda records, rng: self.many(records, rng, 1)[0], self.many)
        return attack(self.name, mechanism.run, chosen, claim, runs=runs, seed=seed)


def clipped(records: Array) -> Array:
    return np.asarray(records / np.maximum(np.linalg.norm(records, axis=1, keepdims=True), 1.0))


def gaussian(sigma: float, of: Callable[[Array], Array] = clipped) -> Many:
    return lambda records, rng, runs: of(records).sum(axis=0) + sigma * rng.standard_normal((runs, records.shape[1]))


def drawn(rate: float, sigma: float) -> Many:
    def many(records: Array, rng: np.random.Generator, runs: int) -> Array:
        coins = rng.random((runs, len(records))) < rate
        return np.asarray(coins @ clipped(records) + sigma * rng.standard_normal((runs, records.shape[1])))

    return many


def laplace(scale: float) -> Many:
    return lambda records, rng, runs: np.clip(records[:, :1], -1, 1).sum() + rng.laplace(0.0, scale, (runs, 1))


def geometric(epsilon: float) -> Many:
    """Return a mechanism that counts the records above 0, with two-sided geometric noise."""

    def many(records: Array, rng: np.random.Generator, runs: int) -> Array:
        up, down = rng.geometric(-math.expm1(-epsilon), (2, runs, 1))
        return np.asarray((records[:, 0] > 0).sum() + up - down)

    return many


def responses(epsilon: float, delta: float = 0.0) -> Many:
    """Return randomised response; with probability delta it reveals everything, and marks it as revealed."""

    def many(records: Array, rng: np.random.Generator, runs: int) -> Array:
        truth = np.broadcast_to(records[:, 0], (runs, len(records)))
        said = np.where(rng.random(truth.shape) < 1 / (1 + math.exp(epsilon)), 1 - truth, truth)
        told = rng.random((runs, 1)) < delta
        return np.asarray(np.where(told, truth + 2, said))

    return many


def _cost(rate: float, sigma: float) -> float:
    return account([PoissonGaussian(rate, sigma)], DELTA).epsilon


def sound() -> list[Case]:
    bits: dict[str, Any] = {"neighbours": "replace", "records": BITS, "canaries": np.array([[0], [1]])}
    return [
        Case("Gaussian", gaussian(2.0), _cost(1.0, 2.0)),
        Case("Poisson-sampled Gaussian", drawn(0.25, 1.0), _cost(0.25, 1.0)),
        Case("Laplace", laplace(1.0), 1.0, 0.0),
        Case("geometric", geometric(0.5), 0.5, 0.0),
        Case("randomised response", responses(1.0), 1.0, 0.0, **bits),
        Case("the worst of (1, 0.01)", responses(1.0, 0.01), 1.0, 0.01, **{**bits, "records": BITS[:1]}),
    ]


# -- broken ones ------------------------------------------------------------------------------------------------------


def _turned(sigma: float) -> Many:
    """Clip the sum, so that one record can reverse it: twice the sensitivity."""
    return gaussian(sigma, lambda records: clipped(records.sum(axis=0, keepdims=True)))


def _bare(records: Array, rng: np.random.Generator, runs: int) -> Array:
    noise = 2.0 * rng.standard_normal((runs, records.shape[1]))
    noise[:, 1] = 0.0
    return np.asarray(clipped(records).sum(axis=0) + noise)


def _scaled(records: Array, rng: np.random.Generator, runs: int) -> Array:
    """Scale the noise by the records: wider where they are."""
    wide = 2.0 * max(1.0, float(np.abs(records).max()))
    return np.asarray(wide * rng.standard_normal((runs, records.shape[1])))


def _shared(records: Array, rng: np.random.Generator, runs: int) -> Array:
    """Add one noise number to all coordinates."""
    return np.asarray(clipped(records).sum(axis=0) + 2.0 * rng.standard_normal((runs, 1)))


def _truncated(records: Array, rng: np.random.Generator, runs: int) -> Array:
    noise = np.clip(rng.standard_normal((runs, records.shape[1])), -2.5, 2.5)
    return np.asarray(clipped(records).sum(axis=0) + 2.0 * noise)


def _rarely_told(records: Array, rng: np.random.Generator, runs: int) -> Array:
    noise = 2.0 * rng.standard_normal((runs, records.shape[1]))
    return np.asarray(clipped(records).sum(axis=0) + np.where(rng.random((runs, 1)) < 0.01, 0.0, noise))


def _unrounded(records: Array, rng: np.random.Generator, runs: int) -> Array:
    """Add integer noise to a sum that is no integer."""
    up, down = rng.geometric(-math.expm1(-0.5), (2, runs, 1))
    return np.asarray(np.clip(records[:, :1], -1, 1).sum() + up - down)


def _own_seed(records: Array, rng: np.random.Generator, runs: int) -> Array:
    """Take the seed of the noise from the records."""
    own = np.random.Generator(np.random.PCG64(abs(hash(records.tobytes()))))
    return np.tile(clipped(records).sum(axis=0) + 2.0 * own.standard_normal(records.shape[1]), (runs, 1))


def _always_there(records: Array, rng: np.random.Generator, runs: int) -> Array:
    """Put the last record into every draw."""
    coins = rng.random((runs, len(records))) < 0.25
    coins[:, -1] = True
    return np.asarray(coins @ clipped(records) + rng.standard_normal((runs, records.shape[1])))


def broken() -> list[Case]:
    return [
        Case("no noise", gaussian(0.0), _cost(1.0, 2.0)),
        Case("noise that the records seed", _own_seed, _cost(1.0, 2.0)),
        Case("half of the noise", gaussian(1.0), _cost(1.0, 2.0)),
        Case("no clip", gaussian(2.0, lambda records: records), _cost(1.0, 2.0)),
        Case("twice the sensitivity", _turned(2.0), _cost(1.0, 2.0)),
        Case("a coordinate without noise", _bare, _cost(1.0, 2.0)),
        Case("noise as wide as the records", _scaled, _cost(1.0, 2.0)),
        Case("one noise for all coordinates", _shared, _cost(1.0, 2.0)),
        Case("noise cut at 2.5 deviations", _truncated, _cost(1.0, 2.0)),
        Case("no noise once in a hundred times", _rarely_told, _cost(1.0, 2.0)),
        Case("whole noise on a sum that is not whole", _unrounded, 0.5, 0.0),
        Case("a record that is always drawn", _always_there, _cost(0.25, 1.0)),
        Case("Laplace noise of half the scale", laplace(0.5), 1.0, 0.0),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--runs", type=int, default=30_000)
    parser.add_argument("--broken-runs", type=int, default=1_000_000)
    asked = parser.parse_args()
    for case in sound():
        found = [case.attacked(asked.runs, seed) for seed in range(asked.seeds)]
        failed, most = sum(not one.passed for one in found), max(one.lower for one in found)
        print(
            f"{case.name}: {failed} of {asked.seeds} fail; claimed {case.epsilon:.3f}, highest bound {most:.3f}",
            flush=True,
        )
    for case in broken():
        one = case.attacked(asked.broken_runs, 0)
        verdict, how = "missed" if one.passed else "caught", f"by {one.statistic} in {one.runs:,} runs"
        print(f"{case.name}: {verdict}; claimed {case.epsilon:.3f}, bound {one.lower:.3f} {how}", flush=True)


if __name__ == "__main__":
    main()
