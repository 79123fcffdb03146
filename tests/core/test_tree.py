"""Aggregators between clients and server: whatever happens to them, the model is the flat server's and nothing is lost."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from crescendo.core.messages import Settled, Sum, Update, Word
from crescendo.core.server import ConflictingUpdate, RefusedSum, Server, SumOverlaps
from crescendo.core.tree import Aggregator, TooMany
from crescendo.errors import PeerError, UsageError
from tests.core import planted_trees as planted
from tests.core import properties as p
from tests.core.play import CALM, CHURN, ROUGH, Style, accepted
from tests.core.server_properties import deep_size
from tests.core.strategies import growing_sizes, make_terms, rules, seeds, sizes
from tests.core.tree_play import TreeCase, TreeParts, TreePlay

PARTS = TreeParts()
FOUR = make_terms((8, 8, 8), (0.25,) * 4, {"ahead": 2})
ROUGHER = Style(duplicate=0.4, lose=0.2, crash=0.03)


crowds = st.lists(st.integers(1, 6), min_size=2, max_size=6).map(lambda raw: tuple(x / sum(raw) for x in raw))
federations = st.builds(
    make_terms,
    values=st.one_of(sizes, growing_sizes),
    weights=crowds,
    rule=rules,
    shares_by=st.sampled_from(["expected", "coin"]),
    seed=st.integers(0, 5),
)


def tree_cases(*styles: Style) -> st.SearchStrategy[TreeCase]:
    return st.builds(TreeCase, federations, st.integers(0, 2**20), st.sampled_from(styles))


everything = tree_cases(CALM, ROUGH, ROUGHER, CHURN)
steady = st.builds(TreeCase, federations, st.integers(0, 2**20), st.just(CALM), st.just(0.0))
LONG = make_terms((4, 4, 6, 6, 8, 8, 8), (0.25,) * 4, {"ahead": 3})
long = st.builds(
    TreeCase, st.just(LONG), st.integers(0, 2**20), st.just(CALM), st.just(0.0)
)  # nothing is lost, much overtakes


# -- a whole federation, in any order, with losses, repeats, deaths and moves


@pytest.mark.slow
def test_after_every_event_the_model_is_that_of_a_flat_server() -> None:
    p.for_all(everything, partial(p.follows_the_paper, PARTS), 150)


@pytest.mark.slow
def test_every_pair_is_applied_once_and_none_is_lost() -> None:
    p.for_all(everything, partial(p.every_pair_is_applied_once, PARTS), 150)


@pytest.mark.slow
def test_a_tree_reaches_the_last_round_whatever_dies() -> None:
    p.for_all(everything, partial(p.never_stands_still, PARTS), 150)


@pytest.mark.slow
def test_nothing_need_be_sent_again_where_nothing_was_lost() -> None:
    """Repeats and moves alone never make the federation wait for a reconnection."""
    p.for_all(st.one_of(steady, long), partial(p.never_stands_still, PARTS), 200)


@pytest.mark.slow
def test_broadcasts_through_a_tree_throw_no_own_work_away() -> None:
    p.for_all(st.one_of(tree_cases(CALM), long), partial(p.keeps_own_work, PARTS), 100)


@pytest.mark.slow
def test_a_server_of_sums_goes_on_bit_for_bit_from_what_it_exported() -> None:
    p.for_all(everything, partial(p.continues_bit_for_bit, PARTS), 15)


@pytest.mark.slow
def test_the_plays_are_about_sums_overlaps_and_depth_two() -> None:
    """Without this the tests above could pass on plays in which nothing happens."""
    seen = {"sums": 0, "overlaps": 0, "deep": 0}

    class Noted(Server):
        def receive_sum(self, total: Sum) -> bool:
            try:
                return super().receive_sum(total)
            except SumOverlaps as answer:
                seen["overlaps"] += len(answer.settled) < len(total.pairs)
                raise

    def look(case: TreeCase) -> None:
        play = case.play(TreeParts(server=Noted))
        play.run()
        seen["sums"] += play.sums
        seen["deep"] += max(depth(play, c) for c in range(play.terms.clients)) == 3

    p.for_all(everything, look, 100)
    assert seen["sums"] > 100 and seen["overlaps"] > 20 and seen["deep"] > 20, seen


def depth(play: TreePlay, place: int) -> int:
    return 0 if place == -1 else 1 + depth(play, play.parent[place])


DOUBLE = "more than once|taken twice"
LOST = "stand still|never applied|no end in sight"
FEDERATIONS: list[Any] = [
    (TreeParts(server=planted.TakesASumAgain), p.every_pair_is_applied_once, DOUBLE, everything),
    (TreeParts(server=planted.TakesASumWithOneNewPair), p.every_pair_is_applied_once, DOUBLE, everything),
    (
        TreeParts(server=planted.SettlesTheFirstPairOnly),
        p.follows_the_paper,
        f"{DOUBLE}|{LOST}|k is not|the answer is not",
        everything,
    ),
    (TreeParts(server=planted.MovesBeforeCheckingASum), p.follows_the_paper, f"Not equal|{DOUBLE}", everything),
    (TreeParts(server=planted.NamesTheWrongPairs), p.every_pair_is_applied_once, "the answer is not", everything),
    (TreeParts(aggregator=planted.ForgetsWhatItSent), p.never_stands_still, LOST, steady),
    (TreeParts(aggregator=planted.ForgetsTheRest), p.never_stands_still, LOST, steady),
    (TreeParts(aggregator=planted.KeepsASumThatWillNeverBeTaken), p.never_stands_still, LOST, steady),
    (
        TreeParts(aggregator=planted.SendsTheRestWithTheOldNumbers),
        p.follows_the_paper,
        f"Not equal|{DOUBLE}",
        everything,
    ),
    (TreeParts(aggregator=planted.ChangesWhatItSent), p.never_stands_still, "changed after it was sent", everything),
    (TreeParts(aggregator=planted.AddsInSinglePrecision), p.follows_the_paper, "Not equal", everything),
    (TreeParts(aggregator=planted.AddsTheSamePairTwice), p.follows_the_paper, "refused, though allowed", everything),
    (TreeParts(aggregator=planted.HoldsARepeatTwice), p.follows_the_paper, "refused, though allowed", everything),
    (TreeParts(aggregator=planted.AnswersForTheServer), p.every_pair_is_applied_once, f"{LOST}|{DOUBLE}", everything),
    (TreeParts(aggregator=planted.TellsOnlyWhoIsBehindItNow), p.never_stands_still, LOST, long),
    (TreeParts(aggregator=planted.PassesOnModelsWithWhatItKnows), p.keeps_own_work, "thrown away", long),
    (
        TreeParts(aggregator=planted.TellsEveryoneTheSame),
        p.follows_the_paper,
        f"refused, though|Not equal|{DOUBLE}|{LOST}",
        everything,
    ),
    (TreeParts(aggregator=planted.KeepsBroadcastsToItself), p.never_stands_still, LOST, steady),
]


def name(value: Any) -> str:
    if isinstance(value, TreeParts):
        return "".join(part.__name__ for part in (value.server, value.aggregator) if "planted" in part.__module__)
    return str(getattr(value, "__name__", ""))


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "check", "seen_as", "drawn"), FEDERATIONS, ids=name)
def test_a_bug_planted_in_a_tree_is_seen(parts: TreeParts, check: Any, seen_as: str, drawn: Any) -> None:
    with pytest.raises(AssertionError, match=seen_as):
        p.for_all(drawn, partial(check, parts), 400)


# -- the server and sums


def some_sum(*pairs: tuple[int, int], size: int = 2, by: float = 1.0) -> Sum:
    return Sum(pairs, np.full(size, by))


def test_a_sum_moves_the_model_once_and_settles_each_of_its_pairs() -> None:
    server = Server(FOUR, np.zeros(2))
    assert not server.receive_sum(some_sum((0, 0), (1, 0), (0, 1)))
    assert server.receive_sum(some_sum((0, 2), (0, 3))) and server.k == 1
    assert server.model.tolist() == [-2.0, -2.0] and server.settled(0) == Settled(2)


def test_a_sum_with_a_settled_pair_is_answered_with_what_the_server_has() -> None:
    server = Server(FOUR, np.zeros(2))
    server.receive(Update(0, 1, np.ones(2)))
    server.void(1, 2)
    before = server.export()
    with pytest.raises(SumOverlaps, match="2 of the 3 updates in this sum are here already") as answer:
        server.receive_sum(some_sum((0, 0), (0, 1), (1, 2)))
    assert answer.value.settled == ((0, 1), (1, 2)) and p.same(server.export(), before)


BAD_SUMS: list[Any] = [
    (Sum((), np.ones(2)), ()),
    (some_sum((0, 0), (0, 0)), ()),
    (some_sum((0, 0), (0, 7)), ((0, 7),)),
    (some_sum((0, 0), (-1, 1), (3, 1)), ((-1, 1), (3, 1))),
    (some_sum((0, 0), (0, 3)), ((0, 3),)),  # has left
    (some_sum((0, 0), (0, 1), size=3), ()),
    (some_sum((0, 0), (0, 1), by=np.nan), ()),
    (some_sum((0, 0), (0, 1), by=-1.7e308), ()),
    (Sum(((0, 0), (0, 1)), np.ones(2, dtype=np.int64)), ()),
    (some_sum((0, 0), by=np.inf), ((0, 0),)),
]


@pytest.mark.parametrize(("bad", "at_fault"), BAD_SUMS)
def test_a_bad_sum_is_refused_wholly_and_names_who_is_at_fault(bad: Sum, at_fault: Any) -> None:
    server = Server(FOUR, np.full(2, 1.0e308))
    server.leave(3)
    before, model = server.export(), server.model
    with pytest.raises(RefusedSum) as refusal:
        server.receive_sum(bad)
    assert refusal.value.pairs == at_fault and p.same(server.export(), before) and server.model is model


def test_a_sum_of_one_is_an_update_and_another_one_in_its_place_is_an_alarm() -> None:
    server = Server(FOUR, np.zeros(2))
    server.receive_sum(some_sum((0, 0)))
    with pytest.raises(SumOverlaps):
        server.receive_sum(some_sum((0, 0)))
    with pytest.raises(ConflictingUpdate):
        server.receive(Update(0, 0, np.zeros(2)))
    with pytest.raises(ConflictingUpdate):
        server.receive_sum(some_sum((0, 0), by=2.0))


def test_late_pairs_of_a_sum_are_counted() -> None:
    server = Server(FOUR, np.zeros(2))
    for c in (2, 3):
        server.absent(c)
    server.receive_sum(some_sum((0, 0), (0, 1)))
    server.receive_sum(some_sum((0, 2), (1, 0), (0, 3)))
    assert server.k == 1 and server.late == 2


# -- masks


def masked_run(aggregator: Any, seed: int) -> None:
    """All updates of a masked run, in any order, through one aggregator that packs now and then."""
    rng = np.random.default_rng(seed)
    masked = make_terms((8,) * 6, (0.25,) * 4, {"ahead": 9}, blocks=3)
    updates = [
        Update(i, c, rng.normal(size=np.diff(masked.block(i, 12))[0]).astype(np.float32))
        for i in range(6)
        for c in range(4)
    ]
    flat, server, node = Server(masked, np.ones(12)), Server(masked, np.ones(12)), aggregator(masked, 12)
    for update in updates:
        flat.receive(update)
    node.join("all", range(4))
    for number in rng.permutation(len(updates)):
        node.receive("all", updates[number])
        if rng.random() < 0.2:
            for total in iter(node.pack, None):
                accepted(server.receive_sum, total)
            node.hear(server.word(range(4)))
    for total in iter(node.pack, None):
        accepted(server.receive_sum, total)
    assert server.finished
    np.testing.assert_allclose(server.model, flat.model, rtol=1e-12)


def test_rounds_of_different_blocks_are_never_added_and_the_model_is_the_flat_server_s() -> None:
    p.for_all(seeds, partial(masked_run, Aggregator), 20)


def test_an_aggregator_that_mixes_blocks_is_seen() -> None:
    with pytest.raises(AssertionError, match="mixes rounds that move different blocks"):
        p.for_all(seeds, partial(masked_run, planted.MixesBlocks), 20)


# -- the aggregator alone


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
    word = Word({0: Settled(2), 1: Settled(0, frozenset({1})), 2: Settled(1), 3: Settled(3)}, 1, 0, np.ones(2))
    parts = node.hear(word)
    assert dict(parts["left"].yours) == {0: Settled(2), 2: Settled(1)} and parts["left"].model is word.model
    assert parts[1].to(1).yours == Settled(0, frozenset({1})) and set(parts) == {"left", 1}


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
