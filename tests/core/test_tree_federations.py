"""Whole federations with aggregators in between: whatever happens to them, the model is the flat server's and nothing is lost."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st

from crescendo.core.messages import Sum, SumOverlaps
from crescendo.core.server import Server
from tests.core import planted_trees as planted
from tests.core import properties as p
from tests.core.play import CALM, CHURN, ROUGH, Style
from tests.core.strategies import growing_sizes, make_terms, rules, sizes
from tests.core.tree_play import TreeCase, TreeParts, TreePlay

PARTS = TreeParts()
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
# nothing is lost, much overtakes
LONG = make_terms((4, 4, 6, 6, 8, 8, 8), (0.25,) * 4, {"ahead": 3})
long = st.builds(TreeCase, st.just(LONG), st.integers(0, 2**20), st.just(CALM), st.just(0.0))


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


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "check", "seen_as", "drawn"), FEDERATIONS, ids=p.name_of_bug)
def test_a_bug_planted_in_a_tree_is_seen(parts: TreeParts, check: Any, seen_as: str, drawn: Any) -> None:
    with pytest.raises(AssertionError, match=seen_as):
        p.for_all(drawn, partial(check, parts), 400)
