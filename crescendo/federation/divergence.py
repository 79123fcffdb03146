"""When a run is no success, and the sentence that says why, with what would do.

There is one idea of it, for runs, sweeps, comparisons and reports: the last loss is no number, or above the first. Such a run
diverged, or, if its loss ended a little above where it began with steps that are not far beyond what is stable, did not learn.
"""

from __future__ import annotations

import math
from typing import Any

from crescendo.schedules.auto_steps import rounded

BEYOND = 25.0  # times what is surely stable: from there on a run is warned of before it begins; "auto" goes to 6
LITTLE = 0.1  # of the first loss: a convention; what rises by more has diverged, unless the noise is known to drown all
LEARNED_NOTHING = "the run did not learn"
DIVERGED = "the run diverged"
_KEYS = ("eta", "eta0")  # of a table of steps, what all of them are multiples of


def divergence(
    first: float | None,
    last: float | None,
    steps: Any,
    factor: float | None,
    drowned: str | None = None,
    unlike: str | None = None,
) -> str | None:
    """The sentence about a run that is no success, None for any other. ``steps`` is the table of the run file.

    ``drowned`` says by public numbers that the noise is longer than the gradients, and what to do; None where it is not.
    ``unlike`` says that the features differ in size, which takes the place of advice on steps: none would do.

    >>> class Steps: eta = 2.0
    >>> divergence(0.693, 12.0, Steps(), factor=0.011)
    'the run diverged: the loss rose from 0.693 to 12; schedule.steps.eta <= 0.022 would be stable'
    >>> divergence(0.693, None, Steps(), factor=None)
    'the run diverged: the loss grew beyond every number; a smaller step size often helps, such as schedule.steps.eta = 0.2'
    >>> divergence(0.693, 0.695, Steps(), factor=0.9)
    'the run did not learn: the loss went from 0.693 to 0.695; schedule.steps.eta <= 1.8 would be stable'
    >>> divergence(0.693, 0.4, Steps(), factor=0.011) is None
    True
    """
    advice = unlike if unlike is not None else remedy(steps, factor)
    if last is None or not math.isfinite(last):
        return f"{DIVERGED}: the loss grew beyond every number; {advice}"
    if first is None or last <= first:
        return None
    far = factor is not None and factor * BEYOND < 1
    if not far and drowned is not None:
        return f"{LEARNED_NOTHING}: the loss went from {first:.4g} to {last:.4g}; {drowned}"
    if not far and last - first <= LITTLE * abs(first):
        return f"{LEARNED_NOTHING}: the loss went from {first:.4g} to {last:.4g}; {_others(steps, factor)}"
    return f"{DIVERGED}: the loss rose from {first:.4g} to {last:.4g}; {advice}"


def _others(steps: Any, factor: float | None) -> str:
    """What to try where nothing blew up: a stable value if the steps are beyond it, else more gradients or another size."""
    stable = factor is not None and factor < 1
    tried = remedy(steps, factor)
    return tried if stable else f"more gradients may help, and {tried}"


def remedy(steps: Any, factor: float | None) -> str:
    """A value that would do: from the limits of stability where the steps are beyond them, else a tenth of what was tried."""
    key, tried = next(((name, getattr(steps, name)) for name in _KEYS if hasattr(steps, name)), ("", 0.0))
    if not key:
        return "a smaller step size often helps"
    if factor is not None and factor < 1:
        return f"schedule.steps.{key} <= {rounded(factor * tried):g} would be stable"
    return f"a smaller step size often helps, such as schedule.steps.{key} = {rounded(tried / 10):g}"


def warning(steps: Any, factor: float | None) -> str | None:
    """What to say before a run whose steps are far beyond the limits; it may learn well all the same."""
    if factor is None or factor * BEYOND >= 1:
        return None
    return f"these step sizes are {1 / factor:.2g} times the largest that are surely stable; {remedy(steps, factor)}"
