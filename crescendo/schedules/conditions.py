"""Conditions on sizes and a delay together, each evaluated over a whole horizon at once.

A horizon is given by its prefix sums S: S[i] = s_0 + ... + s_{i-1}, so that round i has labels S[i] .. S[i+1] - 1.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crescendo.errors import Refused
from crescendo.schedules.delay import Delay
from crescendo.schedules.parameters import FloatArray, IntArray

EVERY_LABEL_TO = 2**22  # named delays are checked label by label up to here, and by calculus beyond
MOST_LABELS = 2**26
CHUNK = 2**18
ROUNDING = 16 * 2.0**-52  # relative to tau: a smaller violation is rounding


@dataclass(frozen=True)
class ScheduleCondition:
    """One inequality where it is tightest, or where it first fails; ``says`` is its readable form."""

    name: str
    round: int | None
    left: float
    right: float
    relation: str
    holds: bool
    says: str

    @property
    def where(self) -> str:
        return (
            "over the run" if self.round is None else f"{'tightest' if self.holds else 'first'} in round {self.round}"
        )


@dataclass(frozen=True, eq=False)
class Sides:
    """Both sides of an inequality at every round: ``left > right`` if strict, otherwise ``left >= right``."""

    left: FloatArray
    right: FloatArray
    strict: bool

    @property
    def holds(self) -> npt.NDArray[np.bool_]:
        return self.left > self.right if self.strict else self.left >= self.right

    @property
    def place(self) -> int:
        """The first round that fails, otherwise the tightest one."""
        holds = self.holds
        return int(np.argmin(self.left - self.right) if holds.all() else np.argmin(holds))

    @property
    def short_of(self) -> float:
        """The increase of the left side with which every round holds, or is equal if strict."""
        return max(0.0, float(np.max(self.right - self.left)))


@dataclass(frozen=True, eq=False)
class Horizon:
    """The rounds of a run, by their prefix sums S."""

    sums: IntArray

    def windows(self, d: int) -> IntArray:
        """Return s_{i-d} + ... + s_i for every round i; rounds below 0 count as 0.

        >>> Horizon(np.array([0, 1, 3, 6])).windows(d=1).tolist()
        [1, 3, 5]
        """
        rounds = len(self.sums) - 1
        before = np.zeros(rounds, np.int64)
        before[d:] = self.sums[: max(0, rounds - d)]
        return self.sums[1:] - before

    def liveness(self, tau: Delay) -> Sides:
        """Return the condition that every client can finish round k without a broadcast newer than k::

            tau(s_0 + ... + s_k - 2)  >  s_k - 1

        Otherwise all clients stop forever. These are t_glob and t_delay of the last slot of Paper [alg:client], which
        omits this condition. It implies the condition for earlier slots, because t - tau(t) never decreases.
        """
        return Sides(tau(self.sums[1:] - 2), np.diff(self.sums) - 1.0, strict=True)

    def rounds_ahead(self, tau: Delay, d: int) -> Sides:
        """Return the condition that a client may be ``d`` rounds ahead in every round i, not only from d + 1 on.

        Paper [eqtausample]::

            tau(s_0 + ... + s_i)  >=  s_{i-d} + ... + s_i
        """
        return Sides(tau(self.sums[1:]), self.windows(d).astype(np.float64), strict=False)

    def steadiness(self, tau: Delay) -> Iterator[ScheduleCondition]:
        """Yield the conditions that tau and t - tau(t) never decrease, as the proof of Paper [thmalg] requires.

        Each pair of labels t and t + 1 is checked, to the end of the horizon or to the point where calculus applies.
        """
        last = int(self.sums[-1])
        if (known := tau.steady_from()) < last:
            last = min(last, max(EVERY_LABEL_TO, math.ceil(known)))
        if last > MOST_LABELS:
            raise Refused(
                f"the run has {last:,} gradients, but {tau} can be checked label by label for {MOST_LABELS:,} at most; use fewer "
                f"gradients, or a delay that provably rises by at most 1 from one gradient to the next"
            )
        down, up = (math.inf, 0), (-math.inf, 0)  # the smallest and the largest step, with their labels
        for start in range(0, last, CHUNK):
            t = np.arange(start, min(start + CHUNK, last) + 1)
            values = tau(t)
            if not np.isfinite(values).all():
                yield self._no_number(int(t[np.argmin(np.isfinite(values))]), values)
                return
            step = np.diff(values)
            slack = ROUNDING * np.abs(values[1:])
            falls, leaps = step < -slack, step > 1 + slack
            if (falls | leaps).any():
                label = int(t[np.argmax(falls | leaps)])
                yield self._steps(tau, label, up=bool(leaps[label - start]), holds=False)
                return
            down = min(down, (float(step.min()), int(t[np.argmin(step)])))
            up = max(up, (float(step.max()), int(t[np.argmax(step)])))
        yield self._steps(tau, down[1], up=False, holds=True)
        yield self._steps(tau, up[1], up=True, holds=True)

    def _steps(self, tau: Delay, t: int, *, up: bool, holds: bool) -> ScheduleCondition:
        here, there = tau(t), tau(t + 1)
        round_ = self._round_of(t)
        if up:
            left, right = t + 1 - there, t - here
            says = f"{t + 1} - tau({t + 1}) = {show(left)} {'>=' if holds else '<'} {t} - tau({t}) = {show(right)}"
            return ScheduleCondition("t - tau(t) never decreases", round_, left, right, ">=", holds, says)
        says = f"tau({t + 1}) = {show(there)} {'>=' if holds else '<'} tau({t}) = {show(here)}"
        return ScheduleCondition("tau never decreases", round_, there, here, ">=", holds, says)

    def _no_number(self, t: int, values: FloatArray) -> ScheduleCondition:
        value = float(values[~np.isfinite(values)][0])
        return ScheduleCondition("tau is finite", self._round_of(t), value, 0.0, ">=", False, f"tau({t}) = {value}")

    def _round_of(self, t: int) -> int:
        return min(int(np.searchsorted(self.sums, t, side="right")), len(self.sums) - 1) - 1


def show(x: float) -> str:
    """Format a number for a message: integers as integers, others to twelve figures.

    >>> show(1400.0), show(1113.8206595921960)
    ('1400', '1113.82065959')
    """
    return f"{x:.12g}"
