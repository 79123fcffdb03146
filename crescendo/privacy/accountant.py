"""What a set of releases costs: a tight epsilon for a given delta.

The number reported is an upper bound, for these reasons.

1. *One round.* Removing a record from, or adding one to, a Poisson-sampled round whose sum moves by at most the sensitivity
   costs at most what it costs between N(0, sigma^2) and the mixture with N(1, sigma^2), in that direction (Zhu, Dong,
   Wang 2022). `loss` puts the privacy loss of this pair on a grid so that it can only overstate.
2. *Many rounds.* Losses of one direction add up, so their distributions convolve, though later rounds depend on earlier
   ones: alike rounds by dp-accounting, which also reads epsilon off, then distinct ones as a balanced tree. Each
   direction is composed by itself; epsilon is the larger.
3. *Tails.* What is cut off (1e-15 a convolution) counts as a loss of everything at the upper end, and moves up at the lower.
4. *Rounding.* This is not in dp-accounting: its n-fold convolution by a power of an FFT has an error in delta of about 1.6e-17 n
   of either sign (measured against the exact Gaussian; with 100,000 rounds it returns 3.4e-12 where the truth is 5.2e-12). So
   2.2e-16 n is taken off delta before epsilon is read. Where that is half of delta or more, and where delta is below 1e-12,
   Renyi divergences are used instead, and `why` says so.
5. *The least of bounds.* Renyi divergence gives a bound of its own; the smaller of the two is reported.

How much it overstates is stated too: ``error`` is what epsilon gains when the grid is made twice as coarse. The grid error falls
at least in proportion to the interval, so the truth lies between epsilon - error and epsilon. The interval is 1e-3, and smaller
where many small rounds need it: it is chosen for an error of about a quarter of a percent.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any, Literal, TypeAlias, TypeVar

from crescendo.errors import UsageError
from crescendo.privacy import loss, renyi
from crescendo.privacy.events import Counted, PoissonGaussian, tally

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many steps are done and how many there are."""

INTERVAL = 1e-3
LEAST_PLD_DELTA = 1e-12
MOST_SIGMA = 1e8
_ROUNDING = 2.2e-16
_TRUNCATED = 1e-15
_ERROR = 0.0025  # the share of epsilon that the interval is chosen for
_CACHED_CELLS = 8_000_000
Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Spent:
    """(epsilon, delta) of a set of releases; ``why`` says in words how it was found.

    ``epsilon`` never understates; it may overstate by about ``error`` (0 by RDP, whose looseness is not known).
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
    events: Iterable[PoissonGaussian | tuple[PoissonGaussian, int]],
    delta: float,
    *,
    quick: bool = False,
    state_error: bool = True,
    progress: Progress | None = None,
) -> Spent:
    """The epsilon of all ``events`` together at ``delta``.

    For searches, ``quick`` asks for Renyi divergence only, and ``state_error=False`` for the same epsilon without its error.

    >>> rounds = [PoissonGaussian(0.01, 1.0)] * 1000
    >>> spent = account(rounds, 1e-5)
    >>> round(spent.epsilon, 2), spent.method, round(spent.rdp_epsilon, 2)
    (1.83, 'pld', 2.11)
    >>> account([], 1e-5).epsilon, account([PoissonGaussian(0.1, 0.0)], 1e-5).epsilon
    (0.0, inf)
    """
    check_delta(delta)
    counted = tally((_enough(event), count) for event, count in tally(events) if event.rate > 0)
    if not counted:
        return Spent(0.0, delta, "none", 0.0, 0.0, None, "nothing was released about any record")
    if any(event.sigma == 0 for event, _ in counted):
        return Spent(math.inf, delta, "none", math.inf, 0.0, None, "a round was released without noise")
    bound, order = renyi.epsilon_of(renyi.divergences(counted), delta)
    if bound == math.inf:
        return Spent(math.inf, delta, "none", math.inf, 0.0, None, "a round was released with next to no noise")
    by_rdp = f"by Renyi divergence of order {order:g}"
    slack = _ROUNDING * sum(count for _, count in counted)
    if quick:
        return Spent(bound, delta, "rdp", bound, 0.0, None, f"{by_rdp}, as a quick answer was asked for")
    if delta < LEAST_PLD_DELTA or slack >= delta / 2:
        limit = max(LEAST_PLD_DELTA, 2 * slack)
        return Spent(
            bound, delta, "rdp", bound, 0.0, None, f"{by_rdp}, as delta is below {limit:.2g}, where PLD rounds"
        )
    interval = _interval(counted, delta, bound)
    found, coarse = _by_pld(counted, delta - slack, interval, state_error, progress)
    if bound <= found:
        return Spent(bound, delta, "rdp", bound, 0.0, None, f"{by_rdp}, which is below the {found:.6g} of PLD")
    why = f"by privacy loss distributions of {len(counted)} distinct rounds at interval {interval:g}, add and remove"
    return Spent(found, delta, "pld", bound, max(0.0, coarse - found), interval, why)


def _enough(event: PoissonGaussian) -> PoissonGaussian:
    """Counted with less noise where there is so much that numbers underflow: an upper bound, as more noise costs no more."""
    return event if event.sigma <= MOST_SIGMA else PoissonGaussian(event.rate, MOST_SIGMA)


def check_delta(delta: float) -> None:
    """Refuse what is no probability strictly between 0 and 1."""
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 < delta < 1:
        raise UsageError(f"delta must lie strictly between 0 and 1, got {delta!r}")


def _interval(counted: Counted, delta: float, guess: float) -> float:
    """INTERVAL halved until dots h apart cost epsilon about a quarter of a percent at most.

    Putting a loss on dots h apart adds at most h^2/4 to its variance and h^2/8 to its mean. Over n rounds with total
    deviation s that is n h^2/8 (1 + z/s) in epsilon, z = sqrt(2 ln(1/delta)) deviations out.
    """
    n = sum(count for _, count in counted)
    variance = sum(count * event.rate**2 * math.expm1(min(event.sigma**-2, 50.0)) for event, count in counted)
    bearable = 8 * _ERROR * guess / (n * (1 + math.sqrt(-2 * math.log(delta) / variance)))
    least = max(loss.finest(event.rate, event.sigma) for event, _ in counted)
    halvings = math.ceil(max(0.0, math.log2(INTERVAL / math.sqrt(bearable)))) if bearable > 0 else 0
    h = INTERVAL * 2.0**-halvings
    while h < least:
        h *= 2
    return h


def _by_pld(
    counted: Counted, delta: float, interval: float, twice: bool, progress: Progress | None
) -> tuple[float, float]:
    """Epsilon on the grid, and on one twice as coarse if ``twice``."""
    leaves: tuple[list[loss.Losses], ...] = ([], []) if twice else ([],)
    for done, (event, count) in enumerate(counted):
        both = _cache.losses(event, interval)
        leaves[0].append(loss.Losses(*(_repeated(grid, count) for grid in both)))
        if twice:
            leaves[1].append(loss.Losses(*(_repeated(loss.coarser(grid), count) for grid in both)))
        if progress is not None:
            progress(done + 1, len(counted) + 1)
    found = [max(_epsilon(grid, delta) for grid in _tree(level, _composed)) for level in leaves]
    if progress is not None:
        progress(len(counted) + 1, len(counted) + 1)
    return found[0], found[-1]


def _repeated(grid: loss.Grid, count: int) -> loss.Grid:
    """``count`` rounds alike: many by the power of an FFT, few by squaring, as the power first spends long on its tails."""
    if count > 64:
        many = _pmf(grid).self_compose(count, _TRUNCATED)
        return loss.Grid(many._lower_loss, many._probs, many._infinity_mass, grid.interval)
    result = None
    while True:
        if count % 2:
            result = grid if result is None else loss.composed(result, grid, _TRUNCATED)
        count //= 2
        if not count:
            assert result is not None
            return result
        grid = loss.composed(grid, grid, _TRUNCATED)


def _composed(left: loss.Losses, right: loss.Losses) -> loss.Losses:
    return loss.Losses(*(loss.composed(one, other, _TRUNCATED) for one, other in zip(left, right, strict=True)))


def _epsilon(grid: loss.Grid, delta: float) -> float:
    return float(_pmf(grid).get_epsilon_for_delta(delta))


def _tree(leaves: Sequence[Thing], join: Callable[[Thing, Thing], Thing]) -> Thing:
    """Join neighbours, then neighbours of those: each level convolves things of one size, which is what makes it fast."""
    while len(leaves) > 1:
        pairs = [join(left, right) for left, right in zip(leaves[::2], leaves[1::2], strict=False)]
        leaves = pairs + ([leaves[-1]] if len(leaves) % 2 else [])
    return leaves[0]


def _pmf(grid: loss.Grid) -> Any:
    pld_pmf = import_module("dp_accounting.pld.pld_pmf")  # loaded on first use: it takes a second
    return pld_pmf.DensePLDPmf(grid.interval, grid.lowest, grid.probs, grid.infinite, True)


class _Cache:
    """The losses met lately, to a bound on their memory: a ledger asks for the same rounds again and again."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[PoissonGaussian, float], loss.Losses] = OrderedDict()
        self._cells = 0

    def losses(self, event: PoissonGaussian, interval: float) -> loss.Losses:
        key = event, interval
        if key not in self._held:
            self._held[key] = loss.losses(event.rate, event.sigma, interval)
            self._cells += _size(self._held[key])
            while self._cells > _CACHED_CELLS and len(self._held) > 1:
                self._cells -= _size(self._held.popitem(last=False)[1])
        self._held.move_to_end(key)
        return self._held[key]


def _size(both: loss.Losses) -> int:
    return len(both.remove.probs) + len(both.add.probs)


_cache = _Cache()
