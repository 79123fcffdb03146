"""Sets of rounds as ranges: the same as sets of numbers, and what an earlier version stored is read."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crescendo.core.client import Client
from crescendo.core.messages import Settled
from crescendo.core.server import Server
from crescendo.core.settled import SettledRounds
from crescendo.core.terms import Terms
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps

ROUNDS = 40
some = st.sets(st.integers(0, ROUNDS - 1))


def terms(rounds: int = ROUNDS, size: int = 4, weights: tuple[float, ...] = (0.5, 0.5)) -> Terms:
    return Terms(ConstantSizes(size), ConstantSteps(0.1), weights=weights, rounds=rounds, ahead=rounds)


def members(settled: Settled) -> set[int]:
    return {i for i in range(2 * ROUNDS) if i in settled}


def is_sound(settled: Settled) -> bool:
    bounds = [settled.below, *(bound for pair in settled.beyond for bound in pair)]
    return all(before < after for before, after in itertools.pairwise(bounds))


@given(some, some, st.integers(0, ROUNDS), st.integers(0, ROUNDS))
def test_a_set_of_ranges_is_a_set(one: set[int], other: set[int], low: int, high: int) -> None:
    a, b = Settled.of(one), Settled.of(other)
    assert members(a) == one and is_sound(a) and a.rounds == len(one) and a.end == max(one, default=-1) + 1
    assert members(a | b) == one | other and is_sound(a | b) and a | b == Settled.of(one | other)
    gaps = list(a.gaps(low, high))
    assert {i for first, stop in gaps for i in range(first, stop)} == set(range(low, high)) - one
    assert all(first < stop for first, stop in gaps)


@given(st.lists(st.tuples(st.integers(0, ROUNDS - 1), st.integers(1, 8)), max_size=20), st.integers(1, 4))
def test_marks_in_any_order_are_the_set_of_all(marks: list[tuple[int, int]], size: int) -> None:
    """Small rounds have no share for the second client: these count as settled once all before them are."""
    rounds, marked = SettledRounds(terms(size=size, weights=(0.75, 0.25))), set[int]()
    for first, length in marks:
        stop = min(first + length, ROUNDS)
        rounds.mark_all(first, stop, 1)
        marked |= set(range(first, stop))
        settled = rounds.of(1)
        empty = {i for i in range(ROUNDS) if not terms(size=size, weights=(0.75, 0.25)).share(i, 1)}
        assert is_sound(settled) and marked <= members(settled) <= marked | empty
        assert settled.below not in marked | empty or settled.below == ROUNDS


def test_a_million_rounds_of_absence_are_one_range_and_take_no_time() -> None:
    server = Server(terms(10**6), np.zeros(2))
    server.absent(1)
    server.k = 999_990
    server.back(1, last=4)
    assert server.settled(1) == Settled(0, ((5, 999_990),))
    state = server.export()
    assert state["overtook"] == [[1, 5, 999_990]] and state["void"] == [[1, 5, 999_990]]


def test_a_state_of_an_earlier_version_is_read() -> None:
    """It named each round that overtook, in a server's snapshot, a client's checkpoint and what a client last saw."""
    server = Server(terms(), np.zeros(2))
    before = {name: value for name, value in server.export().items() if name != "overtook"}
    found = Server.restore(terms(), {**before, "beyond": [[0, 3], [0, 4], [1, 9]]})
    assert found.settled(0) == Settled(0, ((3, 5),)) and found.settled(1) == Settled(0, ((9, 10),))
    client = Client(terms(), 0, np.zeros(2))
    aside = [np.zeros(2), 1, 0, [1, 5], 0]
    again = Client.restore(terms(), {**client.export(), "yours": [1, [3, 4]], "put_aside": aside}).export()
    assert again["yours"] == [1, [[3, 5]]] and again["put_aside"][3] == [[1, 2], [5, 6]]
    assert Client.restore(terms(), again).export()["yours"] == [1, [[3, 5]]]
