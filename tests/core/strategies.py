"""What the property tests draw: terms of small federations, live delay functions, orders of arrival."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from hypothesis import strategies as st

from crescendo.core.terms import Terms


@dataclass(frozen=True)
class Listed:
    """Sizes as a plain list, 0 after its end. Slow on purpose: `crescendo.schedules` is tested elsewhere."""

    values: tuple[int, ...]

    def __call__(self, i: int) -> int:
        return self.values[i] if i < len(self.values) else 0

    def before(self, i: int) -> int:
        return sum(self.values[:i])


@dataclass(frozen=True)
class Coded:
    """Step sizes that give their label away: eta at t is t + 1, so that who sees a step knows its round."""

    per: Literal["slot", "round"] = "round"
    falls: bool = False

    def at(self, t: Any) -> Any:
        return t + 1.0


@dataclass(frozen=True)
class Stairs:
    """tau(t) = offset + slope * t, its growth rounded down to whole numbers if ``whole``."""

    offset: float
    slope: float = 0.0
    whole: bool = False

    def __call__(self, t: Any) -> Any:
        grown = self.slope * np.maximum(t, 0)
        return self.offset + (np.floor(grown) if self.whole else grown)


def lives(values: tuple[int, ...], tau: Any) -> bool:
    """Can every round be finished without a new broadcast: tau(s_0+..+s_k-2) > s_k-1 for each k?"""
    return all(tau(max(sum(values[: k + 1]) - 2, 0)) > values[k] - 1 for k in range(len(values)))


def live_delay(values: tuple[int, ...], slope: float, whole: bool, spare: float) -> Stairs:
    """The tightest delay function of this slope that is live, in halves, plus ``spare``."""
    offset = 0.5
    while not lives(values, Stairs(offset, slope, whole)):
        offset += 0.5
    return Stairs(offset + spare, slope, whole)


sizes = st.lists(st.integers(1, 7), min_size=1, max_size=6).map(tuple)
growing_sizes = sizes.map(sorted).map(tuple)
weights = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(lambda raw: tuple(x / sum(raw) for x in raw))
slopes = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
rules = st.one_of(
    st.fixed_dictionaries({"ahead": st.integers(0, 3)}),
    st.fixed_dictionaries({"slope": slopes, "whole": st.booleans(), "spare": st.sampled_from([0.0, 0.5, 1.0, 4.0])}),
)


def make_terms(
    values: tuple[int, ...],
    weights: tuple[float, ...],
    rule: dict[str, Any],
    shares_by: Literal["expected", "coin"] = "expected",
    seed: int = 0,
    terms: Any = Terms,
    **more: Any,
) -> Terms:
    """Terms with the d rule for ``{"ahead": d}``, else with a live delay function."""
    wait = rule if "ahead" in rule or "tau" in rule else {"tau": live_delay(values, **rule)}
    steps = more.pop("steps", Coded())
    made: Terms = terms(
        Listed(values), steps, weights=weights, rounds=len(values), shares_by=shares_by, seed=seed, **wait, **more
    )
    return made


def terms(rule: st.SearchStrategy[dict[str, Any]] = rules, **fixed: Any) -> st.SearchStrategy[Terms]:
    """Small federations of all kinds: 1 to 4 clients, 1 to 6 rounds, both share rules, both wait rules."""
    return st.builds(
        partial(make_terms, **fixed),
        values=st.one_of(sizes, growing_sizes),
        weights=weights,
        rule=rule,
        shares_by=st.sampled_from(["expected", "coin"]),
        seed=st.integers(0, 5),
    )


unhurried = terms(st.just({"ahead": 10}))  # any order of arrival is possible: nobody ever waits
seeds = st.integers(0, 2**20)

awkward_weights = st.sampled_from(
    [(0.1,) * 10, (1 / 3,) * 3, (1 / 49,) * 49, (0.7, 0.2, 0.1), (1e-9, 1 - 1e-9), (1.0,)]
)
# sizes, weights and a seed, of which a test makes terms itself
drawn = st.tuples(
    st.one_of(sizes, sizes.map(lambda s: tuple(9 * x for x in s))), st.one_of(weights, awkward_weights), seeds
)
