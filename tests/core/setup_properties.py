"""What must hold of terms and random streams, as plain functions of the class or function under test."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.core.random import Purpose
from tests.core.play import plain_shares
from tests.core.strategies import Coded, make_terms
from tests.paper import Rule, slot_label

SHARE_RULES = ("expected", "coin")


def shares_sum_exactly(terms_class: Any, drawn: Any) -> None:
    """s_{i,1} + .. + s_{i,n} = s_i, none negative, and the assignment deals out exactly these."""
    values, weights, seed = drawn
    for rule in SHARE_RULES:
        terms = make_terms(values, weights, {"ahead": 1}, rule, seed, terms=terms_class)  # type: ignore[arg-type]
        for i, s in enumerate(values):
            shares = terms.shares(i)
            assert len(shares) == len(weights) and shares.min() >= 0
            assert shares.sum() == s, f"{rule} shares of round {i} sum to {shares.sum()}, not {s}"
            assert [terms.share(i, c) for c in range(terms.clients)] == shares.tolist()
            dealt = np.bincount(terms.assignment(i), minlength=terms.clients)
            assert dealt.tolist() == shares.tolist(), "the assignment deals out other shares"


def expected_shares_are_the_formula(terms_class: Any, drawn: Any) -> None:
    """One u in [0, 1) gives all shares of a round as floor(P_{c+1} s + u) - floor(P_c s + u); so each is within 1 of p_c s."""
    values, weights, seed = drawn
    terms = make_terms(values, weights, {"ahead": 1}, "expected", seed, terms=terms_class)
    for i, s in enumerate(values):
        low, high, taken, weight = 0.0, 1.0, 0, 0.0
        for c, share in enumerate(terms.shares(i).tolist()):
            assert abs(share - weights[c] * s) < 1.0 + 1e-9, f"share {share} of {weights[c] * s} expected"
            taken, weight = taken + share, weight + weights[c]
            low, high = max(low, taken - weight * s), min(high, taken + 1 - weight * s)
        assert low <= high + 1e-9, f"no public uniform gives the shares of round {i}"


def expected_shares_are_fair_over_rounds(terms_class: Any) -> None:
    """Nobody is always rounded down: over many rounds each client gets p_c of the slots."""
    weights, rounds = (0.05, 0.15, 0.3, 0.5), 1500
    for size in (1, 3):
        terms = make_terms((size,) * rounds, weights, {"ahead": 1}, "expected", 1, terms=terms_class)
        got = np.mean([terms.shares(i) for i in range(rounds)], axis=0)
        assert np.allclose(got, np.array(weights) * size, atol=4 * 0.5 / math.sqrt(rounds)), f"{got} for size {size}"


def coin_shares_are_multinomial(terms_class: Any) -> None:
    """Mean s p and covariance s (diag(p) - p p'), and no round repeats another."""
    weights, size, rounds = np.array([0.1, 0.3, 0.6]), 20, 4000
    terms = make_terms((size,) * rounds, tuple(weights), {"ahead": 1}, "coin", 2, terms=terms_class)
    drawn = np.array([terms.shares(i) for i in range(rounds)])
    covariance = size * (np.diag(weights) - np.outer(weights, weights))
    assert np.allclose(drawn.mean(axis=0), size * weights, atol=4 * math.sqrt(covariance.max() / rounds)), (
        "the mean is not s p"
    )
    assert np.allclose(np.cov(drawn.T), covariance, atol=0.1 * covariance.max()), f"covariance {np.cov(drawn.T)}"
    beside = np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]
    assert abs(beside) < 4 / math.sqrt(rounds), "rounds are not independent"


def terms_are_pure(terms_class: Any, drawn: Any) -> None:
    """Any side, asking in any order, gets the same answers; another seed gives others somewhere."""
    values, weights, seed = drawn
    for rule in SHARE_RULES:
        one, other = (
            make_terms(values, weights, {"ahead": 1}, rule, seed, terms=terms_class, blocks=3)  # type: ignore[arg-type]
            for _ in range(2)
        )
        order = list(range(len(values)))
        np.random.default_rng(seed).shuffle(order)
        backwards = {i: (other.shares(i).tolist(), other.assignment(i).tolist(), other.block(i, 10)) for i in order}
        for i in range(len(values)):
            asked = (one.shares(i).tolist(), one.assignment(i).tolist(), one.block(i, 10))
            assert asked == backwards[i], "other answers to the same question"


def the_wait_rule_is_the_paper_s(terms_class: Any, drawn: Any) -> None:
    """`allowed` counts the slots before the literal wait loop stops; `furthest` is the last round that can be finished."""
    values, weights, seed, rule = drawn
    terms = make_terms(values, weights, rule, "coin", seed, terms=terms_class)
    shares, literal = plain_shares(terms), Rule(tau=terms.tau, d=terms.ahead)
    whole = make_terms(values, weights, rule, "coin", seed, terms=terms_class, whole_rounds=True)
    for k in range(len(values)):
        for i in range(k, len(values)):
            for c in range(len(weights)):
                expected = literal.allowed(shares, c, i, k)
                assert terms.allowed(i, k, c) == expected, f"allowed({i}, {k}, {c}) is not {expected}"
                if expected and expected == shares[i][c]:
                    assert terms.furthest(k) >= i, f"somebody can finish round {i} at k={k}, `furthest` denies it"
                assert whole.allowed(i, k, c) == (expected if expected == shares[i][c] else 0), (
                    "a whole round, or nothing"
                )
        assert terms.furthest(k) < len(values), "there is no round after the last"
        ending = [i for i in range(k, len(values)) if finishes(literal, values, i, k)]
        assert terms.furthest(k) == max(ending), f"furthest({k}) = {terms.furthest(k)}, not {max(ending)}"


def finishes(rule: Rule, values: tuple[int, ...], i: int, k: int) -> bool:
    """Can the last slot of round i be run with broadcast k? (It is the same for whoever has it.)"""
    return not rule.must_wait([[s] for s in values], 0, i, values[i] - 1, k)


def steps_are_looked_up_at_their_labels(terms_class: Any, drawn: Any) -> None:
    """Once a round at t = s_0+..+s_{i-1}, or at every slot h at (s_{0,c}+..+s_{i-1,c} + h) / p_c."""
    values, weights, seed = drawn
    kinds: Any = itertools.product(("round", "slot"), ("expected", "coin"))
    for per, by in kinds:
        terms = make_terms(values, weights, {"ahead": 1}, by, seed, terms=terms_class, steps=Coded(per))
        shares = [[terms.share(i, c) for c in range(len(weights))] for i in range(len(values))]
        for i in reversed(range(len(values))):
            for c in range(len(weights)):
                slots = range(shares[i][c])
                labels = [sum(values[:i]) if per == "round" else slot_label(shares, weights, c, i, h) for h in slots]
                expected = [float(t) + 1.0 for t in labels]
                assert np.allclose(terms.etas(i, c), expected, rtol=1e-12, atol=0), f"{per}: {terms.etas(i, c)}"
                assert terms.largest_step(i, c) == max(terms.etas(i, c), default=0.0)


def equal_shares_have_the_paper_s_labels(terms_class: Any, clients: int) -> None:
    """s_0+..+s_{i-1} + n h, to the last bit, where every client has the n-th part of every round."""
    values, weights = tuple(clients * s for s in (3, 1, 4, 1, 5)), (1 / clients,) * clients
    terms = make_terms(values, weights, {"ahead": 1}, terms=terms_class, steps=Coded("slot"))
    for i, c in itertools.product(range(len(values)), (0, clients - 1)):
        paper = sum(values[:i]) + clients * np.arange(values[i] // clients) + 1.0
        assert terms.etas(i, c).tobytes() == paper.tobytes()


def blocks_take_turns(terms_class: Any) -> None:
    """D contiguous blocks that share the coordinates out, each round one of them, each as often as the others."""
    for size, blocks in ((10, 1), (10, 3), (7, 7), (1000, 8)):
        rounds = 300 * blocks
        terms = make_terms((1,) * rounds, (1.0,), {"ahead": 1}, terms=terms_class, blocks=blocks)
        seen = [terms.block(i, size) for i in range(rounds)]
        pieces = sorted(set(seen))
        assert len(pieces) == blocks, f"{len(pieces)} of {blocks} blocks were seen"
        assert pieces[0][0] == 0 and pieces[-1][1] == size
        assert all(one[1] == two[0] for one, two in itertools.pairwise(pieces)), "gap or overlap"
        lengths = [hi - lo for lo, hi in pieces]
        assert max(lengths) - min(lengths) <= 1, f"blocks of unequal length: {lengths}"
        counts = [seen.count(piece) for piece in pieces]
        assert max(abs(count - 300) for count in counts) < 5 * math.sqrt(300), f"unequal turns: {counts}"


# -- random streams


def raw(generator: np.random.Generator, count: int = 400) -> npt.NDArray[np.uint64]:
    return generator.integers(0, 2**64 - 1, count, dtype=np.uint64, endpoint=True)


def streams_never_share_numbers(stream: Any) -> None:
    """Streams whose purpose, client, round or seed differ by one have no number in common, near or far from the start."""
    seen: set[int] = set()
    total = 0
    for seed in (0, 1, 2**64):
        for purpose in Purpose:
            for client in (0, 1, 2):
                for i in (0, 1, 2):
                    numbers = raw(stream(seed, purpose, client, i))
                    seen |= set(numbers.tolist())
                    total += len(numbers)
    assert len(seen) == total, f"{total - len(seen)} numbers of {total} came twice"


def streams_repeat(stream: Any) -> None:
    """The same place gives the same numbers, whatever was drawn elsewhere in between."""
    first = raw(stream(3, Purpose.SAMPLE, 1, 2))
    np.random.default_rng(0).normal(size=10)
    raw(stream(3, Purpose.SAMPLE, 1, 3))
    assert np.array_equal(first, raw(stream(3, Purpose.SAMPLE, 1, 2))), "other numbers at the same place"
