"""Conditions of certificates in words: the requirement, and the two numbers compared."""

from __future__ import annotations

from typing import Any

_PRIVACY = {
    "sampling rate": (
        "The largest share of its records that a client draws in a round is no more than all of them.",
        "≤",
    ),
    "step sizes": ("The smallest step is large enough for noise to be scaled by it.", "≥"),
    "one step size per round": ("All gradients of a round have the same step size.", ""),
    "plain steps": ("Clients take plain gradient steps, without a local optimiser.", ""),
    "non-expansive steps": (
        "The largest step is at most 2 / L_eff, so that no step takes two models further apart.",
        "≤",
    ),
    "shrink": ("The largest step times L2 is at most 1, so that L2 never enlarges the model.", "≤"),
    "rounding": ("Rounding enlarges the influence of one record by no more than this share.", "≤"),
    "grid": ("The numbers to hide span no more steps of the noise's grid than its arithmetic can represent.", "≤"),
}
_SCHEDULE = {
    "liveness": "The delay bound lets a client finish every round, so no client waits for ever.",
    "tau never decreases": "The delay bound never becomes stricter as the run goes on.",
    "t - tau(t) never decreases": "The set of updates that a model must contain only grows.",
    "tau is finite": "The delay bound is finite everywhere.",
    "within the theorem": "The delay stays within the limit of the paper's convergence theorem, in every round.",
    "constant step": "The step size is at most what the theory of constant steps allows.",
    "delay of a constant step": "The delay is at most what the theory of constant steps allows for this step size.",
}


def privacy_row(one: Any) -> list[str]:
    """Return a privacy condition's name, requirement, inequality and verdict.

    >>> from crescendo.privacy.mechanisms.certificate import Requirement
    >>> privacy_row(Requirement("sampling rate", 0.0392157, 1.0, True, ""))[2:]
    ['0.03922 ≤ 1', 'holds']
    >>> privacy_row(Requirement("plain steps", 0.0, 0.0, True, ""))[2:]
    ['', 'yes']
    """
    asks, sign = _PRIVACY.get(one.name, ("", "against"))
    compared = f"{one.left:.4g} {sign} {one.right:.4g}" if sign else ""
    return [one.name, asks, compared, _verdict(one.holds) if sign else "yes" if one.holds else "no"]


def schedule_row(one: Any) -> list[str]:
    """Return the row of a schedule's condition, at the round where it is tightest or fails."""
    asks = _SCHEDULE.get(one.name, "")
    if one.name.startswith("d = "):
        asks = "Clients may run this many rounds ahead of the global model without breaking the delay bound."
    compared = one.says.replace(">=", "≥").replace("<=", "≤")
    return [one.name, asks, f"{compared} ({one.where})", _verdict(one.holds)]


def _verdict(holds: bool) -> str:
    return "holds" if holds else "does not hold"
