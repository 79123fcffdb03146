"""Statements of a comparison, each resting on the interval of the paired differences.

Algorithms share seeds, so every seed gives one difference between two algorithms with the same split, first model and
clocks. A statement uses the interval of the mean difference, which can be narrower than the two separate intervals
suggest.

On n test records an accuracy is a multiple of 1/n, so a few seeds may all show exactly the same difference. The
spread of the differences is therefore at least that of rounding to 1/n: otherwise two seeds could prove anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crescendo.objectives.score import ACCURACY, Score
from crescendo.studies.contestants import Contestant
from crescendo.studies.intervals import Interval

UNTOLD = "the difference is not significant"


@dataclass(frozen=True)
class PairedStatement:
    """A statement about two algorithms; ``better`` is True if ours is better, None if the difference is not significant."""

    says: str
    better: bool | None
    interval: Interval | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "says": self.says,
            "better": self.better,
            "interval": self.interval.to_json() if self.interval else None,
        }


@dataclass(frozen=True)
class RivalVerdict:
    """Our algorithm against one rival: the final score, and the time and bytes needed to reach the target score."""

    rival: str
    score: PairedStatement
    seconds: PairedStatement
    bytes: PairedStatement
    measure: str = ACCURACY.name

    def to_json(self) -> dict[str, Any]:
        told = {"seconds": self.seconds.to_json(), "bytes": self.bytes.to_json()}
        return {"rival": self.rival, self.measure: self.score.to_json(), **told}


def verdict(
    ours: Contestant, theirs: Contestant, target: float | None, tested: int | None = None, score: Score = ACCURACY
) -> RivalVerdict:
    """Compare two algorithms on a test part of ``tested`` records."""
    return RivalVerdict(
        theirs.name,
        _score(ours, theirs, score, 1 / tested if score.grained and tested is not None else 0.0),
        _to_target(ours, theirs, target, "seconds", "virtual time"),
        _to_target(ours, theirs, target, "bytes", "bytes"),
        score.name,
    )


def _score(ours: Contestant, theirs: Contestant, score: Score, step: float) -> PairedStatement:
    """State the score difference, ours minus theirs; scores are multiples of ``step``."""
    pairs = _pairs(ours.values("score"), theirs.values("score"))
    for side in (theirs, ours):
        if pairs is None and None in side.values("score"):
            lost = side.values("score").count(None)
            return PairedStatement(
                f"not compared: {side.name} has no {score.words} in {lost} of {len(side.outcomes)} seeds", None
            )
    assert pairs is not None
    apart = [a - b for a, b in pairs]
    found = Interval.of(apart, least_spread=step / math.sqrt(6))  # of two uniform errors
    if found.low is None or found.high is None:
        return PairedStatement(f"{found.mean:+.4f} in one seed: {UNTOLD}", None, found)
    between = f"{found.mean:+.4f} ({found.low:+.4f} to {found.high:+.4f})"
    if score.grained and not -1 <= found.low <= found.high <= 1:  # two accuracies differ by 1 at most
        few = Interval(found.mean, None, None, found.count)
        between = f"{found.mean:+.4f} in {found.count} seeds, too few for an interval"
        if not found.excludes(0.0):
            return PairedStatement(f"{between}: {UNTOLD}", None, few)
    if not found.excludes(0.0):
        return PairedStatement(f"{between}: {UNTOLD}", None, found)
    better = found.mean > 0
    words = (score.higher if better else score.lower).removesuffix(" than")
    return PairedStatement(f"{between}: {ours.name} is {words}", better, found)


def _to_target(ours: Contestant, theirs: Contestant, target: float | None, measure: str, what: str) -> PairedStatement:
    """State the ratio of theirs to ours: above 1, ours is quicker or sends less."""
    if target is None:
        return PairedStatement("there is no target", None)
    left, right = ours.reached(target, measure), theirs.reached(target, measure)
    pairs = _pairs(left, right)
    if pairs is None:
        both = [f"{len(side) - side.count(None)} of {len(side)}" for side in (left, right)]
        return PairedStatement(f"reached by {ours.name} in {both[0]} seeds, by {theirs.name} in {both[1]}", None)
    if min(min(pair) for pair in pairs) <= 0:
        return PairedStatement("no ratio: one of the two needs nothing", None)
    found = Interval.of_ratios([a for a, _ in pairs], [b for _, b in pairs])
    if found.low is None:
        return PairedStatement(f"{_times(found.mean)} in one seed: {UNTOLD}", None, found)
    between = f"{_times(found.mean)} ({found.low:.2f} to {found.high:.2f})"
    if not found.excludes(1.0):
        return PairedStatement(f"{between}: {UNTOLD}", None, found)
    return PairedStatement(
        f"{between}: {ours.name} needs {'less' if found.mean > 1 else 'more'} {what}", found.mean > 1, found
    )


def _times(ratio: float) -> str:
    return f"x {ratio:.2f}"


def _pairs(left: Sequence[float | None], right: Sequence[float | None]) -> list[tuple[float, float]] | None:
    """Pair the values seed by seed; None if a value is missing."""
    found = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
    return found if len(found) == len(left) else None


def summary(verdicts: Sequence[RivalVerdict], ours: str, seeds: int, score: Score = ACCURACY) -> str:
    """Return the headline sentence of the page.

    >>> even = PairedStatement("", None)
    >>> summary([RivalVerdict("fedavg", even, even, even)], "crescendo", 5)
    'The difference in accuracy between crescendo and fedavg is not significant.'
    """
    if seeds == 1:
        return "One seed gives no interval, so no difference is significant; ask for more with --seeds."
    significant = {
        words: [one.rival for one in verdicts if one.score.better is better]
        for words, better in ((score.higher, True), (score.lower, False))
    }
    parts = [f"{ours} is {words} {listed(names)}" for words, names in significant.items() if names]
    untold = [one.rival for one in verdicts if one.score.better is None]
    if untold:
        parts.append(f"the difference in {score.words} between {ours} and {listed(untold)} is not significant")
    sentence = "; ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}."


def listed(names: Sequence[str], last: str = "and") -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"
