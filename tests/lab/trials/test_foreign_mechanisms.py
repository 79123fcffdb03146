"""Mechanisms of examples/, written as in other libraries: the audit fails the unsound ones and passes the sound ones."""

from __future__ import annotations

import ast
import re

import pytest

from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import PoissonGaussian
from lab.trials.foreign_mechanisms import DELTA, EXAMPLES, SOUND, UNSOUND, Foreign

FEWER = {"LocalDp": 1_000_000, "OverDrawn": 100_000}  # releases than in the experiment: enough for one seed
COMMAND = re.compile(r"crescendo audit examples/(\S+) --epsilon (\S+) --delta 1e-5 +# (passes|fails)")


def name(foreign: Foreign) -> str:
    return foreign.kind.rpartition(":")[2]


@pytest.mark.slow
@pytest.mark.parametrize("foreign", UNSOUND, ids=name)
def test_an_unsound_mechanism_fails(foreign: Foreign) -> None:
    report = foreign._replace(runs=FEWER.get(name(foreign), foreign.runs)).audited(seed=0)
    assert not report.passed and report.lower > foreign.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("foreign", SOUND, ids=name)
def test_a_sound_mechanism_passes(foreign: Foreign) -> None:
    assert foreign._replace(runs=foreign.runs // 4).audited(seed=0).passed


def test_each_example_states_the_commands_that_are_tried() -> None:
    files = {foreign.kind.partition(":")[0] for foreign in (*UNSOUND, *SOUND)}
    stated = {found for file in files for found in COMMAND.findall(ast.get_docstring(_parsed(file)) or "")}
    tried = {(one.kind, f"{one.epsilon:g}", "fails") for one in UNSOUND}
    assert stated == tried | {(one.kind, f"{one.epsilon:g}", "passes") for one in SOUND}


def test_the_claims_are_what_the_steps_would_cost_by_their_accountants() -> None:
    costs = {rate: account([PoissonGaussian(rate, 1.0)], DELTA).epsilon for rate in (0.25, 0.025)}
    assert 2.70 < costs[0.25] < 2.71 and 0.55 < costs[0.025] < 0.56


def _parsed(file: str) -> ast.Module:
    return ast.parse((EXAMPLES / file).read_text())
