"""Base of every sequence of sample sizes: the ceil, the prefix sums, and their limits.

A sequence is an immutable object to call, print and compare. NumPy computes its prefix sums a block of rounds at a
time, and they are cached: the sum of a million rounds is a look-up. All sums stay below 2**62, so int64 is exact.
"""

from __future__ import annotations

import dataclasses
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np

from crescendo.errors import UsageError
from crescendo.schedules.parameters import LIMIT, Declared, FloatArray, IntArray, whole

MOST_ROUNDS = 2**24  # a schedule with more has too small rounds
FIRST_BLOCK = 1024


def round_up(x: FloatArray) -> FloatArray:
    """Return ceil(x), treating an x within one part in 10^12 of an integer as that integer.

    A float such as ``0.1 * 30 = 3.0000000000000004`` stands for the real number 3, whose ceil is 3. The rule also
    gives two machines whose ``pow`` and ``log`` differ in the last bit the same sizes.

    >>> round_up(np.array([0.1 * 30, 3.001, 1e-15])).tolist()
    [3.0, 4.0, 1.0]
    """
    with np.errstate(invalid="ignore"):  # inf - inf: an overflow, refused by the sums
        nearest = np.rint(x)
        return np.where(np.abs(x - nearest) <= 1e-12 * np.abs(x), nearest, np.ceil(x))


class _PrefixSums:
    """Prefix sums that grow by doubling as long as they stay within LIMIT."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._full = False
        self._lock = threading.Lock()  # clients of one process share a sequence
        self.sums: IntArray = np.zeros(1, np.int64)

    def grow(self, rounds: int) -> IntArray:
        """Return sums for at least ``rounds`` rounds, or for as many as are possible."""
        with self._lock:
            have = len(self.sums) - 1
            if rounds > have and not self._full:
                self._extend(have, min(max(rounds, 2 * have, FIRST_BLOCK), MOST_ROUNDS))
            return self.sums

    def _extend(self, lo: int, hi: int) -> None:
        new = self._sizes._between(lo, hi)
        with np.errstate(over="ignore"):
            so_far = float(self.sums[-1]) + np.cumsum(new, dtype=np.float64)
        fits = int(np.searchsorted(so_far, LIMIT, side="right"))
        empty = np.flatnonzero(new[:fits] < 1)
        if len(empty):
            raise UsageError(f"{self._sizes} has an empty round {lo + empty[0]}; raise its sizes to 1 or more")
        total = self.sums[-1] + np.cumsum(new[:fits].astype(np.int64))
        sums = np.concatenate([self.sums, total])
        sums.flags.writeable = False
        self._full = fits < hi - lo or hi == MOST_ROUNDS
        self.sums = sums


@dataclass(frozen=True)
class Sizes(Declared, ABC):
    """The number of gradients s_i of every round i >= 0, over all clients.

    A new kind is a frozen dataclass with declared parameters and one method, ``_between``, and a line in the registry.
    """

    def check(self) -> None:
        self.before(1)

    @abstractmethod
    def _between(self, lo: int, hi: int) -> IntArray | FloatArray:
        """Return s_lo .. s_{hi-1}, whole numbers; it may stop early once the sum exceeds LIMIT."""

    @cached_property
    def _sums(self) -> _PrefixSums:
        return _PrefixSums(self)

    def __getstate__(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # without the cached sums

    def __call__(self, i: int) -> int:
        """Return s_i.

        >>> from crescendo.schedules import PowerSizes
        >>> PowerSizes(50)(27)
        1400
        """
        start = self.before(i)
        return self.before(i + 1) - start

    def before(self, i: int) -> int:
        """Return s_0 + ... + s_{i-1}, the label of round i's first gradient.

        >>> from crescendo.schedules import PowerSizes
        >>> PowerSizes(50).before(28)
        20300
        """
        sums = self._sums.sums
        if type(i) is not int or not 0 <= i < len(sums):
            i = whole("a round", i)
            sums = self._reach(i)
        return int(sums[i])

    def prefix(self, rounds: int) -> IntArray:
        """Return [0, s_0, s_0 + s_1, ...], ``rounds + 1`` numbers, read-only.

        >>> from crescendo.schedules import PowerSizes
        >>> PowerSizes(50).prefix(4).tolist()
        [0, 50, 150, 300, 500]
        """
        rounds = whole("rounds", rounds)
        return self._reach(rounds)[: rounds + 1]

    def rounds_for(self, gradients: int) -> int:
        """Return the least T with s_0 + ... + s_{T-1} >= gradients.

        >>> from crescendo.schedules import PowerSizes
        >>> PowerSizes(50).rounds_for(20_000)
        28
        """
        gradients = whole("gradients", gradients)
        sums = self._sums.sums
        while sums[-1] < gradients:
            have = len(sums)
            sums = self._sums.grow(have)
            if len(sums) == have:
                self._stop(have)
        return int(np.searchsorted(sums, gradients))

    def _reach(self, rounds: int) -> IntArray:
        if rounds > MOST_ROUNDS:
            self._stop(rounds)
        sums = self._sums.grow(rounds)
        if len(sums) <= rounds:
            self._stop(len(sums))
        return sums

    def _stop(self, have: int) -> NoReturn:
        if have > MOST_ROUNDS:
            raise UsageError(f"{self} was asked for more than {MOST_ROUNDS:,} rounds; ask for fewer, or larger ones")
        raise UsageError(f"the sum of {self} passes 2**62 in round {have - 1}; ask for fewer rounds or smaller ones")
