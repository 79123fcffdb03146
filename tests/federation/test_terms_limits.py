"""The work that a peer's terms ask for is bounded before it begins, and grows with rounds alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

from crescendo.core import random, terms
from crescendo.core.random import Purpose, stream
from crescendo.errors import Refused
from crescendo.federation import terms_limits
from crescendo.federation.agreement import build_terms, canonical
from tests.federation.terms_texts import sound


def text_of(shares: str, rounds: int, clients: int = 1) -> str:
    """Private terms of so many rounds and clients."""
    raw = next(
        raw
        for raw in map(json.loads, sound())
        if raw["clients"]["shares"] == "coin" and (raw.get("privacy") or {}).get("mechanism") == "local"
    )
    raw["clients"] |= {
        "names": [f"client {c}" for c in range(clients)], "weights": [1 / clients] * clients, "shares": shares,
    }  # fmt: skip
    raw["privacy"]["records"] = [100_000] * clients
    raw["schedule"]["sizes"] |= {"power": 0.0, "offset": 40.0}
    raw["schedule"]["rounds"] = rounds
    return canonical(raw)


@pytest.mark.parametrize(("shares", "limit"), [("coin", "MOST_COINS"), ("expected", "MOST_PAIRS")])
def test_pairs_of_rounds_and_clients_are_refused_beyond_the_bound_with_what_would_pass(
    shares: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms_limits, limit, 36)
    for clients, most in ((1, 36), (3, 12)):
        for rounds in (most - 1, most):
            assert build_terms(text_of(shares, rounds, clients)).terms.rounds == rounds
        with pytest.raises(Refused, match=f"rounds times clients may be at most 36; use at most {most} larger rounds"):
            build_terms(text_of(shares, most + 1, clients))


def test_rounds_are_refused_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms_limits, "MOST_ROUNDS", 30)
    for rounds in (29, 30):
        assert build_terms(text_of("coin", rounds)).terms.rounds == rounds
    with pytest.raises(Refused, match="at most 30 rounds"):
        build_terms(text_of("coin", 31))


def test_coins_of_a_whole_run_are_flipped_once_by_one_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Building terms takes work in proportion to their rounds: a generator for each was what made a million rounds slow."""
    made: list[Purpose] = []

    def counting(seed: int, purpose: Purpose, client: int = 0, round: int = 0) -> np.random.Generator:
        made.append(purpose)
        return stream(seed, purpose, client, round)

    monkeypatch.setattr(random, "stream", counting)
    monkeypatch.setattr(terms, "stream", counting)
    for shares in ("coin", "expected"):
        made.clear()
        build_terms(text_of(shares, 3000, 2))
        assert made.count(Purpose.SHARES) <= 4  # a part of the rounds has one, and a round that a condition names


def test_coins_are_those_of_a_new_stream_for_each_round() -> None:
    found = build_terms(text_of("coin", 50, 3)).terms
    rows = found.shares_of_rounds(0, 50)
    for i in (0, 1, 17, 49):
        chances = np.diff(found._cumulative)
        assert (
            rows[i].tolist() == stream(found.seed, Purpose.SHARES, 0, i).multinomial(found.sizes(i), chances).tolist()
        )
        assert rows[i].tolist() == found.shares(i).tolist()
