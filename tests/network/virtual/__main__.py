"""Explores new seeds: ``python -m tests.network.virtual --seeds 100 --first-seed 5000``. ``--help`` lists the options."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import count, islice

from tests.network.virtual.planted import BUGS, plant
from tests.network.virtual.runs import Outcome, run
from tests.network.virtual.schedules import Schedule, drawn
from tests.network.virtual.shrink import script, shrunk


def main(arguments: list[str] | None = None) -> int:
    """Try seeds; 1 if one fails."""
    options = _options(arguments)
    if options.plant:
        plant(options.plant)
    began, outcomes, failed = time.perf_counter(), list[Outcome](), list[Outcome]()
    for seed in _seeds(options):
        spent = time.perf_counter() - began
        hours = sum(one.virtual for one in outcomes) / 3600
        if (options.minutes and spent > 60 * options.minutes) or (options.hours and hours > options.hours):
            break
        outcome = run(seed, drawn(seed), keep_log=options.log)
        outcomes.append(outcome)
        if options.verbose or outcome.problems:
            print(_line(outcome), flush=True)
        if options.log:
            print(*(f"{at:12.3f} {name:12} {event} {facts}" for at, name, event, facts in outcome.log), sep="\n")
        if outcome.problems:
            failed.append(outcome)
            _tell(outcome, options.plant, options.shrink)
            if options.stop:
                break
    print(summary(outcomes))
    return 1 if failed else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.network.virtual", description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=0, help="how many; without it until --minutes or --hours are over, or 20"
    )
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="stop after so many minutes")
    parser.add_argument("--hours", type=float, help="stop after so many virtual hours")
    parser.add_argument("--plant", default="", help=f"a bug: module:function, or one of {', '.join(BUGS)}")
    parser.add_argument("--shrink", action="store_true", help="look for a smaller schedule that fails too")
    parser.add_argument("--stop", action="store_true", help="stop at the first failure")
    parser.add_argument("--log", action="store_true", help="print what every program logged")
    parser.add_argument("--verbose", action="store_true", help="a line for each run")
    return parser.parse_args(arguments)


def _seeds(options: argparse.Namespace) -> Iterator[int]:
    endless = not options.seeds and (options.minutes or options.hours)
    return islice(count(options.first_seed), None if endless else options.seeds or 20)


def _line(one: Outcome) -> str:
    return (
        f"seed {one.seed}: {one.virtual / 3600:.1f} h in {one.real:.1f} s, {one.faults} faults, {one.updates} updates, "
        f"{len(one.problems)} problems"
    )


def _tell(outcome: Outcome, bug: str, shrink: bool) -> None:
    """The problems, and how to see them again."""
    print(*(f"    {problem}" for problem in outcome.problems), sep="\n")
    planted = f" --plant {bug}" if bug else ""
    print(
        f"    again: python -m tests.network.virtual --seeds 1 --first-seed {outcome.seed}{planted} --log", flush=True
    )
    if shrink:
        kind = _kind(outcome.problems[0])

        def fails(schedule: Schedule) -> bool:
            return any(_kind(problem) == kind for problem in run(outcome.seed, schedule).problems)

        print(script(outcome.seed, shrunk(drawn(outcome.seed), fails), bug), flush=True)


def _kind(problem: str) -> str:
    """A problem without its numbers: another one must not pass for it."""
    return "".join(letter for letter in problem if not letter.isdigit())[:40]


def summary(outcomes: list[Outcome]) -> str:
    """What was tried."""
    virtual, real, cpu = (sum(getattr(one, name) for one in outcomes) for name in ("virtual", "real", "cpu"))
    faults, failed = sum(one.faults for one in outcomes), sum(bool(one.problems) for one in outcomes)
    runs = len(outcomes)
    return (
        f"{runs} runs, {failed} failed; {runs / max(real, 1e-9) * 60:.1f} runs a minute, "
        f"{faults / max(runs, 1):.0f} faults a run, {virtual / 3600:,.0f} virtual hours, "
        f"{virtual / max(real, 1e-9):,.0f} times real time ({virtual / max(cpu, 1e-9):,.0f} times the processor's)"
    )


if __name__ == "__main__":
    sys.exit(main())
