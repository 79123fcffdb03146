"""Each public keyword, on a table and with an objective that change from one to the next: sense, doubt or a refusal."""

from __future__ import annotations

import pytest

from crescendo.calls.keywords import PATHS
from tests.calls.every_keyword import OBJECTIVES, TABLES, VALUES, Combination, outcome

pytest.importorskip("torch")
pytest.importorskip("jax")

_SMALL = [table for table in TABLES if table != "digits"]  # the whole table of combinations is a command
USES = [(keyword, use) for keyword, uses in VALUES.items() for use in range(len(uses))]
_QUICK = [objective for objective in OBJECTIVES if objective != "jax"]  # which compiles for each
SAMPLE = [
    Combination(_SMALL[(7 * n + n // 5) % len(_SMALL)], _QUICK[(n + n // 7) % len(_QUICK)], keyword, use)
    for n, (keyword, use) in enumerate(USES)
]
EXPECTED = {  # what must not become a refusal, or a doubt, without a word here
    Combination("wine", "usual", "rounds", 1): "sensible",
    Combination("wine", "torch", "rounds", 1): "doubted",  # its columns differ in size, and the model is the user's
    Combination("breast cancer", "logistic", "epochs", 1): "sensible",
    Combination("diabetes", "least-squares", "gradients", 1): "sensible",
    Combination("iris", "torch", "epochs", 1): "sensible",
    Combination("iris", "torch", "rounds", 2): "doubted",  # three of 30 records short of a regression
    Combination("iris", "own", "mechanism", 0): "refused",
}


def test_every_keyword_has_a_use() -> None:
    assert VALUES.keys() == PATHS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("one", SAMPLE, ids=lambda one: one.name)
def test_no_keyword_ends_in_a_bad_score_without_a_word_or_in_a_traceback(one: Combination) -> None:
    found = outcome(one)
    assert found["kind"] != "wrong", found


@pytest.mark.slow
@pytest.mark.parametrize(("one", "kind"), EXPECTED.items(), ids=lambda one: getattr(one, "name", one))
def test_what_people_do_first_is_sensible_and_what_cannot_work_says_so(one: Combination, kind: str) -> None:
    found = outcome(one)
    assert found["kind"] == kind, found
