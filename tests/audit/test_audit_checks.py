"""The statistics of the audit: p-values are uniform where nothing is wrong, and small where something is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from crescendo.audit.check import Check
from crescendo.audit.checks import CHECKS
from crescendo.audit.driving.evidence import TAGS, TRACKED, Draws, Noise, Words
from crescendo.audit.driving.large_draws import LargeDraws, Sample
from crescendo.audit.scores import Group, binned, combined, counted, ends_p, normal_p, squared, uniform_p

RUNS, ROUNDS, SIZE = 8, 9, 11
BY_NAME = {check.name: check for check in CHECKS}


def sound_noise(rng: np.random.Generator, runs: int = RUNS, rounds: int = ROUNDS, size: int = SIZE) -> Noise:
    """What a sound mechanism leaves, made without one; some rounds are of a block of coordinates only."""
    shape = runs, rounds, size
    drawn = rng.poisson(2, shape[:2])
    z, starts = rng.normal(size=shape), rng.normal(size=shape)
    z[:, 1, : size // 2] = np.nan
    starts[:, 1:] -= np.nan_to_num(z[:, :-1])  # a start has the noise before it
    return Noise(
        z=z,
        hidden=drawn[:, :, None] * rng.normal(size=shape),
        units=np.rint(2.0**20 * z),
        starts=starts,
        drawn=drawn,
        asked=np.full((*shape[:2], 2), np.nan),
        expected=np.where(rng.random(shape[:2]) < 0.5, rng.normal(size=shape[:2]), np.nan),
        members=rng.random((*shape[:2], TRACKED)) < 0.2,
        tags=rng.normal(size=(*shape[:2], TAGS)),
        rounds=np.arange(rounds) * 2 + 1,
        coordinates=np.arange(size),
        clients=np.zeros(runs, dtype=np.int64),
    )


def sound_draws(rng: np.random.Generator, seeds: int = 16, rounds: int = 8, records: int = 50) -> Draws:
    rates = np.linspace(0.05, 0.4, rounds)
    members = [[np.flatnonzero(rng.random(records) < rate) for rate in rates] for _ in range(seeds)]
    tags = [[rng.random(len(drawn)) for drawn in seed] for seed in members]
    return Draws(np.arange(rounds), rates, records, members, tags)


def sound_words(rng: np.random.Generator) -> Words:
    first, more = (rng.integers(0, 2**64, size=size, dtype=np.uint64) for size in ((4, 5, 12), (4, 5, 3, 2)))
    return Words(first, more)


def sound_large_draws(rng: np.random.Generator) -> LargeDraws:
    sizes = np.full(16, 500)
    kinds = ((0.1, 1), (1 / 8000, 12))
    return LargeDraws(tuple(Sample(rate, n, sizes, rng.binomial(n * sizes, rate), None) for rate, n in kinds))


SOUND: dict[str, Callable[[np.random.Generator], Any]] = {
    "noise": sound_noise,
    "draws": sound_draws,
    "words": sound_words,
    "large": sound_large_draws,
}


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_p_values_of_sound_evidence_are_uniform(check: Check) -> None:
    """Or larger, where the check says that it is conservative."""
    rng = np.random.default_rng(11)
    ps = np.array([check.test(SOUND[check.evidence](rng), rng).p for _ in range(100)])
    if check.exact:
        assert uniform_p(ps) > 1e-3
    assert ((ps >= 0) & (ps <= 1)).all() and np.mean(ps < 0.1) < 0.2 and ps.min() > 1e-5


def broken_noise(name: str, rng: np.random.Generator) -> Noise:
    """Large faults of the kind that the check is for."""
    noise = sound_noise(rng, runs=24, rounds=12, size=16)
    z = np.where(np.isfinite(noise.z), noise.z, rng.normal(size=noise.z.shape))
    noise = replace(noise, z=z)
    faults: dict[str, Callable[[], Any]] = {
        "noise scale": lambda: np.multiply(z, 0.8, out=z),
        "noise by coordinate": lambda: np.multiply(z[:, :, 3], 0.5, out=z[:, :, 3]),
        "noise by round": lambda: np.multiply(z[:, 5], 0.5, out=z[:, 5]),
        "noise by cell": lambda: np.multiply(z[:, 5, 3], 0.01, out=z[:, 5, 3]),
        "noise lengths": lambda: np.multiply(z[7, 5], 0.01, out=z[7, 5]),
        "noise curve": lambda: np.add(z, 0.1, out=z),
        "noise shape": lambda: np.copyto(z, rng.uniform(-(3**0.5), 3**0.5, size=z.shape)),
        "noise tails": lambda: np.clip(z, -2, 2, out=z),
        "noise between rounds": lambda: np.copyto(z[:, 9], z[:, 4]),
        "noise between coordinates": lambda: np.copyto(z[:, :, 9], -z[:, :, 4]),
        "noise between runs": lambda: np.copyto(z[9], z[4]),
        "noise magnitudes": lambda: np.copyto(z[9], z[4] * rng.choice([-1, 1], size=z[4].shape)),
        "noise at other places": lambda: np.copyto(z[:, 2:], np.roll(z[:, :-2], 5, axis=2)),
        "repeated noise": lambda: np.copyto(z[12:], rng.permutation(z[:12].ravel()).reshape(z[12:].shape)),
        "noise by size of draw": lambda: np.multiply(z, np.where(noise.drawn, 1.0, 0.5)[..., None], out=z),
        "tails by size of draw": lambda: np.clip(z, -2, 2, out=z, where=noise.drawn[..., None] == 0),
        "noise by record": lambda: np.multiply(z, np.where(noise.members[:, :, 2], 1.5, 1.0)[..., None], out=z),
        "noise and draws": lambda: np.multiply(z, np.where(noise.expected > 0, 2.0, 1.0)[..., None], out=z),
        "noise and tags": lambda: np.copyto(z[:, :, 3], noise.tags[:, :, 1]),
        "noise and signal": lambda: np.add(z, 0.1 * noise.hidden, out=z),
        "last bits": lambda: np.copyto(noise.units, np.rint(noise.units / 2) * 2),
    }
    faults[name]()
    return noise


@pytest.mark.parametrize("name", [check.name for check in CHECKS if check.evidence == "noise"])
def test_a_fault_in_the_noise_has_a_small_p_value(name: str) -> None:
    rng = np.random.default_rng(12)
    tested = BY_NAME[name].test(broken_noise(name, rng), rng)
    assert tested.p < 1e-9 and tested.says


def test_repeated_words_and_tags_are_seen_at_once() -> None:
    rng = np.random.default_rng(13)
    words, draws = sound_words(rng), sound_draws(rng)
    words.first[2, 3, 4] = words.more[1, 1, 1, 1]
    assert BY_NAME["repeated words"].test(words, rng).p < 1e-12
    draws.tags[0][7][:3] = draws.tags[15][6][:3]
    assert BY_NAME["repeated tags"].test(draws, rng).p < 1e-9
    draws.members[0][7] = np.array([4, 4, 9])
    assert BY_NAME["which records"].test(draws, rng).p == 0


def test_no_evidence_is_no_finding() -> None:
    rng = np.random.default_rng(14)
    assert combined().p == 1.0
    for name in ("noise at other places", "noise between rounds", "last bits"):
        one = replace(sound_noise(rng, rounds=2), units=np.full((RUNS, 2, SIZE), np.nan))
        assert 0 < BY_NAME[name].test(one, rng).p <= 1


def test_p_values_have_the_laws_that_they_are_named_after() -> None:
    rng = np.random.default_rng(15)
    draws = 4000
    assert uniform_p(normal_p(rng.normal(size=draws))) > 1e-3
    assert uniform_p(squared((rng.normal(size=(draws, 5)) ** 2).sum(axis=1), 5).p) > 1e-3
    assert uniform_p(counted(rng.binomial(7, 0.1, draws), 7, 0.1, rng).p) > 1e-3
    least = [combined(Group(ps, "nine places")).p for ps in rng.random((draws, 9))]
    assert uniform_p(np.array(least)) > 1e-3
    assert uniform_p(np.concatenate([ends_p(rng.random(80))[0][:2] for _ in range(300)])) > 1e-3
    assert uniform_p(np.concatenate([binned(rng.multinomial(30, [1 / 8] * 8), rng).p for _ in range(300)])) > 1e-3
    assert uniform_p(np.linspace(0, 0.8, 200)) < 1e-4
    assert ends_p(rng.uniform(0.02, 1, 1000))[0].min() < 1e-7
