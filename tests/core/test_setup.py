"""Terms: shares, labels, steps, blocks and the wait rule against their formulas."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from crescendo.core.terms import MOST_SUMS, Terms
from crescendo.errors import CrescendoError
from crescendo.schedules import DiminishingSteps
from tests.core import setup_properties as properties
from tests.core.properties import for_all
from tests.core.strategies import Coded, Listed, Stairs, drawn, make_terms, rules, seeds, sizes, weights


def test_shares_sum_exactly_to_the_size_of_the_round() -> None:
    for_all(drawn, partial(properties.shares_sum_exactly, Terms), 60)


def test_expected_shares_are_the_formula_for_one_public_uniform() -> None:
    for_all(drawn, partial(properties.expected_shares_are_the_formula, Terms), 60)


def test_expected_shares_sum_exactly_in_huge_rounds_of_many_clients() -> None:
    terms = make_terms((10**9 + 7, 123_456_789), (1 / 999,) * 999, {"ahead": 1})
    for i in range(2):
        shares = terms.shares(i)
        assert shares.sum() == terms.sizes(i)
        assert np.abs(shares - terms.sizes(i) / 999).max() < 1.0 + 1e-6


def test_expected_shares_are_fair_over_rounds() -> None:
    properties.expected_shares_are_fair_over_rounds(Terms)


def test_coin_shares_are_multinomial() -> None:
    properties.coin_shares_are_multinomial(Terms)


def test_terms_answer_the_same_in_any_order() -> None:
    for_all(drawn, partial(properties.terms_are_pure, Terms), 30)


def test_the_wait_rule_is_the_paper_s_slot_by_slot() -> None:
    for_all(st.tuples(sizes, weights, seeds, rules), partial(properties.the_wait_rule_is_the_paper_s, Terms), 80)


def test_steps_are_looked_up_at_their_labels() -> None:
    for_all(drawn, partial(properties.steps_are_looked_up_at_their_labels, Terms), 30)


@pytest.mark.parametrize("clients", [1, 2, 3, 49, 93])  # 1 / (1 / 49) is no 49, nor is 1 / (1 / 93) a 93
def test_with_equal_shares_the_labels_of_slots_are_the_paper_s_bit_for_bit(clients: int) -> None:
    properties.equal_shares_have_the_paper_s_labels(Terms, clients)


@pytest.mark.parametrize("by", ["expected", "coin"])
def test_a_client_s_steps_never_rise_whatever_its_weight(by: Any) -> None:
    weights = (0.8, 0.1, 0.1)
    made = make_terms((100,) * 20, weights, {"ahead": 1}, by, steps=DiminishingSteps(0.1, 0.001, per="slot"))
    for c, p in enumerate(weights):
        etas = np.concatenate([made.etas(i, c) for i in range(20)])
        assert (np.diff(etas) < 0).all()
        written = [0.1 / (1 + 0.001 * done / p) for done in range(len(etas))]
        np.testing.assert_allclose(etas, written, rtol=1e-12)


def test_the_slots_before_a_round_are_sums_of_shares_in_whatever_order_rounds_are_asked_for() -> None:
    rounds = 3 * MOST_SUMS
    made = make_terms((7,) * rounds, (0.6, 0.3, 0.1), {"ahead": 1}, steps=Coded("slot"))
    shares = made.shares_of_rounds(0, rounds)
    for i in (0, 5, 1, rounds - 1, 2 * MOST_SUMS + 1, MOST_SUMS, 3, *range(rounds - MOST_SUMS - 9, rounds)):
        assert made.slots_before(i).tolist() == shares[:i].sum(axis=0).tolist()
    assert len(made._earlier) <= MOST_SUMS, "what is kept does not grow with the run"


def test_the_slots_before_a_round_are_right_while_another_thread_forgets_them() -> None:
    class Forgets(dict[int, Any]):
        """As if all were forgotten between two looks."""

        def get(self, key: int, default: Any = None) -> Any:
            return default

    made = make_terms((7,) * 50, (0.6, 0.3, 0.1), {"ahead": 1}, steps=Coded("slot"))
    right = made.slots_before(40).tolist()
    object.__setattr__(made, "_earlier", Forgets({20: made.slots_before(20)}))
    assert made.slots_before(40).tolist() == right


def test_blocks_share_the_coordinates_out_and_take_turns() -> None:
    properties.blocks_take_turns(Terms)


def test_the_entries_of_one_client_are_spread_over_its_round() -> None:
    """For expected shares the interleaving is even: after t entries of a round client c has had about p_c t."""
    terms = make_terms((90,), (0.5, 0.3, 0.2), {"ahead": 0})
    dealt = np.cumsum(np.eye(3)[terms.assignment(0)], axis=0)
    assert np.abs(dealt - np.outer(np.arange(1, 91), terms.shares(0) / 90)).max() <= 1.0


def test_the_delay_before_label_zero_is_that_of_label_zero() -> None:
    """s_0 = 1: the first slot has t_glob = -1, where a delay function need not be defined."""

    class Strict:
        def __call__(self, t: Any) -> Any:
            assert np.all(np.asarray(t) >= 0), "asked for a negative label"
            return np.sqrt(t) + 1.0

    terms = Terms(Listed((1, 2, 2)), Coded(), weights=(1.0,), rounds=3, tau=Strict())
    assert terms.allowed(0, 0, 0) == 1


def test_terms_compare_and_digest_by_what_they_say() -> None:
    say = {"values": (3, 4), "weights": (0.5, 0.5), "rule": {"ahead": 1}, "seed": 3}
    one, same = make_terms(**say), make_terms(**say)  # type: ignore[arg-type]
    assert one == same and one.digest == same.digest
    changes: list[dict[str, Any]] = [
        {"values": (3, 5)},
        {"weights": (0.4, 0.6)},
        {"rule": {"ahead": 2}},
        {"rule": {"tau": Stairs(9.0)}},
        {"rule": {"tau": Stairs(9.5)}},
        {"seed": 4},
        {"shares_by": "coin"},
        {"blocks": 2},
        {"whole_rounds": True},
        {"steps": Coded("slot")},
    ]
    digests = {one.digest} | {make_terms(**{**say, **change}).digest for change in changes}
    assert len(digests) == 1 + len(changes)
    one.shares(0)
    assert one == same and one.digest == same.digest, "what is remembered for speed is no part of the terms"


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": ()},
        {"weights": (0.5, 0.6)},
        {"weights": (1.5, -0.5)},
        {"weights": (np.nan, 1.0)},
        {"rounds": 0},
        {"rounds": -1},
        {"ahead": -1},
        {"ahead": None},
        {"blocks": 0},
    ],
    ids=str,
)
def test_impossible_terms_are_refused_in_one_sentence(wrong: dict[str, Any]) -> None:
    right: dict[str, Any] = {"weights": (0.5, 0.5), "rounds": 2, "ahead": 1}
    Terms(Listed((2, 2)), Coded(), **right)
    with pytest.raises(CrescendoError) as caught:
        Terms(Listed((2, 2)), Coded(), **{**right, **wrong})
    assert len(str(caught.value)) > 20 and "\n" not in str(caught.value)
