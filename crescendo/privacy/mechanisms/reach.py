"""How long the models of a private run become: public numbers in, a length out.

A private client begins no round at a model longer than its certificate's ``model_bound`` (`Private.start` shortens a longer one),
since rounding is certified up to there and norm limits rest on it. So the bound has to be wide enough not to be in the way of a
sound run, and no wider, for whatever it leaves room for is room for a malicious client too.
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

LOG_CHANCE = 31.0  # exp(-31) = 3e-14: the chance of each thing that is taken not to happen
_SLACK = 1.001  # the noise is enlarged by rounding's share, at most this
SHORTENED = 1 + 1e-9  # a model that was shortened to a length may be this much over it, by rounding
_DELAYS = 2.0  # what is on the way was computed before the pull of L2 was felt


class _Reach(NamedTuple):
    """Lengths of a run's models: ``least`` is what its noise alone reaches, ``most`` what noise, steps and delays do."""

    least: float
    most: float


class Lengths(NamedTuple):
    """The updates of some rounds, a row each: ``number`` steps of length ``step``, noise in proportion to ``sensitivity``."""

    step: Floats
    number: Ints
    sensitivity: Floats
    active: Ints  # clients that send something
    kept: Floats  # the share of a model that L2 leaves in step


@dataclass(slots=True)
class _Sums:
    """Over the rounds so far: the steps, their variance over what is drawn, and the noise's, each pulled back by L2."""

    steps: float = 0.0
    draws: float = 0.0
    noise: float = 0.0


def reach(terms: Terms, size: int, lengths: Callable[[Rounds], Lengths], sigma: Sigmas, first: float) -> _Reach:
    """How long a model of ``size`` numbers becomes in a run that begins at length ``first``.

    A start model is the first model less some of the updates (which ones is a matter of timing). An update is its drawn steps,
    each of length at most h = a eta D C, plus noise of deviation sigma_i h, plus the pull of L2. Here a is 1, or 1/n where the
    mean of n clients' updates is taken. (What a mechanism's updates are made of it says itself: ``lengths``.) Without L2, with s
    slots a round in all and n clients that have some, each start model is then not longer than

        first + sum s h + sqrt(2 L sum s h^2) + L max h  +  sqrt(sum n (sigma_i h)^2) (sqrt(size) + sqrt(2 L))

    but for a chance of 2 exp(-L): Bernstein's bound on the drawn steps, and the length of a Gaussian vector. With L2, in a run in
    step, each round first shortens what is there by the share that its clients' pulls add up to, and the same holds of the
    sums that are pulled back. Delays can make a model overshoot; that is allowed for with a factor and not proved, and does
    no harm where it is wrong: a client shortens its start model and goes on.
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
    """The share of the model that L2 takes away in each round in step; none is counted on where only a block moves."""
    if terms.blocks > 1 or l2 <= 0:
        return np.zeros(len(part.least))
    decay = np.clip(part.least * l2, 0.0, 1.0)[:, None]
    pulls: np.ndarray[tuple[int], np.dtype[np.float64]] = (1.0 - (1.0 - decay) ** part.shares).sum(axis=1)
    return np.minimum(1.0, terms.combined * pulls)
