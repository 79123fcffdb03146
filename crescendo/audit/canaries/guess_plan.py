"""The score of a canary, the likelihood ratio of the releases for its presence, and the plan for guessing by scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from crescendo.audit.canaries.families import ROUGH, LessNoise
from crescendo.audit.canaries.guesses import Guesses
from crescendo.audit.canaries.separate_trials import Trials
from crescendo.core.arrays import Bools, Floats
from crescendo_dp.events import Counted

_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)  # of the canaries, guessed on either side
_TRIED, _MOST_NUMBERS = 4000, 20_000_000  # simulated canaries for the choice among these, and their numbers


def log_likelihood(sent: Floats, moved: Floats, scale: float, rate: float) -> Floats:
    """Return log(1 - q + q N(sent; moved, scale^2) / N(sent; 0, scale^2)) of one round for each canary."""
    exponents = (sent - moved / 2) * moved / scale**2
    kept = math.log1p(-rate) if rate < 1 else -math.inf
    return np.asarray(np.logaddexp(kept, math.log(rate) + exponents))


@dataclass(frozen=True)
class GuessPlan:
    """The use of the scores, fixed before the run so that it does not depend on releases.

    The ``high`` highest are guessed to be in and the ``low`` lowest to be out. Scores above ``cut`` are also counted by coin.
    """

    high: int
    low: int
    cut: float

    def guesses(self, scores: Floats, inside: Bools) -> Guesses:
        """Make the guesses and count the right ones.

        >>> GuessPlan(2, 1, 0.0).guesses(np.array([5.0, 1.0, -2.0, 3.0]), np.array([True, True, False, False]))
        Guesses(canaries=4, made=3, right=2)
        """
        order = np.argsort(-scores, kind="stable")
        right = int(inside[order[: self.high]].sum()) + int((~inside[order[len(order) - self.low :]]).sum())
        return Guesses(len(scores), self.high + self.low, right)

    def trials(self, scores: Floats, inside: Bools) -> Trials:
        """Count the scores above the cut.

        >>> GuessPlan(2, 1, 2.0).trials(np.array([5.0, 1.0, -2.0, 3.0]), np.array([True, True, False, False]))
        Trials(inside=2, hits=1, outside=2, others=1)
        """
        above = scores > self.cut
        return Trials(
            int(inside.sum()), int((above & inside).sum()), int((~inside).sum()), int((above & ~inside).sum())
        )

    @classmethod
    def chosen(cls, canaries: int, family: LessNoise, level: float) -> GuessPlan:
        """Choose the plan with the highest expected bounds if each canary is as visible as certified.

        Counts are taken one deviation worse than expected; otherwise rare scores, which vary most, would win.
        """
        rounds = sum(count for _, count in family.events)
        tried = max(200, min(_TRIED, _MOST_NUMBERS // max(2 * rounds, 1)))
        rng = np.random.Generator(np.random.Philox(0))
        inside = np.arange(2 * tried) < tried
        scores = made_up(rng, family.events, inside)
        counts, cuts = [], []
        for share in _SHARES:
            count, of_tried = max(1, round(share * canaries)), max(1, round(share * 2 * tried))
            cut = float(np.sort(scores)[-of_tried - 1])
            for low in (0, 1):
                counted = cls(of_tried, low * of_tried, cut).guesses(scores, inside)
                made, rate = (1 + low) * count, counted.right / counted.made
                expected = Guesses(canaries, made, int(made * rate - math.sqrt(made * rate * (1 - rate))))
                counts.append((family.bound(expected, level, ROUGH), count, low * count))
            trials = cls(0, 0, cut).trials(scores, inside).expected(canaries / (2 * tried))
            cuts.append((family.bound(trials, level, ROUGH), cut))
        _, high, low = max(counts)
        return cls(high, low, max(cuts)[1])


def made_up(rng: np.random.Generator, events: Counted, inside: Bools) -> Floats:
    """Simulate scores of canaries: one that is ``inside`` moves every round for which it is drawn by the sensitivity."""
    scores = np.zeros(len(inside))
    for event, count in events:
        for _ in range(count):
            drawn = inside & (rng.random(len(inside)) < event.rate)
            scores += log_likelihood(rng.normal(drawn, event.sigma), np.ones(len(inside)), event.sigma, event.rate)
    return scores
