"""Private LeNet-5 on MNIST: four clients of 10,000 records, at (8, 1e-5) and (2, 1e-5), up to 200,000 gradients a client.

    python -m experiments.private_lenet search [--seconds 900]       settings, by accuracy on records of the training files
    python -m experiments.private_lenet final [--only WORD]          the settings found, on the test files, with 3 seeds
    python -m experiments.private_lenet tables

The clients have 40,000 of the 60,000 training records. The search scores on 10,000 of the others; the test files are read for the
final runs alone. Searching looks at the clients' records too, and its epsilon is not counted: in a real federation settings are
found on public or made-up records, or are paid for.

The search computes an eighth of each round's records and gives the noise an eighth of its scale: the noise is so much longer than
what the draw of records adds that this changes little. The final runs are the product's own, draws, noise and all.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.data import Dataset, load
from crescendo.errors import DataError
from crescendo.privacy.accounting.accountant import account
from crescendo.privacy.accounting.events import PoissonGaussian
from crescendo.privacy.planning.calibration import least_sigma
from experiments.mnist_runs import net, run
from experiments.stored_results import FOLDER, StoredResults

Values = dict[str, Any]
SEARCHED, RESULTS = FOLDER / "private_lenet_search.jsonl", FOLDER / "private_lenet.jsonl"
CLIENTS, RECORDS, DELTA, PART, LEVELS = 4, 10_000, 1e-5, 8, 8
_STANDARD = {"centre": 0.1307, "spread": 0.3081}
NETS: dict[str, Values] = {
    "relu, max": {},
    "relu, max, standardised": dict(_STANDARD),
    "tanh, mean, standardised": {"activation": "tanh", "pool": "mean", **_STANDARD},
    "tanh, mean, standardised, gain 1.7": {"activation": "tanh", "pool": "mean", "gain": 1.7, **_STANDARD},
    "tanh, max, standardised, gain 1.7": {"activation": "tanh", "pool": "max", "gain": 1.7, **_STANDARD},
}
AXES: dict[str, tuple[Any, ...]] = {
    "reach": (0.25, 0.5, 1.0, 2.0, 4.0),
    "net": tuple(NETS),
    "clip": (0.05, 0.2, 1.0, 4.0),
    "size": (500, 1000, 2000, 4000),
    "fall": (1.0, 0.3, 0.1),
    "gradients": (50_000, 100_000, 200_000),
    "growth": (1, 4),
}


@dataclass(frozen=True)
class Setting:
    """A private run. ``size`` is the mean of a client's rounds, which grow to ``growth`` times their first in a few levels.

    ``reach`` is eta times clip times size: how far a mean round moves the model at most. ``fall``: the last step over the first.
    """

    epsilon: float
    net: str = "tanh, mean, standardised, gain 1.7"
    gradients: int = 100_000
    size: int = 1000
    growth: int = 1
    clip: float = 0.2
    reach: float = 1.0
    fall: float = 0.3

    def sizes(self) -> list[tuple[int, int]]:
        """Each client's sizes with how many rounds have them."""
        rounds = round(self.gradients / self.size)
        levels = min(LEVELS, rounds) if self.growth > 1 else 1
        many = np.diff(np.round(np.linspace(0, rounds, levels + 1))).astype(int)
        shape = np.linspace(1, self.growth, levels)
        each = self.gradients / float(shape @ many) * shape
        return [(int(size), int(count)) for size, count in zip(each, many, strict=True)]

    def steps(self) -> Values:
        beta = (1 / self.fall - 1) / (CLIENTS * self.gradients)
        return {"kind": "diminishing", "eta0": self.reach / (self.size * self.clip), "beta": beta}


@cache
def sigma_of(setting: Setting) -> float:
    """The least noise that the tight accountant allows."""

    def epsilon(sigma: float, quick: bool = False) -> float:
        events = [(PoissonGaussian(size / RECORDS, sigma), rounds) for size, rounds in setting.sizes()]
        return account(events, DELTA, quick=quick, state_error=False).epsilon

    near = least_sigma(lambda sigma: epsilon(sigma, quick=True), setting.epsilon, start=1.0)
    return least_sigma(epsilon, setting.epsilon, start=near)


# -- the data -------------------------------------------------------------------------------------------------------------


def parts(data: Dataset, tested: bool) -> Dataset:
    """The clients' 40,000 records; with the test part, or in its place 10,000 other records of the training files."""
    rows = np.random.default_rng(0).permutation(len(data.train))
    test = data.test if tested else data.train.take(rows[CLIENTS * RECORDS :][:RECORDS])
    return dataclasses.replace(data, train=data.train.take(rows[: CLIENTS * RECORDS]), test=test)


# -- the search -----------------------------------------------------------------------------------------------------------


def tried(setting: Setting, data: Dataset, seed: int) -> Values:
    """A quick run: how well it does on the records that nobody trained on."""
    from experiments import quick_private_sgd as quick

    options = NETS[setting.net]
    bends = options.get("activation", "relu"), options.get("pool", "max")
    centre, spread = options.get("centre", 0.0), options.get("spread", 1.0)
    assert data.test is not None
    (x, y), (tx, ty) = (
        (((one.x - centre) / spread).astype(np.float32), one.y.astype(np.int32)) for one in (data.train, data.test)
    )
    rng, sigma, steps = np.random.default_rng(seed), sigma_of(setting), setting.steps()
    w: Floats = np.asarray(net("jax:lenet", options, data).initial(rng), dtype=np.float64)
    done = 0
    for size, rounds in setting.sizes():
        for _ in range(rounds):
            eta = steps["eta0"] / (1 + steps["beta"] * CLIENTS * done)
            drawn = rng.choice(len(x), rng.binomial(len(x), size / RECORDS / PART), replace=False)
            summed = PART * quick.clipped_sum(w, x, y, drawn, setting.clip, *bends)
            noise = rng.standard_normal(len(w)) * (np.sqrt(CLIENTS) * sigma * setting.clip)
            w = w - eta / CLIENTS * (summed + noise)
            done += size
    return {"accuracy": quick.accuracy(w, tx, ty, *bends), "sigma": sigma}


def search(results: StoredResults, data: Dataset, seconds: float) -> None:
    """One axis after the other, at each the best value by one seed, twice over; then the best few with three seeds."""
    ends = time.monotonic() + seconds
    best: Setting | None = None
    for epsilon in (8.0, 2.0):
        best = Setting(epsilon) if best is None else dataclasses.replace(best, epsilon=epsilon)
        for _ in range(2):
            before = best
            for axis, values in AXES.items():
                some = [dataclasses.replace(best, **{axis: value}) for value in values]
                scores = {one: _score(results, one, data, 0, ends) for one in some}
                best = max(some, key=lambda one: scores[one])
            if best == before:
                break
        for one in _best_few(results, epsilon):
            for seed in (1, 2):
                _score(results, one, data, seed, ends)


def _score(results: StoredResults, setting: Setting, data: Dataset, seed: int, ends: float) -> float:
    if time.monotonic() > ends and {**asdict(setting), "seed": seed} not in [one for one, _ in results]:
        return 0.0
    found = results.measured({**asdict(setting), "seed": seed}, partial(tried, setting, data, seed))
    print(f"{found['accuracy']:.4f}", setting, f"sigma {found['sigma']:.3f} seed {seed}", flush=True)
    return float(found["accuracy"])


def _best_few(results: StoredResults, epsilon: float, few: int = 3) -> list[Setting]:
    """By the first seed, of each growth."""
    found: list[Setting] = []
    for growth in AXES["growth"]:
        scores = _by_setting(results, epsilon, growth)
        found += sorted(scores, key=lambda one: -scores[one][0])[:few]
    return found


def _by_setting(results: StoredResults, epsilon: float, growth: int) -> dict[Setting, list[float]]:
    found: dict[Setting, list[float]] = {}
    for setting, one_run in results:
        one = Setting(**{key: value for key, value in setting.items() if key != "seed"})
        if (one.epsilon, one.growth) == (epsilon, growth):
            found.setdefault(one, []).append(one_run["accuracy"])
    return found


def chosen(results: StoredResults, epsilon: float, growth: int) -> Setting:
    """The best on average, of those that were tried with three seeds."""
    scores = {one: found for one, found in _by_setting(results, epsilon, growth).items() if len(found) >= 3}
    return max(scores, key=lambda one: float(np.mean(scores[one])))


# -- the final runs --------------------------------------------------------------------------------------------------------

BATCH_CLIP: Values = {"options": {"batch": 10}, "size": 100, "gradients": 20_000, "eta": 0.05, "clip": 0.1}
FINAL: dict[str, Values] = {
    "growing": {"growth": 4, "wait": 1, "timing": "staggered"},
    "FedAvg": {"growth": 1, "wait": 0, "timing": "lock-step"},
}


def final_cases(results: StoredResults) -> Iterator[tuple[Values, Values, str, Values]]:
    """What a run is called, its run file without data, its network and the network's options."""
    for name, how in FINAL.items():
        for epsilon in (8.0, 2.0):
            setting = chosen(results, epsilon, how["growth"])
            schedule = {
                "gradients_per_client": sum(size * rounds for size, rounds in setting.sizes()),
                "sizes": {"kind": "list", "values": [list(pair) for pair in setting.sizes()], "per_client": True},
                "steps": setting.steps(),
                "wait": {"rounds": how["wait"]},
            }
            case = {"mechanism": "minibatch", "steps": name, **asdict(setting)}
            yield (
                case,
                _run_file(schedule, "minibatch", epsilon, setting.clip, how["timing"]),
                "jax:lenet",
                NETS[setting.net],
            )
    for kind in ("jax:lenet", "jax:softmax"):
        for epsilon in (8.0, 2.0):
            schedule = {
                "gradients_per_client": BATCH_CLIP["gradients"],
                "sizes": {"kind": "constant", "size": CLIENTS * BATCH_CLIP["size"]},
                "steps": {"kind": "constant", "eta": BATCH_CLIP["eta"]},
            }
            case = {"mechanism": "batch-clip", "steps": kind, "epsilon": epsilon, **BATCH_CLIP}
            options = {**_STANDARD, **BATCH_CLIP["options"]}
            yield case, _run_file(schedule, "batch-clip", epsilon, BATCH_CLIP["clip"], "staggered"), kind, options


def _run_file(schedule: Values, mechanism: str, epsilon: float, clip: float, timing: str) -> Values:
    return {
        "clients": {"count": CLIENTS, "combine": "mean", "split": "iid", "weights": "uniform"},
        "schedule": schedule,
        "timing": {"preset": timing},
        "privacy": {
            "mechanism": mechanism,
            "epsilon": epsilon,
            "delta": DELTA,
            "clip": clip,
            "records": [RECORDS] * CLIENTS,
        },
    }


def final(searched: StoredResults, results: StoredResults, data: Dataset, only: str) -> None:
    for seed in range(3):
        for case, run_file, kind, options in final_cases(searched):
            if only not in " ".join(str(value) for value in case.values()):
                continue
            asked = {**run_file, "run": {"seed": seed}}
            goal = net(kind, options, data)
            found = results.measured(
                {**case, "seed": seed},
                partial(run, asked, goal, data, lambda k, rounds: k % max(1, rounds // 10) == 0),
            )
            print(found["accuracy"], found["epsilon"], found["sigma"], case, seed, flush=True)


def tables(results: StoredResults) -> str:
    """A row for each case, with the accuracy of each seed."""
    found: dict[tuple[Any, ...], list[Values]] = {}
    for setting, one_run in results:
        found.setdefault(tuple((key, str(value)) for key, value in setting.items() if key != "seed"), []).append(
            one_run
        )
    lines = ["| mechanism | steps | epsilon | sigma | rounds | accuracy by seed |", "|---|---|---|---|---|---|"]
    for key, runs in found.items():
        case, scores = dict(key), " ".join(f"{one['accuracy']:.4f}".lstrip("0") for one in runs)
        sigma = f"{runs[0]['sigma']:.3f}"
        shown = (case["mechanism"], case["steps"], f"{runs[0]['epsilon']:.3f}", sigma, runs[0]["rounds"], scores)
        lines.append("| " + " | ".join(str(one) for one in shown) + " |")
    return "\n".join(lines)


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
    print(tables(results))


if __name__ == "__main__":
    main()
