"""A plan as data: a schedule for one client, its noise, its cost, and the alternatives it was compared with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from crescendo_dp.events import Counted, to_json
from crescendo_dp.meaning.odds_and_attacks import Meaning
from crescendo_dp.planning.cautions import PERSONS, about_delta
from crescendo_dp.planning.comparison import Alternative, Point
from crescendo_dp.planning.family import Limits, Shape
from crescendo_dp.planning.sigmas import Sigmas
from crescendo_dp.planning.staircase import Staircase
from crescendo_dp.planning.target import RARE

_WORTH = 1.001  # noise that is less by a smaller factor is not worth a sentence


@dataclass(frozen=True)
class PlannedSizes:
    """The shape of the sizes, with their first and last.

    A power follows N q (i+m)^p with rounds i from 0; for other shapes N q is the last size of the even ones, and p = 0.
    """

    shape: Shape
    q: float
    m: float
    p: float
    first: int
    last: int

    def __str__(self) -> str:
        """
        >>> print(PlannedSizes("step", 0.0455, 0.0, 0.0, 16, 455))
        16 in the first round, then even
        """
        words = {
            "constant": "constant",
            "step": f"{self.first:,} in the first round, then even",
            "levels": "small rounds, then large ones",
        }
        return words.get(self.shape, f"N q (i+m)^p, q = {self.q:.4g}, m = {self.m:.4g}, p = {self.p:g}")


@dataclass(frozen=True, repr=False)
class Plan:
    """A schedule for one client with its cost. ``epsilon`` is the tight one, never above the budget."""

    sizes: PlannedSizes
    staircase: Staircase
    rounds: int
    sigma: Sigmas
    aggregated_noise: float
    epsilon: float
    delta: float
    method: str
    records: int
    gradients: int
    family: tuple[Alternative, ...] = ()
    compared_to: dict[str, dict[str, Any]] = field(default_factory=dict)
    curve: tuple[Point, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def events(self) -> Counted:
        """Return the releases of a client that follows the plan."""
        begins = itertools.accumulate((rounds for _, rounds in self.staircase[:-1]), initial=0)
        return self.staircase.events(self.records, tuple(self.sigma(i) for i in begins))

    def meaning(self) -> Meaning:
        """Return the meaning of its epsilon."""
        return Meaning.of(self.events, self.epsilon, self.delta)

    def cautions(self) -> list[str]:
        """Return warnings that hold although the epsilon is true."""
        return [*about_delta(self.delta, self.records), PERSONS]

    @property
    def per_round(self) -> tuple[int, ...]:
        """The size of each round."""
        return self.staircase.per_round()

    def to_json(self) -> dict[str, Any]:
        """Plain data, the events included."""
        plain = {
            **self.__dict__,
            "sizes": asdict(self.sizes),
            "sigma": self.sigma.to_json(),
            "events": to_json(self.events),
            "meaning": self.meaning().to_json(),
            "cautions": self.cautions(),
        }
        return {**plain, "family": [one.to_json() for one in self.family], "curve": [asdict(one) for one in self.curve]}

    def with_notes(self, limits: Limits, by_round: Sigmas | None) -> Plan:
        """Return the plan with notes on the choice; ``by_round`` is the noise by round that the plan does not have."""
        return replace(self, notes=tuple(_notes(self, limits, by_round)))

    def __repr__(self) -> str:
        return (
            f"Plan(rounds={self.rounds}, sizes={self.sizes.first} to {self.sizes.last}, sigma={self.sigma:.4g}, "
            f"epsilon={self.epsilon:.4g}, delta={self.delta:g})"
        )

    def summary(self) -> str:
        """Return the plan, its family, notes on the choice, and the meaning of its epsilon."""
        return "\n".join([str(self), *self.meaning().sentences()])

    def __str__(self) -> str:
        head = (
            f"{self.rounds:,} rounds of {self.sizes.first:,} to {self.sizes.last:,} out of {self.records:,} records, "
            f"sigma {self.sigma:g}, aggregated noise {self.aggregated_noise:.4g}: "
            f"epsilon {self.epsilon:.4g} at delta {self.delta:g}"
        )
        table = [
            f"  {one.name:<20} rounds {one.rounds:<7,} sigma {one.sigma:.4g}, noise {one.aggregated_noise:.4g}"
            f"{', chosen' if one.chosen else ''}"
            for one in self.family
        ]
        return "\n".join([head, *(["the family:", *table] if table else []), *self.notes])


def _notes(made: Plan, limits: Limits, by_round: Sigmas | None) -> Iterator[str]:
    """Explain the choice, with its numbers."""
    yield from _choice(made, limits)
    if by_round is not None and made.aggregated_noise > _WORTH * (less := by_round.aggregated(made.rounds)):
        yield (
            f"With noise by round (sigma {by_round:.3g}) the same sizes would have an aggregated noise of {less:.4g}, "
            f"{_percent(1 - less / made.aggregated_noise)} less."
        )
    noise = [point.aggregated_noise for point in made.curve]
    if noise == sorted(noise, reverse=True):
        yield "At equal gradients, fewer and larger rounds lower the aggregated noise while the noise of each round rises."
    if limits.first is not None or limits.delay is not None:
        yield "Growing sizes pay for a small start: quick early progress, and few rounds later. A power keeps them growing."
    if made.rounds * 1e-60 > RARE * made.delta:
        yield "A run may refuse so small a delta: rare events of its own need room in it."


def _choice(made: Plan, limits: Limits) -> Iterator[str]:
    """Why this member."""
    if made.method == "paper" or limits.power is not None:
        return
    shape, noise = made.sizes.shape, made.aggregated_noise
    if shape == "levels":
        small = sum(rounds for size, rounds in made.staircase if size < made.sizes.last)
        yield (
            f"At rates or an epsilon this large, {small:,} small rounds and a few large ones need less noise than even sizes; "
            f"power 0 keeps sizes even."
        )
        return
    if limits.first is None and limits.delay is None:
        if limits.rounds is None:
            yield "Without a first size or a delay condition, constant sizes as large as allowed are best, as the curve shows."
        else:
            yield "At this number of rounds, constant sizes need no more noise than growing ones."
    others = [one for one in made.family if not one.chosen]
    for one in others:
        if one.shape == shape and one.rounds < made.rounds and one.aggregated_noise > noise:
            more = _percent(one.aggregated_noise / noise - 1)
            yield (
                f"In {one.rounds:,} rounds, the fewest, the aggregated noise would be {more} more: "
                f"a small first round has the noise of a large one."
            )
    if unlike := [one for one in others if one.shape != shape]:
        near = min(unlike, key=lambda one: one.aggregated_noise)
        more = _percent(near.aggregated_noise / noise - 1)
        yield f"Chosen for the least aggregated noise; next is {near.name}, with {more} more in {near.rounds:,} rounds."


def _percent(part: float) -> str:
    """
    >>> _percent(0.0123), _percent(1.5)
    ('1.2%', '150%')
    """
    return f"{100 * part:.2g}%" if part < 1 else f"{100 * part:.0f}%"
