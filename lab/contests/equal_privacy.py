"""Equal privacy: growing sizes against constant ones and private FedAvg, at one (epsilon, delta) and equal gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from crescendo.runs.result import Result
from crescendo_dp.planning.budget_to_schedule import plan
from crescendo_dp.planning.schedule import Plan
from lab.contests.entrants import Entrant, chosen, difference, entered
from lab.experiments.training import rounded, source_for
from lab.pipeline.experiment import (
    Effort,
    Experiment,
    Findings,
    Job,
    Line,
    Outcome,
    Panel,
    PaperStatement,
    Plot,
    TextTable,
)
from lab.pipeline.summaries import mean, short, spread, where
from lab.pipeline.verdicts import above, differences

EPSILON, DELTA, CLIENTS, GRADIENTS = 1.0, 5.5e-8, 5, 25_000
GROWING, LOCAL = "growing from 16", "growing from 16, local mechanism"
SIZES: dict[str, dict[str, Any]] = {  # the request to the planner; rounds for 25,000 gradients
    GROWING: {"first_size": 16, "power": 1.0, "rounds": 183},
    LOCAL: {"first_size": 16, "power": 1.0, "rounds": 183},
    "constant 16": {"first_size": 16, "power": 0.0},
    "constant, as many rounds": {"power": 0.0, "rounds": 183},
    "16, then what the planner likes": {"first_size": 16},
}
RIVALS = {"FedAvg, as many rounds": 183, "FedAvg, 55 rounds": 55, "FedAvg, 16 local steps": 1563}
TRIALS, SEEDS = 12, 5


@dataclass(frozen=True)
class Problem:
    """A data set with its objective and the score of the contest: ``measure`` is "auc" or "accuracy".

    ``records`` is the number that each client declares, ``eta0`` the step size that tuning multiplies.
    """

    source: str
    records: int
    objective: dict[str, Any]
    clip: float
    eta0: float
    measure: str
    norm_bound: dict[str, float] = field(default_factory=dict)  # only for logistic regression

    @property
    def entrants(self) -> list[str]:
        """Return the entrants; `local` enters logistic regression only."""
        return [*(name for name in SIZES if name != LOCAL or self.norm_bound), *RIVALS]

    @property
    def word(self) -> str:
        """Return the name of the measure."""
        return "area under the ROC curve" if self.measure == "auc" else "accuracy"

    @property
    def rule(self) -> str:
        return (
            f"Every entrant's step size is tuned with {TRIALS} trials, by the {self.word} on a fifth of the training "
            "records; then it is run with other seeds on all of them, and scored on the test part. Growing sizes "
            "are higher or lower than an entrant if the 95% interval of the differences, seed by seed, lies above or below 0. "
            "The paper's statement held if they are higher than constant sizes of 16."
        )

    def score(self, result: Result) -> float:
        found = result.metrics[-1][self.measure]
        return float("-inf") if found is None else float(found)


PROBLEMS = {
    "w8a": Problem("w8a", 10_000, {"l2": 1 / (CLIENTS * 10_000)}, 0.1, 0.5, "auc", {"norm_bound": 8.0}),
    "mnist": Problem("mnist", 12_000, {"kind": "mlp", "options": {"hidden": []}}, 1.0, 0.01, "accuracy"),
}


@cache
def planned(sizes: str, gradients: int, records: int) -> Plan:
    """Return the schedule and the least noise for it."""
    asked = dict(SIZES[sizes])
    if "rounds" in asked:
        asked["rounds"] = max(1, round(asked["rounds"] * gradients / GRADIENTS))
    return plan(EPSILON, DELTA, records, gradients, compare=False, **asked)


def entrant(problem: Problem, name: str, gradients: int) -> tuple[Entrant, Any]:
    """Return the entrant of that name, and the plan that states its noise."""
    if name in RIVALS:
        rounds = max(1, round(RIVALS[name] * gradients / GRADIENTS))
        steps = -(-gradients // rounds)
        found = plan(EPSILON, DELTA, problem.records, gradients, power=0.0, first_size=steps, compare=False)
        config = _config(problem, found, gradients)
        return Entrant([config], "fedavg", [{"local_steps": steps, "rate": 1.0}]), found
    found = planned(name, gradients, problem.records)
    return Entrant([_config(problem, found, gradients, "local" if name == LOCAL else "minibatch")]), found


def _config(problem: Problem, found: Plan, gradients: int, mechanism: str = "minibatch") -> dict[str, Any]:
    return {
        "clients": {"count": CLIENTS, "combine": "sum", "weights": "uniform"},
        "objective": problem.objective,
        "schedule": {
            "gradients_per_client": gradients,
            "sizes": {"kind": "list", "values": [list(step) for step in found.staircase], "per_client": True},
            "steps": {"kind": "diminishing", "eta0": problem.eta0, "beta": 1e-5},
            "wait": {"rounds": 1},
        },
        "timing": {"preset": "heterogeneous"},
        "privacy": {
            "mechanism": mechanism,
            "epsilon": EPSILON,
            "delta": DELTA,
            "sigma": found.sigma.to_json(),
            "clip": problem.clip,
            "records": problem.records,
            **problem.norm_bound,
        },
        "evaluate": {"every": 10**9, "auc": problem.measure == "auc"},
    }


def run(problem: str, source: str, name: str, gradients: int, trials: int, seeds: Sequence[int]) -> dict[str, Any]:
    about = PROBLEMS[problem]
    who, found = entrant(about, name, gradients)
    _, results = entered(source, who, trials, seeds, about.score)
    whole = [one for one in results if one is not None]
    return {
        "accuracies": [None if one is None else rounded(one.accuracy) for one in results],
        "scores": [None if one is None else rounded(about.score(one)) for one in results],
        "options": chosen(results),
        "rounds": whole[0].rounds if whole else None,
        "sigma": rounded(float(f"{found.sigma:.6g}")),
        "noise": rounded(found.aggregated_noise),
        "epsilon": rounded(whole[0].privacy["epsilon"]) if whole and whole[0].privacy else None,
        "bytes": whole[0].bytes_up + whole[0].bytes_down if whole else None,
        "seconds": rounded(whole[0].virtual_seconds) if whole else None,
    }


def jobs(problem: str, effort: Effort) -> list[Job]:
    about = PROBLEMS[problem]
    source = source_for(about.source, effort.quick)
    setting = {
        "problem": problem,
        "source": source,
        "gradients": 320 if effort.quick else GRADIENTS,
        "trials": 2 if effort.quick else TRIALS,
        "seeds": effort.seeds_of(SEEDS, quick=2),
    }
    names = [GROWING, "constant 16", "FedAvg, as many rounds"] if effort.quick else about.entrants
    return [Job(run, {**setting, "name": name}, source) for name in names]


def findings(problem: str, outcomes: list[Outcome]) -> Findings:
    about, runs = PROBLEMS[problem], {one["name"]: one for one in where(outcomes)}
    if not runs:
        what = f"{about.source}: growing sizes against 16"
        return Findings(about.rule, (PaperStatement(what, "better at equal privacy", "", 0, 0),))
    statements = [_statement(about, name, runs) for name in runs if name != GROWING]
    return Findings(about.rule, tuple(statements), (_table(about, runs),), (_plot(about, runs),))


def _statement(about: Problem, name: str, runs: dict[str, Outcome]) -> PaperStatement:
    ours = f"accuracy {difference(runs[GROWING]['accuracies'], runs[name]['accuracies'])[0]}"
    by, words = difference(runs[GROWING]["scores"], runs[name]["scores"])
    if about.measure == "auc":
        ours = f"area {by}; {ours}"
    if name == "constant 16":
        better = above(differences(runs[GROWING]["scores"], runs[name]["scores"]), 0.0)
        return PaperStatement.judged(f"{GROWING} against {name}", "better at equal privacy", ours, [better])
    return PaperStatement(f"{GROWING} against {name}", "", ours, 0, 0, says=words)


def _table(about: Problem, runs: dict[str, Outcome]) -> TextTable:
    area = ("area",) if about.measure == "auc" else ()
    step = f"step, times {about.eta0:g}"
    told = ("entrant", "rounds", "sigma", "noise, all rounds", "epsilon", step, "accuracy")
    rows = []
    for name, one in runs.items():
        cells = (
            f"{one['rounds']:,}",
            f"{one['sigma']:.3f}",
            f"{one['noise']:.2f}",
            short(one["epsilon"], 3),
            f"{one['options'].get('step_scale', 1):.3g}",
            spread(one["accuracies"]),
            *([spread(one["scores"])] if area else []),
            f"{one['bytes'] / 1e6:.1f}",
            f"{one['seconds']:,.0f}",
        )
        rows.append((name, *cells))
    columns = (*told, *area, "megabytes", "virtual seconds")
    return TextTable("Mean ± standard deviation over seeds, on the test part", columns, tuple(rows))


def _plot(about: Problem, runs: dict[str, Outcome]) -> Plot:
    """Plot every entrant's measure and the total noise of its rounds."""
    names = tuple(f"{name} ({one['rounds']:,})" for name, one in runs.items())
    places = tuple(range(len(names)))
    known = [[score for score in one["scores"] if score is not None] for one in runs.values()]
    least, most = (tuple(pick(some, default=None) for some in known) for pick in (min, max))
    means = tuple(mean(one["scores"]) for one in runs.values())
    score = Line(about.word, places, means, least, most, style="", marker="o")
    noise = Line("noise", places, tuple(one["noise"] for one in runs.values()), colour=1, style="", marker="s")
    caption = (
        f"Entrants at epsilon = {EPSILON:g}, delta = {DELTA:g} and {GRADIENTS:,} gradients per client on {about.source}: what "
        "is learned (left, bars from least to largest of the seeds), and the noise of all rounds together, sqrt(T) sigma "
        "(right); rounds in brackets"
    )
    learned = Panel("What is learned", "", f"{about.word}, test part", (score,), x_names=names)
    taken = Panel("What it takes", "", "noise of all rounds, in clips C", (noise,), x_names=names)
    name = "equal-privacy" if about.source == "w8a" else f"equal-privacy-{about.source}"
    return Plot(name, caption, (learned, taken))


_SAME = (
    f"{GRADIENTS:,} gradients per client, epsilon = {EPSILON:g} at delta = {DELTA:g}, C = {{}}, summed, heterogeneous timing. "
    "Every schedule has the least noise that the tight accountant allows it. FedAvg is synchronous, takes the mean, and has "
    "the same mechanism and accountant."
)
EXPERIMENT = Experiment(
    name="equal-privacy",
    title="Equal privacy: growing, constant and FedAvg",
    where="section 5, the claim of less aggregated noise",
    about="w8a, strongly convex, five clients that declare 10,000 records each. " + _SAME.format("0.1"),
    jobs=partial(jobs, "w8a"),
    findings=partial(findings, "w8a"),
)
MNIST = Experiment(
    name="equal-privacy-mnist",
    title="Equal privacy on MNIST",
    where="section 5, the same claim",
    about="Softmax regression on MNIST, as a network without hidden layers; five clients of 12,000 records. "
    + _SAME.format("1")
    + " [LeNet-5 at epsilon 2 and 8](neural.md) has a separate search. `all` leaves this experiment out, because it takes "
    "some ten minutes and needs jax or torch.",
    jobs=partial(jobs, "mnist"),
    findings=partial(findings, "mnist"),
    long=True,
)
