"""Verdicts by intervals over seeds: a statement held, failed, or these seeds cannot tell.

Two schemes are compared by their differences seed by seed, because equal seeds share the split, the first model and the
clocks. A run that broke off learned nothing and counts as a score of 0. The interval is Student's at 95%, for each setting
by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from crescendo.studies.intervals import Interval

Scores = Sequence[float | None]
Verdict = bool | None


def inside(scores: Scores, low: float = -math.inf, high: float = math.inf) -> Verdict:
    """Return True if the interval of the mean lies within ``low`` and ``high``, False if it lies outside, else None.

    >>> inside([0.25, 0.26], 0.0, 9.0), inside([0.2, 0.2], 0.4), inside([0.2, 0.3], 0.25), inside([0.2], 0.0)
    (True, False, None, None)
    """
    bounds = interval(scores)
    if bounds is None:
        return None
    if low <= bounds[0] and bounds[1] <= high:
        return True
    return False if bounds[1] < low or bounds[0] > high else None


def above(scores: Scores, threshold: float) -> Verdict:
    """Return True if the whole interval lies above ``threshold``, False if none of it does, else None.

    >>> above([0.2, 0.2], 0.1), above([0.1, 0.1], 0.1), above([0.1, 0.2], 0.1)
    (True, False, None)
    """
    bounds = interval(scores)
    if bounds is None:
        return None
    return True if bounds[0] > threshold else False if bounds[1] <= threshold else None


def interval(scores: Scores) -> tuple[float, float] | None:
    """Return the bounds of the mean; None for a single seed."""
    found = Interval.of([0.0 if one is None else one for one in scores])
    return None if found.low is None or found.high is None else (found.low, found.high)


def differences(ours: Scores, theirs: Scores) -> list[float]:
    """Return our scores less theirs, seed by seed.

    >>> differences([0.5, 0.6, None], [0.4, None, 0.25])
    [0.1, 0.6, -0.25]
    """
    return [round((a or 0.0) - (b or 0.0), 9) for a, b in zip(ours, theirs, strict=True)]


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """
    >>> all_of([True, True]), all_of([True, None]), all_of([False, None])
    (True, None, False)
    """
    found = list(verdicts)
    return False if False in found else None if None in found else True


def any_of(verdicts: Iterable[Verdict]) -> Verdict:
    """
    >>> any_of([True, None]), any_of([False, None]), any_of([False])
    (True, None, False)
    """
    found = list(verdicts)
    return True if True in found else None if None in found else False
