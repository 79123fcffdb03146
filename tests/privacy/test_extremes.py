"""One pass over the rounds finds what a look at every pair finds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crescendo.core.terms import Terms
from crescendo.privacy.mechanisms.extremes import Extremes
from crescendo.schedules.sizes import PowerSizes
from crescendo.schedules.steps import DiminishingSteps
from tests.core.strategies import Coded


@given(
    st.lists(st.floats(0.01, 1), min_size=1, max_size=5),
    st.integers(1, 12),
    st.floats(0.2, 9),
    st.sampled_from([DiminishingSteps(0.3, 0.1), DiminishingSteps(0.3, 0.1, per="slot"), Coded("slot")]),
    st.sampled_from(["expected", "coin"]),
    st.data(),
)
def test_the_extremes_are_those_of_all_pairs(
    parts: list[float],
    rounds: int,
    scale: float,
    steps_at: Any,
    shares_by: Literal["expected", "coin"],
    data: st.DataObject,
) -> None:
    weights = tuple(np.array(parts) / sum(parts))
    terms = Terms(PowerSizes(scale, 1.0), steps_at, weights, rounds, ahead=1, shares_by=shares_by, seed=3)
    records = tuple(data.draw(st.integers(1, 30)) for _ in weights)
    together = terms.shares_of_rounds(0, rounds)
    assert together.tolist() == [[terms.share(i, c) for c in range(len(weights))] for i in range(rounds)]
    assert [list(terms.shares_of(c)) for c in range(len(weights))] == together.T.tolist()
    found, pairs = Extremes.of(terms, records), [(i, c) for i in range(rounds) for c in range(len(weights))]
    assert found.rate == max((terms.share(i, c) / records[c] for i, c in pairs), default=0.0)
    assert found.rate == terms.share(found.round, found.client) / records[found.client]
    assert found.step == max(terms.largest_step(i, c) for i, c in pairs)
    assert found.lowest == min(float(eta) for i, c in pairs for eta in terms.etas(i, c))
    for c in range(len(weights)):
        assert found.slots[c] == max(terms.share(i, c) for i in range(rounds))
        steps = [terms.largest_step(i, c) for i in range(rounds) if terms.share(i, c)]
        assert found.least[c] == min(steps, default=math.inf)


def test_the_parts_of_a_long_run_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> Extremes:
        steps = DiminishingSteps(0.3, 0.1, per="slot")
        return Extremes.of(Terms(PowerSizes(3, 1.0), steps, (0.7, 0.3), 12, ahead=1), (60, 40))

    whole = found()
    monkeypatch.setattr("crescendo.core.terms._TOGETHER", 6)
    parts = found()
    assert np.array_equal(parts.least, whole.least) and parts.step == whole.step and parts.lowest == whole.lowest


@dataclass(frozen=True)
class _Warming(DiminishingSteps):
    """Steps that rise, made from a class whose steps fall."""

    def _eta(self, t: Any) -> Any:
        return self.eta0 * np.minimum(1.0, (t + 1) / 5000)


def test_a_formula_of_ones_own_below_one_that_falls_is_looked_at_slot_by_slot() -> None:
    steps = _Warming(0.5, 0.0, per="slot")
    terms = Terms(PowerSizes(400, 0.5), steps, (0.7, 0.3), 4, ahead=1)
    largest = max(terms.largest_step(i, c) for i in range(4) for c in range(2))
    assert Extremes.of(terms, (9999, 9999)).step == largest
