"""Splits over clients: exact covers, as biased as asked, the same for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.data import Dataset, as_records, client_names, split, weights
from crescendo.errors import ConfigError


def dataset(labels: list[int], column: list[str] | None = None) -> Dataset:
    classes = tuple(sorted(set(labels))) if len(set(labels)) > 1 else (0, 1)
    train = as_records(np.zeros((len(labels), 1)), labels)
    return Dataset("made", train, None, classes, {} if column is None else {"owner": np.array(column)})


@st.composite
def cases(draw: Any) -> tuple[Dataset, int, str, dict[str, Any]]:
    labels = draw(st.lists(st.integers(0, draw(st.integers(0, 6))), min_size=1, max_size=60))
    rule = draw(st.sampled_from(["iid", "label", "dirichlet"]))
    options = {"alpha": draw(st.sampled_from([1e-300, 1e-3, 0.3, 1.0, 1e6]))} if rule == "dirichlet" else {}
    return dataset(labels), draw(st.integers(1, len(labels))), rule, options


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(cases(), st.integers(0, 2**128 - 1))
def test_every_record_goes_to_exactly_one_client_and_no_client_goes_empty(
    case: tuple[Dataset, int, str, dict[str, Any]], seed: int
) -> None:
    data, count, rule, options = case
    parts = split(data, count, rule, seed=seed, **options)
    assert len(parts) == count and all(len(part) and part.dtype == np.int64 for part in parts)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(data.train)))
    again = split(data, count, rule, seed=seed, **options)
    assert all(np.array_equal(a, b) and np.array_equal(a, np.sort(a)) for a, b in zip(parts, again, strict=True))


@settings(deadline=None, max_examples=100)
@given(cases())
def test_a_split_by_label_shows_each_client_as_few_labels_as_can_be(case: tuple[Dataset, int, str, Any]) -> None:
    data, count, _, _ = case
    labels = len(set(data.train.y))
    seen = [len(set(data.train.y[part])) for part in split(data, count, "label", seed=0)]
    assert sum(seen) == max(labels, count)  # no label is in two hands unless there are more hands than labels
    assert max(seen) == -(-labels // min(count, labels))


def test_a_split_by_label_shares_records_evenly_where_labels_allow() -> None:
    parts = split(dataset([0] * 60 + [1] * 20), 4, "label", seed=0)
    assert [len(part) for part in parts] == [20, 20, 20, 20]


def test_an_iid_split_has_equal_parts_that_another_seed_changes() -> None:
    data = dataset([0, 1] * 500)
    parts, others = (split(data, 3, "iid", seed=seed) for seed in (1, 2))
    assert [len(part) for part in parts] == [333, 334, 333]
    assert not np.array_equal(parts[0][:300], others[0][:300])
    assert all(0.4 < (data.train.y[part] == 1).mean() < 0.6 for part in parts)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=8), st.integers(0, 100))
def test_unequal_sizes_are_kept_to_within_a_record(sizes: list[float], seed: int) -> None:
    parts = split(dataset([0, 1] * 500), len(sizes), "iid", seed=seed, sizes=sizes)
    wanted = np.array(sizes) / sum(sizes) * 1000
    assert np.abs(wanted - [len(part) for part in parts]).max() <= 1 and sum(map(len, parts)) == 1000


def test_a_small_alpha_biases_and_a_large_one_does_not() -> None:
    data = dataset([0, 1, 2, 3, 4] * 400)

    def evenness(alpha: float) -> float:
        parts = split(data, 5, "dirichlet", seed=3, alpha=alpha)
        counts = np.array([np.bincount(data.train.y[part].astype(int), minlength=5) for part in parts])
        return float(counts.max(axis=0).mean() / 400)

    assert evenness(1e6) < 0.22 < 0.5 < evenness(0.05)


def test_a_split_by_column_gives_each_value_a_client_in_order_of_the_values() -> None:
    data = dataset([0, 1, 0, 1, 0], ["UA", "AA", "UA", "DL", "AA"])
    assert [part.tolist() for part in split(data, None, "column:owner", seed=0)] == [[1, 4], [3], [0, 2]]
    assert [part.tolist() for part in split(data, 3, "column:owner", seed=9)] == [[1, 4], [3], [0, 2]]
    assert client_names(data, 3, "column:owner") == ("AA", "DL", "UA")


@pytest.mark.slow
def test_a_hundred_thousand_clients_are_split_in_a_moment() -> None:
    data = dataset([0, 1] * 100_000)
    parts = split(data, 100_000, "dirichlet", seed=0, alpha=0.01)
    assert min(map(len, parts)) == 1 and sum(map(len, parts)) == 200_000


IMPOSSIBLE: list[tuple[int | None, str, dict[str, Any], str]] = [
    (0, "iid", {}, "clients.count must be a whole number from 1 on, got 0"),
    (-2, "iid", {}, "clients.count must be"),
    (6, "iid", {}, "clients.count = 6 is more than the 5 training records"),
    (None, "iid", {}, "clients.count is missing"),
    (2, "idd", {}, "clients.split = 'idd' is unknown"),
    (2, "column:nobody", {}, "has no column 'nobody' to split by; its columns: owner"),
    (2, "column:owner", {}, "makes 3 clients, one for each value, not 2"),
    (2, "dirichlet", {"alpha": 0}, "clients.alpha must be a positive number"),
    (2, "dirichlet", {"alpha": float("nan")}, "clients.alpha must be a positive number"),
    (2, "iid", {"alpha": 1.0}, "clients.alpha goes with clients.split = 'dirichlet'"),
    (2, "label", {"sizes": [1, 2]}, "clients.sizes goes with clients.split = 'iid'"),
    (2, "iid", {"sizes": [1]}, "clients.sizes has 1 numbers for 2 clients"),
    (2, "iid", {"sizes": [1, -1]}, "clients.sizes must be positive numbers"),
    (2, "iid", {"sizes": [1, float("inf")]}, "clients.sizes must be positive numbers"),
    (2, "iid", {"sizes": [1, 1000]}, "leaves client 0 without any of the 5 records"),
]


@pytest.mark.parametrize(("count", "rule", "options", "says"), IMPOSSIBLE)
def test_an_impossible_split_is_refused(count: int | None, rule: str, options: dict[str, Any], says: str) -> None:
    data = dataset([0, 1, 0, 1, 0], ["UA", "AA", "UA", "DL", "AA"])
    with pytest.raises(ConfigError) as error:
        split(data, count, rule, seed=0, **options)
    assert says in str(error.value)


PARTS = [np.arange(6), np.arange(2)]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=9))
def test_weights_sum_to_one_in_the_ratio_given(given_weights: list[float]) -> None:
    made = weights(given_weights, [np.arange(1)] * len(given_weights))
    assert made.sum() == pytest.approx(1) and made / made[0] == pytest.approx(
        np.array(given_weights) / given_weights[0]
    )


def test_weights_go_by_size_or_are_uniform() -> None:
    assert weights("size", PARTS).tolist() == [0.75, 0.25] and weights("uniform", PARTS).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "rule", ["sizes", "", [1], [1, 0], [1, -1], [1, float("nan")], [1, float("inf")], [True, 1], ["a", 1]]
)
def test_wrong_weights_are_refused(rule: Any) -> None:
    with pytest.raises(ConfigError, match=r"clients\.weights"):
        weights(rule, PARTS)
