"""The black-box audit attacks drafts: sound ones pass, and each planted bug fails."""

from __future__ import annotations

import pytest

from crescendo_dp.black_box.attack import BlackBoxReport, Claim, attack
from crescendo_dp.black_box.callable_mechanism import CallableMechanism
from crescendo_dp.black_box.neighbours import Pair, pairs
from tests.drafter.attacked import PLANTED, REQUEST, Attacked


def attacked(mechanism: Attacked, runs: int, seed: int = 0) -> BlackBoxReport:
    chosen: list[Pair] = pairs(mechanism.records, "add", list(mechanism.canaries))[: len(mechanism.canaries)]
    claim = Claim(REQUEST.epsilon, REQUEST.delta)
    return attack("a draft", CallableMechanism("a draft", mechanism).run, chosen, claim, runs=runs, seed=seed)


@pytest.mark.slow
def test_a_draft_keeps_its_epsilon() -> None:
    found = attacked(Attacked(), runs=2000)
    assert found.passed and found.lower <= REQUEST.epsilon < found.most


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    found = attacked(PLANTED[bug], runs=1000)
    assert not found.passed, (found.lower, found.statistic)
