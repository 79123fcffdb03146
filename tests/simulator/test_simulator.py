"""Whole simulated runs: against the literal federation, under any timing, and event by event where it matters."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from crescendo.core.server import Server
from crescendo.core.terms import Terms
from crescendo.errors import CrescendoError, Refused, UsageError
from crescendo.schedules import ConstantDelay, ListedSizes, PowerDelay, certify
from crescendo.schedules.sizes import CutSizes
from crescendo.simulator.timing import Constant, Crashes, LogNormal, Timing
from tests import paper
from tests.core.play import plain_assignment, plain_shares
from tests.core.properties import for_all
from tests.core.strategies import Coded, make_terms
from tests.simulator import federations as f
from tests.simulator.federations import Case, Parts, simulate

PARTS = Parts()
TWO = make_terms((4, 4, 6), (0.5, 0.5), {"ahead": 1})


@pytest.mark.slow
def test_a_run_without_chance_is_the_literal_federation() -> None:
    for_all(f.plain_cases(), partial(f.is_the_literal_federation, PARTS), 40)


@pytest.mark.slow
def test_no_live_schedule_stands_still_under_any_timing() -> None:
    for_all(f.cases(), partial(f.reaches_the_end, PARTS), 40)


@pytest.mark.slow
def test_no_gradient_breaks_the_delay_bound() -> None:
    for_all(f.cases(), partial(f.keeps_the_delay_bound, PARTS), 40)


@pytest.mark.slow
def test_one_seed_gives_one_trace_byte_for_byte() -> None:
    for_all(f.cases(), partial(f.one_seed_one_trace, PARTS), 20)


def test_another_seed_gives_another_trace_where_timing_is_random() -> None:
    timing = Timing((1.0, 2.0), (0.0, 0.0), LogNormal(1.0, 1.0))
    ends = {simulate(PARTS, Case(TWO, timing, seed)).trace.virtual_seconds for seed in range(5)}
    assert len(ends) == 5


@pytest.mark.parametrize("name", ["lock-step", "staggered", "heterogeneous"])
@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_the_presets_run_and_keep_what_they_promise(name: str, ahead: int) -> None:
    terms = make_terms((3, 6, 9, 12), (0.2, 0.3, 0.5), {"ahead": ahead})
    case = Case(terms, Timing.preset(name, terms), 0)
    for check in (f.reaches_the_end, f.keeps_the_delay_bound, f.tells_the_truth, f.is_consistent):
        check(PARTS, case)


def test_lock_step_and_synchronous_every_round_starts_from_all_earlier_ones() -> None:
    terms = make_terms((4, 4, 4), (0.5, 0.5), {"ahead": 0})
    run = simulate(PARTS, Case(terms, Timing.preset("lock-step", terms), 0))
    assignment = plain_assignment(terms)
    for g in run.book:
        own = {paper.rho(assignment, g.client, g.round, h) for h in range(g.h)}
        assert g.contains == set(range(terms.before(g.round))) | own
    assert run.trace.virtual_seconds == 6.0 and run.trace.broadcasts == 3


def test_a_slot_under_way_keeps_its_model_and_the_next_one_has_the_news() -> None:
    """Client 1 has done its round 0 at 1.0; client 0's arrives at 2.5 + 0.25 and is announced at 3.0, between two slots."""
    terms = make_terms((4, 40), (0.5, 0.5), {"ahead": 1})
    run = simulate(PARTS, Case(terms, Timing((0.8, 2.0), (0.0, 0.0), Constant(0.25)), 0))
    theirs = paper.labels(plain_assignment(terms), [(0, 0)])
    seen = [bool(theirs & g.contains) for g in run.book if g.client == 1 and g.round == 1]
    # its slots of round 1 begin at 1.0, 1.5, 2.0, 2.5, 3.0: the last of these begins as the news arrives and has it
    assert seen.index(True) == 4


# -- certificates and runs agree


@st.composite
def schedules(draw: st.DrawFn) -> tuple[CutSizes, Any]:
    base = ListedSizes(tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))))
    sizes = CutSizes(base, draw(st.integers(1, 40)))
    constant = st.integers(1, 24).map(lambda halves: ConstantDelay(halves / 2))
    power = st.builds(PowerDelay, st.floats(0, 1), st.floats(0, 1), st.floats(0, 9), st.floats(0, 9))
    return sizes, draw(st.one_of(constant, power))


def certified_or_stands_still(drawn: tuple[CutSizes, Any]) -> None:
    """What the certificate passes runs to its end under any timing; what it refuses as not live stands still for ever."""
    sizes, tau = drawn
    terms = Terms(sizes, Coded(), weights=(0.6, 0.4), rounds=sizes.rounds, tau=tau, shares_by="coin", seed=1)
    case = Case(terms, Timing((1.0, 3.7), (0.0, 1.3), LogNormal(1.0, 1.0), duplicate=0.2, lose=0.2), seed=3)
    try:
        certificate = certify(sizes, sizes.rounds, tau=tau)
    except Refused as refused:
        if "liveness" in str(refused):
            with pytest.raises(AssertionError, match="did not run to its end"):
                simulate(PARTS, case)
        return
    f.reaches_the_end(PARTS, case)
    f.is_consistent(PARTS, case)
    run, shares = simulate(PARTS, case), plain_shares(terms)
    worst = max(paper.t_delay(shares, g.client, g.round, g.h, g.k) for g in f.gradients_of(run.trace, terms))
    assert worst <= certificate.consistent_delay, "a gradient's delay is larger than the certificate says"


@pytest.mark.slow
def test_a_schedule_is_certified_exactly_when_it_cannot_stand_still() -> None:
    for_all(schedules(), certified_or_stands_still, 60)


@pytest.mark.slow
@pytest.mark.parametrize("d", [0, 1, 3])
def test_by_rounds_no_gradient_is_later_than_the_certificate_says(d: int) -> None:
    def check(drawn: tuple[CutSizes, Any]) -> None:
        sizes = drawn[0]
        terms = Terms(sizes, Coded(), weights=(0.3, 0.3, 0.4), rounds=sizes.rounds, ahead=d, seed=2)
        run = simulate(PARTS, Case(terms, Timing((0.5, 3.0, 9.0), (4.0, 0.0, 0.0), LogNormal(2.0, 1.5)), seed=1))
        delay = certify(sizes, sizes.rounds, d=d).consistent_delay
        assert paper.first_inconsistent(run.book, plain_assignment(terms), lambda t: delay) is None

    for_all(schedules(), check, 25)


# -- what is counted


def test_bytes_are_vectors_at_wire_width_plus_32_a_message() -> None:
    case = Case(TWO, Timing((1.0, 1.0), (0.0, 0.0), Constant(0.1)), 0)
    numbers = TWO.before(3) + 3
    for wire, width in (("float64", 8), ("float32", 4), ("float16", 2)):
        trace = simulate(PARTS, case, wire).trace
        message = numbers * width + 32
        assert trace.bytes_up == 6 * message, "two clients, three rounds"
        assert trace.bytes_down == (2 + 2 * trace.broadcasts) * message, "the first model and every broadcast, to each"


def test_repeats_and_losses_cost_bytes_and_change_no_count() -> None:
    calm = simulate(PARTS, Case(TWO, Timing((1.0, 2.0), (0.0, 0.0), Constant(0.1)), 0)).trace
    rough = simulate(PARTS, Case(TWO, Timing((1.0, 2.0), (0.0, 0.0), Constant(0.1), duplicate=0.5, lose=0.5), 0)).trace
    assert rough.bytes_up > calm.bytes_up and rough.gradients == calm.gradients == 14 and rough.rounds == 3


def test_the_observer_sees_the_start_and_every_rise_of_k_with_models_that_stay_true() -> None:
    run = simulate(PARTS, Case(TWO, Timing((1.0, 2.0), (0.0, 0.0), Constant(0.1)), 0))
    assert [m.k for m in run.moments] == [0, 1, 2, 3]
    assert [m.gradients for m in run.moments][::3] == [0, 14]
    for m in run.moments:
        assert len([x for x in m.model[:-3] if x]) == m.gradients
        with pytest.raises(ValueError, match="read-only"):
            m.model[0] = 1.0
    for field in ("seconds", "bytes_up", "bytes_down", "broadcasts"):
        values = [getattr(m, field) for m in run.moments]
        assert values == sorted(values) and math.isfinite(values[-1])


def test_waiting_is_counted_and_a_patient_schedule_has_none() -> None:
    uneven = Timing((1.0, 10.0), (0.0, 0.0), Constant(0.1))
    synchronous = make_terms((4, 4, 4), (0.5, 0.5), {"ahead": 0})
    patient = make_terms((4, 4, 4), (0.5, 0.5), {"ahead": 3})
    assert simulate(PARTS, Case(synchronous, uneven, 0)).trace.waits == 4, "both wait after rounds 0 and 1"
    assert simulate(PARTS, Case(patient, uneven, 0)).trace.waits == 0


def test_a_wait_of_no_time_is_none() -> None:
    """In lock-step, with messages that take no time, the last update of a round lets everybody on in the same instant."""
    lock_step = Timing((1.0, 1.0), (0.0, 0.0), Constant(0.0))
    trace = simulate(PARTS, Case(make_terms((4, 4, 4), (0.5, 0.5), {"ahead": 0}), lock_step, 0)).trace
    assert trace.waits == len(trace.tables["waits"]["client"]) == 0
    late = Timing((1.0, 1.0), (0.0, 0.5), Constant(0.0))
    trace = simulate(PARTS, Case(make_terms((4, 4, 4), (0.5, 0.5), {"ahead": 0}), late, 0)).trace
    assert trace.waits == len(trace.tables["waits"]["client"]) == 1, "the other is half a second late, once"


# -- trouble


@pytest.mark.slow
@pytest.mark.parametrize("absent_after", [None, 0.0, 5.0])
def test_crashes_and_returns_lose_only_what_was_declared_absent(absent_after: float | None) -> None:
    terms = make_terms((6,) * 12, (0.3, 0.3, 0.4), {"ahead": 2})
    crashed = late = excluded = 0
    for seed in range(8):
        timing = Timing(
            (1.0, 1.5, 2.0), (0.0,) * 3, LogNormal(0.5, 1.0), 0.2, 0.2, 1.0, Crashes(9.0, 12.0), absent_after
        )
        case = Case(terms, timing, seed)
        for check in (f.reaches_the_end, f.keeps_the_delay_bound, f.tells_the_truth, f.is_consistent):
            check(PARTS, case)
        trace = simulate(PARTS, case).trace
        crashed += len(trace.tables["absences"]["client"])
        late += trace.late
        excluded += len(f.excluded_pairs(trace))
    assert crashed > 8
    assert (excluded > 0) == (absent_after is not None)
    assert late <= excluded


def test_with_whole_rounds_all_slots_of_a_round_see_one_start_model() -> None:
    for rule in ({"ahead": 2}, {"slope": 0.5, "whole": False, "spare": 6.0}):
        terms = make_terms((4, 5, 6, 7, 8), (0.5, 0.5), rule, whole_rounds=True)
        run = simulate(PARTS, Case(terms, Timing((1.0, 2.3), (0.0, 0.5), Constant(0.2)), 0))
        assignment, starts = plain_assignment(terms), dict[tuple[int, int], frozenset[int]]()
        for g in run.book:
            own = {paper.rho(assignment, g.client, g.round, h) for h in range(g.h)}
            assert g.contains - own == starts.setdefault((g.client, g.round), g.contains), "a refresh inside the round"
        f.tells_the_truth(PARTS, Case(terms, Timing((1.0, 2.3), (0.0, 0.5), Constant(0.2)), 0))


def test_a_schedule_that_is_not_live_is_reported_not_waited_for() -> None:
    terms = make_terms((8, 8), (0.5, 0.5), {"tau": ConstantDelay(5)})
    with pytest.raises(AssertionError, match="deadlock"):
        simulate(PARTS, Case(terms, Timing((1.0, 1.0), (0.0, 0.0)), 0))


@pytest.mark.parametrize(
    "wrong",
    [
        {"speeds": (1.0,)},
        {"speeds": (1.0, 0.0)},
        {"speeds": (1.0, -1.0)},
        {"speeds": (1.0, math.nan)},
        {"speeds": (1.0, math.inf)},
        {"speeds": (1.0, 1e-320)},
        {"speeds": (1.0, 1e300)},
        {"starts": (0.0, 1e300)},
        {"resend": 1e300},
        {"starts": (0.0,)},
        {"starts": (0.0, -1.0)},
        {"duplicate": 1.5},
        {"duplicate": -0.1},
        {"lose": 1.0},
        {"lose": -0.1},
        {"resend": -1.0},
        {"absent_after": -1.0},
    ],
    ids=str,
)
def test_impossible_timings_are_refused(wrong: dict[str, Any]) -> None:
    right: dict[str, Any] = {"speeds": (1.0, 1.0), "starts": (0.0, 0.0)}
    with pytest.raises(CrescendoError) as caught:
        simulate(PARTS, Case(TWO, Timing(**{**right, **wrong}), 0))
    assert len(str(caught.value)) > 20


@pytest.mark.parametrize(
    "make", [lambda: Constant(1e300), lambda: Crashes(1.0, 1e300), lambda: LogNormal(1.0, 1e3)], ids=range(3)
)
def test_times_whose_sum_would_overflow_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match=r"must be at most|or less"):
        make()


def test_as_many_workers_as_clients() -> None:
    with pytest.raises(UsageError):
        PARTS.simulation(TWO, [], Server(TWO, np.zeros(2)), Timing((1.0, 1.0), (0.0, 0.0)), 0)
