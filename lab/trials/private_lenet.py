"""Private LeNet-5 on MNIST: four clients of 10,000 records, at (8, 1e-5) and (2, 1e-5), up to 200,000 gradients a client.

    python -m lab.trials.private_lenet search [--seconds 900]       settings, by accuracy on records of the training files
    python -m lab.trials.private_lenet final [--only WORD]          the settings found, on the test files, with 3 seeds
    python -m lab.trials.private_lenet tables

The clients have 40,000 of the 60,000 training records. The search scores on 10,000 of the others; only the final runs read the
test files. The search looks at the clients' records too, and its epsilon is not counted: in a real federation one searches on
public or made-up records, or pays for the search.

The search computes an eighth of each round's records with an eighth of the noise and eight times the step. This changes little,
because the noise is far larger than the variation from the draw of records. Search runs promise no epsilon; the final runs are
whole.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from crescendo.data import Dataset, load
from crescendo.errors import DataError
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import PoissonGaussian
from crescendo_dp.planning.calibration import least_sigma
from lab.trials.mnist_runs import net, run
from lab.trials.page_tables import write_tables
from lab.trials.stored_results import FOLDER, StoredResults

Values = dict[str, Any]
SEARCHED, RESULTS, PAGE = FOLDER / "private_lenet_search.jsonl", FOLDER / "private_lenet.jsonl", "neural.md"
CLIENTS, RECORDS, DELTA, PART, LEVELS, SEEDS = 4, 10_000, 1e-5, 8, 8, 3
FINAL = 100_000  # gradients a client in the final runs: half of those allowed, to save time
_STANDARD = {"centre": 0.1307, "spread": 0.3081}
_TANH = {"activation": "tanh", **_STANDARD}
NETS: dict[str, Values] = {
    "relu, max": {},
    "relu, max, standardised": dict(_STANDARD),
    "relu, max, standardised, gain 1.7": {**_STANDARD, "gain": 1.7},  # only with a reach of 16
    "tanh, mean, standardised": {**_TANH, "pool": "mean"},
    "tanh, mean, standardised, gain 1.7": {**_TANH, "pool": "mean", "gain": 1.7},
    "tanh, max, standardised, gain 1.7": {**_TANH, "gain": 1.7},
}
AXES: dict[str, tuple[Any, ...]] = {
    "reach": (0.25, 0.5, 1.0, 2.0, 4.0),
    "net": tuple(name for name in NETS if name != "relu, max, standardised, gain 1.7"),
    "clip": (0.05, 0.2, 1.0, 4.0),
    "size": (500, 1000, 2000, 4000),
    "fall": (1.0, 0.3, 0.1),
    "gradients": (50_000, 100_000, 200_000),
}
STEPS: dict[str, Values] = {
    "FedAvg": {"growth": 1, "wait": 0, "timing": "lock-step"},  # synchronous, in equal rounds
    "growing": {"growth": 4, "wait": 1, "timing": "staggered"},  # one round ahead, of clients that never begin together
}


@dataclass(frozen=True)
class Setting:
    """A run of `minibatch`. ``size`` is the mean of a client's rounds, which grow in a few levels if ``steps`` asks for it.

    ``reach`` is eta times clip times size: the largest move of the model in a mean round. ``fall``: the last step over the first.
    """

    epsilon: float
    steps: str = "FedAvg"
    net: str = "tanh, mean, standardised, gain 1.7"
    gradients: int = 100_000
    size: int = 1000
    clip: float = 0.2
    reach: float = 1.0
    fall: float = 0.3

    def sizes(self, part: int = 1) -> list[tuple[int, int]]:
        """Return each client's sizes with their numbers of rounds."""
        rounds, growth = round(self.gradients / self.size), STEPS[self.steps]["growth"]
        levels = min(LEVELS, rounds) if growth > 1 else 1
        many = np.diff(np.round(np.linspace(0, rounds, levels + 1))).astype(int)
        shape = np.linspace(1, growth, levels)
        each = self.gradients / float(shape @ many) * shape / part
        return [(int(size), int(count)) for size, count in zip(each, many, strict=True)]

    def run_file(self, privacy: Values, part: int = 1) -> Values:
        """Return a run file with 1/``part`` of the gradients and ``part`` times the step."""
        how, sizes = STEPS[self.steps], self.sizes(part)
        total = sum(size * rounds for size, rounds in sizes)
        steps = {
            "kind": "diminishing",
            "eta0": part * self.reach / (self.size * self.clip),
            "beta": (1 / self.fall - 1) / (CLIENTS * total),
        }
        schedule = {
            "gradients_per_client": total,
            "sizes": {"kind": "list", "values": [list(pair) for pair in sizes], "per_client": True},
            "steps": steps,
            "wait": {"rounds": how["wait"]},
        }
        return private_run("minibatch", schedule, how["timing"], {"clip": self.clip, **privacy})


def private_run(mechanism: str, schedule: Values, timing: str, privacy: Values) -> Values:
    return {
        "clients": {"count": CLIENTS, "combine": "mean", "split": "iid", "weights": "uniform"},
        "schedule": schedule,
        "timing": {"preset": timing},
        "privacy": {"mechanism": mechanism, "delta": DELTA, "records": [RECORDS] * CLIENTS, **privacy},
    }


@cache
def sigma_of(setting: Setting) -> float:
    """Return the least noise that the tight accountant allows."""

    def epsilon(sigma: float, quick: bool = False) -> float:
        events = [(PoissonGaussian(size / RECORDS, sigma), rounds) for size, rounds in setting.sizes()]
        return account(events, DELTA, quick=quick, state_error=False).epsilon

    near = least_sigma(lambda sigma: epsilon(sigma, quick=True), setting.epsilon, start=1.0)
    return least_sigma(epsilon, setting.epsilon, start=near)


def parts(data: Dataset, tested: bool) -> Dataset:
    """Return the clients' 40,000 records with the test part, or with 10,000 other records of the training files in its place."""
    rows = np.random.default_rng(0).permutation(len(data.train))
    test = data.test if tested else data.train.take(rows[CLIENTS * RECORDS :][:RECORDS])
    return dataclasses.replace(data, train=data.train.take(rows[: CLIENTS * RECORDS]), test=test)


# -- the search -----------------------------------------------------------------------------------------------------------


def tried(setting: Setting, data: Dataset, seed: int) -> Values:
    """Return the score of a quick run, on records outside its training data."""
    sigma = sigma_of(setting)
    asked = setting.run_file({"sigma": sigma / PART}, PART)
    goal = net("jax:lenet", NETS[setting.net], data)
    found = run({**asked, "run": {"seed": seed}}, goal, data, lambda k, rounds: False)
    return {"accuracy": found["accuracy"] or 0.0, "sigma": sigma, "rounds": found["rounds"]}


STAGES: tuple[tuple[float, str, tuple[str, ...]], ...] = (
    (8.0, "FedAvg", (*AXES, *AXES)),
    (2.0, "FedAvg", ("reach", "size", "fall", "gradients", "clip")),
)
FOUND: Values = {"net": "tanh, max, standardised, gain 1.7", "size": 500, "clip": 0.2, "fall": 1.0}  # by these stages


def search(results: StoredResults, data: Dataset, seconds: float) -> None:
    """Search one axis after the other by one seed; each stage begins at the best setting so far.

    Growing rounds have no search of their own: they run with the settings found, at the final number of gradients.
    """
    ends, best = time.monotonic() + seconds, dict[float, Setting]()
    for epsilon, steps, axes in STAGES:
        before = best.get(epsilon, best.get(8.0, Setting(8.0)))
        one = dataclasses.replace(before, epsilon=epsilon, steps=steps)
        for axis in axes:
            some = [dataclasses.replace(one, **{axis: value}) for value in AXES[axis]]
            scores = {other: _score(results, other, data, 0, ends) for other in some}
            one = max(some, key=lambda other: scores[other])
        best[epsilon] = one
    for epsilon, steps, reach in itertools.product((8.0, 2.0), STEPS, (2.0, 4.0, 8.0)):
        _score(results, Setting(epsilon, steps, gradients=FINAL, reach=reach, **FOUND), data, 0, math.inf)


def _score(results: StoredResults, setting: Setting, data: Dataset, seed: int, ends: float) -> float:
    if time.monotonic() > ends and {**asdict(setting), "seed": seed} not in [one for one, _ in results]:
        return 0.0
    found = results.measured({**asdict(setting), "seed": seed}, partial(tried, setting, data, seed))
    print(f"{found['accuracy']:.4f}", setting, f"sigma {found['sigma']:.3f} seed {seed}", flush=True)
    return float(found["accuracy"])


def chosen(results: StoredResults, epsilon: float, steps: str) -> Setting:
    """Return the best setting by the first seed, of those with the final number of gradients."""
    scores = {}
    for stored, measured in results:
        one = Setting(**{key: value for key, value in stored.items() if key != "seed"})
        if (one.epsilon, one.steps, one.gradients, stored["seed"]) == (epsilon, steps, FINAL, 0):
            scores[one] = float(measured["accuracy"])
    if not scores:
        raise SystemExit(f"no setting for {steps} at epsilon {epsilon:g} was tried; search first")
    return max(scores, key=lambda one: scores[one])


# -- the final runs --------------------------------------------------------------------------------------------------------


def final_cases(results: StoredResults) -> Iterator[tuple[Setting, Values]]:
    """Yield the chosen settings, each with its run file without data."""
    for epsilon in (8.0, 2.0):
        for steps in STEPS:
            setting = chosen(results, epsilon, steps)
            yield setting, setting.run_file({"epsilon": epsilon})


def final(searched: StoredResults, results: StoredResults, data: Dataset, only: str) -> None:
    for seed in range(SEEDS):
        for setting, run_file in final_cases(searched):
            case = {"mechanism": "minibatch", **asdict(setting), "seed": seed}
            if only not in " ".join(str(value) for value in case.values()):
                continue
            asked, goal = {**run_file, "run": {"seed": seed}}, net("jax:lenet", NETS[setting.net], data)
            found = results.measured(case, partial(run, asked, goal, data, lambda k, rounds: False))
            print(found["accuracy"], found["epsilon"], found["sigma"], case, flush=True)


def tenth(k: int, rounds: int) -> bool:
    """Return whether model ``k`` is one of about ten of a run to score."""
    return k % max(1, rounds // 10) == 0


def tables(results: StoredResults) -> dict[str, list[str]]:
    """Return a row for each case, with the accuracy of each seed."""
    found: dict[str, list[tuple[Values, Values]]] = {}
    for case, measured in results:
        found.setdefault(str({**case, "seed": 0}), []).append((case, measured))
    titles = (
        "mechanism",
        "model",
        "steps",
        "epsilon",
        "sigma",
        "rounds",
        "gradients a client",
        "accuracy, seeds 0 to 2",
    )
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for runs in sorted(found.values(), key=_row):
        case, first = runs[0]
        scores = " ".join(f"{one['accuracy']:.4f}" for _, one in sorted(runs, key=lambda one: one[0]["seed"]))
        model = "softmax regression" if case["net"] == "jax:softmax" else "LeNet-5"
        steps = case.get("steps", "equal rounds, 1 ahead")
        cells = case["mechanism"], model, steps, f"{first['epsilon']:.3f}", f"{first['sigma']:.3f}", first["rounds"]
        lines.append(f"| {' | '.join(str(one) for one in cells)} | {case['gradients']:,} | {scores} |")
    return {"private LeNet-5": lines}


def _row(runs: list[tuple[Values, Values]]) -> tuple[Any, ...]:
    case = runs[0][0]
    return case["mechanism"] != "minibatch", case["net"] == "jax:softmax", -case["epsilon"], case.get("steps", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["search", "final", "tables"])
    parser.add_argument("--seconds", type=float, default=3600.0, help="after which the search begins no new run")
    parser.add_argument("--only", default="", help="final runs that have this word")
    said = parser.parse_args()
    searched, results = StoredResults(SEARCHED), StoredResults(RESULTS)
    if said.what != "tables":
        try:
            data = load("mnist")
        except DataError as error:
            raise SystemExit(f"{error}") from None
        if said.what == "search":
            search(searched, parts(data, tested=False), said.seconds)
        else:
            final(searched, results, parts(data, tested=True), said.only)
    write_tables(PAGE, tables(results))


if __name__ == "__main__":
    main()
