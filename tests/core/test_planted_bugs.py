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
from tests.core.strategies import rules, sizes, terms
from tests.core.test_server import scenes, unhurried_scenes
from tests.core.test_setup import drawn

SERVERS_ALONE: list[Any] = [
    (servers.OneRoundAtATime, sp.any_order_gives_the_paper_s_model, unhurried_scenes),
    (servers.AppliesTwice, sp.any_order_gives_the_paper_s_model, unhurried_scenes),
    (servers.ForgetsWhatOvertook, sp.any_order_gives_the_paper_s_model, unhurried_scenes),
    (servers.AddsInsteadOfSubtracting, sp.any_order_gives_the_paper_s_model, unhurried_scenes),
    (servers.WaitsForOneLess, sp.any_order_gives_the_paper_s_model, unhurried_scenes),
    (servers.KeepsQuietAboutWhatOvertook, sp.yours_tells_what_is_inside, unhurried_scenes),
    (servers.ClaimsOneTooMany, sp.yours_tells_what_is_inside, unhurried_scenes),
    (servers.AppliesTwice, sp.a_refused_message_changes_nothing, scenes),
    (servers.CountsBeforeChecking, sp.a_refused_message_changes_nothing, scenes),
    (servers.MovesBeforeChecking, sp.a_refused_message_changes_nothing, scenes),
    (servers.MendsBrokenNumbers, sp.a_refused_message_changes_nothing, scenes),
    (servers.BelievesAnyRound, sp.a_refused_message_changes_nothing, scenes),
    (servers.CallsConflictsRepeats, sp.a_refused_message_changes_nothing, scenes),
    (servers.KeepsARefusedMessage, sp.memory_is_bounded, scenes),
    (servers.BelievesAnyRound, sp.memory_is_bounded, scenes),
    (servers.GoesOnAlone, sp.nobody_present_nothing_moves, scenes),
    (servers.GoesOnAlone, sp.follows_any_churn, scenes),
    (servers.WaitsForTheAbsent, sp.follows_any_churn, scenes),
    (servers.SendsTheReturnedBack, sp.follows_any_churn, scenes),
    (servers.LeavesRoundsOpenOnReturn, sp.follows_any_churn, scenes),
]

FEDERATIONS: list[Any] = [
    (Parts(server=servers.OneRoundAtATime), p.follows_the_paper),
    (Parts(server=servers.OneRoundAtATime), p.never_stands_still),
    (Parts(server=servers.AppliesTwice), p.every_pair_is_applied_once),
    (Parts(server=servers.ForgetsWhatOvertook), p.every_pair_is_applied_once),
    (Parts(server=servers.WaitsForOneLess), p.is_consistent),
    (Parts(server=servers.ClaimsOneTooMany), p.keeps_own_work),
    (Parts(server=servers.OverwritesItsModel), p.exports_are_snapshots),
    (Parts(server=servers.ExportsItsOwnArrays), p.exports_are_snapshots),
    (Parts(server=servers.ForgetsWhoIsAbsent), p.continues_bit_for_bit),
    (Parts(server=servers.ForgetsOvertakersInExport), p.continues_bit_for_bit),
    (Parts(server=servers.ExportsSinglePrecision), p.continues_bit_for_bit),
    (Parts(server=servers.ExportsObjects), p.continues_bit_for_bit),
    (Parts(client=clients.IgnoresYours), p.follows_the_paper),
    (Parts(client=clients.IgnoresYours), p.every_pair_is_applied_once),
    (Parts(client=clients.ThrowsOwnWorkAway), p.keeps_own_work),
    (Parts(client=clients.LosesTheUnfinishedRound), p.follows_the_paper),
    (Parts(client=clients.LosesTheUnfinishedRound), p.every_pair_is_applied_once),
    (Parts(client=clients.StaysWhereItIs), p.is_consistent),
    (Parts(client=clients.StaysWhereItIs), p.follows_the_paper),
    (Parts(client=clients.NeverHearsOfK), p.never_stands_still),
    (Parts(client=clients.BelievesOldNews), p.follows_the_paper),
    (Parts(client=clients.SendsNothingAgain), p.never_stands_still),
    (Parts(client=clients.RunsASlotTooFar), p.follows_the_paper),
    (Parts(client=clients.RunsASlotTooFar), p.keeps_the_delay_bound),
    (Parts(client=clients.WorksWhileItShouldWait), p.is_consistent),
    (Parts(client=clients.StopsASlotShort), p.never_stands_still),
    (Parts(client=clients.StopsBeforeTheLastRound), p.never_stands_still),
    (Parts(client=clients.ForgetsItsFrame), p.continues_bit_for_bit),
    (Parts(client=clients.ForgetsWhatItSent), p.continues_bit_for_bit),
    (Parts(client=clients.ForgetsYours), p.continues_bit_for_bit),
]

pytestmark = pytest.mark.slow
waits = st.tuples(sizes, st.just((0.5, 0.5)), st.just(1), rules)
SET_UPS: list[Any] = [
    (clients.RoundedShares, up.shares_sum_exactly, drawn),
    (clients.DealsToTheNext, up.shares_sum_exactly, drawn),
    (clients.LeftOverToTheLast, up.expected_shares_are_the_formula, drawn),
    (clients.RemembersTheOrderOfQuestions, up.terms_are_pure, drawn),
    (clients.WaitsAtEquality, up.the_wait_rule_is_the_paper_s, waits),
    (clients.ThePapersD, up.the_wait_rule_is_the_paper_s, waits),
    (clients.StepsOneLabelLate, up.steps_are_looked_up_at_their_labels, drawn),
    (clients.TheSameUniformEachRound, up.expected_shares_are_fair_over_rounds, None),
    (clients.TheSameCoinsEachRound, up.coin_shares_are_multinomial, None),
    (clients.UnevenCoins, up.coin_shares_are_multinomial, None),
    (clients.OverlappingBlocks, up.blocks_take_turns, None),
    (clients.OneBlockOnly, up.blocks_take_turns, None),
    (clients.counts_in_the_round, up.streams_never_share_numbers, None),
    (clients.joins_seed_and_client, up.streams_never_share_numbers, None),
    (clients.forgets_the_purpose, up.streams_never_share_numbers, None),
    (clients.draws_anew, up.streams_repeat, None),
]


def name(value: Any) -> str:
    if isinstance(value, Parts):
        value = next(part for part in (value.server, value.client) if part.__module__.startswith("tests"))
    return str(getattr(value, "__name__", ""))


@pytest.mark.parametrize(("bug", "check", "examples"), SERVERS_ALONE + SET_UPS, ids=name)
def test_a_planted_bug_is_seen(bug: Any, check: Any, examples: Any) -> None:
    with pytest.raises(AssertionError):
        check(bug) if examples is None else p.for_all(examples, partial(check, bug), 200)


@pytest.mark.parametrize(("parts", "check"), FEDERATIONS, ids=name)
def test_a_bug_planted_in_a_federation_is_seen(parts: Parts, check: Any) -> None:
    with pytest.raises(AssertionError):
        p.for_all(p.cases(terms(), CALM, ROUGH, CHURN), partial(check, parts), 200)
