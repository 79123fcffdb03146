"""The aggregator alone: what it keeps, adds, sends, passes down and refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crescendo.core.aggregator import Aggregator, TooMany
from crescendo.core.messages import ConflictingUpdate, RefusedSum, Settled, Sum, Update, Word
from crescendo.core.server import Server
from crescendo.errors import PeerError, UsageError
from tests.core import planted_trees as planted
from tests.core.server_properties import deep_size
from tests.core.sums import FOUR, some_sum


def node_with(*children: int, **options: Any) -> Aggregator:
    node = Aggregator(FOUR, 2, **options)
    for c in children:
        node.join(c, [c])
    return node


def test_a_sum_that_was_sent_stays_as_it_is_until_it_is_answered() -> None:
    node = node_with(0, 1)
    node.receive(0, Update(0, 0, np.ones(2)))
    first = node.pack()
    node.receive(1, Update(0, 1, np.ones(2)))
    assert node.unanswered() == [first] and node.waiting == 1
    second = node.pack()
    assert node.unanswered() == [first, second]
    node.hear(Word({0: Settled(1)}, k=0))
    assert node.unanswered() == [second]


def test_what_the_server_has_is_struck_out_and_the_rest_is_a_new_sum() -> None:
    node = node_with(0, 1, 2)
    for c in range(3):
        node.receive(c, Update(0, c, np.full(2, 1.0 + c)))
    first = node.pack()
    node.hear(Word({c: Settled(int(c == 1)) for c in range(3)}, k=0))
    rest = node.pack()
    assert first is not None and rest is not None and rest.id != first.id
    assert rest.pairs == ((0, 0), (0, 2)) and rest.delta.tolist() == [4.0, 4.0]


def test_a_single_update_goes_up_byte_for_byte() -> None:
    node = node_with(0)
    delta = np.array([0.1, 0.2], dtype=np.float32)
    node.receive(0, Update(0, 0, delta))
    total = node.pack()
    assert total is not None and total.delta.dtype == np.float32 and total.delta.tobytes() == delta.tobytes()


def test_a_child_that_sends_what_the_server_has_is_told_so() -> None:
    node = node_with(0)
    node.hear(Word({0: Settled(1), 1: Settled(0)}, k=0, epoch=2))
    answer = node.receive(0, Update(0, 0, np.ones(2)))
    assert answer is not None and dict(answer.yours) == {0: Settled(1)} and answer.epoch == 2
    assert node.waiting == 0


def test_a_repeat_is_dropped_and_other_bytes_are_an_alarm() -> None:
    node = node_with(0)
    for _ in range(3):
        node.receive(0, Update(0, 0, np.ones(2)))
    with pytest.raises(ConflictingUpdate, match="round 0 before with other bytes"):
        node.receive(0, Update(0, 0, np.zeros(2)))
    assert node.waiting == 1


def test_broadcasts_are_passed_down_with_each_child_s_own_yours() -> None:
    node = Aggregator(FOUR, 2)
    node.join("left", [0, 2])
    node.join(1, [1])
    word = Word({0: Settled(2), 1: Settled(0, ((1, 2),)), 2: Settled(1), 3: Settled(3)}, 1, 0, np.ones(2))
    parts = node.hear(word)
    assert dict(parts["left"].yours) == {0: Settled(2), 2: Settled(1)} and parts["left"].model is word.model
    assert parts[1].to(1).yours == Settled(0, ((1, 2),)) and set(parts) == {"left", 1}


def late_children(aggregator: Any) -> None:
    node = aggregator(FOUR, 2)
    node.join(0, [0])
    assert node.newest(0) is None
    node.hear(Word({0: Settled(0)}, 1, 0, np.ones(2)))
    node.hear(Word({0: Settled(1)}, 1))
    assert node.newest(0).to(0).yours == Settled(0), "that model does not contain round 0"
    node.join(1, [1])
    assert node.newest(1) is None, "nobody said which rounds of client 1 that model contains"


def test_a_model_is_given_to_a_late_child_only_with_what_was_settled_at_its_instant() -> None:
    late_children(Aggregator)
    with pytest.raises(AssertionError, match="does not contain round 0"):
        late_children(planted.MendsAnOldModel)


def words_of_epochs(aggregator: Any) -> None:
    node = aggregator(FOUR, 2)
    node.join(0, [0])
    node.hear(Word({0: Settled(2)}, 2, 0, np.ones(2)))
    assert node.receive(0, Update(1, 0, np.ones(2))) is not None
    node.hear(Word({0: Settled(1)}, 1, 1, np.ones(2)))
    assert node.receive(0, Update(1, 0, np.ones(2))) is None, "the server of the new epoch lacks it"
    assert node.hear(Word({0: Settled(2)}, 2, 0, np.ones(2))) == {}, "a word of an epoch that is over"
    assert node.pack() is not None and node.newest(0).k == 1


def test_a_server_from_an_older_state_is_believed_and_its_former_words_are_not() -> None:
    words_of_epochs(Aggregator)
    with pytest.raises(AssertionError, match=r"new epoch lacks it|an epoch that is over"):
        words_of_epochs(planted.BelievesAnOlderEpoch)


def refusals(aggregator: Any) -> None:
    """Client 3 has left: its update is refused, and only its."""
    server, node = Server(FOUR, np.zeros(2)), aggregator(FOUR, 2)
    server.leave(3)
    for c in range(4):
        node.join(c, [c])
        node.receive(c, Update(0, c, np.ones(2)))
    total = node.pack()
    with pytest.raises(RefusedSum) as refusal:
        server.receive_sum(total)
    told = node.refused(total.id, refusal.value.pairs)
    assert [(child, content.pairs) for child, content in told] == [(3, ((0, 3),))], "somebody else was blamed"
    assert server.receive_sum(node.pack()) and server.k == 1


def test_a_member_that_is_refused_takes_nobody_with_it() -> None:
    refusals(Aggregator)
    with pytest.raises(AssertionError, match="somebody else was blamed"):
        refusals(planted.BlamesEveryone)


def test_when_numbers_are_refused_each_goes_by_itself_until_it_is_known_whose_they_are() -> None:
    server, node = Server(FOUR, np.full(2, 1.5e308)), node_with(0, 1, 2)
    for c, by in enumerate((1.0, -1.0e308, 2.0)):
        node.receive(c, Update(0, c, np.full(2, by)))
    refused = []
    for total in iter(node.pack, None):
        try:
            server.receive_sum(total)
        except RefusedSum as refusal:
            refused += node.refused(total.id, refusal.pairs)
    assert [(child, content.pairs) for child, content in refused] == [(1, ((0, 1),))]
    assert 0 in server.settled(0) and 0 in server.settled(2) and 0 not in server.settled(1)


def test_updates_that_overflow_together_go_apart() -> None:
    node = node_with(0, 1)
    for c in (0, 1):
        node.receive(c, Update(0, c, np.full(2, 1.5e308)))
    totals = list(iter(node.pack, None))
    assert [total.pairs for total in totals] == [((0, 0),), ((0, 1),)]
    assert node.refused("unknown") == []


def test_a_client_can_not_speak_for_another_and_bad_parcels_are_dropped() -> None:
    node = node_with(0, 1)
    for bad in (
        Update(0, 1, np.ones(2)),
        Update(9, 0, np.ones(2)),
        Update(0, 0, np.full(2, np.nan)),
        Update(0, 0, np.ones(3)),
        Sum((), np.ones(2)),
        some_sum((0, 0), (0, 0)),
        some_sum((0, 0), (0, 1)),
    ):
        with pytest.raises(PeerError):
            node.receive(0, bad)
    with pytest.raises(UsageError, match="before it joined"):
        node.receive(3, Update(0, 3, np.ones(2)))
    with pytest.raises(PeerError, match="not part of this run"):
        node.join(4, [4])
    assert node.waiting == 0


def test_memory_stays_bounded_whatever_a_child_hands_in() -> None:
    node = node_with(0, 1, held_per_child=5)
    node.join("below", range(4))
    for number in range(5):
        node.receive("below", some_sum((0, 0), (0, 1), by=float(number)))
    before = deep_size(node, leave_out=(FOUR,))
    for number in range(20):
        with pytest.raises(TooMany, match="send this one later"):
            node.receive("below", some_sum((0, 0), (0, 1), by=5.0 + number))
    assert deep_size(node, leave_out=(FOUR,)) <= before
    assert node.receive(1, Update(0, 1, np.ones(2))) is None, "one child does not fill the place of another"


def test_what_a_child_hands_in_is_bounded_by_its_bytes_too() -> None:
    node = node_with(0, held_bytes=2 * np.ones(2).nbytes)
    for i in range(2):
        node.receive(0, Update(i, 0, np.ones(2)))
    with pytest.raises(TooMany, match="send this one later"):
        node.receive(0, Update(2, 0, np.ones(2)))
    node = node_with(0, held_bytes=1)
    assert node.receive(0, Update(0, 0, np.ones(2))) is None, "one is kept whatever its size, or nothing could go on"


def test_a_child_that_went_away_is_told_nothing_and_what_it_handed_in_is_sent() -> None:
    node = node_with(0, 1)
    node.receive(0, Update(0, 0, np.ones(2)))
    node.part(0)
    assert set(node.hear(Word({0: Settled(0), 1: Settled(0)}, 0, 0, np.ones(2)))) == {1}
    assert node.clients == {1} and node.carries == {0}
    total = node.pack()
    assert total is not None and total.pairs == ((0, 0),)


def test_an_aggregator_may_send_what_it_holds_of_a_client_that_moved_on() -> None:
    top = Aggregator(FOUR, 2)
    top.join("right", [0])
    top.join("left", [1], carries=[0])
    top.receive("left", some_sum((0, 0), (0, 1)))
    assert set(top.hear(Word({0: Settled(0)}, 0, 0, np.ones(2)))) == {"right"}
