"""Equal time with stragglers, against rivals: speeds from 1 to 10, log-normal latency, clients absent a tenth of the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crescendo.algorithms.algorithm_kinds import ALGORITHMS
from crescendo.runs.result import Result
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
from lab.pipeline.summaries import mean, spread, where

CLIENTS, SECONDS, TRIALS, SEEDS = 10, 1000.0, 24, 5
SPEEDS = tuple(round(10 ** (c / (CLIENTS - 1)), 4) for c in range(CLIENTS))  # gradients a virtual second
STEPS = (10, 30, 100)  # local steps of a rival's round; of ours, a tenth of the first round
ETA0 = {"a9a": 0.1, "w8a": 1.0, "w8a, smaller steps": 0.1}  # of each problem; tuning multiplies it by 1/32 to 32
OURS = "ours, shares by speed"
ENTRANTS = (OURS, "ours, equal shares", "ours, constant sizes", "FedAvg", "FedAvg, deadline", "FedAsync", "FedBuff")
RULE = (
    f"Every entrant is tuned with {TRIALS} trials (step size, one of three sizes, and options of its own), by accuracy at "
    f"{SECONDS:,.0f} virtual seconds on a fifth of the training records; then it is run with other seeds, and the "
    f"newest model at {SECONDS:,.0f} seconds is scored on the test part. Ours, with shares by speed, is higher or lower "
    "than another if the 95% interval of the differences, seed by seed, lies above or below 0."
)


def entrant(name: str, eta0: float, seconds: float) -> Entrant:
    """Return an entrant. All clients together do a run's gradients in ``seconds`` if nothing goes wrong."""
    gradients = int(sum(SPEEDS) * seconds)
    if name.startswith("ours"):
        weights: Any = "uniform" if name == "ours, equal shares" else list(SPEEDS)
        configs = [_config(gradients, eta0, weights, _sizes(name, gradients, 10 * steps)) for steps in STEPS]
        return Entrant(configs)
    kind = name.partition(",")[0].lower()
    fixed: list[dict[str, Any]] = [{"local_steps": steps} for steps in STEPS]
    if name == "FedAvg, deadline":  # long enough for the faster half, unless messages are late
        fixed = [{"local_steps": steps, "deadline": steps / SPEEDS[CLIENTS // 2] + 8.0} for steps in STEPS]
    moves = {"fedavg": CLIENTS, "fedasync": 1, "fedbuff": 3}[kind]
    configs = [
        _config(
            gradients, eta0, "uniform", {"kind": "constant", "size": 500}, max(1, gradients // (steps * moves * 120))
        )
        for steps in STEPS
    ]
    return Entrant(configs, kind, fixed)


def _sizes(name: str, gradients: int, first: int) -> dict[str, Any]:
    """Return linear sizes from ``first``, or constant ones that take as many rounds."""
    if name != "ours, constant sizes":
        return {"kind": "power", "scale": float(first)}
    rounds = round((2 * gradients / first) ** 0.5)
    return {"kind": "constant", "size": -(-gradients // rounds)}


def _config(gradients: int, eta0: float, weights: Any, sizes: dict[str, Any], every: int = 1) -> dict[str, Any]:
    return {
        "clients": {"count": CLIENTS, "weights": weights, "combine": "mean"},
        "objective": {"l2": "1/N"},
        "schedule": {
            "gradients": gradients,
            "sizes": sizes,
            "steps": {"kind": "diminishing", "eta0": eta0, "beta": 0.0001},
            "wait": {"rounds": 1},
        },
        "timing": {
            "speed": {"kind": "list", "values": list(SPEEDS)},
            "latency": {"kind": "lognormal", "median": 2.0, "sigma": 1.0},
            "crash": {"every": 90.0, "down": 10.0},
            "absent_after": 20.0,
        },
        "evaluate": {"every": every},
    }


def run(problem: str, source: str, name: str, seconds: float, trials: int, seeds: Sequence[int]) -> dict[str, Any]:
    who = entrant(name, ETA0[problem], seconds)
    place, results = entered(source, who, trials, seeds, lambda result: _at(result, seconds))
    whole = [one for one in results if one is not None]
    return {
        "accuracies": [None if one is None else rounded(_at(one, seconds)) for one in results],
        "options": {"first_round": 10 * STEPS[place], **chosen(results)}
        if name.startswith("ours")
        else chosen(results),
        "gradients": [_row(one, seconds)["gradients"] for one in whole],
        "bytes": [_row(one, seconds)["bytes_up"] + _row(one, seconds)["bytes_down"] for one in whole],
        "curve": _curve(whole, seconds),
    }


def _row(result: Result, seconds: float) -> dict[str, Any]:
    """Return the scores of the newest model at that time."""
    return [row for row in result.metrics if row["seconds"] <= seconds][-1]


def _at(result: Result, seconds: float) -> float:
    accuracy = _row(result, seconds)["accuracy"]
    return float("-inf") if accuracy is None else float(accuracy)


def _curve(results: list[Result], seconds: float) -> dict[str, list[float | None]]:
    """Return the accuracy of the newest model over time: mean and extremes of the seeds."""
    times = [seconds * 1.1**-j for j in reversed(range(41))]
    scores = [[_at(one, time) for one in results] for time in times]
    return {
        "seconds": [rounded(time) for time in times],
        "mean": [rounded(sum(some) / len(some)) if some else None for some in scores],
        "low": [rounded(min(some, default=None)) for some in scores],
        "high": [rounded(max(some, default=None)) for some in scores],
    }


def jobs(effort: Effort) -> list[Job]:
    found = []
    for problem in list(ETA0)[:1] if effort.quick else ETA0:
        source = source_for(problem.partition(",")[0], effort.quick)
        setting = {"problem": problem, "source": source, "seconds": 60.0 if effort.quick else SECONDS}
        setting |= {"trials": 3 if effort.quick else TRIALS, "seeds": effort.seeds_of(SEEDS, quick=2)}
        there = [name for name in ENTRANTS if name.startswith("ours") or name.partition(",")[0].lower() in ALGORITHMS]
        found += [Job(run, {**setting, "name": name}, source) for name in there]
    return found


def findings(outcomes: list[Outcome]) -> Findings:
    problems = dict.fromkeys(one["problem"] for one in outcomes)
    statements = [one for problem in problems for one in _statements(problem, where(outcomes, problem=problem))]
    there = [problem for problem in problems if where(outcomes, problem=problem)]
    panels = tuple(_panel(problem, where(outcomes, problem=problem)) for problem in there)
    caption = (
        "Accuracy over virtual time with ten clients of speeds 1 to 10, log-normal latency and crashes, every algorithm "
        "tuned alike; bands from least to largest of the seeds"
    )
    plots = (Plot("stragglers", caption, panels),) if panels else ()
    tables = tuple(_table(problem, where(outcomes, problem=problem)) for problem in there)
    return Findings(RULE, tuple(statements), tables, plots)


def _statements(problem: str, runs: list[Outcome]) -> list[PaperStatement]:
    if not runs:
        return [PaperStatement(f"{problem}: ours against rivals", "", "", 0, 0)]
    by_name = {one["name"]: one["accuracies"] for one in runs}
    found = []
    for name, accuracies in by_name.items():
        if name != OURS:
            by, words = difference(by_name[OURS], accuracies)
            found.append(PaperStatement(f"{problem}: {OURS}, against {name}", "", f"accuracy {by}", 0, 0, says=words))
    return found


def _panel(problem: str, runs: list[Outcome]) -> Panel:
    lines = []
    for j, one in enumerate(runs):
        x, y, low, high = (tuple(one["curve"][name]) for name in ("seconds", "mean", "low", "high"))
        lines.append(Line(one["name"], x, y, low, high, colour=j, style=("-", "--", ":")[j % 3]))
    final = [mean(one["accuracies"]) for one in runs]
    known = sorted(value for value in final if value is not None)
    shown = max(0.0, known[0] - 2 * (known[-1] - known[0]) - 0.01) if known else None
    return Panel(problem, "virtual time, seconds", "accuracy on the test part", tuple(lines), "log", y_from=shown)


def _table(problem: str, runs: list[Outcome]) -> TextTable:
    rows = []
    for one in runs:
        options = ", ".join(f"{name} {value:.4g}" for name, value in one["options"].items())
        gradients, volume = mean(one["gradients"]), mean(one["bytes"])
        cells = (
            spread(one["accuracies"]),
            "" if gradients is None else f"{gradients:,.0f}",
            "" if volume is None else f"{volume / 1e6:.2f}",
        )
        rows.append((one["name"], *cells, options))
    columns = ("entrant", "accuracy", "gradients by then", "megabytes by then", "tuned to")
    return TextTable(f"{problem} at the end of the time, mean ± standard deviation over seeds", columns, tuple(rows))


EXPERIMENT = Experiment(
    name="stragglers",
    title="Equal time with stragglers",
    where="not in the paper",
    about="Ten clients with speeds from 1 to 10 gradients a second, a latency whose median is 2 seconds and whose "
    "logarithm has deviation 1, and crashes every 90 seconds on average, for 10 seconds; a client that has been away for "
    "20 is declared absent. Strongly convex, records split evenly, step sizes falling from a tuned multiple of 0.1; on w8a "
    "a multiple of 1 is tried too, since the best multiples of 0.1 lie at the end of the range. Ours takes the mean; with "
    "shares by speed, p_c follows the speeds, which for evenly split records asks for the same model.",
    jobs=jobs,
    findings=findings,
)
