"""Canaries in one run: the share of the certified epsilon that they detect, and how often a bound is too high.

    python -m lab.trials.canaries [--seeds 5] [--simulated 2000]

First, runs with canaries, with new seeds each time for the auditor's coins and the run's noise: a row of a Markdown table with
the means. Then many simulated mechanisms with exactly the certified events: how often the bounds at level 0.05 exceed epsilon.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np

from crescendo.audit.canaries.families import LessNoise
from crescendo.audit.canaries.guess_plan import GuessPlan, made_up
from crescendo.audit.canaries.report import CanaryReport
from crescendo.audit.canaries.trade_off import TradeOff
from crescendo.config.loading import read
from crescendo.runs.canaries.canary_run import canary_audit
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import Counted, PoissonGaussian

DELTA, LEVEL = 1e-5, 0.05
EVENTS: dict[str, Counted] = {
    "one Gaussian release": ((PoissonGaussian(1.0, 1.0), 1),),
    "20 releases at rate 0.1": ((PoissonGaussian(0.1, 0.8), 20),),
}
EVERY = {"kind": "constant", "eta": 0.0005}


class Case(NamedTuple):
    """A run of two clients on synthetic records, and the number of canaries that one of them gets."""

    name: str
    canaries: int
    records: int
    objective: dict[str, Any]
    schedule: dict[str, Any]
    privacy: dict[str, Any]

    def audited(self, seed: int) -> CanaryReport:
        config: dict[str, Any] = {
            "run": {"seed": seed},
            "data": {"source": f"synthetic:rows={2 * self.records},features=10", "classes": [-1, 1]},
            "clients": {"count": 2, "combine": "sum"},
            "objective": self.objective,
            "schedule": self.schedule,
            "privacy": {"delta": DELTA, "clip": 0.5, "records": self.records, **self.privacy},
        }
        return canary_audit(read(config), self.name, self.canaries, seed=seed)


def every_record(records: int) -> dict[str, Any]:
    """Return a run of five rounds with all records in each."""
    return {"rounds": 5, "sizes": {"kind": "constant", "size": 2 * records}, "steps": EVERY}


LOGISTIC = {"l2": 0.001}
GROWING = {"rounds": 20, "sizes": {"kind": "power", "scale": 100}, "steps": {"kind": "constant", "eta": 0.02}}
CASES = (
    Case(
        "minibatch, logistic", 5000, 10_000, LOGISTIC, every_record(10_000), {"mechanism": "minibatch", "epsilon": 8.0}
    ),
    Case(
        "local, logistic",
        5000,
        10_000,
        LOGISTIC,
        every_record(10_000),
        {"mechanism": "local", "epsilon": 8.0, "norm_bound": 4.0},
    ),
    Case(
        "minibatch, torch MLP",
        1500,
        3000,
        {"kind": "torch:mlp"},
        every_record(3000),
        {"mechanism": "minibatch", "epsilon": 8.0},
    ),
    Case(
        "minibatch, logistic, growing rounds",
        5000,
        10_000,
        LOGISTIC,
        GROWING,
        {"mechanism": "minibatch", "epsilon": 4.0},
    ),
)


def row(case: Case, seeds: int) -> str:
    """Return the means over seeds, as a row of a table."""
    found = [case.audited(seed) for seed in range(seeds)]

    def mean(of: str) -> float:
        return float(np.mean([getattr(one, of) for one in found]))

    bounds = " | ".join(
        f"{mean(name):.2f} ({mean(name) / mean('claimed'):.0%})" for name in ("lower", "lower_any", "lower_apart")
    )
    right = f"{mean('right'):.0f} of {mean('guesses'):.0f}"
    failed = sum(not one.passed for one in found)
    return f"| {case.name} | {case.canaries:,} | {right} | {mean('claimed'):.2f} | {bounds} | {failed} of {seeds} |"


def too_high(name: str, events: Counted, canaries: int, simulated: int) -> str:
    """Return how often each bound is above the epsilon of these events."""
    family, rng, denied = LessNoise(events, DELTA), np.random.Generator(np.random.PCG64(0)), np.zeros(3, dtype=int)
    plan = GuessPlan.chosen(canaries, family, LEVEL)
    pair = TradeOff([account(events, DELTA).epsilon], [DELTA])
    for _ in range(simulated):
        coins = rng.random(canaries) < 0.5
        scores = made_up(rng, events, coins)
        guesses, trials = plan.guesses(scores, coins), plan.trials(scores, coins)
        denied += [
            guesses.denies(family.certified, LEVEL),
            guesses.denies(pair, LEVEL),
            trials.denies(family.certified, LEVEL),
        ]
    times = ", ".join(
        f"{kind} {count}" for kind, count in zip(("lower", "lower_any", "lower_apart"), denied, strict=True)
    )
    return f"{name}, {canaries:,} canaries: of {simulated:,} runs, too high were {times}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--simulated", type=int, default=2000)
    asked = parser.parse_args()
    for case in CASES:
        print(row(case, asked.seeds), flush=True)
    for name, counted in EVENTS.items():
        print(too_high(name, counted, 1000, asked.simulated), flush=True)


if __name__ == "__main__":
    main()
