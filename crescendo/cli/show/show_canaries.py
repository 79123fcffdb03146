"""Printer of `crescendo audit FILE.toml --canaries M`."""

from pathlib import Path

from crescendo.audit.canaries.report import CanaryReport
from crescendo.cli.common import print_json
from crescendo.cli.show.show_privacy import number
from crescendo.cli.terminal import Printer
from crescendo.config.loading import read
from crescendo.runs.canaries.canary_run import canary_audit

_KINDS = {"gradients": "gradients as long as the clip", "records": "records that each have a feature to themselves"}


def audit_canaries(
    file: Path, overrides: list[str], canaries: int, confidence: float, seed: int, as_json: bool
) -> bool:
    """Run the file once with canaries, print the findings, and return whether it passed."""
    found = canary_audit(read(file, overrides), str(file), canaries, confidence=confidence, seed=seed)
    if as_json:
        print_json(found.to_json())
    else:
        _show(found)
    return found.passed


def _show(found: CanaryReport) -> None:
    """Print the certified epsilon, the bounds with their shares of it, and the verdict."""
    console = Printer()

    def bound(epsilon: float, given: str) -> tuple[str, str]:
        return number(epsilon), f"{epsilon / found.claimed:.0%} of it; {given}"

    console.facts(
        f"Canaries in one run of {found.name}, {found.mechanism}",
        [
            ("certified epsilon", number(found.claimed), f"at delta {found.delta:g}"),
            ("lower bound", *bound(found.lower, "if everything but the noise is as certified")),
            ("lower bound, any mechanism", *bound(found.lower_any, "for any mechanism")),
            (
                "lower bound, canaries apart",
                *bound(found.lower_apart, "like the first, if canaries do not affect each other"),
            ),
            (
                "canaries",
                f"{found.canaries:,}",
                f"{_KINDS[found.kind]}; {found.inside:,} were in, with {found.records:,} records",
            ),
            ("guesses", f"{found.right:,} of {found.guesses:,}", f"were right, a p-value of {found.p:.2g}"),
        ],
    )
    console.say(f"all bounds hold with {found.confidence:.4g} confidence; the guessing rule was fixed before the run")
    for sentence in found.findings:
        console.say(sentence)
    console.say(
        "passed: no bound is above the certified epsilon" if found.passed else "failed: do not trust this epsilon"
    )
