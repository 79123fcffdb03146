"""A planner by brute force: many schedules of every kind, each priced by an accountant of its own.

Nothing here comes from the planner or the accountant under test. Schedules: sizes that follow a power, p from 0 to 8; the first
size a number of times, then even sizes; two levels with any number of high rounds at many heights; each in the fewest rounds and
in more.

    python -m dp/tests/brute_force [--requests 100] [--seed 0]
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from second_accountant import Floats, Stairs, epsilon_of, sigma_for


@dataclass(frozen=True)
class Asked:
    """A request as `plan` takes it; ``cap`` follows from the share."""

    epsilon: float
    delta: float
    records: int
    gradients: int
    first_size: int | None
    rounds: int | None
    max_share: float | None

    @property
    def cap(self) -> int:
        share = self.max_share if self.max_share is not None else (0.046 if self.rounds is None else 1.0)
        return int(share * self.records + 1e-9)

    @property
    def fewest(self) -> int:
        head = self.first_size or 0
        return (1 if head else 0) + math.ceil((self.gradients - head) / self.cap)

    @property
    def arguments(self) -> dict[str, Any]:
        return {**self.__dict__}


def random_request(rng: random.Random) -> Asked:
    """Of any size, with or without a first size, a number of rounds and a cap; one that has an answer."""
    while True:
        records = round(10 ** rng.uniform(2.5, 6))
        gradients = max(1, round(records * 10 ** rng.uniform(-1, 1)))
        share = rng.choice([None, round(10 ** rng.uniform(-2, 0), 4)])
        epsilon, delta = round(10 ** rng.uniform(-1, 1.3), 4), float(f"{10 ** rng.uniform(-9, -4):.2g}")
        asked = Asked(epsilon, delta, records, gradients, None, None, share)
        first = rng.choice([None, max(1, round(asked.cap ** rng.uniform(0, 0.95)))])
        if asked.cap < 2 or (first is not None and not first < min(asked.cap, gradients)):
            continue
        asked = replace(asked, first_size=first)
        if rng.random() < 0.4:
            rounds = round(asked.fewest * 10 ** rng.uniform(0, 0.7))
            asked = replace(asked, rounds=rounds)
            if rounds * (first or 1) > gradients or (first and rounds < 2):
                continue
        if (asked.rounds or asked.fewest) <= 2000:
            return asked


_FEW, _MANY = (1.5, 3, 8, 20), (1.1, 1.25, 1.5, 2, 3, 5, 8, 13, 20, 35, 60)  # times the fewest rounds


def schedules(asked: Asked, fine: bool = True) -> Iterator[Stairs]:
    """Everything that is tried: all gradients, no size over the cap, none under the first if the others can be larger."""
    most = max(asked.fewest, asked.gradients // (asked.first_size or 1))  # a first size may be the largest
    counts = [asked.rounds]
    if asked.rounds is None:
        near = range(asked.fewest, asked.fewest + (4 if fine else 2))
        far = [round(asked.fewest * by) for by in (_MANY if fine else _FEW)]
        counts = sorted({count for count in (*near, *far) if count <= min(most, 3000)})
    for at, count in enumerate(counts):
        assert count is not None
        for sizes in _of(asked, count, fine and at < 2):
            stairs = tuple((size, n) for size, n in sizes if n)
            whole = sum(size * n for size, n in stairs) == asked.gradients and sum(n for _, n in stairs) == count
            if whole and all(1 <= size <= asked.cap for size, _ in stairs):
                yield stairs


def _of(asked: Asked, count: int, fine: bool) -> Iterator[list[tuple[int, int]]]:
    first, gradients, cap = asked.first_size, asked.gradients, asked.cap
    head = [(first, 1)] if first else []
    rest, rounds, least = gradients - (first or 0), count - len(head), first or 1
    if rounds < 1:
        return
    yield head + _even(rest, rounds)
    for small in _spaced(1, rounds - 1, 12 if fine else 4):  # the first size, or the least, some times more
        yield [*head, (least, small), *_even(rest - small * least, rounds - small)]
    for high in _spaced(1, rounds - 1, 16 if fine else 6):  # two levels
        for height in np.linspace(0, 1, 13 if fine else 5)[1:]:
            size = round((rest / rounds) ** (1 - height) * cap**height)
            if rest - size * high >= (rounds - high) * min(least, rest // rounds):
                yield [*head, *_even(rest - size * high, rounds - high), (size, high)]
    top = min(rounds - 1, max(0, rest - rounds * least) // max(1, cap - least))
    between = rest - top * cap - (rounds - top - 1) * least
    yield [*head, (least, rounds - top - 1), (between, 1), (cap, top)]
    for p in (
        *np.arange(0.05, 0.5, 0.05 if fine else 0.2),
        *np.arange(0.5, 2.01, 0.1 if fine else 0.5),
        2.5,
        3,
        4,
        6,
        8,
    ):
        yield _power(first, float(p), count, gradients)


def _even(gradients: int, rounds: int) -> list[tuple[int, int]]:
    if rounds < 1 or gradients < rounds:
        return [(0, max(rounds, 1))]  # which is left out
    size, more = divmod(gradients, rounds)
    return [(size, rounds - more), (size + 1, more)]


def _spaced(low: int, high: int, many: int) -> list[int]:
    return sorted({round(low * (high / low) ** (j / (many - 1))) for j in range(many)}) if high >= low else []


def _power(first: int | None, p: float, count: int, gradients: int) -> list[tuple[int, int]]:
    """(i + m)^p from the first size, in steps of equal sums: the last step takes what rounding leaves over."""
    with np.errstate(divide="ignore"):
        log_i = np.log(np.arange(count))

    def curve(log_m: float) -> Floats:
        return np.asarray(np.exp(p * np.logaddexp(0, log_i - log_m)))

    if first is None:
        sizes: np.ndarray[Any, Any] = np.arange(1.0, count + 1) ** p
    elif gradients <= first * count or first * curve(-80.0 / p).sum() < gradients:
        return [(0, 1)]
    else:
        sizes = np.asarray(
            curve(brentq(lambda log_m: first * curve(log_m).sum() - gradients, -80.0 / p, 80.0)), dtype=np.float64
        )
    sizes = sizes * (gradients / sizes.sum())
    levels = np.unique(np.searchsorted(sizes, np.linspace(sizes[0], sizes[-1], 32)[:-1], side="right"))
    ends = [end for end in levels.tolist() if 0 < end < count]
    found, done, begin = [], 0, 0
    for end in ends:
        size = max(1, round(float(sizes[begin:end].sum()) / (end - begin)))
        found.append((size, end - begin))
        done, begin = done + size * (end - begin), end
    return found + _even(gradients - done, count - begin)


def least_noise(asked: Asked, fine: bool = True) -> tuple[float, Stairs]:
    """The least aggregated noise of all schedules that are tried, and the schedule that has it."""
    best, noise = None, math.inf
    for stairs in schedules(asked, fine):
        rounds = sum(n for _, n in stairs)
        if best is None:
            best, noise = stairs, math.sqrt(rounds) * _sigma(asked, stairs, 1.0)
            continue
        tie = noise / math.sqrt(rounds)
        most = 0.9999 * asked.epsilon
        if epsilon_of(stairs, asked.records, tie, asked.delta, most) < most:
            sigma = _sigma(asked, stairs, tie)
            best, noise = (stairs, math.sqrt(rounds) * sigma) if sigma < tie else (best, noise)
    assert best is not None
    return noise, best


def _sigma(asked: Asked, stairs: Stairs, start: float) -> float:
    return sigma_for(stairs, asked.records, asked.epsilon, asked.delta, start)


@dataclass(frozen=True)
class Compared:
    """The planner's noise over that of the brute force, each by its own accountant, and both by the brute force's."""

    asked: Asked
    shape: str
    ratio: float
    search_ratio: float
    brute: Stairs
    seconds: float


def compare(asked: Asked, fine: bool = True) -> Compared:
    from crescendo_dp import plan

    begin = time.process_time()
    made = plan(**asked.arguments, compare=False)
    seconds = time.process_time() - begin
    noise, brute = least_noise(asked, fine)
    own = math.sqrt(made.rounds) * _sigma(asked, made.staircase, made.sigma.most)
    return Compared(asked, made.sizes.shape, made.aggregated_noise / noise, own / noise, brute, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    found = []
    for j in range(asked.requests):
        one = compare(random_request(rng))
        found.append(one)
        ratios = f"{one.ratio:.5f} {one.search_ratio:.5f}"
        print(f"{j} {one.shape} {ratios} {one.seconds:.1f} s {one.asked} {one.brute[:4]}", flush=True)
    worst, search = max(one.ratio for one in found), max(one.search_ratio for one in found)
    print(f"worst of {len(found)} requests: {worst:.5f}, by search alone {search:.5f}")


if __name__ == "__main__":
    main()
