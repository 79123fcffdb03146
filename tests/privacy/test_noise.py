"""Who is drawn, where in the round, and the noise: the same law from a seed and from the operating system."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, chi2, kstest

from crescendo.privacy.mechanisms.gaussian import noised
from crescendo.privacy.mechanisms.noise import SeededSource, Source, SystemSource, poisson_slots

SOURCES: list[Any] = [pytest.param(SeededSource(5, 0), id="seeded"), pytest.param(SystemSource(), id="system")]
TINY = 1e-7  # chance of a false alarm of each comparison


def counts(source: Source, records: int, rate: float, runs: int) -> np.ndarray[Any, Any]:
    """How often each record was drawn, one row a round."""
    drawn = np.zeros((runs, records))
    for i in range(runs):
        np.add.at(drawn[i], source.members(i, records, rate), 1)
    return drawn


def unlikely(hits: float, runs: int, rate: float) -> bool:
    return min(float(binom.cdf(hits, runs, rate)), float(binom.sf(hits - 1, runs, rate))) < TINY / 2


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("rate", [0.07, 0.5])
def test_every_record_is_drawn_at_its_rate_independently_and_at_most_once(source: Source, rate: float) -> None:
    drawn = counts(source, 4, rate, 4000)
    assert drawn.max() == 1
    for k in range(4):
        assert not unlikely(drawn[:, k].sum(), len(drawn), rate)
        for j in range(k):
            assert not unlikely((drawn[:, k] * drawn[:, j]).sum(), len(drawn), rate**2)
    sizes = drawn.sum(axis=1)
    assert abs(sizes.var() / (4 * rate * (1 - rate)) - 1) < 0.15  # binomial, where a fixed size would have variance 0


@pytest.mark.parametrize("source", SOURCES)
def test_a_rate_of_one_draws_everybody_and_a_rate_of_zero_nobody(source: Source) -> None:
    assert sorted(source.members(0, 9, 1.0)) == list(range(9))
    assert len(source.members(0, 9, 0.0)) == 0 == len(source.members(0, 0, 0.5))


@pytest.mark.parametrize("source", SOURCES)
def test_a_record_falls_into_every_slot_alike(source: Source) -> None:
    seen = np.zeros((3, 5))
    for i in range(3000):
        rows, ends = poisson_slots(source, i, records=3, rate=0.6, slots=5)
        seen[rows, np.searchsorted(ends, np.arange(len(rows)), side="right")] += 1
    for row in seen:
        expected = row.sum() / 5
        assert ((row - expected) ** 2 / expected).sum() < chi2.ppf(1 - TINY, 4)


@pytest.mark.parametrize("source", SOURCES)
def test_all_orders_of_the_drawn_are_alike(source: Source) -> None:
    first = np.array([poisson_slots(source, i, 3, 1.0, 2)[0][0] for i in range(3000)])
    assert not any(unlikely((first == k).sum(), len(first), 1 / 3) for k in range(3))


def test_ends_count_all_slots_and_all_records() -> None:
    for i in range(50):
        rows, ends = poisson_slots(SeededSource(1, 2), i, records=10, rate=0.3, slots=7)
        assert len(ends) == 7 and ends[-1] == len(rows) == len(set(rows)) and (np.diff(ends, prepend=0) >= 0).all()


def noise_of(source: Source, i: int, scale: float, size: int) -> np.ndarray[Any, Any]:
    return noised(np.zeros(size), scale, source.words(i, size), lambda number: source.more(i, number))


@pytest.mark.parametrize("source", SOURCES)
def test_noise_is_gaussian_with_the_asked_scale(source: Source) -> None:
    noise = np.concatenate([noise_of(source, i, 3.0, 500) for i in range(60)])
    assert abs(noise.mean()) < 5.5 * 3 / math.sqrt(noise.size)
    assert abs(noise.std() / 3 - 1) < 5.5 / math.sqrt(2 * noise.size)
    assert kstest(noise / 3, "norm").pvalue > TINY


@pytest.mark.parametrize("source", SOURCES)
def test_noise_of_rounds_and_coordinates_has_nothing_in_common(source: Source) -> None:
    noise = np.array([noise_of(source, i, 1.0, 300) for i in range(40)])
    for left, right in ((noise[:-1], noise[1:]), (noise[:, :-1], noise[:, 1:])):
        assert abs(float((left * right).mean())) < 5.5 / math.sqrt(left.size)


def test_clients_rounds_seeds_and_numbers_have_streams_of_their_own() -> None:
    sources = [SeededSource(s, c) for s in (0, 1) for c in (0, 1)]
    words = [source.words(i, 4).tobytes() for source in sources for i in (0, 1)]
    more = [tuple(itertools.islice(source.more(i, j), 64)) for source in sources for i in (0, 1) for j in (0, 1, 2)]
    assert len(set(words)) == 8 and len({word for run in more for word in run}) == 64 * len(more)
    assert more[0] == tuple(itertools.islice(SeededSource(0, 0).more(0, 0), 64))
    assert SeededSource(0, 1).simulated and not SystemSource().simulated


def test_the_system_draws_more_records_than_fit_one_piece_and_each_at_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crescendo.privacy.mechanisms.noise._CHUNK", 7)
    drawn = [SystemSource().members(0, 100, 0.5) for _ in range(200)]
    assert all((np.diff(members) > 0).all() for members in drawn)
    counts = np.bincount(np.concatenate(drawn), minlength=100)
    assert not any(unlikely(int(count), 200, 0.5) for count in counts)


def test_a_seeded_round_begun_again_draws_the_same_records() -> None:
    source = SeededSource(3, 0)
    first = poisson_slots(source, 2, 50, 0.3, 4)
    poisson_slots(source, 3, 50, 0.3, 4)
    again = poisson_slots(source, 2, 50, 0.3, 4)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
