"""The commands ``python -m crescendo_dp plan``, ``account`` and ``audit``. Each calls one function of the package."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crescendo_dp.errors import CrescendoError


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 1 if an audit fails, 2 if the command cannot be done."""
    given = _parser().parse_args(words)
    try:
        return int(given.command(given))
    except CrescendoError as error:
        print(f"Error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m crescendo_dp", description="Plan, account for and audit privacy.")
    commands = parser.add_subparsers(required=True, metavar="plan|account|audit")

    plan = commands.add_parser("plan", help="choose sizes, rounds and noise for a budget")
    for name, help in (("epsilon", "the budget"), ("delta", "the delta of that epsilon")):
        plan.add_argument(f"--{name}", type=float, required=True, help=help)
    for name, help in (("records", "how many there are"), ("gradients", "how many the whole training takes")):
        plan.add_argument(f"--{name}", type=int, required=True, help=help)
    plan.add_argument("--first-size", type=int, help="records in the first round")
    plan.add_argument(
        "--power", type=float, help="how fast sizes grow: 0 for constant, 1 for linear; by default chosen"
    )
    plan.add_argument("--rounds", type=int, help="the number of rounds; by default as few as --max-share allows")
    plan.add_argument("--max-share", type=float, help="the largest share of the records in one round (0.046)")
    plan.add_argument(
        "--method", choices=("tight", "paper"), default="tight", help="the planner, or the paper's procedure"
    )
    plan.add_argument("--sigma-by-round", action="store_true", help="let noise differ from one size to the next")
    plan.add_argument("--r0", type=float, help="the r0 of the paper's procedure")
    plan.set_defaults(command=_plan)

    account = commands.add_parser("account", help="the epsilon of a history of releases")
    account.add_argument("file", type=Path, help="JSON of Opacus, of dp-accounting or of this package")
    account.add_argument("--delta", type=float, help="the delta to account at")
    account.add_argument(
        "--export", choices=("dp-accounting", "opacus"), help="print the events for this library instead"
    )
    account.set_defaults(command=_account)

    audit = commands.add_parser("audit", help="attack a mechanism; exit code 1 if its claim is false")
    audit.add_argument(
        "mechanism", metavar="FILE.py:NAME", help="a function (records, rng) -> release, or a class of it"
    )
    for name, help in (("epsilon", "what the mechanism claims"), ("delta", "the delta of that epsilon")):
        audit.add_argument(f"--{name}", type=float, required=True, help=help)
    audit.add_argument("--records", type=Path, metavar="FILE", help="example records: .npz, .npy or .csv")
    audit.add_argument("--shape", metavar="N,D", help="make up N records of D numbers instead")
    audit.add_argument("--neighbours", choices=("add", "replace"), help="one record added, or replaced")
    audit.add_argument("--runs", type=int, help="releases to draw")
    audit.add_argument("--seconds", type=float, default=20.0, help="without --runs, draw for so long")
    audit.add_argument("--confidence", type=float, default=0.999, help="how sure the audit must be of a failure")
    audit.add_argument("--gaussian", action="store_true", help="the releases are Gaussian")
    audit.add_argument("--floats", action="store_true", help="attack the last bits of floats as well")
    audit.add_argument("--seed", type=int, default=0, help="of the attack, and of the rng that the mechanism is given")
    audit.set_defaults(command=_audit)

    for command in (plan, account, audit):
        command.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _plan(given: argparse.Namespace) -> int:
    from crescendo_dp.planning.budget_to_schedule import plan

    found = plan(
        given.epsilon,
        given.delta,
        given.records,
        given.gradients,
        given.first_size,
        given.power,
        given.rounds,
        given.max_share,
        given.method,
        r0=given.r0,
        sigma_by_round=given.sigma_by_round,
    )
    if given.json:
        _print_json(found.to_json())
    else:
        print(found.summary())
    return 0


def _account(given: argparse.Namespace) -> int:
    from crescendo_dp.accounting.epsilon import account
    from crescendo_dp.errors import UsageError
    from crescendo_dp.events import to_json
    from crescendo_dp.interchange import WRITERS, Foreign
    from crescendo_dp.meaning.odds_and_attacks import Meaning

    found = Foreign.of_file(given.file)
    if given.export is not None:
        _print_json(WRITERS[given.export](found.events))
        return 0
    if given.delta is None:
        raise UsageError("events have no delta of their own; give --delta")
    spent = account(found.events, given.delta)
    if given.json:
        shown = {"format": found.format, "releases": found.releases, **spent.to_json(), "events": to_json(found.events)}
        _print_json(shown)
        return 0
    print(f"{found.releases:,} releases cost epsilon {spent.epsilon:.6g} at delta {spent.delta:g}, {spent.why}")
    for sentence in Meaning.of(found.events, spent.epsilon, given.delta).sentences():
        print(sentence)
    return 0


def _audit(given: argparse.Namespace) -> int:
    from crescendo_dp.black_box.attack import Claim
    from crescendo_dp.black_box.mechanism_file import attack_file

    found = attack_file(
        given.mechanism,
        Claim(given.epsilon, given.delta, given.confidence, gaussian=given.gaussian, floats=given.floats),
        records=given.records,
        shape=given.shape,
        neighbours=given.neighbours,
        runs=given.runs,
        seconds=given.seconds,
        seed=given.seed,
    )
    if given.json:
        _print_json(found.to_json())
    else:
        print(found)
    return 0 if found.passed else 1


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(_finite(value), allow_nan=False))


def _finite(value: Any) -> Any:
    """Return the same with None for numbers that JSON does not have.

    >>> _finite({"epsilon": math.inf, "rounds": [1, 2.5, math.nan]})
    {'epsilon': None, 'rounds': [1, 2.5, None]}
    """
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    sys.exit(main())
