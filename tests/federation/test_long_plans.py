"""A client of a federation with very many rounds: its memory does not grow with them, and its numbers are the same."""

from __future__ import annotations

import gc
import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.federation.agreement import NOTHING_HIDDEN, Agreement, build_terms, canonical
from crescendo.storage.ledger.ledger_file import LedgerFile
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo_dp.events import Counted, Event, tally
from crescendo_dp.ledger.budget import Budget
from crescendo_dp.planned_events import PlannedEvents
from tests.conformance.cases import CASES, PRIVATE, case

ROUNDS = 50_000
GROWING = {"sizes": {"kind": "power", "scale": 3, "power": 0.5}}
PRIVATELY = case(
    schedule=GROWING, privacy={"mechanism": "minibatch", **PRIVATE, "sigma": [[3, 900.0], [3, 800.0]], "records": 10**6}
)

EACH = {**PRIVATELY["privacy"], "records": 10**9}
DIFFERENTLY = case(
    schedule={"sizes": {"kind": "power", "scale": 9, "power": 1.0}}, privacy=EACH
)  # no two rates are equal


def agreed_on(raw: dict[str, Any], rounds: int) -> Agreement:
    """The agreement of a run file, but with so many rounds: what that costs is not the matter here."""
    said = json.loads(terms_text(read(raw)))
    said["schedule"]["rounds"] = rounds
    if said["privacy"] is not None:
        said["privacy"]["sigma"] = [[rounds // 2, 900.0], [rounds - rounds // 2, 800.0]]
    return build_terms(canonical(said))


def price(events: Counted, delta: float) -> float:
    return math.inf


def round_by_round(agreed: Agreement, c: int) -> list[Event | None]:
    """The plan, one round after the other, by the definition."""
    rounds = range(agreed.terms.rounds)
    if agreed.certificate is not None:
        return [agreed.certificate.event(i, c) for i in rounds]
    return [NOTHING_HIDDEN if agreed.terms.share(i, c) else None for i in rounds]


@pytest.mark.parametrize(
    "agreed",
    [agreed_on(CASES["coins"], 40), agreed_on(PRIVATELY, 40), agreed_on(DIFFERENTLY, 600)],
    ids=["none", "minibatch", "all different"],
)
def test_a_plan_is_the_event_of_every_round(agreed: Agreement) -> None:
    for c in range(agreed.terms.clients):
        plan, expected = agreed.plan(c), round_by_round(agreed, c)
        assert list(plan) == expected == [plan[i] for i in range(len(plan))]
        assert plan.counted == tally(event for event in expected if event is not None)
        assert plan == PlannedEvents.of(expected) and hash(plan) == hash(PlannedEvents.of(expected))
        assert plan != PlannedEvents.of([*expected[:-1], Event(0.125, 77.0)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raw", "rounds"),
    [(PRIVATELY, 40), (PRIVATELY, 20_000), (DIFFERENTLY, 20_000)],
    ids=["listed", "packed", "packed kinds"],
)
def test_a_signed_plan_is_read_again_bit_for_bit_and_signed_once(
    raw: dict[str, Any], rounds: int, tmp_path: Path
) -> None:
    agreed = agreed_on(raw, rounds)
    asked = ("f", "d" * 64, "me", agreed.plan(0), 1e-7, price)
    for _ in range(2):
        with open_ledger(tmp_path / "ledger.sqlite", Budget(math.inf, 0.5)) as ledger:
            promise = ledger.sign(*asked)
            assert promise.plan == agreed.plan(0) and list(promise.plan) == round_by_round(agreed, 0)
            assert ledger.head[0] == 2
    file = LedgerFile(tmp_path / "ledger.sqlite", read_only=True)
    [body] = [entry.body for entry in file.entries if entry.kind == "sign"]
    file.close()
    assert isinstance(body["plan"], list) == (rounds == 40)  # a short one as every version of the program reads it
    assert len(json.dumps(body)) < 10_000 + (4 if raw is PRIVATELY else 12) * rounds


def test_a_packed_plan_that_contradicts_itself_is_no_plan() -> None:
    packed = PlannedEvents.of([None, NOTHING_HIDDEN] * 6000).to_json()
    assert PlannedEvents.from_json(packed) == PlannedEvents.of([None, NOTHING_HIDDEN] * 6000)
    for change in ({"rounds": 12_001}, {"rounds": 11_999}, {"kinds": [None]}, {"codes": "AAAA"}):
        with pytest.raises(ValueError):
            PlannedEvents.from_json({**packed, **change})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raw", "bytes_kept", "bytes_on_the_way"),
    [(case(schedule=GROWING), 10, 60), (PRIVATELY, 10, 60), (DIFFERENTLY, 50, 120)],
    ids=["none", "minibatch", "all different"],
)
def test_a_client_keeps_no_object_for_each_round_of_the_terms(
    raw: dict[str, Any], bytes_kept: int, bytes_on_the_way: int, tmp_path: Path
) -> None:
    """A few numbers of arrays are kept for each round; an event, a list or a text of each would be far above the limit."""
    agreed_on(raw, 100).plan(0)  # what is loaded on first use does not count
    gc.collect()
    tracemalloc.start()
    try:
        agreed = agreed_on(raw, ROUNDS)
        tracemalloc.reset_peak()
        agreed.plan(0)
        made, planning = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(2):  # signed off, and opened again
            with open_ledger(tmp_path / "ledger.sqlite", Budget(math.inf, 0.5)) as ledger:
                ledger.sign("f", agreed.digest, "me", agreed.plan(0), 1e-7, price)
                gc.collect()
                kept, most = tracemalloc.get_traced_memory()
        assert made < 60 * ROUNDS and planning - made < 200 * ROUNDS, (made, planning)
        assert kept - made < bytes_kept * ROUNDS and most - made < bytes_on_the_way * ROUNDS, (made, kept, most)
    finally:
        tracemalloc.stop()
