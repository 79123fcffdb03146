"""Parts of the black-box attack: pairs of data sets, rules, and calls of a mechanism that may do anything."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from crescendo_dp.black_box.attack import Claim, attack
from crescendo_dp.black_box.callable_mechanism import CallableMechanism
from crescendo_dp.black_box.distinguishers import Rule
from crescendo_dp.black_box.neighbours import Pair, _canaries, pairs
from crescendo_dp.errors import ConfigError

RECORDS = np.random.Generator(np.random.Philox(7)).normal(0.5, 1.0, (20, 3))


def test_neighbours_differ_in_one_record() -> None:
    for pair in pairs(RECORDS, "add"):
        rows = {row.tobytes() for row in pair.without}
        more = [row for row in pair.with_it if row.tobytes() not in rows]
        assert len(pair.with_it) == len(pair.without) + 1 and len(more) <= 1, pair.says
    replaced = pairs(RECORDS, "replace")
    for pair in replaced:
        assert pair.with_it.shape == pair.without.shape == RECORDS.shape
        assert (pair.with_it != pair.without).any(axis=1).sum() == 1, pair.says
    one = pairs(np.array([3, 4]), "add", [np.array(9)])
    assert [pair.with_it.tolist() for pair in one] == [[3, 4, 9], [9, 3, 4], [3, 9]]


def test_canaries_are_of_the_records_kind_and_a_long_one_turns_their_sum_around() -> None:
    for records in (RECORDS, np.array([1, 2, 3]), np.zeros((3, 2)), RECORDS.reshape(20, 3, 1).astype(np.float32)):
        found = _canaries(records)
        assert all(one.shape == records.shape[1:] and one.dtype == records.dtype for one in found.values())
    total, against = RECORDS.sum(axis=0), _canaries(RECORDS)["long and against the others"]
    assert (total + against) @ total < -100 * total @ total


def test_a_rule_is_learned_from_values_that_come_up_again() -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    present = rng.random(4000) < 0.5
    releases = (
        rng.integers(0, 8, (4000, 2)).astype(float) + np.where(present & (rng.random(4000) < 0.1), 0.25, 0.0)[:, None]
    )
    best = Rule.learned(releases, present, 1e-3, 0.0, 4000, False)[0]
    assert best.statistic.name.startswith("values of") and best.there and best.expected > 1
    hits, others = best.counts(releases, present)
    assert others == 0 and hits == pytest.approx(200, abs=40)
    assert Rule.best(best.statistic, releases, present, 1e-3, 0.0, 4000).sure > 1


PAIR = Pair("2 records and one more: zero", np.ones((2, 3)), np.ones((3, 3)))


@pytest.mark.parametrize(
    ("release", "words"),
    [
        (lambda r, g: 1 / 0, "failed with ZeroDivisionError: division by zero (on 2 records and one more: zero"),
        (lambda r, g: r[7], "failed with IndexError"),
        (lambda r, g: exit("bye"), "failed with SystemExit: bye"),
        (lambda r, g: None, "returned a NoneType that is not made of numbers"),
        (lambda r, g: {"w": 1}, "returned a dict that is not made of numbers"),
        (lambda r, g: ["a"], "returned a list that is not made of numbers"),
        (lambda r, g: np.zeros(len(r)), "returned shape (2,) and then (3,)"),
        (lambda r, g: np.zeros(0), "returned 0 numbers"),
        (lambda r, g: np.nan, "not finite"),
        (lambda r, g: [np.inf, 1.0], "not finite"),
    ],
)
def test_what_goes_wrong_in_a_mechanism_is_one_sentence(release: Any, words: str) -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    with pytest.raises(ConfigError, match=re.escape(words)) as error:
        CallableMechanism("mine", release).run(PAIR, np.array([False, True]), rng)
    assert "\n" not in str(error.value)


def test_a_mechanism_may_return_a_number_a_list_of_arrays_or_change_its_records() -> None:
    rng, coins = np.random.Generator(np.random.PCG64(0)), np.array([True, False, True])
    assert CallableMechanism("n", lambda r, g: int(r.sum())).run(PAIR, coins, rng).tolist() == [[9], [6], [9]]
    parts = CallableMechanism("l", lambda r, g: [np.ones((2, 2)), [3], 4.0]).run(PAIR, coins, rng)
    assert parts.shape == (3, 6) and parts[0].tolist() == [1, 1, 1, 1, 3, 4]

    def greedy(records: Any, rng: Any) -> Any:
        records *= 2
        return records.sum()

    assert CallableMechanism("g", greedy).run(PAIR, coins, rng).tolist() == [[18], [12], [18]]


def test_many_releases_at_once_are_put_in_the_order_of_the_coins() -> None:
    rng, coins = np.random.Generator(np.random.PCG64(0)), np.array([True, False, True])
    found = CallableMechanism("m", lambda r, g: 0, lambda r, g, runs: np.full((runs, 2), len(r))).run(PAIR, coins, rng)
    assert found.tolist() == [[3, 3], [2, 2], [3, 3]]
    with pytest.raises(ConfigError, match="a row for each run"):
        CallableMechanism("m", lambda r, g: 0, lambda r, g, runs: np.zeros(2)).run(PAIR, np.array([True] * 3), rng)


def test_a_release_of_many_numbers_is_attacked_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crescendo_dp.black_box.attack.CELLS", 20_000)
    held = 0

    def run(pair: Pair, coins: Any, rng: np.random.Generator) -> Any:
        nonlocal held
        held = max(held, len(coins))
        return rng.standard_normal((len(coins), 500)) + 5.0 * coins[:, None]

    found = attack("wide", run, [PAIR], Claim(1.0, 0.0), runs=4_000)
    assert not found.passed and found.size == 500 and held <= 64
