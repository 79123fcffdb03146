"""Sizes are what their formula says, their sums are exact, and what cannot be is refused in one sentence."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.errors import UsageError
from crescendo.schedules import (
    ConstantGamma,
    ConstantSizes,
    CutSizes,
    Gamma,
    ListedSizes,
    LogGamma,
    LogSizes,
    PerClient,
    PowerSizes,
    RecipeSizes,
    Sizes,
    StronglyConvexSizes,
)
from crescendo.schedules.parameters import FloatArray
from crescendo.schedules.sequence import MOST_ROUNDS, round_up

quick = settings(deadline=None, max_examples=40)

KINDS: list[Sizes] = [
    ConstantSizes(7),
    PowerSizes(0.3, power=0.7, shift=2.5, offset=1.1),
    LogSizes(50),
    ListedSizes((3, (1, 2000), 4, (1, 2), 5)),
    RecipeSizes(2, LogGamma(4), d=1, m=400),
    StronglyConvexSizes(d=2, m=5000),
    PerClient(PowerSizes(3, power=0.5), clients=5),
]
every_kind = pytest.mark.parametrize("sizes", KINDS, ids=lambda sizes: type(sizes).__name__)
sequences = st.one_of(
    st.builds(ConstantSizes, st.integers(1, 10**6)),
    st.builds(PowerSizes, st.floats(0.01, 100), st.floats(0, 2), st.floats(0, 50), st.floats(1, 9)),
    st.builds(LogSizes, st.floats(0.5, 100), st.floats(2, 50)),
    st.lists(st.integers(1, 1000) | st.tuples(st.integers(1, 1000), st.integers(1, 2**62)), min_size=1).map(
        lambda values: ListedSizes(tuple(values))
    ),
    st.builds(
        lambda d, extra: StronglyConvexSizes(d, StronglyConvexSizes.least_m(d) + extra),
        st.integers(0, 5),
        st.integers(0, 9999),
    ),
)


@quick
@given(sequences, st.integers(1, 2500))
def test_prefix_sums_equal_a_plain_loop(sizes: Sizes, rounds: int) -> None:
    sums = [0]
    for i in range(rounds):
        assert sizes(i) >= 1
        sums.append(sums[-1] + sizes(i))
    assert sizes.prefix(rounds).tolist() == sums
    assert [sizes.before(i) for i in range(rounds + 1)] == sums


@quick
@given(sequences, st.permutations([0, 1, 5, 1023, 1024, 1025, 3000, 4097]))
def test_the_order_of_questions_changes_no_answer(sizes: Sizes, order: list[int]) -> None:
    fresh = copy.deepcopy(sizes)
    asked = {i: sizes(i) for i in order}
    assert [asked[i] for i in order] == [int(np.diff(fresh.prefix(4098))[i]) for i in order]


@quick
@given(sequences, st.integers(0, 10**5))
def test_rounds_for_is_the_least_number_that_reaches_the_gradients(sizes: Sizes, gradients: int) -> None:
    rounds = sizes.rounds_for(gradients)
    assert sizes.before(rounds) >= gradients
    assert rounds == 0 or sizes.before(rounds - 1) < gradients


@pytest.mark.slow
@quick
@given(sequences, st.integers(1, 10**5))
def test_cut_sizes_total_exactly_the_gradients(base: Sizes, gradients: int) -> None:
    sizes = CutSizes(base, gradients)
    whole = [sizes(i) for i in range(sizes.rounds)]
    assert sum(whole) == gradients
    assert whole[:-1] == [base(i) for i in range(sizes.rounds - 1)] and 1 <= whole[-1] <= base(sizes.rounds - 1)
    assert sizes(sizes.rounds) == 0 and sizes.before(sizes.rounds + 5) == gradients
    assert sizes.prefix(sizes.rounds + 2).tolist() == [sizes.before(i) for i in range(sizes.rounds + 3)]
    assert sizes.rounds_for(gradients) == sizes.rounds


def test_whole_rounds_are_cut_nowhere() -> None:
    assert CutSizes.of_rounds(PowerSizes(50), 3).prefix(3).tolist() == [0, 50, 150, 300]
    assert CutSizes.of_rounds(PowerSizes(50), 3).rounds == 3


@quick
@given(st.integers(1, 2**20), st.integers(1, 2**10), st.integers(0, 2**10))
def test_decimals_whose_product_is_whole_are_not_rounded_up(k: int, scale: int, i: int) -> None:
    for unit in (10, 100, 1000):
        exact = math.ceil(Fraction(scale, unit) * (i + k))
        assert PowerSizes(scale / unit, shift=k)(i) == exact


@quick
@given(st.floats(1e-9, 1e9))
def test_round_up_is_ceil_away_from_whole_numbers(x: float) -> None:
    up = float(round_up(np.array([x]))[0])
    assert up == math.ceil(x) or (up == round(x) and 0 < x - up <= 1e-12 * x)


def test_round_up_is_not_fooled_by_the_last_bits() -> None:
    assert math.ceil(1.1 * 1.1 * 100) == 122
    assert round_up(np.array([0.1 * 3 * 10, 1.1 * 1.1 * 100, 1e15 + 0.5, math.nextafter(7, 8)])).tolist() == [
        3.0,
        121.0,
        1e15,
        7.0,
    ]


@every_kind
def test_a_sequence_prints_compares_hashes_and_pickles(sizes: Sizes) -> None:
    sizes.before(5000)
    again = pickle.loads(pickle.dumps(sizes))
    assert again == sizes and hash(again) == hash(sizes) and repr(again) == repr(sizes)
    assert len(pickle.dumps(sizes)) < 1000, "the sums travel with the pickle"
    assert eval(repr(sizes)) == sizes
    assert sizes != ConstantSizes(8)
    with pytest.raises(dataclasses.FrozenInstanceError):
        sizes.clients = 3  # type: ignore[attr-defined]


@every_kind
def test_sums_are_read_only_and_stay_true_when_they_grow(sizes: Sizes) -> None:
    sums = sizes.prefix(10)
    before = sums.tolist()
    sizes.before(100_000)
    assert sums.tolist() == before and sizes.prefix(10).tolist() == before
    with pytest.raises(ValueError, match="read-only"):
        sums[0] = 1


def test_threads_that_grow_the_same_sums_agree() -> None:
    sizes, got = PowerSizes(3), []
    threads = [
        threading.Thread(target=lambda n=n: got.append(sizes.before(n) - 3 * n * (n + 1) // 2))
        for n in range(0, 40_000, 4001)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [0] * len(threads)


def test_a_million_rounds_are_exact() -> None:
    n = 10**6
    assert PowerSizes(50).before(n) == 50 * n * (n + 1) // 2
    assert PowerSizes(50).prefix(n).dtype == np.int64


@pytest.mark.parametrize(("s0", "d", "m"), [(50, 0, 6317), (1, 0, 5), (1, 3, 21)])
def test_m_for_the_first_size(s0: int, d: int, m: int) -> None:
    assert StronglyConvexSizes.starting_with(s0, d).m == m


@quick
@given(st.integers(1, 10**6), st.integers(0, 20))
def test_the_m_for_a_first_size_is_the_least(s0: int, d: int) -> None:
    m = StronglyConvexSizes.starting_with(s0, d).m
    assert StronglyConvexSizes(d, m)(0) == s0
    assert m == StronglyConvexSizes.least_m(d) or StronglyConvexSizes(d, m - 1)(0) < s0


@quick
@given(st.integers(0, 9), st.integers(0, 10**5))
def test_the_strongly_convex_sizes_are_the_recipe_with_four_logarithms(d: int, extra: int) -> None:
    m = StronglyConvexSizes.least_m(d) + extra
    plain = [math.ceil((m + i + 1) / (16 * (d + 1) ** 2 * math.log((m + i + 1) / (2 * (d + 1))))) for i in range(500)]
    assert np.diff(StronglyConvexSizes(d, m).prefix(500)).tolist() == plain
    assert np.diff(RecipeSizes(2, LogGamma(4), d, m).prefix(500)).tolist() == plain


def test_the_recipe_without_a_logarithm_grows_linearly_for_g_2_and_by_the_square_for_g_3_halves() -> None:
    assert [RecipeSizes(2, ConstantGamma(), 0, 0)(i) for i in range(5)] == [1, 1, 2, 2, 3]
    assert [RecipeSizes(1.5, ConstantGamma(), 0, 0)(i) for i in (0, 29, 59)] == [1, 100, 400]


BAD: list[tuple[str, Callable[[], Any], str]] = [
    ("float size", lambda: ConstantSizes(1.0), "size must be a whole number, got 1.0"),  # type: ignore[arg-type]
    ("bool size", lambda: ConstantSizes(True), "size must be a whole number, got True"),
    ("zero size", lambda: ConstantSizes(0), "size must be 1 or more, got 0"),
    ("huge size", lambda: ConstantSizes(2**63), r"size must be 2\*\*62 or less"),
    ("nan scale", lambda: PowerSizes(math.nan), "scale must be a finite number, got nan"),
    ("inf scale", lambda: PowerSizes(math.inf), "scale must be a finite number"),
    ("int beyond floats", lambda: PowerSizes(10**400), "scale must be a finite number"),
    ("zero scale", lambda: PowerSizes(0), "scale must be more than 0, got 0"),
    ("negative power", lambda: PowerSizes(1, power=-1), "power must be 0 or more"),
    ("text", lambda: PowerSizes("3"), "scale must be a number, got '3'"),  # type: ignore[arg-type]
    ("bool scale", lambda: PowerSizes(True), "scale must be a number, got True"),
    ("empty first round", lambda: PowerSizes(1, shift=0), "has an empty round 0"),
    ("empty by offset", lambda: LogSizes(1, offset=-2.8), "has an empty round 1"),
    ("log near one", lambda: LogSizes(1, shift=1.01), "shift must be 2 or more"),
    ("empty list", lambda: ListedSizes(()), "needs at least one"),
    ("zero in list", lambda: ListedSizes((3, 0)), "a listed size must be 1 or more"),
    ("no rounds in list", lambda: ListedSizes(((3, 0),)), "the rounds of a listed size must be 1 or more"),
    ("three in a pair", lambda: ListedSizes(((3, 1, 2),)), "pairs of size and rounds"),  # type: ignore[arg-type]
    ("text as list", lambda: ListedSizes("12"), "values must be a list"),  # type: ignore[arg-type]
    ("small m", lambda: StronglyConvexSizes(d=1, m=9), "m must be 10 or more, got 9"),
    ("small m, recipe", lambda: RecipeSizes(2, LogGamma(4), d=1, m=9), "raise m or lower d"),
    ("g of one", lambda: RecipeSizes(1, ConstantGamma(), 0, 0), "g must be more than 1"),
    ("g near one", lambda: RecipeSizes(1.0001, LogGamma(), 0, 9), "raise m or lower d"),
    ("plain gamma", lambda: RecipeSizes(2, math.log, 0, 9), "gamma must be a Gamma"),  # type: ignore[arg-type]
    ("small gamma", lambda: ConstantGamma(0.5), "value must be 1 or more"),
    ("negative d", lambda: StronglyConvexSizes(-1, 99), "d must be 0 or more"),
    ("no clients", lambda: PerClient(ConstantSizes(1), 0), "clients must be 1 or more"),
    ("no sizes", lambda: PerClient(3, 2), "each must be a Sizes"),  # type: ignore[arg-type]
    ("product too large", lambda: PerClient(ConstantSizes(2**61), 3), r"passes 2\*\*62 in round 0"),
    ("no gradients", lambda: CutSizes(ConstantSizes(1), 0), "gradients must be 1 or more"),
    ("cut of nothing", lambda: CutSizes(7, 1), "base must be a Sizes"),  # type: ignore[arg-type]
    ("no rounds", lambda: CutSizes.of_rounds(ConstantSizes(1), 0), "rounds must be 1 or more"),
    ("longer than the cut", lambda: CutSizes(CutSizes(ConstantSizes(1), 5), 6), "ends after 5"),
    ("round below zero", lambda: ConstantSizes(1)(-1), "a round must be 0 or more, got -1"),
    ("round as float", lambda: ConstantSizes(1)(1.0), "a round must be a whole number"),  # type: ignore[arg-type]
    ("round as bool", lambda: ConstantSizes(1)(True), "a round must be a whole number"),
    ("round as text", lambda: ConstantSizes(1)("1"), "a round must be a whole number"),  # type: ignore[arg-type]
    ("round below zero, cut", lambda: CutSizes(ConstantSizes(1), 5).before(-1), "a round must be 0 or more"),
    ("sum too large", lambda: ConstantSizes(2**60).before(5), r"passes 2\*\*62 in round 4"),
    ("size too large", lambda: PowerSizes(1, power=40).before(9), r"passes 2\*\*62 in round 2"),
    ("float overflow", lambda: PowerSizes(1, power=2000).before(9), r"passes 2\*\*62 in round 1"),
    ("recipe overflow", lambda: RecipeSizes(1.001, ConstantGamma(), 0, 0).before(5000), r"passes 2\*\*62"),
    ("too many rounds", lambda: ConstantSizes(1).before(MOST_ROUNDS + 1), "asked for more than"),
    ("first size", lambda: StronglyConvexSizes.starting_with(2**41, 0).m, "out of reach"),
]


@pytest.mark.parametrize(("make", "says"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_parameter_is_refused_in_one_sentence(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value) and not str(caught.value).endswith(".")


def test_sums_up_to_the_limit_are_exact_and_growing_past_it_does_not_spoil_them() -> None:
    sizes = ConstantSizes(2**60)
    assert [sizes.before(i) for i in range(5)] == [i * 2**60 for i in range(5)]
    assert sizes.rounds_for(2**62) == 4
    assert PerClient(sizes, 2).before(2) == 2**62
    assert CutSizes(PowerSizes(1, power=40), 2**40).rounds == 2


def test_a_user_can_bring_a_gamma() -> None:
    @dataclasses.dataclass(frozen=True)
    class Root(Gamma):
        def __call__(self, z: FloatArray) -> FloatArray:
            return np.asarray(np.maximum(z, 1) ** 0.25)

        def holds_from(self, g: float) -> float:
            return 0.0 if g / (g - 1) <= 4 else math.inf

    assert RecipeSizes(2, Root(), 0, 100).before(10) > 0
    assert RecipeSizes(2, Root(), 0, 100) == RecipeSizes(2, Root(), 0, 100)


@quick
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5)), min_size=1, max_size=6))
def test_a_pair_in_a_list_is_that_many_rounds_of_one_size(pairs: list[tuple[int, int]]) -> None:
    short, spelled_out = ListedSizes(tuple(pairs)), ListedSizes(tuple(s for s, n in pairs for _ in range(n)))
    assert [short(i) for i in range(40)] == [spelled_out(i) for i in range(40)]
