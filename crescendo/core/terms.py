"""Paper [alg:setup]: the agreement of server and clients before the start, as pure functions of the round.

No message carries these: sizes, shares, step sizes, masks and the wait rule depend only on the terms and the round,
so each side computes them itself. The schedules are callable objects; `crescendo.schedules.schedule_certificate`
checks that they are *safe* (live, within the delay bound) before terms are made.
"""

import bisect
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from crescendo.core.arrays import Floats, Ints
from crescendo.core.random import Purpose, each_round, stream
from crescendo.errors import UsageError

_TOGETHER = 1 << 18  # shares computed together
CACHED_NUMBERS = 4_000_000  # size limit of the caches of shares
MOST_SUMS = 1024  # rounds with cached sums of earlier slots


class _SizeRule(Protocol):
    """Slots of round i over all clients, and their sum before round i."""

    def __call__(self, i: int) -> int: ...
    def before(self, i: int) -> int: ...


class _StepRule(Protocol):
    """The step size at label t, looked up once ``per`` round or slot; ``falls`` is True if it never rises."""

    @property
    def per(self) -> Literal["slot", "round"]: ...
    @property
    def falls(self) -> bool: ...
    def at(self, t: Any) -> Any: ...


class _DelayRule(Protocol):
    """The permissible delay tau(t)."""

    def __call__(self, t: Any) -> Any: ...


@dataclass(frozen=True)
class Terms:
    """The agreed schedule, with one of two wait rules: ``ahead``, the d of "work on round i while i <= k + d", or
    ``tau``.

    ``sizes`` counts exactly the slots of the run (its last round is cut), over all clients. ``blocks`` is the D of
    masks, 1 for none. With ``whole_rounds`` a round uses one start model, and the wait rule is tested once, before
    the round. ``combine`` makes the global model move by the sum of the clients' displacements, as in the paper's
    Algorithm 3, or by their mean. ``strides`` follow from the weights: 1 / p_c, the slots of all clients per slot of
    client c.
    """

    sizes: _SizeRule
    steps: _StepRule
    weights: tuple[float, ...]
    rounds: int
    ahead: int | None = None
    tau: _DelayRule | None = None
    shares_by: Literal["expected", "coin"] = "expected"
    seed: int = 0
    blocks: int = 1
    whole_rounds: bool = False
    combine: Literal["sum", "mean"] = field(default="sum", repr=False)
    strides: Floats = field(init=False, repr=False, compare=False)
    _cumulative: Floats = field(init=False, repr=False, compare=False)
    _cache: dict[int, Ints] = field(init=False, repr=False, compare=False, default_factory=dict)
    _listed: dict[int, list[int]] = field(init=False, repr=False, compare=False, default_factory=dict)
    _etas: dict[int, float] = field(init=False, repr=False, compare=False, default_factory=dict)
    _earlier: dict[int, Ints] = field(init=False, repr=False, compare=False, default_factory=dict)
    _labels: dict[tuple[int, int], Ints] = field(init=False, repr=False, compare=False, default_factory=dict)
    _coins: dict[tuple[int, int], Ints] = field(init=False, repr=False, compare=False, default_factory=dict)
    _uniforms: dict[tuple[int, int], Floats] = field(init=False, repr=False, compare=False, default_factory=dict)
    _blocks: dict[int, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not self.weights or any(not (math.isfinite(p) and p > 0) for p in self.weights):
            raise UsageError("every client needs a positive weight; leave a client out rather than weigh it with 0")
        if abs(math.fsum(self.weights) - 1) > 1e-9:
            raise UsageError(f"the weights of the clients must sum to 1, got {math.fsum(self.weights):.6g}")
        if (self.ahead is None) == (self.tau is None):
            raise UsageError("give one wait rule: rounds ahead (d) or a delay function (tau)")
        if self.ahead is not None and self.ahead < 0:
            raise UsageError(f"a client may be 0 or more rounds ahead, got {self.ahead}")
        if self.shares_by not in ("expected", "coin"):
            raise UsageError(f"shares are drawn as expected or by coin, not {self.shares_by!r}")
        if not 0 <= self.seed < 2**128:
            raise UsageError(f"a seed is a whole number from 0 to 2**128 - 1, got {self.seed}")
        if self.combine not in ("sum", "mean"):
            raise UsageError(f"updates are combined as their sum or their mean, not {self.combine!r}")
        if self.rounds < 1 or self.blocks < 1:
            raise UsageError(f"a run needs at least one round and one block, got {self.rounds} and {self.blocks}")
        cumulative = np.concatenate([[0.0], np.cumsum(self.weights)])
        cumulative[-1] = 1.0
        object.__setattr__(self, "_cumulative", cumulative)
        object.__setattr__(self, "strides", _strides(self.weights))

    @property
    def clients(self) -> int:
        return len(self.weights)

    @property
    def digest(self) -> str:
        """A fingerprint of the terms: different terms have different digests."""
        said = repr(self) if self.combine == "sum" else f"{self!r} combined as their {self.combine}"
        return hashlib.sha256(said.encode()).hexdigest()

    @property
    def combined(self) -> float:
        """The factor on a client's displacement before it is sent: 1 / n for the mean over the n clients of the terms.

        Shares already carry the weights p_c, so the sum and the mean both minimise sum_c p_c F_c. An absent client
        still counts: the factor is public, and no message depends on the clients present.
        """
        return 1.0 / self.clients if self.combine == "mean" else 1.0

    def before(self, i: int) -> int:
        """s_0 + .. + s_{i-1}."""
        return self.sizes.before(i)

    # -- shares --------------------------------------------------------------------------------------------------------

    def shares(self, i: int) -> Ints:
        """Return s_{i,c} for every client: by coin flips, or as expected shares, fair over rounds with an exact sum."""
        known = self._cache.get(i)
        if known is not None:
            return known
        if len(self._cache) * self.clients > CACHED_NUMBERS:
            self._cache.clear()
        result = self._shares(i)
        result.flags.writeable = False
        self._cache[i] = result
        return result

    def share(self, i: int, c: int) -> int:
        """Return s_{i,c}, the slots of client c in round i."""
        known = self._listed.get(i)
        if known is None:
            if len(self._listed) * self.clients > CACHED_NUMBERS:
                self._listed.clear()
            known = self._listed[i] = self.shares(i).tolist()
        return known[c]

    def _shares(self, i: int) -> Ints:
        if i >= self.rounds:
            return np.zeros(self.clients, dtype=np.int64)
        size, rng = self.sizes(i), stream(self.seed, Purpose.SHARES, 0, i)
        if self.shares_by == "coin":
            return np.asarray(rng.multinomial(size, np.diff(self._cumulative)), dtype=np.int64)
        bounds = np.floor(self._cumulative * size + rng.random()).astype(np.int64)
        bounds[-1] = size  # size + u can round up to size + 1
        return np.diff(np.minimum(bounds, size))

    def shares_of_rounds(self, first: int, stop: int) -> Ints:
        """Return the shares of the rounds ``first`` to ``stop`` - 1, one row each, much faster than one by one."""
        if self.shares_by == "coin":
            return self._flips(first, stop)
        sizes = np.diff(self.labels(first, stop))[:, None]
        if self.clients == 1:
            return sizes
        bounds: Ints = np.floor(self._cumulative * sizes + self._draws(first, stop)[:, None]).astype(np.int64)
        bounds[:, -1:] = sizes
        np.minimum(bounds, sizes, out=bounds)
        return bounds[:, 1:] - bounds[:, :-1]

    def shares_of(self, c: int) -> Iterator[int]:
        """Yield s_{i,c} of client c for every round, computed in chunks."""
        for first, stop in self.parts():
            yield from self.shares_of_rounds(first, stop)[:, c].tolist()

    def parts(self) -> Iterator[tuple[int, int]]:
        """Yield all rounds as ranges to process together: there may be a million rounds."""
        rows = max(1, _TOGETHER // self.clients)
        return ((first, min(first + rows, self.rounds)) for first in range(0, self.rounds, rows))

    def labels(self, first: int, stop: int) -> Ints:
        """Return s_0 + .. + s_{i-1} for the rounds ``first`` to ``stop`` inclusive."""
        known = self._labels.get((first, stop))
        if known is None:
            known = self._labels[first, stop] = np.array([self.before(i) for i in range(first, stop + 1)], np.int64)
        return known

    def _flips(self, first: int, stop: int) -> Ints:
        known = self._coins.get((first, stop))
        if known is None:
            chances, sizes = np.diff(self._cumulative), np.diff(self.labels(first, stop)).tolist()
            known = np.empty((stop - first, self.clients), np.int64)
            for row, size, rng in zip(
                known, sizes, each_round(self.seed, Purpose.SHARES, range(first, stop)), strict=True
            ):
                row[:] = rng.multinomial(size, chances)
            self._coins[first, stop] = known
        return known

    def _draws(self, first: int, stop: int) -> Floats:
        """Return the uniform draw of each round's shares; cached, since a certificate visits all rounds several times."""
        known = self._uniforms.get((first, stop))
        if known is None:
            drawn = (rng.random() for rng in each_round(self.seed, Purpose.SHARES, range(first, stop)))
            known = self._uniforms[first, stop] = np.fromiter(drawn, np.float64, stop - first)
        return known

    def assignment(self, i: int) -> Ints:
        """Return a(i, t), the client of each of round i's s_i entries, which orders the gradients for Paper [thmalg].

        Coin flips: given the counts every order is equally likely, so one is drawn. Expected shares: client c's
        (h+1)-th entry is at (h + 1/2) / s_{i,c} of the round, ties by client, so each client's entries are spread
        evenly.
        """
        shares = self.shares(i)
        if self.shares_by == "coin":
            rng = stream(self.seed, Purpose.SHARES, 1, i)
            return rng.permutation(np.repeat(np.arange(self.clients), shares))
        owner = np.repeat(np.arange(self.clients), shares)
        entry = np.arange(len(owner)) - np.repeat(np.cumsum(shares) - shares, shares)
        return owner[np.lexsort((owner, (entry + 0.5) / shares[owner]))]

    # -- steps and masks -----------------------------------------------------------------------------------------------

    def etas(self, i: int, c: int) -> Floats:
        """Return the step size of each slot of client c in round i, looked up at the slot's label t, with h from 0.

        Once per round, t = s_0 + .. + s_{i-1}. At every slot, t = (s_{0,c} + .. + s_{i-1,c} + h) / p_c: the progress
        of all clients if each is as far as this one, so a client's steps never rise. With equal shares this is the
        paper's s_0 + .. + s_{i-1} + n h, whose labels exceed their round if a client has more than its n-th part.
        """
        slots = self.share(i, c)
        if self.steps.per == "round":
            return np.full(slots, self._eta(i))
        labels = (self.slots_before(i)[c] + np.arange(slots)) * self.strides[c]
        return np.asarray(self.steps.at(labels), dtype=np.float64)

    def slots_before(self, i: int) -> Ints:
        """Return s_{0,c} + .. + s_{i-1,c} for every client; cached for some rounds, since clients ask one after the other."""
        known = self._earlier.get(i)
        if known is None:
            nothing = (0, np.zeros(self.clients, np.int64))
            sums = [*self._earlier.items()]  # a copy: another thread may evict some
            start, known = max((pair for pair in sums if pair[0] < i), key=lambda pair: pair[0], default=nothing)
            for lo in range(start, i, MOST_SUMS):
                known = known + self._slots_between(lo, min(lo + MOST_SUMS, i))
            if len(self._earlier) >= max(8, min(MOST_SUMS, CACHED_NUMBERS // self.clients)):
                for j in sorted(self._earlier)[: len(self._earlier) // 2]:
                    self._earlier.pop(j, None)
            self._earlier[i] = known
        return known

    def _slots_between(self, first: int, stop: int) -> Ints:
        many = stop - first == MOST_SUMS  # much faster than one by one, but fills other caches
        rows = self.shares_of_rounds(first, stop) if many else np.stack([self.shares(j) for j in range(first, stop)])
        return np.asarray(rows.sum(axis=0), np.int64)

    def distinct_etas(self, i: int, c: int) -> Floats:
        """Return the same step sizes, but only one if the whole round shares it: a round may have a hundred million slots."""
        slots = self.share(i, c)
        return np.full(min(slots, 1), self._eta(i)) if self.steps.per == "round" else self.etas(i, c)

    def largest_step(self, i: int, c: int) -> float:
        """Return the largest absolute step size of client c in round i; 0 without a share."""
        return float(np.max(np.abs(self.distinct_etas(i, c)), initial=0.0))

    def _eta(self, i: int) -> float:
        eta = self._etas.get(i)
        if eta is None:
            eta = self._etas[i] = float(self.steps.at(self.before(i)))
        return eta

    def block(self, i: int, size: int) -> tuple[int, int]:
        """Paper [app-rec]: return (lo, hi), the coordinates lo..hi-1 of a model of ``size`` numbers that round i moves."""
        if self.blocks == 1:
            return 0, size
        if self.blocks > size:
            raise UsageError(f"a model of {size} numbers cannot be cut into {self.blocks} blocks; use at most {size}")
        chosen = self._blocks.get(i)
        if chosen is None:
            chosen = int(stream(self.seed, Purpose.MASK, 0, i).integers(self.blocks))
            self._blocks[i] = chosen
        return chosen * size // self.blocks, (chosen + 1) * size // self.blocks

    def moving(self, i: int, size: int) -> tuple[int, int] | None:
        """Return the coordinates that move in round i, None for all."""
        return None if self.blocks == 1 else self.block(i, size)

    # -- the wait rule -------------------------------------------------------------------------------------------------

    def allowed(self, i: int, k: int, c: int) -> int:
        """Return the number of slots of round i, 0 to s_{i,c}, that client c may run while k is its newest broadcast."""
        slots = self.share(i, c)
        if self.tau is None:
            assert self.ahead is not None
            return slots if i <= k + self.ahead else 0
        if not slots or self._may_run(i, k, slots, slots - 1):
            return slots
        if self.whole_rounds:
            return 0
        # t - tau(t) does not decrease (certified), so the slots that may run are the first ones: bisect for their number.
        return bisect.bisect_left(range(slots - 1), True, key=lambda h: not self._may_run(i, k, slots, h))

    def _may_run(self, i: int, k: int, slots: int, h: int) -> bool:
        """Paper [alg:client]: return False while tau(t_glob) <= t_delay, so that the (h+1)-th gradient waits."""
        t_glob, t_delay = self.clock(i, k, slots, h)
        return self.permitted(t_glob) > t_delay

    def permitted(self, t: int) -> float:
        """Return tau(t), and tau(0) before the first label."""
        assert self.tau is not None
        return float(self.tau(max(t, 0)))

    def clock(self, i: int, k: int, slots: int, h: int) -> tuple[int, int]:
        """Return t_glob = s_0+..+s_i - (s_{i,c} - h) - 1 and t_delay = s_k+..+s_i - (s_{i,c} - h)."""
        done = self.before(i + 1) - (slots - h)
        return done - 1, done - self.before(k)

    def furthest(self, k: int) -> int:
        """Return the highest round that any client can finish while k is the newest broadcast; later ones are refused."""
        last = self.rounds - 1
        if self.ahead is not None:
            return min(last, k + self.ahead)
        return k - 1 + bisect.bisect_left(range(k, last + 1), True, key=lambda i: not self._may_run(i, k, 1, 0))


def _strides(weights: tuple[float, ...]) -> Floats:
    """Return 1 / p_c, rounded to an integer if it differs only by the rounding of p_c, so equal clients get integer
    labels.

    >>> 1 / (1 / 49), _strides((1 / 49, 0.8)).tolist()
    (49.00000000000001, [49.0, 1.25])
    """
    exact: Floats = np.minimum(1 / np.maximum(weights, 2.0**-62), 2.0**62)
    nearest = np.rint(exact)
    return np.where(np.abs(exact - nearest) <= 1e-12 * exact, nearest, exact)
