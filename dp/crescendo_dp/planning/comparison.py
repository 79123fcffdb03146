"""Comparisons for a plan: the rest of its family, constant sizes from small to large, and the paper's recipe."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from crescendo_dp.errors import UsageError
from crescendo_dp.planning.by_round import spread
from crescendo_dp.planning.family import Limits, Member, Shape
from crescendo_dp.planning.search import compared_members
from crescendo_dp.planning.sigmas import Sigmas
from crescendo_dp.planning.staircase import Staircase
from crescendo_dp.planning.target import Target

CURVE_POINTS = 6
_RTOL = 0.004  # of the sigmas here; all lie on the safe side


@dataclass(frozen=True)
class Point:
    """One constant size: the largest share of the records in a round, its rounds and its noise."""

    size: int
    share: float
    rounds: int
    sigma: float
    aggregated_noise: float


@dataclass(frozen=True)
class Alternative:
    """One member of the family: its rounds, and its noise per round and over all rounds."""

    name: str
    shape: Shape
    p: float
    rounds: int
    first: int
    last: int
    sigma: Sigmas
    aggregated_noise: float
    chosen: bool = False

    @classmethod
    def of(cls, member: Member, sigma: Sigmas, name: str = "", chosen: bool = False) -> Alternative:
        sizes = member.stairs[0][0], member.stairs[-1][0]
        noise = sigma.aggregated(member.rounds)
        return cls(name or str(member), member.shape, member.p, member.rounds, *sizes, sigma, noise, chosen)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**self.__dict__, "sigma": self.sigma.to_json()}


def alternatives(target: Target, limits: Limits, by_round: bool, ratio: float) -> Iterator[Alternative]:
    """The family but two levels, each with one sigma or with noise by round; ``ratio`` is about that of tight to quick sigmas."""
    for one in compared_members(target, limits):
        if one.shape == "constant":
            sigma = _priced(target, one.stairs)
        else:
            sigma = target.sigma(one.stairs, _RTOL, ratio * target.quick_sigma(one.stairs))
        yield Alternative.of(one, spread(target, one.stairs, sigma) if by_round else Sigmas.constant(sigma))


def curve(target: Target, first: int, cap: int) -> Iterator[Point]:
    """Constant sizes from a sixteenth of the cap, or the first size if smaller, to the cap, in even ratios."""
    cap = min(cap, target.gradients)
    low = max(1, min(first, cap // 16))
    for size in sorted({round(low * (cap / low) ** (j / (CURVE_POINTS - 1))) for j in range(CURVE_POINTS)}):
        yield _point(target, size)


def _point(target: Target, size: int) -> Point:
    """Return constant rounds of ``size``; the last takes the remainder."""
    stairs = Staircase.flat(size, target.gradients)
    count, sigma = stairs.rounds, _priced(target, stairs)
    return Point(size, size / target.records, count, sigma, math.sqrt(count) * sigma)


@lru_cache(maxsize=32)
def _priced(target: Target, stairs: Staircase) -> float:
    """Kept for a while: constant rounds of the first size are in every comparison."""
    return target.sigma(stairs, _RTOL)


def compared(target: Target, first: int, power: float = 1.0, r0: float | None = None) -> dict[str, dict[str, Any]]:
    """Return rounds and noise of a budget for constant rounds of size ``first``, and by the paper's recipe from it."""
    constant = {key: value for key, value in asdict(_point(target, first)).items() if key != "share"}
    return {"constant": constant, "paper": _paper_row(target, first, power, r0)}


def _paper_row(target: Target, first: int, power: float, r0: float | None) -> dict[str, Any]:
    try:
        found = target.by_paper(first, power, r0)
    except UsageError as error:
        return {"why": str(error)}
    noise = {"rounds": found.rounds, "sigma": found.sigma, "aggregated_noise": found.aggregated_noise}
    return {"q": found.q, "m": found.m, "p": found.p, **noise}
