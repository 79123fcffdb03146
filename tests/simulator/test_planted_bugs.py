"""Each property of simulated runs is seen to fail on a planted bug."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from crescendo.errors import CrescendoError
from crescendo.simulator.timing import Constant, Crashes, Timing
from tests.core.planted_servers import BelievesAnyRound
from tests.core.properties import for_all, name_of_bug
from tests.core.strategies import make_terms
from tests.simulator import federations as f
from tests.simulator import planted
from tests.simulator import test_worker as sgd
from tests.simulator.federations import Case, Parts

pytestmark = pytest.mark.slow
any_case, plain_case = f.cases(), f.plain_cases()
CHURN = Case(
    make_terms((6,) * 12, (0.3, 0.3, 0.4), {"ahead": 2}),
    Timing((1.0, 1.5, 2.0), (0.0,) * 3, Constant(0.3), crashes=Crashes(9.0, 12.0), absent_after=1.0),
    seed=0,
)

GULLIBLE_AND_HASTY = Parts(worker=planted.RunsASlotTooFar, server=BelievesAnyRound)
GULLIBLE_AND_WILD = Parts(worker=planted.WorksWhileItShouldWait, server=BelievesAnyRound)
TWICE = "in a model more than once"
OTHER = f"Not equal|computed on other models|{TWICE}"
BUGS: list[Any] = [
    (Parts(worker=planted.IgnoresYours), f.reaches_the_end, any_case, TWICE),
    (Parts(worker=planted.LosesTheUnfinishedRound), f.reaches_the_end, any_case, TWICE),
    (Parts(worker=planted.LosesTheUnfinishedRound), f.is_the_literal_federation, plain_case, OTHER),
    (Parts(worker=planted.ThrowsOwnWorkAway), f.tells_the_truth, any_case, "another story"),
    (Parts(worker=planted.ThrowsOwnWorkAway), f.is_the_literal_federation, plain_case, OTHER),
    (Parts(worker=planted.DoesNotMoveAlong), f.tells_the_truth, any_case, "another story"),
    (Parts(worker=planted.DoesNotMoveAlong), f.is_the_literal_federation, plain_case, OTHER),
    (GULLIBLE_AND_HASTY, f.keeps_the_delay_bound, any_case, "too far ahead|delay bound broken"),
    (GULLIBLE_AND_WILD, f.is_consistent, any_case, "inconsistent"),
    (Parts(worker=planted.StopsASlotShort), f.reaches_the_end, any_case, "did not run to its end"),
    (Parts(worker=planted.StartsAnew), f.reaches_the_end, any_case, TWICE),
    (Parts(simulation=planted.HearsTheNewsTooEarly), f.is_the_literal_federation, plain_case, OTHER),
    (Parts(simulation=planted.LosesForGood), f.reaches_the_end, any_case, "did not run to its end"),
    (Parts(simulation=planted.RollsItsOwnDice), f.one_seed_one_trace, any_case, "another trace"),
    (Parts(simulation=planted.NamesTheWrongBroadcast), f.tells_the_truth, any_case, "another story"),
    (Parts(simulation=planted.CountsRoundsAheadFromOne), f.keeps_the_delay_bound, any_case, "max_rounds_ahead"),
    (planted.finds_nothing, f.finds_what_the_literal_check_finds, any_case, "passed, though"),
    (planted.is_off_by_one_round, f.finds_what_the_literal_check_finds, any_case, "passed, though"),
    (planted.has_labels_off_by_one, f.finds_what_the_literal_check_finds, any_case, "though"),
    (planted.forgets_own_work, f.finds_what_the_literal_check_finds, any_case, "though"),
]


@pytest.mark.parametrize(("bug", "check", "examples", "seen_as"), BUGS, ids=name_of_bug)
def test_a_planted_bug_is_seen(bug: Any, check: Any, examples: Any, seen_as: str) -> None:
    with pytest.raises(AssertionError, match=seen_as):
        for_all(examples, partial(check, bug), 400)


@pytest.mark.parametrize("check", [f.reaches_the_end, f.is_consistent], ids=name_of_bug)
def test_pairs_of_the_absent_that_are_not_listed_are_missed(check: Any) -> None:
    check(Parts(), CHURN)
    with pytest.raises((AssertionError, CrescendoError)):
        check(Parts(simulation=planted.ExcludesNobody), CHURN)


def test_a_crash_that_is_half_forgotten_is_seen() -> None:
    with pytest.raises(AssertionError):
        for seed in range(20):
            f.tells_the_truth(Parts(worker=planted.GoesOnAfterACrash), Case(CHURN.terms, CHURN.timing, seed))


@pytest.mark.parametrize("check", [sgd.is_sgd_in_the_frame_of_the_round, sgd.is_the_textbook_loop], ids=name_of_bug)
@pytest.mark.parametrize("bug", [planted.StartsAnew, planted.RoundsTwice], ids=name_of_bug)
def test_a_worker_that_is_not_sgd_is_seen(bug: Any, check: Any) -> None:
    with pytest.raises(AssertionError):
        check(bug)
