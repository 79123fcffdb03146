"""The noise of each round, over the largest change by one record: one sigma for all, or steps of rounds with one each."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from crescendo_dp.errors import UsageError


@dataclass(frozen=True)
class Sigmas:
    """``steps`` of (rounds, sigma); the last step goes on for ever.

    >>> noise = Sigmas(((2, 8.0), (1, 4.0)))
    >>> [noise(i) for i in range(5)], noise.least, noise.to_json()
    ([8.0, 8.0, 4.0, 4.0, 4.0], 4.0, [[2, 8.0], [1, 4.0]])
    >>> Sigmas.constant(2.0).to_json(), str(noise)
    (2.0, '8 to 4')
    """

    steps: tuple[tuple[int, float], ...]
    _ends: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.steps or any(rounds < 1 for rounds, _ in self.steps):
            raise UsageError("privacy.sigma is a number, or a list of [rounds, sigma] with at least one round each")
        object.__setattr__(self, "_ends", tuple(itertools.accumulate(rounds for rounds, _ in self.steps)))

    @classmethod
    def constant(cls, sigma: float) -> Sigmas:
        """The same noise in every round."""
        return cls(((1, float(sigma)),))

    @classmethod
    def of(cls, value: Any) -> Sigmas:
        """From a number or a list of pairs, as run files and terms have them; TypeError or ValueError for anything else."""
        if isinstance(value, Sigmas):
            return value
        if isinstance(value, Sequence) and not isinstance(value, str):
            return cls(tuple((_whole(rounds), float(sigma)) for rounds, sigma in value))
        return cls.constant(float(value))

    def __call__(self, i: int) -> float:
        return self.steps[min(bisect.bisect_right(self._ends, i), len(self.steps) - 1)][1]

    def __str__(self) -> str:
        """For people: the first and the last.

        >>> str(Sigmas.constant(1.5))
        '1.5'
        """
        return f"{self:g}"

    def __format__(self, form: str) -> str:
        """
        >>> f"{Sigmas(((2, 8.123), (1, 4.0))):.2g}"
        '8.1 to 4'
        """
        first, last = self.steps[0][1], self.steps[-1][1]
        return f"{first:{form}}" if len(set(self.values())) == 1 else f"{first:{form}} to {last:{form}}"

    def values(self) -> Iterator[float]:
        return (sigma for _, sigma in self.steps)

    @property
    def least(self) -> float:
        return min(self.values())

    @property
    def most(self) -> float:
        return max(self.values())

    @property
    def rounds(self) -> int | None:
        """How many rounds are listed; None for one sigma that holds for any number."""
        return None if len(self.steps) == 1 else self._ends[-1]

    def aggregated(self, rounds: int) -> float:
        """The root of the sum of the squares over the first ``rounds`` rounds: sqrt(T) sigma where there is one.

        >>> Sigmas.constant(2.0).aggregated(9), Sigmas(((1, 3.0), (1, 4.0))).aggregated(2)
        (6.0, 5.0)
        """
        total, left = 0.0, rounds
        for count, sigma in self.steps[:-1]:
            total, left = total + min(count, left) * sigma * sigma, max(0, left - count)
        return math.sqrt(total + left * self.steps[-1][1] ** 2)

    def to_json(self) -> float | list[list[float]]:
        """A number where there is one, else the list of pairs."""
        return self.steps[0][1] if len(self.steps) == 1 else [[rounds, sigma] for rounds, sigma in self.steps]


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"a number of rounds is whole, got {value!r}")
    return value
