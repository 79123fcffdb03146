"""Accountant: a tight epsilon for a set of releases at a given delta.

The number reported is an upper bound, for these reasons.

1. *One round.* Removing a record from, or adding one to, a Poisson-sampled round whose sum moves by at most the sensitivity
   costs no more than telling N(0, sigma^2) from the mixture with N(1, sigma^2), in that direction (Zhu, Dong, Wang 2022).
   `privacy_loss` puts the privacy loss of this pair on a grid so that it can only overstate.
2. *Many rounds.* Losses of one direction add up, so their distributions convolve, though later rounds depend on earlier
   ones. `tilted_fft` convolves them exponentially tilted, so that errors are small against delta however small delta is, and adds
   a bound of every error. Each direction is composed by itself; epsilon is the larger.
   Where one rare, large loss decides, `split_jumps` splits it off.
3. *Where to look.* `saddle_point` chooses tilt, interval and window. They decide how tight the bound is, not whether it is one.
4. *The least of bounds.* Renyi divergence gives a second bound; the smaller of the two is reported. It is the only one where the
   grid is not used (delta below 1e-285 a round, more than 1e11 rounds, epsilon above 1e6); ``why`` names the reason.

The amount of overstatement is estimated, not proved. ``error`` is the growth of epsilon when the grid is made twice as coarse.
The dots move each loss by a random amount, and for every loss the second coarsening adds at least the variance that the first
one added, so the truth lies above epsilon - error to first order in that variance. For up to 8 rounds, where a coarse grid may
happen to hit the truth, it is at least the most that dots can add to that many losses; where jumps are split off, 2% of epsilon
are added. Against the exact Gaussian, the exact single round and a contour integral the truth was never below epsilon - error.
The interval is chosen for 0.03% of epsilon. By Renyi divergence ``error`` is epsilon itself, because only truth >= 0 is known.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

from crescendo_dp.accounting import privacy_loss, renyi, saddle_point, split_jumps, tilted_fft
from crescendo_dp.errors import UsageError
from crescendo_dp.events import Counted, Event, PoissonGaussian, tally

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many steps are done and how many there are."""

_LEAST_DELTA_A_ROUND = 1e-285
_MOST_ROUNDS = 10**11
_MOST_EPSILON = 1e6
_MOST_SIGMA = 1e8
_CUT = 1e-5  # the share of delta that the cut tails of all rounds may take
_NOISE = 0.01  # the share of delta that errors of an FFT may take before plain convolution is tried
_TRIES = 8
_FEW = 8  # rounds so few that a coarser grid may happen to hit the truth
_SPLIT = 0.02  # added to the error where jumps are split off: 0.008 was the most that was seen
_CACHED_CELLS = 8_000_000

_Rounds: TypeAlias = list[tuple[privacy_loss.Losses, int]]


@dataclass(frozen=True)
class Spent:
    """(epsilon, delta) of a set of releases; ``why`` explains in words how it was computed.

    ``epsilon`` never understates. ``error`` estimates by how much it may overstate: see the top of this file.
    """

    epsilon: float
    delta: float
    method: Literal["none", "pld", "rdp"]
    rdp_epsilon: float
    error: float
    interval: float | None
    why: str

    def to_json(self) -> dict[str, Any]:
        """Plain data; an infinite epsilon is None, as JSON has no infinity."""
        return {key: None if value == math.inf else value for key, value in asdict(self).items()}


def account(
    events: Iterable[Event | tuple[Event, int]],
    delta: float,
    *,
    quick: bool = False,
    state_error: bool = True,
    progress: Progress | None = None,
) -> Spent:
    """Return the epsilon of all ``events`` together at ``delta``.

    Rare failures of a mechanism are not in it: take their probability off delta before.
    For searches, ``quick`` asks for Renyi divergence only, and ``state_error=False`` for the same epsilon without its error.

    >>> rounds = [PoissonGaussian(0.01, 1.0)] * 1000
    >>> spent = account(rounds, 1e-5)
    >>> round(spent.epsilon, 2), spent.method, round(spent.rdp_epsilon, 2)
    (1.83, 'pld', 2.11)
    >>> round(account(rounds, 1e-30).epsilon, 2)
    9.34
    >>> account([], 1e-5).epsilon, account([PoissonGaussian(0.1, 0.0)], 1e-5).epsilon
    (0.0, inf)
    """
    check_delta(delta)
    counted = tally((enough(event), count) for event, count in tally(events) if event.rate > 0)
    if not counted:
        return Spent(0.0, delta, "none", 0.0, 0.0, None, "nothing was released about any record")
    if any(event.sigma == 0 for event, _ in counted):
        return Spent(math.inf, delta, "none", math.inf, 0.0, None, "a round was released without noise")
    bound, order = renyi.epsilon_of(renyi.divergences(counted), delta)
    if bound == math.inf:
        return Spent(math.inf, delta, "none", math.inf, 0.0, None, "a round was released with next to no noise")

    def by_rdp(because: str) -> Spent:
        return Spent(bound, delta, "rdp", bound, bound, None, f"by Renyi divergence of order {order:g}, {because}")

    if quick:
        return by_rdp("as a quick answer was asked for")
    others = [type(event).__name__ for event, _ in counted if not isinstance(event, PoissonGaussian)]
    if others:
        return by_rdp(f"as nothing tighter is known of {others[0]}")
    if apart(counted) <= delta:
        why = "no test tells the two data sets apart with a probability above delta"
        return Spent(0.0, delta, "pld", bound, 0.0, None, why)
    rounds = sum(count for _, count in counted)
    if delta / rounds < _LEAST_DELTA_A_ROUND or rounds > _MOST_ROUNDS or bound > _MOST_EPSILON:
        limit = f"{_LEAST_DELTA_A_ROUND:g} a round, above {_MOST_ROUNDS:g} rounds and above epsilon = {_MOST_EPSILON:g}"
        return by_rdp(f"as privacy loss distributions are not used below delta = {limit}")
    found = _Composition(counted, delta, bound, state_error, progress).result()
    if progress is not None:
        progress(1, 1)
    if found is None or bound <= found[0]:
        return by_rdp("which is the smaller bound here")
    epsilon, coarse, interval = found
    why = f"by privacy loss distributions of {len(counted)} distinct rounds at interval {interval:g}, add and remove"
    return Spent(epsilon, delta, "pld", bound, min(epsilon, max(0.0, coarse - epsilon)), interval, why)


def check_delta(delta: float) -> None:
    """Refuse a delta that does not lie strictly between 0 and 1."""
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 < delta < 1:
        raise UsageError(f"delta must lie strictly between 0 and 1, got {delta!r}")


def enough(event: Event) -> Event:
    """Counted with less noise where there is so much that numbers underflow: an upper bound, as more noise costs no more."""
    return event if event.sigma <= _MOST_SIGMA else replace(event, sigma=_MOST_SIGMA)


def apart(counted: Counted) -> float:
    """A bound on the total variation distance of all releases with a record and without it."""
    far = sum(count * event.rate * math.erf(math.sqrt(0.125) / event.sigma) for event, count in counted)
    return far * (1 + 1e-9)


class _Composition:
    """Epsilon on the grid, in one direction and the other."""

    def __init__(
        self, counted: Counted, delta: float, most: float, state_error: bool, progress: Progress | None
    ) -> None:
        self.counted, self.delta, self.most, self.state_error, self.progress = (
            counted,
            delta,
            most,
            state_error,
            progress,
        )
        self.cut = _CUT * delta / sum(count for _, count in counted)
        self.done, self.steps = 0, 4 * len(counted)

    def result(self) -> tuple[float, float, float] | None:
        """Epsilon, epsilon on a grid twice as coarse, and the interval; None where the grid does not reach delta."""
        removed = self.towards("remove")
        if removed is None:
            return None
        worst = -sum(count * math.log1p(-event.rate) if event.rate < 1 else -math.inf for event, count in self.counted)
        if worst * (1 + 1e-9) <= removed[0]:  # no loss of an added record is larger
            return removed
        moments = saddle_point.Moments(self.counted, "add", self.cut)
        tilt = moments.aim(self.delta, removed[0]).tilt
        if tilted_fft.surely_below(self.rounds(removed[2]), "add", tilt, removed[0], self.delta):
            return removed
        added = self.towards("add")
        return None if added is None else max(removed, added)

    def towards(self, direction: saddle_point.Direction) -> tuple[float, float, float] | None:
        moments = saddle_point.Moments(self.counted, direction, self.cut)
        aim = moments.aim(self.delta)
        for _ in range(_TRIES):
            found = self.tilted(self.rounds(aim.interval), direction, aim)
            if found is not None and abs(found[0] - aim.guess) <= 0.2 * found[0] + 1e-3 / aim.tilt:
                break
            aim = moments.aim(self.delta, self.most if found is None else max(found[0], 0.1 / aim.tilt))
        if found is None or found[1] > _NOISE:
            return self.split(direction, aim, self.most if found is None else found[0])
        if not self.state_error:
            return found[0], found[0], aim.interval
        coarse = self.tilted(self.rounds(aim.interval, coarser=True), direction, aim)
        if coarse is None:
            return None
        few = min(_FEW, sum(count for _, count in self.counted)) * (1 + aim.tilt) * aim.interval**2 / 8
        return found[0], max(coarse[0], found[0] + few) + found[1] / aim.tilt, aim.interval

    def tilted(
        self, rounds: _Rounds, direction: saddle_point.Direction, aim: saddle_point.Aim
    ) -> tuple[float, float] | None:
        return tilted_fft.Composed.of(rounds, direction, aim, self.moved).epsilon_at(self.delta, aim.guess)

    def split(
        self, direction: saddle_point.Direction, aim: saddle_point.Aim, found: float
    ) -> tuple[float, float, float] | None:
        """Jumps apart: where a tilt alone leaves an epsilon that is mostly error, ``found``."""
        moments = saddle_point.Moments(self.counted, direction, self.cut)
        epsilon, coarse = found, found
        for _ in range(_TRIES):
            half = epsilon / 2
            bounded = saddle_point.Moments(self.counted, direction, self.cut, half).aim(self.delta, scale=epsilon)
            everything = moments.aim(self.delta, half)
            h = min(aim.interval, bounded.interval, 2.0 ** math.floor(math.log2(epsilon / 1024)))
            h = max(h, moments.finest_power, saddle_point.coarsest(everything, bounded))
            once = split_jumps.epsilon_at(self.rounds(h), direction, self.delta, half, everything, bounded)
            if once is None:
                return None
            far, epsilon = once < 0.8 * epsilon, min(once, epsilon)
            if not far or epsilon == 0:
                break
        if self.state_error:
            again = split_jumps.epsilon_at(
                self.rounds(h, coarser=True), direction, self.delta, half, everything, bounded
            )
            if again is None:
                return None
            coarse = again + 2 * h + _SPLIT * epsilon
        return epsilon, coarse, h

    def rounds(self, interval: float, coarser: bool = False) -> _Rounds:
        found = [(cache.losses(event, interval, self.cut), count) for event, count in self.counted]
        return [(one.coarser(), count) for one, count in found] if coarser else found

    def moved(self) -> None:
        self.done = min(self.done + 1, self.steps - 1)  # how often a grid is tried is not known before
        if self.progress is not None:
            self.progress(self.done, self.steps)


class _Cache:
    """The losses met lately, to a bound on their memory: a ledger asks for the same rounds again and again."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[Event, float, float], privacy_loss.Losses] = OrderedDict()
        self._cells = 0

    def losses(self, event: Event, interval: float, cut: float) -> privacy_loss.Losses:
        cut = 2.0 ** math.floor(math.log2(cut))  # one of few, so that the same losses serve again
        key = event, interval, cut
        if key not in self._held:
            self._held[key] = privacy_loss.Losses.of(event.rate, event.sigma, interval, cut)
            self._cells += len(self._held[key].log_probs)
            while self._cells > _CACHED_CELLS and len(self._held) > 1:
                self._cells -= len(self._held.popitem(last=False)[1].log_probs)
        self._held.move_to_end(key)
        return self._held[key]


cache = _Cache()
