"""The server against the pseudo-code: any order, repeats, churn, hostile messages."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crescendo.core.messages import ConflictingUpdate, DuplicateUpdate, Settled, Update
from crescendo.core.server import Server
from crescendo.core.terms import Terms
from crescendo.errors import CrescendoError, PeerError
from tests.core import server_properties as properties
from tests.core.properties import for_all, same, through_disk
from tests.core.server_properties import SIZE, scenes, unhurried_scenes
from tests.core.strategies import make_terms

TWO = make_terms((4, 4, 4), (0.5, 0.5), {"ahead": 2})


@pytest.mark.slow
def test_any_arrival_order_with_repeats_gives_the_model_of_the_pseudocode() -> None:
    for_all(unhurried_scenes, partial(properties.any_order_gives_the_paper_s_model, Server), 100)


def test_a_broadcast_tells_its_receiver_which_of_its_rounds_are_inside() -> None:
    for_all(unhurried_scenes, partial(properties.yours_tells_what_is_inside, Server))


@pytest.mark.slow
def test_voids_absences_returns_and_departures_in_any_order_follow_the_oracle() -> None:
    for_all(scenes, partial(properties.follows_any_churn, Server), 100)


def test_a_refused_message_leaves_no_trace_and_says_why() -> None:
    for_all(scenes, partial(properties.a_refused_message_changes_nothing, Server), 30)


def test_memory_stays_bounded_whatever_a_peer_sends() -> None:
    for_all(scenes, partial(properties.memory_is_bounded, Server), 8)


def test_one_who_left_is_not_heard_and_not_waited_for() -> None:
    for_all(scenes, partial(properties.the_gone_are_not_heard, Server))


def test_k_stands_still_while_nobody_is_present() -> None:
    for_all(scenes, partial(properties.nobody_present_nothing_moves, Server))


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=12), st.integers(0, 9), st.booleans())
def test_what_is_refused_is_what_would_go_beyond_the_largest_number_and_nothing_else(
    moves: list[int], largest: int, again: bool
) -> None:
    """However much was added up by then, there and back: the bound that is kept must not refuse, nor let pass, anything."""
    terms = make_terms((4,) * len(moves), (1.0,), {"ahead": len(moves)})
    server, place = Server(terms, np.zeros(2)), 0
    server.largest = float(largest)
    for i, move in enumerate(moves):
        if again:
            server, server.largest = Server.restore(terms, server.export()), float(largest)
        delta = np.array([move, 0], dtype=np.float32)
        if abs(place - move) > largest:
            with pytest.raises(PeerError, match="beyond"):
                server.receive(Update(i, 0, delta))
            server.void(i, 0)
        else:
            server.receive(Update(i, 0, delta))
            place -= move
        assert server.model.tolist() == [place, 0]


def test_late_messages_complete_several_rounds_at_once() -> None:
    server = Server(TWO, np.zeros(1))
    early = [server.receive(Update(i, 0, np.ones(1))) for i in range(3)]
    early += [server.receive(Update(i, 1, np.ones(1))) for i in (2, 1)]
    assert not any(early) and server.k == 0
    assert server.receive(Update(0, 1, np.ones(1))) and server.k == 3 and server.finished


def test_the_model_is_float64_and_cannot_be_written_to() -> None:
    start, delta = np.zeros(2, dtype=np.float32), np.ones(2, dtype=np.float32)
    server = Server(TWO, start)
    server.receive(Update(0, 0, delta))
    start[:], delta[:] = 7.0, 7.0
    assert server.model.dtype == np.float64 and server.model.tolist() == [-1.0, -1.0]
    with pytest.raises(ValueError, match="read-only"):
        server.model[0] = 1.0


def test_a_round_with_one_absent_client_does_not_wait_for_it_and_its_late_update_is_applied_once() -> None:
    server = Server(TWO, np.zeros(1))
    server.receive(Update(0, 0, np.ones(1)))
    assert server.absent(1) and server.k == 1
    assert not server.receive(Update(0, 1, np.ones(1)))
    assert server.model.tolist() == [-2.0] and 0 in server.broadcast(1).yours
    with pytest.raises(DuplicateUpdate):
        server.receive(Update(0, 1, np.ones(1)))


def test_a_client_that_returns_goes_on_at_max_of_k_and_its_next_round() -> None:
    server = Server(TWO, np.zeros(1))
    server.absent(1)
    for i in range(2):
        server.receive(Update(i, 0, np.ones(1)))
    assert server.k == 2
    assert server.back(1, last=-1) == 2
    assert server.broadcast(1).yours == Settled(2), "rounds 0 and 1 are void"
    with pytest.raises(PeerError):
        server.receive(Update(0, 1, np.ones(1)))
    assert not server.receive(Update(2, 0, np.ones(1))), "it is waited for again"
    assert server.receive(Update(2, 1, np.ones(1))) and server.finished


def test_an_update_of_a_void_round_is_told_from_a_repetition_even_after_a_restart() -> None:
    server = Server(TWO, np.zeros(1))
    server.absent(1)
    for i in range(2):
        server.receive(Update(i, 0, np.ones(1)))
    server.back(1, last=-1)
    server.void(2, 1)
    for again in (server, Server.restore(TWO, through_disk(server.export()))):
        for i, c, void in [(0, 0, ()), (0, 1, ((0, 1),)), (1, 1, ((1, 1),)), (2, 1, ((2, 1),))]:
            with pytest.raises(DuplicateUpdate) as answer:
                again.receive(Update(i, c, np.ones(1)))
            assert answer.value.void == void
    older = {name: value for name, value in server.export().items() if name != "void"}  # of an earlier version
    with pytest.raises(DuplicateUpdate) as answer:
        Server.restore(TWO, older).receive(Update(0, 1, np.ones(1)))
    assert answer.value.void == ()


def test_a_client_ahead_of_k_returns_to_its_own_next_round_and_its_sent_rounds_stay_open() -> None:
    server = Server(TWO, np.zeros(1))
    server.absent(1)
    server.receive(Update(0, 0, np.ones(1)))
    assert server.back(1, last=1) == 2
    assert 0 not in server.broadcast(1).yours and 1 not in server.broadcast(1).yours
    assert not server.receive(Update(1, 1, np.ones(1))) and not server.receive(Update(0, 1, np.ones(1)))
    assert server.model.tolist() == [-3.0]


def test_a_void_round_counts_as_arrived_and_adds_nothing() -> None:
    server = Server(TWO, np.zeros(1))
    server.receive(Update(0, 0, np.ones(1)))
    assert server.void(0, 1) and server.k == 1
    assert server.model.tolist() == [-1.0]
    state = server.export()
    assert not server.void(0, 1) and same(server.export(), state), "saying it again changes nothing"


@pytest.mark.parametrize(("i", "c"), [(0, 2), (0, -1), (-1, 0), (3, 0), (10**9, 0)])
def test_an_impossible_void_is_refused_and_changes_nothing(i: int, c: int) -> None:
    server = Server(TWO, np.zeros(1))
    state = server.export()
    with pytest.raises(CrescendoError):
        server.void(i, c)
    assert same(server.export(), state)


@pytest.mark.parametrize("what", ["absent", "leave", "broadcast"])
@pytest.mark.parametrize("c", [-1, 2, 10**9])
def test_an_unknown_client_is_refused_everywhere(what: str, c: int) -> None:
    server = Server(TWO, np.zeros(1))
    state = server.export()
    with pytest.raises(CrescendoError):
        getattr(server, what)(c)
    with pytest.raises(CrescendoError):
        server.back(c, -1)
    assert same(server.export(), state)


def test_one_who_left_holds_nothing_up_and_is_not_listened_to() -> None:
    server = Server(TWO, np.zeros(1))
    server.receive(Update(0, 0, np.ones(1)))
    assert server.leave(1) and server.k == 1
    state = server.export()
    with pytest.raises(PeerError):
        server.receive(Update(1, 1, np.ones(1)))
    with pytest.raises(CrescendoError):
        server.back(1, -1)
    assert same(server.export(), state)
    server.receive(Update(1, 0, np.ones(1)))
    server.receive(Update(2, 0, np.ones(1)))
    assert server.finished


def test_a_server_may_start_with_some_clients_still_to_come() -> None:
    server = Server(TWO, np.zeros(1), present=[0])
    assert server.receive(Update(0, 0, np.ones(1))) and server.k == 1
    assert server.back(1, last=-1) == 1
    assert not server.receive(Update(1, 0, np.ones(1)))
    assert server.receive(Update(1, 1, np.ones(1)))


def test_a_server_whose_only_client_has_no_share_in_the_first_round_starts_at_the_next() -> None:
    lopsided = make_terms((1, 1, 1), (0.5, 0.5), {"ahead": 0})
    c = int(lopsided.share(0, 0) > 0)
    assert Server(lopsided, np.zeros(1), present=[c]).k > 0, "else it stands still for ever: the client waits for k = 1"


def test_a_returning_client_cannot_have_sent_a_round_that_nobody_can_be_in() -> None:
    server = Server(make_terms((2, 2, 2), (0.5, 0.5), {"ahead": 0}), np.zeros(1))
    state = server.export()
    with pytest.raises(PeerError):
        server.back(0, last=2)
    assert same(server.export(), state)


def put_back(terms: Terms) -> Server:
    """A server that had come to k = 3 and was then opened from its first state."""
    server = Server(terms, np.zeros(1))
    old = through_disk(server.export())
    for i in range(3):
        for c in range(2):
            server.receive(Update(i, c, np.ones(1)))
    assert server.k == 3
    return Server.restore(terms, old, new_epoch=True)


def test_after_a_loss_a_round_that_was_in_hand_is_taken_too() -> None:
    """Client 0 came back when its last round was 3, and finished round 4 on the model of the lost k = 3."""
    server = put_back(make_terms((2,) * 6, (0.5, 0.5), {"ahead": 1}))
    assert server.back(0, last=3) == 4
    server.receive(Update(4, 0, np.ones(1)))
    assert server.settled(0) == Settled(0, ((4, 5),)) and server.k == 0


def test_after_a_loss_a_client_that_lies_about_its_rounds_moves_no_round_of_others() -> None:
    terms = make_terms((2,) * 50, (0.5, 0.5), {"ahead": 1})
    server = put_back(terms)
    server.back(0, last=49)
    for i in range(50):
        server.receive(Update(i, 0, np.ones(1)))
    assert (server.k, server.settled(1)) == (0, Settled(0))
    assert len(server.export()["fingerprints"]) == 50, "never more than the run has rounds"
    with pytest.raises(PeerError):
        server.back(1, last=50)
    assert server.receive(Update(0, 1, np.ones(1))) and server.k == 1


def test_nothing_is_taken_after_the_last_round_but_what_is_late() -> None:
    server = Server(TWO, np.zeros(1))
    server.absent(1)
    for i in range(3):
        server.receive(Update(i, 0, np.ones(1)))
    assert server.finished and server.k == 3
    assert not server.receive(Update(2, 1, np.ones(1))) and server.k == 3
    with pytest.raises(PeerError):
        server.receive(Update(3, 1, np.ones(1)))


def test_the_same_pair_with_other_bytes_is_an_alarm_even_after_a_restart() -> None:
    server = Server(TWO, np.zeros(SIZE))
    server.receive(Update(0, 0, np.ones(SIZE)))
    restored = Server.restore(TWO, through_disk(server.export()))
    for one in (server, restored):
        with pytest.raises(ConflictingUpdate):
            one.receive(Update(0, 0, np.zeros(SIZE)))
        with pytest.raises(DuplicateUpdate):
            one.receive(Update(0, 0, np.ones(SIZE)))


def test_masked_updates_move_only_the_block_of_their_round() -> None:
    masked = make_terms((4, 4, 4, 4), (0.5, 0.5), {"ahead": 3}, blocks=3)
    server, expected = Server(masked, np.zeros(7)), np.zeros(7)
    for i in range(4):
        lo, hi = masked.block(i, 7)
        for c in range(2):
            for wrong in (7, hi - lo + 1, hi - lo - 1):
                state: Any = server.export()
                with pytest.raises(PeerError):
                    server.receive(Update(i, c, np.ones(wrong)))
                assert same(server.export(), state)
            server.receive(Update(i, c, np.full(hi - lo, 1.0 + i)))
            expected[lo:hi] -= 1.0 + i
    assert server.model.tolist() == expected.tolist() and server.finished
