"""Kinds of events as columns mean what the events mean one by one, and a plan is priced by the same fewer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo_dp import event_kinds
from crescendo_dp.errors import UsageError
from crescendo_dp.event_kinds import EventKinds, fewer
from crescendo_dp.events import Counted, Event, PoissonGaussian, tally
from crescendo_dp.ledger.book import Book
from crescendo_dp.ledger.budget import Budget
from crescendo_dp.planned_events import PlannedEvents


class Unsampled(Event):
    """An event of somebody's own mechanism."""

    __slots__ = ()


def classes(values: Iterable[float], most: int, side: Callable[[Iterable[float]], float]) -> dict[float, float]:
    """The definition, value by value: classes are equally wide in logarithms, and one of each stands for it."""
    found = sorted(set(values))
    least = next((value for value in found if value > 0), 1.0)
    width = (math.log(found[-1] / least) or 1.0) / max(1, most - 2) if found[-1] > 0 else 1.0
    members: dict[int, list[float]] = {}
    for value in found:
        members.setdefault(-1 if value == 0 else int(math.log(value / least) / width), []).append(value)
    return {value: side(together) for together in members.values() for value in together}


def one_by_one(events: Counted) -> Counted:
    """At most 512 events that cost no less, by the definition."""
    if len(events) <= 512:
        return events
    different = min(16, len({event.sigma for event, _ in events}))
    sigmas = classes((event.sigma for event, _ in events), different, min)
    rates = classes((event.rate for event, _ in events), 512 // different, max)
    return tally((type(event)(rates[event.rate], sigmas[event.sigma]), count) for event, count in events)


def drawn(seed: int, rounds: int, noises: int, span: float, own: bool) -> list[Event | None]:
    """Rounds of which some send nothing, some draw nobody, some are alike, and, ``own``, some are of another type."""
    rng = np.random.default_rng(seed)
    rates = np.exp(-span * rng.random(rounds)) * (rng.random(rounds) > 0.01)
    sigmas = np.exp(span * rng.random(noises))[rng.integers(noises, size=rounds)] * (rng.random(rounds) > 0.01)
    types = np.array([PoissonGaussian, Unsampled])[rng.integers(1 + own, size=rounds)]
    events = [kind(*numbers) for kind, *numbers in zip(types, rates, sigmas, strict=True)]
    return [
        None if chance < 0.1 else events[int(chance * j)]
        for j, chance in enumerate(1.2 * rng.random(rounds))
        if chance < 1
    ]


PLANS = st.builds(
    drawn,
    seed=st.integers(0, 10**6),
    rounds=st.sampled_from([1, 30, 700, 2000]),
    noises=st.sampled_from([1, 5, 40, 1000]),
    span=st.sampled_from([0.0, 1e-9, 1.0, 30.0]),
    own=st.booleans(),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(PLANS)
def test_a_plan_of_columns_is_counted_priced_and_numbered_as_its_events_are_one_by_one(
    events: list[Event | None],
) -> None:
    plan, counted = PlannedEvents.of(events), tally(event for event in events if event is not None)
    assert list(plan) == events and [plan[i] for i in range(len(plan))] == events
    assert plan.counted == counted
    assert plan.priced == fewer(counted) == one_by_one(counted)
    half = PlannedEvents.of(events[1::2])
    assert plan[1::2] == half and hash(plan[1::2]) == hash(half)
    parts = [EventKinds.of(events[first : first + 7]) for first in range(0, len(events), 7)]
    assert PlannedEvents.joined(parts) == plan and hash(PlannedEvents.joined(parts)) == hash(plan)
    if events:
        other = Event(0.125, 77.0)
        assert plan != 3 and plan != PlannedEvents.of([*events[:-1], other]) and plan.at([0, 0])[1] == events[0]


@pytest.mark.slow
@settings(deadline=None, max_examples=10)
@given(PLANS)
def test_a_plan_of_very_many_kinds_is_written_as_columns_and_read_bit_for_bit(events: list[Event | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in ("event_kinds", "planned_events"):
            patch.setattr(f"crescendo_dp.{module}.LISTED", 20)
        plan = PlannedEvents.of(events)
        written = json.dumps(plan.to_json())
        again = PlannedEvents.from_json(json.loads(written))
    assert again == plan and list(again) == events and again.priced == plan.priced
    if len(plan) > 1000:
        assert isinstance(json.loads(written)["kinds"], dict)


def test_columns_that_contradict_themselves_are_no_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_kinds, "LISTED", 1)
    written = EventKinds.of([PoissonGaussian(0.5, 1.0), None, Unsampled(0.25, 2.0)]).to_json()
    assert EventKinds.from_json(written)[2] == Unsampled(0.25, 2.0)
    changes: list[dict[str, Any]] = [{"number": 2}, {"number": 4}, {"events": ["PoissonGaussian"]}, {"sigmas": "AAAA"}]
    for change in changes:
        with pytest.raises(ValueError):
            EventKinds.from_json({**written, **change})
    for wrong in (-0.5, 1.5, math.nan, math.inf):
        with pytest.raises(UsageError, match="rate"):
            EventKinds.from_json({**written, "rates": event_kinds.packed(np.array([0.5, 0.0, wrong]), "<f8")})
    with pytest.raises(UsageError, match="no event called 'Cauchy'"):
        EventKinds.from_json({**written, "events": ["PoissonGaussian", "Cauchy"]})


def test_noise_from_one_end_of_all_numbers_to_the_other_is_priced_by_fewer_too() -> None:
    many = tally(PoissonGaussian(i / 1000, 5e-324 if i % 2 else 1.7e308) for i in range(1, 1000))
    few = fewer(many)
    assert len(few) <= 512 and {event.sigma for event, _ in few} == {5e-324, 1.7e308}


def test_a_promise_of_more_kinds_than_are_priced_bounds_what_its_rounds_diverge() -> None:
    plan = [PoissonGaussian(i / 20_000, 20.0) for i in range(1, 700)]
    book = Book(Budget(50.0, 1e-5))
    promise = book.quote("f", "9f3c", "me", plan, 1e-6, price=lambda events, delta: float(len(events)))
    assert promise.orders is not None and promise.epsilon <= 512
    exact = promise.orders.divergence(plan)
    assert exact <= promise.divergence <= 1.02 * exact
