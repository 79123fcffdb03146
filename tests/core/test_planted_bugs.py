"""Each property is seen to fail: a server, client, terms or stream with one bug, and the property that must notice it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.core import planted_clients as clients
from tests.core import planted_servers as servers
from tests.core import properties as p
from tests.core import server_properties as sp
from tests.core import setup_properties as up
from tests.core.play import CALM, CHURN, ROUGH, Parts
from tests.core.server_properties import scenes, unhurried_scenes
from tests.core.strategies import drawn, rules, sizes, terms

SERVERS_ALONE: list[Any] = [
    (servers.OneRoundAtATime, sp.any_order_gives_the_paper_s_model, unhurried_scenes, "k is"),
    (servers.WaitsForOneLess, sp.any_order_gives_the_paper_s_model, unhurried_scenes, "k is|a broadcast is due"),
    (servers.AppliesTwice, sp.any_order_gives_the_paper_s_model, unhurried_scenes, "not the paper's model"),
    (servers.ForgetsWhatOvertook, sp.any_order_gives_the_paper_s_model, unhurried_scenes, "not the paper's model"),
    (servers.AddsInsteadOfSubtracting, sp.any_order_gives_the_paper_s_model, unhurried_scenes, "not the paper's model"),
    (servers.KeepsQuietAboutWhatOvertook, sp.yours_tells_what_is_inside, unhurried_scenes, "yours of client"),
    (servers.ClaimsOneTooMany, sp.yours_tells_what_is_inside, unhurried_scenes, "yours of client"),
    (servers.AppliesTwice, sp.a_refused_message_changes_nothing, scenes, "left a trace"),
    (servers.CountsBeforeChecking, sp.a_refused_message_changes_nothing, scenes, "left a trace"),
    (servers.MovesBeforeChecking, sp.a_refused_message_changes_nothing, scenes, "left a trace"),
    (servers.MendsBrokenNumbers, sp.a_refused_message_changes_nothing, scenes, "taken: .*nan"),
    (servers.BelievesAnyRound, sp.a_refused_message_changes_nothing, scenes, "taken"),
    (servers.CallsConflictsRepeats, sp.a_refused_message_changes_nothing, scenes, "refused with DuplicateUpdate"),
    (servers.KeepsARefusedMessage, sp.memory_is_bounded, scenes, "grows"),
    (servers.BelievesAnyRound, sp.memory_is_bounded, scenes, "taken"),
    (servers.ListensToTheGone, sp.the_gone_are_not_heard, scenes, "taken|was heard"),
    (servers.GoesOnAlone, sp.nobody_present_nothing_moves, scenes, "k rose"),
    (servers.GoesOnAlone, sp.follows_any_churn, scenes, "k is"),
    (servers.WaitsForTheAbsent, sp.follows_any_churn, scenes, "k is"),
    (servers.SendsTheReturnedBack, sp.follows_any_churn, scenes, "back at"),
    (servers.LeavesRoundsOpenOnReturn, sp.follows_any_churn, scenes, "k is"),
]

GULLIBLE_AND_HASTY = Parts(server=servers.BelievesAnyRound, client=clients.RunsASlotTooFar)
GULLIBLE_AND_WILD = Parts(server=servers.BelievesAnyRound, client=clients.WorksWhileItShouldWait)
TWICE = "in a model more than once"
FEDERATIONS: list[Any] = [
    (Parts(server=servers.OneRoundAtATime), p.follows_the_paper, "k is not the paper's"),
    (Parts(server=servers.OneRoundAtATime), p.never_stands_still, "all stand still"),
    (Parts(server=servers.AppliesTwice), p.every_pair_is_applied_once, TWICE),
    (Parts(server=servers.ForgetsWhatOvertook), p.every_pair_is_applied_once, "never applied"),
    (Parts(server=servers.KeepsQuietAboutWhatOvertook), p.every_pair_is_applied_once, TWICE),
    (Parts(server=servers.WaitsForOneLess), p.is_consistent, "inconsistent"),
    (Parts(server=servers.OverwritesItsModel), p.exports_are_snapshots, f"changed afterwards|{TWICE}"),
    (Parts(server=servers.ExportsItsOwnArrays), p.exports_are_snapshots, "changed afterwards"),
    (Parts(server=servers.ForgetsWhoIsAbsent), p.continues_bit_for_bit, "another run"),
    (Parts(server=servers.ForgetsOvertakersInExport), p.continues_bit_for_bit, "another run|taken twice"),
    (Parts(server=servers.ExportsSinglePrecision), p.continues_bit_for_bit, "another run"),
    (Parts(server=servers.ExportsObjects), p.continues_bit_for_bit, "array of objects"),
    (Parts(client=clients.IgnoresYours), p.follows_the_paper, TWICE),
    (Parts(client=clients.IgnoresYours), p.every_pair_is_applied_once, TWICE),
    (Parts(client=clients.ThrowsOwnWorkAway), p.keeps_own_work, "thrown away"),
    (Parts(client=clients.LosesTheUnfinishedRound), p.follows_the_paper, f"Not equal|{TWICE}"),
    (Parts(client=clients.LosesTheUnfinishedRound), p.every_pair_is_applied_once, TWICE),
    (Parts(client=clients.StaysWhereItIs), p.is_consistent, "inconsistent"),
    (Parts(client=clients.StaysWhereItIs), p.follows_the_paper, "Not equal"),
    (Parts(client=clients.NeverHearsOfK), p.never_stands_still, "all stand still"),
    (Parts(client=clients.BelievesOldNews), p.follows_the_paper, "another broadcast"),
    (Parts(client=clients.SendsNothingAgain), p.never_stands_still, "all stand still"),
    (Parts(client=clients.RunsASlotTooFar), p.follows_the_paper, "waits where the paper works"),
    (GULLIBLE_AND_HASTY, p.keeps_the_delay_bound, "too far ahead|delay bound broken"),
    (GULLIBLE_AND_WILD, p.is_consistent, "inconsistent"),
    (Parts(client=clients.StopsASlotShort), p.never_stands_still, "all stand still"),
    (Parts(client=clients.StopsBeforeTheLastRound), p.never_stands_still, "all stand still"),
    (Parts(client=clients.ForgetsItsFrame), p.continues_bit_for_bit, f"another run|{TWICE}"),
    (Parts(client=clients.ForgetsWhatItSent), p.continues_bit_for_bit, "another run"),
    (Parts(client=clients.ForgetsYours), p.continues_bit_for_bit, "another run"),
]

pytestmark = pytest.mark.slow
waits = st.tuples(sizes, st.just((0.5, 0.5)), st.just(1), rules)
SET_UPS: list[Any] = [
    (clients.RoundedShares, up.shares_sum_exactly, drawn, "sum to"),
    (clients.DealsToTheNext, up.shares_sum_exactly, drawn, "deals out"),
    (clients.LeftOverToTheLast, up.expected_shares_are_the_formula, drawn, "expected"),
    (clients.RemembersTheOrderOfQuestions, up.terms_are_pure, drawn, "other answers"),
    (clients.WaitsAtEquality, up.the_wait_rule_is_the_paper_s, waits, "allowed"),
    (clients.ThePapersD, up.the_wait_rule_is_the_paper_s, waits, "allowed"),
    (clients.StepsOneLabelLate, up.steps_are_looked_up_at_their_labels, drawn, "round: "),
    (clients.TheSameUniformEachRound, up.expected_shares_are_fair_over_rounds, None, "for size"),
    (clients.TheSameCoinsEachRound, up.coin_shares_are_multinomial, None, "mean"),
    (clients.UnevenCoins, up.coin_shares_are_multinomial, None, "covariance"),
    (clients.OverlappingBlocks, up.blocks_take_turns, None, "overlap"),
    (clients.OneBlockOnly, up.blocks_take_turns, None, "blocks were seen"),
    (clients.counts_in_the_round, up.streams_never_share_numbers, None, "came twice"),
    (clients.joins_seed_and_client, up.streams_never_share_numbers, None, "came twice"),
    (clients.forgets_the_purpose, up.streams_never_share_numbers, None, "came twice"),
    (clients.draws_anew, up.streams_repeat, None, "other numbers"),
]


@pytest.mark.parametrize(("bug", "check", "examples", "seen_as"), SERVERS_ALONE + SET_UPS, ids=p.name_of_bug)
def test_a_planted_bug_is_seen(bug: Any, check: Any, examples: Any, seen_as: str) -> None:
    with pytest.raises(AssertionError, match=seen_as):
        check(bug) if examples is None else p.for_all(examples, partial(check, bug), 200)


@pytest.mark.parametrize(("parts", "check", "seen_as"), FEDERATIONS, ids=p.name_of_bug)
def test_a_bug_planted_in_a_federation_is_seen(parts: Parts, check: Any, seen_as: str) -> None:
    with pytest.raises(AssertionError, match=seen_as):
        p.for_all(p.cases(terms(), CALM, ROUGH, CHURN), partial(check, parts), 200)
