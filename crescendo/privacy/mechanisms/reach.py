"""The reach of a private run: a bound on the length of its models, from public numbers.

A private client begins no round at a model longer than its certificate's ``model_bound`` (`Private.start` shortens a longer one),
since rounding is certified up to that length and norm limits rest on it. So the bound must be wide enough for a sound run, and no
wider, since a malicious client can use the room as well.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from crescendo.core.arrays import Floats, Ints
from crescendo.core.terms import Terms
from crescendo.privacy.mechanisms.extremes import Rounds
from crescendo_dp.planning.sigmas import Sigmas

LOG_CHANCE = 31.0  # exp(-31) = 3e-14: the chance of each event that the bounds neglect
_SLACK = 1.001  # rounding's share enlarges the noise by at most this
SHORTENED = 1 + 1e-9  # a shortened model may exceed its length by this factor, through rounding
_DELAYS = 2.0  # updates in flight were computed before the pull of L2 reached their clients


class _Reach(NamedTuple):
    """Lengths of a run's models: ``least`` by the noise alone, ``most`` by noise, steps and delays."""

    least: float
    most: float


class Lengths(NamedTuple):
    """Updates of some rounds, one row per round: ``number`` steps of length ``step``, noise scaled by ``sensitivity``."""

    step: Floats
    number: Ints
    sensitivity: Floats
    active: Ints  # clients that send something
    kept: Floats  # the share of a model that L2 leaves if all clients are in step


@dataclass(slots=True)
class _Sums:
    """Sums over the rounds so far: steps, their variance by the draw, and the noise variance, each pulled back by L2."""

    steps: float = 0.0
    draws: float = 0.0
    noise: float = 0.0


def reach(terms: Terms, size: int, lengths: Callable[[Rounds], Lengths], sigma: Sigmas, first: float) -> _Reach:
    """Bound the length of a model of ``size`` numbers in a run that begins at length ``first``.

    A start model is the first model less some of the updates; timing decides which. An update is its drawn steps, each of length
    at most h = a eta D C, plus noise of deviation sigma_i h, plus the pull of L2. Here a is 1, or 1/n if the mean of n clients'
    updates is taken. (``lengths`` gives the parts of a mechanism's updates.) Without L2, with s slots per round in total and n
    clients that have some, no start model is longer than

        first + sum s h + sqrt(2 L sum s h^2) + L max h  +  sqrt(sum n (sigma_i h)^2) (sqrt(size) + sqrt(2 L))

    but for a chance of 2 exp(-L): Bernstein's bound on the drawn steps, and the length of a Gaussian vector. With L2 and all
    clients in step, each round first shortens the model by the sum of its clients' pulls, and the same bound holds for the
    shortened sums. Delays can make a model overshoot. A factor allows for that without proof; a wrong factor does no harm,
    since a client then shortens its start model and goes on.
    """
    sums, top, widest = _Sums(), _Sums(), 0.0
    for part in Rounds.all_of(terms):
        columns = (column.tolist() for column in lengths(part))
        for i, (h, s, changed, n, keeps) in enumerate(zip(*columns, strict=True), part.first):
            if s:
                sums.steps = keeps * sums.steps + h * s
                sums.draws = keeps**2 * sums.draws + h**2 * s
                sums.noise = keeps**2 * sums.noise + (_SLACK * sigma(i) * changed) ** 2 * n
                top.steps, top.draws = max(top.steps, sums.steps), max(top.draws, sums.draws)
                top.noise, widest = max(top.noise, sums.noise), max(widest, h)
    numbers = math.ceil(size / terms.blocks)
    least = first + math.sqrt(top.noise) * (math.sqrt(numbers) + math.sqrt(2 * LOG_CHANCE))
    steps = top.steps + math.sqrt(2 * LOG_CHANCE * top.draws) + LOG_CHANCE * widest
    return _Reach(least, _DELAYS * (least + steps))


def pulls(terms: Terms, part: Rounds, l2: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the share of the model that L2 removes in each round if all clients are in step; 0 if only a block moves."""
    if terms.blocks > 1 or l2 <= 0:
        return np.zeros(len(part.least))
    decay = np.clip(part.least * l2, 0.0, 1.0)[:, None]
    pulls: np.ndarray[tuple[int], np.dtype[np.float64]] = (1.0 - (1.0 - decay) ** part.shares).sum(axis=1)
    return np.minimum(1.0, terms.combined * pulls)
