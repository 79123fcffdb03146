"""The client against the pseudo-code, in federations whose every free choice is an adversary's, and by itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from crescendo.core.client import Client, Done, Wait, Work
from crescendo.core.messages import Broadcast, Settled, Update
from crescendo.core.server import Server
from crescendo.core.terms import Terms
from crescendo.errors import CrescendoError, PeerError
from tests.core import properties
from tests.core.play import CALM, CHURN, ROUGH, Parts
from tests.core.properties import cases, for_all, same, through_disk
from tests.core.server_properties import deep_size
from tests.core.strategies import make_terms, terms

PARTS = Parts()
everything = cases(terms(), CALM, ROUGH, CHURN)
FOUR = make_terms((2, 2, 2, 2), (1.0,), {"ahead": 3})


@pytest.mark.slow
def test_server_and_clients_follow_the_paper_event_by_event() -> None:
    for_all(everything, partial(properties.follows_the_paper, PARTS), 60)


@pytest.mark.slow
def test_no_live_schedule_ever_stands_still() -> None:
    for_all(everything, partial(properties.never_stands_still, PARTS), 60)


@pytest.mark.slow
def test_every_pair_is_applied_once() -> None:
    for_all(everything, partial(properties.every_pair_is_applied_once, PARTS), 60)


@pytest.mark.slow
def test_no_gradient_breaks_the_delay_bound() -> None:
    for_all(everything, partial(properties.keeps_the_delay_bound, PARTS), 60)


@pytest.mark.slow
def test_the_model_of_every_gradient_contains_what_the_theorem_says() -> None:
    for_all(everything, partial(properties.is_consistent, PARTS), 60)


@pytest.mark.slow
def test_a_broadcast_never_throws_own_work_away() -> None:
    for_all(cases(terms(), CALM), partial(properties.keeps_own_work, PARTS), 60)


@pytest.mark.slow
def test_a_run_written_down_and_read_back_goes_on_bit_for_bit() -> None:
    for_all(everything, partial(properties.continues_bit_for_bit, PARTS), 8)


@pytest.mark.slow
def test_exports_and_broadcasts_are_snapshots() -> None:
    for_all(everything, partial(properties.exports_are_snapshots, PARTS), 10)


# -- by itself


def ran(client: Client, slots: int = 2, by: float = 1.0) -> Update:
    """Run a whole round of ``slots`` slots that moves the model by ``by``."""
    model = client.start()
    client.advance(slots)
    return client.finish(np.full(model.shape, by))


def test_a_client_goes_on_without_waiting_until_it_is_d_rounds_ahead() -> None:
    client = Client(make_terms((2, 2, 2, 2), (1.0,), {"ahead": 1}), 0, np.zeros(1))
    assert client.next() == Work(0, 0, 2)
    ran(client)
    assert client.next() == Work(1, 0, 2)
    ran(client)
    assert isinstance(client.next(), Wait)
    client.receive(Broadcast(np.zeros(1), 1, Settled(1)))
    assert client.next() == Work(2, 0, 2)


def test_with_d_zero_a_client_waits_for_every_broadcast() -> None:
    client = Client(make_terms((2, 2), (1.0,), {"ahead": 0}), 0, np.zeros(1))
    ran(client)
    assert isinstance(client.next(), Wait)


def test_the_next_round_starts_from_the_displacement_as_decoded() -> None:
    client = Client(FOUR, 0, np.array([1.0]))
    client.start()
    client.advance(2)
    client.finish(np.array([0.3], dtype=np.float16))
    assert client.start().tolist() == [1.0 - float(np.float16(0.3))]


def test_a_broadcast_in_mid_round_moves_the_frame_and_keeps_the_displacement() -> None:
    client = Client(FOUR, 0, np.array([10.0]))
    ran(client, by=1.0)  # on the way
    start = client.start()
    client.advance(1)
    local = start - 0.25
    shift = client.receive(Broadcast(np.array([100.0]), 1, Settled(0)))
    assert shift is not None
    local = local + shift
    assert local.tolist() == [100.0 - 1.0 - 0.25] and client.frame.tolist() == [99.0]


def test_an_update_inside_the_broadcast_is_not_subtracted_again() -> None:
    client = Client(FOUR, 0, np.array([10.0]))
    for by in (1.0, 2.0, 4.0):
        ran(client, by=by)
    client.receive(Broadcast(np.array([50.0]), 1, Settled(1, ((2, 3),))))
    assert client.start().tolist() == [50.0 - 2.0]
    assert [update.round for update in client.unacknowledged()] == [1]


def test_what_is_sent_again_is_the_same_bytes_oldest_first() -> None:
    client = Client(FOUR, 0, np.zeros(3))
    sent = [ran(client, by=0.1 * number) for number in range(3)]
    for one in (client, Client.restore(FOUR, through_disk(client.export()))):
        again = one.unacknowledged()
        assert [(u.round, u.client, u.delta.tobytes()) for u in again] == [
            (u.round, 0, u.delta.tobytes()) for u in sent
        ]


def test_old_and_repeated_news_change_nothing() -> None:
    client = Client(FOUR, 0, np.zeros(1))
    ran(client)
    client.start()
    client.advance(1)
    client.receive(Broadcast(np.array([5.0]), 1, Settled(1)))
    state = client.export()
    for k in (0, 1):
        assert client.receive(Broadcast(np.array([9.0]), k, Settled(1))) is None
        assert same(client.export(), state)


def test_a_smaller_k_is_believed_only_with_a_larger_epoch() -> None:
    client = Client(FOUR, 0, np.zeros(1))
    ran(client), ran(client)
    client.receive(Broadcast(np.array([5.0]), 2, Settled(2), epoch=1))
    assert client.receive(Broadcast(np.array([6.0]), 3, Settled(2), epoch=0)) is None and client.k == 2
    client.receive(Broadcast(np.array([7.0]), 1, Settled(1), epoch=2))
    assert (client.k, client.epoch) == (1, 2)


def test_a_server_opened_from_an_older_state_is_followed_and_what_it_lacks_is_named() -> None:
    terms_ = make_terms((2, 2, 2, 2), (1.0,), {"ahead": 3})
    client, server = Client(terms_, 0, np.zeros(1)), Server(terms_, np.zeros(1))
    server.receive(ran(client))
    old = through_disk(server.export())
    server.receive(ran(client))
    client.receive(server.broadcast(0))
    assert client.k == 2 and not client.unacknowledged()
    server = Server.restore(terms_, old, new_epoch=True)
    client.receive(server.broadcast(0))
    assert client.k == 1 and (client.lost() == [1] or [u.round for u in client.unacknowledged()] == [1])


def bad_broadcasts(terms: Terms) -> list[Broadcast]:
    good = np.zeros(2)
    wrong: list[Any] = [np.zeros(1), np.zeros(3), np.zeros((2, 1)), np.array([0.0, np.nan]), np.array([np.inf, 0.0])]
    return [Broadcast(model, 1, Settled(0)) for model in wrong] + [
        Broadcast(good, terms.rounds + 1, Settled(0)),
        Broadcast(good, 10**12, Settled(0)),
    ]


@pytest.mark.parametrize("number", range(7))
def test_a_broken_broadcast_is_refused_and_changes_nothing(number: int) -> None:
    client = Client(FOUR, 0, np.zeros(2))
    client.start()
    client.advance(1)
    state = client.export()
    with pytest.raises(PeerError):
        client.receive(bad_broadcasts(FOUR)[number])
    assert same(client.export(), state)


def test_a_client_whose_state_is_older_than_what_the_server_has_refuses_to_go_on() -> None:
    client = Client(FOUR, 0, np.zeros(1))
    state = client.export()
    with pytest.raises(CrescendoError, match="older"):
        client.receive(Broadcast(np.zeros(1), 1, Settled(2)))
    assert same(client.export(), state)


@pytest.mark.parametrize("yours", [Settled(0, ((10**5, 10**5 + 1),)), Settled(10**5)], ids=str)
def test_a_broadcast_that_names_rounds_after_the_last_is_refused(yours: Settled) -> None:
    client = Client(FOUR, 0, np.zeros(1))
    for _ in range(4):
        ran(client)
    with pytest.raises(PeerError):
        client.receive(Broadcast(np.zeros(1), 1, yours))


def test_a_client_that_sent_nothing_may_be_told_to_start_at_a_round_without_a_share() -> None:
    lopsided = make_terms((1, 1, 1), (0.5, 0.5), {"ahead": 1})
    c = int(lopsided.share(0, 0) > 0)  # the one without a share in round 0
    client, server = Client(lopsided, c, np.zeros(1)), Server(lopsided, np.zeros(1))
    server.absent(c)
    client.resume(server.back(c, last=-1))


def test_rounds_without_a_share_are_passed_over() -> None:
    lopsided = make_terms((1, 1, 1, 1, 1, 1, 1, 1), (0.5, 0.5), {"ahead": 8})
    for c in range(2):
        client = Client(lopsided, c, np.zeros(1))
        rounds = []
        while isinstance(work := client.next(), Work):
            rounds.append(work.round)
            ran(client, slots=1)
        assert rounds == [i for i in range(8) if lopsided.share(i, c)] and isinstance(client.next(), Done)


def test_with_whole_rounds_a_broadcast_waits_for_the_next_round_s_start() -> None:
    whole = make_terms((2, 2, 2, 2), (1.0,), {"ahead": 3}, whole_rounds=True)
    client = Client(whole, 0, np.array([10.0]))
    ran(client)
    start = client.start().tolist()
    client.advance(1)
    assert client.receive(Broadcast(np.array([100.0]), 1, Settled(1))) is None
    assert start == [9.0] and client.frame.tolist() == [9.0]
    restored = Client.restore(whole, through_disk(client.export()))
    for one in (client, restored):
        one.advance(1)
        one.finish(np.array([0.5]))
        assert one.k == 1 and one.start().tolist() == [99.5]


def test_a_masked_round_moves_only_its_block() -> None:
    masked = make_terms((2,) * 6, (1.0,), {"ahead": 6}, blocks=3)
    client, expected = Client(masked, 0, np.zeros(7)), np.zeros(7)
    for i in range(6):
        lo, hi = masked.block(i, 7)
        assert client.start().tolist() == expected.tolist()
        client.advance(2)
        with pytest.raises(CrescendoError):
            client.finish(np.ones(hi - lo + 1))
        client.finish(np.full(hi - lo, 1.0 + i))
        expected[lo:hi] -= 1.0 + i
    assert isinstance(client.next(), Done)


def test_a_caller_that_breaks_the_order_is_told_and_nothing_changes() -> None:
    client = Client(FOUR, 0, np.zeros(1))
    client.start()
    state = client.export()
    for wrong in (lambda: client.advance(3), lambda: client.advance(-1), lambda: client.finish(np.zeros(1))):
        with pytest.raises(CrescendoError):
            wrong()
        assert same(client.export(), state)
    client.advance(2)
    for delta in (np.zeros(2), np.array([np.nan]), np.array([np.inf])):
        with pytest.raises(CrescendoError):
            client.finish(delta)
    client.finish(np.zeros(1))


def test_a_client_cannot_go_back_behind_what_it_sent_and_passes_void_rounds_over() -> None:
    client = Client(FOUR, 0, np.zeros(1))
    ran(client)
    with pytest.raises(CrescendoError):
        client.resume(0)
    client.resume(3)
    assert client.next() == Work(3, 0, 2)


def test_acknowledged_updates_are_forgotten() -> None:
    long = make_terms((1,) * 600, (1.0,), {"ahead": 2})
    client, server, sizes = Client(long, 0, np.zeros(50)), Server(long, np.zeros(50)), []
    for i in range(600):
        server.receive(ran(client, slots=1))
        client.receive(server.broadcast(0))
        if i in (100, 599):
            sizes.append(deep_size(client, leave_out=(long,)))
    assert sizes[1] <= sizes[0] + 1000
