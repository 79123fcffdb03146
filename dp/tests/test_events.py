from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo_dp.errors import UsageError
from crescendo_dp.events import PoissonGaussian, from_json, tally, to_json

EVENTS = st.builds(PoissonGaussian, st.floats(0, 1), st.floats(0, 1e6))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(EVENTS, st.integers(1, 10**9)), max_size=6))
def test_events_survive_json_bit_for_bit(events: list[tuple[PoissonGaussian, int]]) -> None:
    assert from_json(json.loads(json.dumps(to_json(events)))) == tally(events)


@settings(deadline=None, max_examples=50)
@given(st.lists(EVENTS, max_size=8), st.randoms())
def test_the_order_of_rounds_does_not_matter(events: list[PoissonGaussian], random: Any) -> None:
    shuffled = list(events)
    random.shuffle(shuffled)
    assert tally(events) == tally(shuffled)
    assert sum(count for _, count in tally(events)) == len(events)


@pytest.mark.parametrize("rate", [-0.1, 1.0000001, math.nan, math.inf, "0.1", None, True])
def test_a_rate_outside_0_to_1_is_refused(rate: Any) -> None:
    with pytest.raises(UsageError, match="rate"):
        PoissonGaussian(rate, 1.0)


@pytest.mark.parametrize("sigma", [-1.0, math.nan, math.inf, "1", None, False])
def test_a_sigma_that_is_no_finite_number_is_refused(sigma: Any) -> None:
    with pytest.raises(UsageError, match="sigma"):
        PoissonGaussian(0.1, sigma)


@pytest.mark.parametrize("count", [-1, 1.5, True, "2"])
def test_a_count_that_is_no_whole_number_is_refused(count: Any) -> None:
    with pytest.raises(UsageError, match="whole number of times"):
        tally([(PoissonGaussian(0.1, 1.0), count)])


@pytest.mark.parametrize("item", [{"rate": 0.1}, {"rate": 0.1, "sigma": 1, "what": 2}, 7, {"rate": 2, "sigma": 1}])
def test_malformed_json_is_refused(item: Any) -> None:
    with pytest.raises(UsageError):
        from_json([item])


def test_something_that_is_no_event_is_refused() -> None:
    with pytest.raises(UsageError, match="an event is"):
        tally([0.5])  # type: ignore[list-item]


def test_numbers_of_numpy_and_whole_numbers_make_the_same_event() -> None:
    assert PoissonGaussian(np.float64(1), np.int64(2)) == PoissonGaussian(1, 2)  # type: ignore[arg-type]
    assert str(PoissonGaussian(-0.0, 1.0)) == str(PoissonGaussian(0.0, 1.0))
    assert tally([PoissonGaussian(-0.0, 1.0), PoissonGaussian(0.0, 1.0)]) == ((PoissonGaussian(0.0, 1.0), 2),)
