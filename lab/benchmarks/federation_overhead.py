"""The overhead of a simulated federation over its clients' steps, and its gain when two clients compute at a time.

The same rounds run in three ways, in turns: in a bare loop over the clients' steppers, without clock, server or messages;
simulated with one client computing at a time; and simulated with two. All must end with the same model. Each way measures the
first and the last model; the cost of measuring is printed at the end. The overhead is in processor time, which other programs on
the machine do not affect. The gain is in elapsed time and needs idle cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import crescendo
from crescendo.config.loading import read
from crescendo.core.arrays import Floats
from crescendo.data.records import Dataset
from crescendo.privacy.mechanisms.mechanism import Plain
from crescendo.runs.prepare import Prepared, prepare
from crescendo.runs.simulate import run_prepared

CLIENTS, TURNS = 4, 4


def images() -> Dataset:
    rng = np.random.default_rng(0)
    return crescendo.dataset(rng.random((80, 1, 28, 28), dtype=np.float32), np.arange(80) % 10)


def numbers() -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 123))
    return crescendo.dataset(x, (x @ rng.normal(size=123) > 0).astype(int))


def job(kind: str, data: Dataset, slots: int, rounds: int) -> Prepared:
    """Return rounds of ``slots`` slots a client, in lock-step, so that the bare loop can do the same."""
    asked: dict[str, Any] = {
        "run": {"wire": "float64"},
        "data": {"source": data.name},
        "clients": {"count": CLIENTS, "combine": "mean"},
        "objective": {"kind": kind},
        "schedule": {
            "rounds": rounds,
            "sizes": {"kind": "constant", "size": slots, "per_client": True},
            "steps": {"kind": "constant", "eta": 0.001},
            "wait": {"rounds": 0},
        },
        "evaluate": {"every": rounds},
    }
    return prepare(read(asked), data=data)


def bare_loop(prepared: Prepared) -> Callable[[], Floats]:
    """Do only the clients' steps, and score the first and the last model."""
    terms, goal, train = prepared.terms, prepared.objective, prepared.dataset.train
    draws = [Plain(terms, c, rows, prepared.agreement.seed) for c, rows in enumerate(prepared.parts)]
    steppers = [goal.stepper(train) for _ in draws]

    def run() -> Floats:
        model = np.asarray(prepared.agreement.initial())
        score(model)
        for i in range(terms.rounds):
            moved = np.zeros_like(model)
            for plain, stepper in zip(draws, steppers, strict=True):
                slots = plain.draw(i, goal.size)
                stepper.load(model)
                stepper.advance(slots, 0, len(slots))
                moved += model - stepper.read()
            model = model - moved * terms.combined
        score(model)
        return model

    def score(model: Floats) -> None:
        goal.evaluate(model[None, :], train, prepared.row_weights(), metrics=("loss",))
        if prepared.dataset.test is not None:
            goal.evaluate(model[None, :], prepared.dataset.test, metrics=("accuracy",))

    return run


def compare(name: str, prepared: Prepared) -> None:
    ways: dict[str, Callable[[], Floats]] = {
        "steps alone": bare_loop(prepared),
        "one core": lambda: run_prepared(prepared, cores=1).model,
        "two cores": lambda: run_prepared(prepared, cores=2).model,
    }
    found = {way: run() for way, run in ways.items()}  # also compiles
    np.testing.assert_allclose(found["one core"], found["steps alone"], rtol=1e-9, atol=1e-12)
    assert np.array_equal(found["one core"], found["two cores"]), "another model on two cores"
    wall: dict[str, list[float]] = {way: [] for way in ways}
    busy: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(TURNS):
        for way, run in ways.items():
            began, computed = time.perf_counter(), time.process_time()
            run()
            wall[way].append(time.perf_counter() - began)
            busy[way].append(time.process_time() - computed)
    alone, one = np.array(busy["steps alone"]), np.array(busy["one core"])
    gain = np.median(np.array(wall["one core"]) / np.array(wall["two cores"]))
    steps = prepared.terms.before(prepared.terms.rounds) / np.median(alone)
    print(
        f"{name}: {steps:,.0f} steps a second of one core; simulated, {np.median(one / alone):.3f} of the bare loop's time "
        f"(least against least {min(one) / min(alone):.3f}); two clients at a time are {gain:.2f} times as fast as one",
        flush=True,
    )


def measuring(name: str, prepared: Prepared) -> None:
    """Print the cost of scoring one record, in local steps."""
    goal, train = prepared.objective, prepared.dataset.train
    model, run = np.asarray(prepared.agreement.initial()), bare_loop(prepared)
    goal.evaluate(model, train)
    ratios = []
    for _ in range(TURNS):
        times = [time.process_time()]
        goal.evaluate(model, train)
        times.append(time.process_time())
        run()
        times.append(time.process_time())
        score, steps = np.diff(times)
        ratios.append((steps / prepared.terms.before(prepared.terms.rounds)) / (score / len(train)))
    print(f"{name}: a local step takes the time of scoring {np.median(ratios):.1f} records", flush=True)


def main() -> None:
    jobs = {f"LeNet-5, {library}": (f"{library}:lenet", images(), 100, 4) for library in ("torch", "jax")}
    jobs["LeNet-5, jax, long rounds"] = ("jax:lenet", images(), 1000, 5)
    jobs["logistic, rounds of 100"] = ("logistic", numbers(), 100, 40)
    jobs["logistic, rounds of 100,000"] = ("logistic", numbers(), 100_000, 2)
    for name, asked in jobs.items():
        compare(name, job(*asked))
    for name, asked in jobs.items():
        if name.startswith("LeNet-5") and "long" not in name:
            measuring(name, job(*asked))


if __name__ == "__main__":
    main()
