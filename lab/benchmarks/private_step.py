"""The computing cost of privacy: a private round against a plain one of the same size, without and with drawing and noise.

Steps are timed in the compiled loops alone, and then as a worker's whole round (draw, steps, noise, release). Last comes the
noise: one exactly rounded normal number a coordinate, against a sum of four float normals. That sum is not private (its floats
form a lattice); releases had it before.
"""

from __future__ import annotations

import functools
import os
import statistics
import timeit
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from crescendo.core.random import Purpose, stream
from crescendo.core.terms import Terms
from crescendo.data import Records, load
from crescendo.objectives.base import Slots
from crescendo.objectives.logistic.objective import Logistic
from crescendo.privacy.mechanisms.gaussian import noised
from crescendo.privacy.mechanisms.mechanism import Plain, Private
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.minibatch import FrozenStepper
from crescendo.privacy.mechanisms.noise import SeededSource, Source, SystemSource
from crescendo.schedules import ConstantSizes, ConstantSteps
from crescendo.worker import Worker

SLOTS, CLIP, TURNS = 1000, 0.5, 40
Floats = npt.NDArray[np.float64]


def fastest(action: Callable[[], object], repeat: int = 40) -> float:
    return min(timeit.repeat(action, number=1, repeat=repeat))


def steps(data: Records, model: Logistic) -> None:
    """Time the loops alone, on the same rows."""
    rows = np.random.default_rng(0).integers(0, len(data), SLOTS)
    etas, ends, start = np.full(SLOTS, 0.01), np.arange(1, SLOTS + 1), np.zeros(model.size)
    plain, private = Slots(rows, etas), Slots(rows, etas, ends=ends, clip=CLIP)
    moving, frozen = model.stepper(data), FrozenStepper(model, data)

    def round_of(stepper: object, slots: Slots) -> Callable[[], None]:
        def run() -> None:
            stepper.load(start)  # type: ignore[attr-defined]
            stepper.advance(slots, 0, SLOTS)  # type: ignore[attr-defined]

        return run

    round_of(frozen, private)()
    expected = start - 0.01 * model.gradient(start, data, rows, CLIP)
    np.testing.assert_allclose(frozen.read(), expected, rtol=1e-12, atol=1e-15)
    base = fastest(round_of(moving, plain))
    for name, stepper in (("local", moving), ("minibatch", frozen)):
        ratio = fastest(round_of(stepper, private)) / base
        print(f"steps, {name}: {ratio:.2f} times a plain step of {1e9 * base / SLOTS:.0f} ns")


def rounds(data: Records, model: Logistic) -> None:
    """Time a worker's whole round. The mechanisms take turns of a few rounds, so that other load affects each equally."""
    rows, start = np.arange(10_000), np.zeros(model.size)
    made = {}
    for name in ("plain", "local", "minibatch"):
        terms = Terms(
            ConstantSizes(SLOTS), ConstantSteps(0.01), (1.0,), 10**6, ahead=10**6, whole_rounds=name != "plain"
        )
        mechanism: Plain | Private = Plain(terms, 0, rows, 0)
        if name != "plain":
            found = certify(name, _short(terms), model, clip=CLIP, sigma=2.0, records=(len(rows),), norm_bound=8.0)
            terms, mechanism = found.terms, Private(found, 0, rows, SeededSource(0, 0))
        made[name] = terms, mechanism

    def whole(worker: Worker) -> None:
        worker.run(SLOTS)
        worker.finish()

    taken: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(TURNS):
        for name, (terms, mechanism) in made.items():
            worker = Worker(
                terms, 0, start, model, data, rows, 0, mechanism=mechanism
            )  # a new worker, since rounds in flight accumulate
            taken[name].append(fastest(functools.partial(whole, worker), 8))
    for name in ("local", "minibatch"):
        each = [private / plain for private, plain in zip(taken[name], taken["plain"], strict=True)]
        print(
            f"whole round of {SLOTS} slots, {name}: {statistics.median(each):.2f} times a plain one "
            f"of {1e6 * statistics.median(taken['plain']):.0f} us"
        )


def noise() -> None:
    """Time the exact release against four float normals, from a seed and from the operating system."""
    from scipy.special import ndtri

    def four_seeded(x: Floats, i: int) -> Floats:
        return np.asarray(x + stream(0, Purpose.NOISE, 0, i).standard_normal((4, len(x))).sum(axis=0) * 0.5)

    def four_of_the_system(x: Floats, i: int) -> Floats:
        words = np.frombuffer(os.urandom(32 * len(x)), dtype=np.uint64)
        lower = ndtri(((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-54)
        signed = np.where(words & np.uint64(1), 1.0, -1.0) * lower
        return np.asarray(x + signed.reshape(4, len(x)).sum(axis=0) * 0.5)

    def exact(source: Source) -> Callable[[Floats, int], Floats]:
        return lambda x, i: noised(x, 1.0, source.words(i, len(x)), lambda number: source.more(i, number))

    pairs = {"seeded": (four_seeded, exact(SeededSource(0, 0))), "system": (four_of_the_system, exact(SystemSource()))}
    for size in (166, 61_706, 1_000_000):
        x = np.linspace(-1, 1, size)
        for name, (before, after) in pairs.items():
            for way in (before, after):
                assert abs(float(np.mean([np.var(way(x, i) - x) for i in range(-(-100_000 // size))])) - 1) < 0.03
            old, new = (fastest(functools.partial(way, x, 0), 15) for way in (before, after))
            print(f"noise on {size:,} numbers, {name}: {new / old:.2f} times four float normals ({1e6 * old:.0f} us)")


def _short(terms: Terms) -> Terms:
    return Terms(terms.sizes, terms.steps, terms.weights, 100, ahead=100, whole_rounds=True)


def main() -> None:
    data = load("synthetic:rows=20000,features=100").train
    model = Logistic(data.features, l2=1e-4)
    steps(data, model)
    rounds(data, model)
    noise()


if __name__ == "__main__":
    main()
