"""Composition where one rare, large loss decides: the jumps are split off, so that a tilt helps again.

Where one draw in a billion decides epsilon, the losses fall off more slowly than any exponential: no tilt brings the bulk to
epsilon, and the error of an FFT hides the answer. Split each round's losses at b. Either no round's loss is above b: then
the losses are bounded and `tilted_fft` composes them. Or some round has a loss c > b. Whichever this round is, the others cost no
more than all rounds together, whose delta is delta_all. With J(c) the expected number of rounds with loss c, therefore,

    delta(eps)  <=  delta_bounded(eps)  +  sum over c > b of  J(c) delta_all(eps - c).

With b about eps/2, delta_all is wanted at less than eps/2 only, where it is so much larger that an FFT is exact enough.
"""

import bisect
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from crescendo_dp.accounting.privacy_loss import Losses
from crescendo_dp.accounting.saddle_point import Aim, Direction
from crescendo_dp.accounting.tilted_fft import Composed
from crescendo_dp.arrays import Vector
from crescendo_dp.directed_rounding import cost_up

_U = float(np.finfo(float).eps)


def epsilon_at(
    rounds: Sequence[tuple[Losses, int]],
    direction: Direction,
    delta: float,
    split: float,
    everything: Aim,
    bounded: Aim,
) -> float | None:
    """The least epsilon >= 0 on the grid at which delta is reached, with jumps above ``split``; None if it is not reached.

    ``everything`` aims at epsilon - split for all losses, ``bounded`` at epsilon for those up to ``split``.
    """
    h = rounds[0][0].interval
    split_at = math.floor(split / h)
    below = [(_upto(found, direction, split_at), count) for found, count in rounds]
    small = Composed.of(below, direction, replace(bounded, interval=h)).deltas(bounded.guess)
    every = Composed.of(rounds, direction, replace(everything, interval=h)).deltas(everything.guess)
    jumps = _expected(rounds, direction, split_at)
    c = split_at + 1 + np.arange(len(jumps))

    def reached(k: int) -> bool:
        after = float((jumps * every.at(k - c)).sum()) * (1 + 4 * _U * (8 + len(c)))
        return bool(float(small.at(np.array([k]))[0]) + after <= delta)

    beyond = max(split_at + len(jumps), small.first + len(small.values)) + 1
    if not reached(beyond):
        return None
    return cost_up(bisect.bisect_left(range(beyond), True, key=reached) * h)


def _upto(found: Losses, direction: Direction, most: int) -> Losses:
    """Without the losses above ``most`` cells."""
    k = found.lowest + np.arange(len(found.log_probs))
    keep = k <= most if direction == "remove" else -k <= most
    return found._replace(log_probs=np.where(keep, found.log_probs, -math.inf))


def _expected(rounds: Sequence[tuple[Losses, int]], direction: Direction, split: int) -> Vector:
    """The expected number of rounds with each loss above the split, rounded up."""
    parts = []
    for found, count in rounds:
        k = found.lowest + np.arange(len(found.log_probs))
        logs = found.log_probs if direction == "remove" else (found.log_probs - found.interval * k)[::-1]
        first = found.lowest if direction == "remove" else -int(k[-1])
        skipped = max(0, split + 1 - first)
        parts.append((max(0, first - split - 1), count * np.exp(logs[skipped:]) * (1 + 1e-12)))
    total = np.zeros(max(at + len(part) for at, part in parts))
    for at, part in parts:
        total[at : at + len(part)] += part
    return total
