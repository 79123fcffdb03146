"""Verdicts in words: sentences on a schedule's certificate, the delays of a run, and trouble."""

from __future__ import annotations

from typing import Any

from crescendo.report.numbers import level


def schedule_verdict(result: Any) -> str:
    """Return the certificate's promises for this run."""
    found = result.prepared.certificate
    stuck = (
        "The schedule is certified: no client can get stuck, and no gradient uses a model older than the rule allows"
    )
    if found.within_theorem:
        return f"{stuck}. In every round the delay stays within the limit of the paper's convergence theorem."
    if found.within_theorem is False:
        return f"{stuck}. The delay exceeds the limit of the paper's convergence theorem, so no rate is promised for this run."
    if found.constant is not None:
        rate = (
            "The theory of constant steps covers this run, so its bound holds."
            if found.constant.holds
            else "The theory of constant steps does not cover this run, so no rate is promised."
        )
        return f"{stuck}. {rate}"
    return f"{stuck}. It was not compared with the paper's convergence theorem, so no rate is promised."


def delay_in_words(result: Any) -> str:
    """Return a sentence on the largest age of a model, as a number of updates."""
    found = result.prepared.certificate
    most = max(0, found.consistent_delay - 1)
    return (
        f"A gradient's model lacks at most {most:,} of the updates that come before it, of {found.gradients:,} in "
        f"the whole run."
    )


def alerts(result: Any) -> list[str]:
    """Return the alerts for the top of the page: on a run that diverged, or ended worse than it began."""
    told = getattr(result, "trouble", None)
    if isinstance(told, str) and told:
        return [f"{told[:1].upper()}{told[1:]}{'' if told.endswith('.') else '.'}"]
    known = [row["loss"] for row in result.metrics if row["loss"] is not None]
    if result.loss is None:
        return ["This run diverged: its last loss is not finite. A smaller step size often helps."]
    if len(known) > 1 and known[-1] > known[0]:
        return [
            f"The loss ended at {level(known[-1])}, above its initial {level(known[0])}. "
            "A smaller step size often helps."
        ]
    return []
