"""Divergence: detects a failed run, and gives the reason and a remedy.

Runs, sweeps, comparisons and reports share one definition: the last loss is not finite, or above the first. Such a run
diverged; but if its loss ended only a little above the first, with steps not far beyond the stable ones, it did not
learn.
"""

from __future__ import annotations

import math
from typing import Any

from crescendo.schedules.auto_steps import rounded

BEYOND = 25.0  # times the stable step: from there on a warning precedes the run; "auto" goes to 6
LITTLE = (
    0.1  # of the first loss, by convention; a larger rise is divergence, unless noise is known to drown the gradients
)
LEARNED_NOTHING = "the run did not learn"
DIVERGED = "the run diverged"
_KEYS = ("eta", "eta0")  # of a table of steps: all steps are multiples of this key


def divergence(
    first: float | None,
    last: float | None,
    steps: Any,
    factor: float | None,
    drowned: str | None = None,
    unlike: str | None = None,
) -> str | None:
    """Return the reason for a failed run with a remedy, or None for a good one. ``steps`` is the table of the run file.

    ``drowned`` is a note, from public numbers, that the noise is longer than the gradients, with a remedy; None if it
    is not. ``unlike`` is a note that the features differ in size; it replaces the advice on steps, which would not help.

    >>> class Steps: eta = 2.0
    >>> divergence(0.693, 12.0, Steps(), factor=0.011)
    'the run diverged: the loss rose from 0.693 to 12; schedule.steps.eta <= 0.022 would be stable'
    >>> divergence(0.693, None, Steps(), factor=None)
    'the run diverged: the loss became infinite; a smaller step size often helps, such as schedule.steps.eta = 0.2'
    >>> divergence(0.693, 0.695, Steps(), factor=0.9)
    'the run did not learn: the loss went from 0.693 to 0.695; schedule.steps.eta <= 1.8 would be stable'
    >>> divergence(0.693, 0.4, Steps(), factor=0.011) is None
    True
    """
    advice = unlike if unlike is not None else remedy(steps, factor)
    if last is None or not math.isfinite(last):
        return f"{DIVERGED}: the loss became infinite; {advice}"
    if first is None or last <= first:
        return None
    far = factor is not None and factor * BEYOND < 1
    if not far and drowned is not None:
        return f"{LEARNED_NOTHING}: the loss went from {first:.4g} to {last:.4g}; {drowned}"
    if not far and last - first <= LITTLE * abs(first):
        return f"{LEARNED_NOTHING}: the loss went from {first:.4g} to {last:.4g}; {_others(steps, factor)}"
    return f"{DIVERGED}: the loss rose from {first:.4g} to {last:.4g}; {advice}"


def _others(steps: Any, factor: float | None) -> str:
    """Return advice for a run that did not learn: a stable step if its steps exceed it, otherwise more gradients too."""
    stable = factor is not None and factor < 1
    tried = remedy(steps, factor)
    return tried if stable else f"more gradients may help, and {tried}"


def remedy(steps: Any, factor: float | None) -> str:
    """Return advice on steps: the limit of stability if the steps exceed it, otherwise a tenth of the current value."""
    key, tried = next(((name, getattr(steps, name)) for name in _KEYS if hasattr(steps, name)), ("", 0.0))
    if not key:
        return "a smaller step size often helps"
    if factor is not None and factor < 1:
        return f"schedule.steps.{key} <= {rounded(factor * tried):g} would be stable"
    return f"a smaller step size often helps, such as schedule.steps.{key} = {rounded(tried / 10):g}"


def warning(steps: Any, factor: float | None) -> str | None:
    """Return a warning for steps far beyond the limits of stability, or None; such a run may still learn well."""
    if factor is None or factor * BEYOND >= 1:
        return None
    return f"these step sizes are {1 / factor:.2g} times the largest that are surely stable; {remedy(steps, factor)}"
