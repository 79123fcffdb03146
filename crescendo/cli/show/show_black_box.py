"""Printer of `crescendo audit FILE.py:NAME`."""

from typing import Any

from crescendo.cli.common import print_json
from crescendo.cli.show.show_privacy import number, progress
from crescendo.cli.terminal import Printer
from crescendo_dp.black_box.attack import BlackBoxReport, Claim
from crescendo_dp.black_box.mechanism_file import attack_file


def audit_mechanism(kind: str, claim: Claim, as_json: bool, **options: Any) -> bool:
    """Attack the mechanism, print the findings, and return whether it passed."""
    with progress("Attacking") as moved:
        found = attack_file(kind, claim, progress=moved, **options)
    if as_json:
        print_json(found.to_json())
    else:
        _show(found)
    return found.passed


def _show(found: BlackBoxReport) -> None:
    """Print the claim, the bounds, the attack that worked best, and the verdict."""
    console = Printer()
    sure = f"with {found.confidence:.4g} confidence"
    neighbours = {"add": "one record added or removed", "replace": "one record replaced"}[found.neighbours]
    rows = [
        ("claimed epsilon", number(found.claimed), f"at delta {found.delta:g}, {neighbours}"),
        ("lower bound", number(found.lower), f"{sure}, whatever the noise is"),
    ]
    if found.lower_gaussian is not None:
        rows.append(("lower bound, Gaussian", number(found.lower_gaussian), f"{sure}, if releases are Gaussian"))
    rows += [
        ("runs", f"{found.runs:,}", f"of {found.size:,} numbers each; they could show {number(found.most)} at most"),
        (
            "hits",
            f"{found.hits:,}",
            f"against {found.others:,} with the neighbour, in {found.tested:,} runs of the test",
        ),
    ]
    console.facts(f"Audit of {found.mechanism}", rows)
    console.say(f"attacked on {found.pair}, by {found.statistic}")
    for sentence in (*found.findings, *found.notes):
        console.say(sentence)
    console.say("passed: no attack contradicts the claim" if found.passed else "failed: do not trust this epsilon")
