"""What a server says about itself: the epsilon in it never understates, and is tight as soon as it can be."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.core.messages import Settled
from crescendo.federation.agreement import build_terms
from crescendo.network.server import status
from crescendo.network.server.spending import Price, SpendingTracker
from crescendo.network.transport.channels import Endpoint
from crescendo.privacy.accounting.accountant import account
from crescendo.privacy.accounting.events import Counted
from crescendo.privacy.mechanisms.certificate import Certificate
from tests.conformance.cases import CASES, PRIVATE, case
from tests.network.live_server import LiveServer, live_server

DELTA = 1e-6
LONG: dict[str, Any] = case(
    schedule={"rounds": 90, "sizes": {"kind": "power", "scale": 2, "power": 0.5, "per_client": True}},
    clients={"count": 2},
    privacy={"mechanism": "minibatch", **PRIVATE, "records": 4000},
)


def played(play: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(play(), 300))


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    made = build_terms(terms_text(read(LONG))).certificate
    assert made is not None
    return made


async def priced(spending: SpendingTracker, *reached: Settled, tight: bool) -> list[Price]:
    """Ask until everything is known: at least a bound, or else the tight number."""
    while True:
        found = [price for price in await spending.of(reached) if price is not None]
        if len(found) == len(reached) and all(price.tight or not tight for price in found):
            return found


@given(st.integers(0, 10**9))
def test_a_mark_is_at_most_a_sixteenth_beyond_the_rounds(rounds: int) -> None:
    assert rounds <= Price.next_mark(rounds) <= rounds + rounds / 16
    assert Price.next_mark(Price.next_mark(rounds)) == Price.next_mark(rounds)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [0, 1, 20, 70, 90])
def test_what_is_said_to_be_spent_is_never_less_and_little_more(rounds: int, certificate: Certificate) -> None:
    async def play() -> None:
        (price,) = await priced(SpendingTracker(certificate, DELTA), Settled(rounds), tight=True)
        true, next_mark = (
            account(certificate.events(0)[:many], DELTA, state_error=False).epsilon
            for many in (rounds, Price.next_mark(rounds))
        )
        assert true <= price.epsilon <= next_mark

    played(play)


def test_rounds_that_overtook_count_with_those_before_them(certificate: Certificate) -> None:
    async def play() -> None:
        spending = SpendingTracker(certificate, DELTA, tight=lambda events, delta: float(_rounds(events)))
        found = await priced(spending, Settled(3), Settled(3, frozenset({6})), tight=True)
        assert [price.mark for price in found] == [3, 7]

    played(play)


def _rounds(events: Counted) -> int:
    return sum(count for _, count in events)


def test_a_bound_stands_for_the_tight_number_until_it_is_there(certificate: Certificate) -> None:
    async def play() -> None:
        ready = threading.Event()

        def slow(events: Counted, delta: float) -> float:
            assert ready.wait(300)
            return SpendingTracker.by_pld(events, delta)

        spending = SpendingTracker(certificate, DELTA, slow, patience=0.05)
        (bound,) = await priced(spending, Settled(5), tight=False)
        assert not bound.tight
        ready.set()
        (price,) = await priced(spending, Settled(5), tight=True)
        assert 0 < price.epsilon < bound.epsilon

    played(play)


def test_each_mark_is_accounted_for_once_and_clients_alike_share_it(certificate: Certificate) -> None:
    asked: list[int] = []

    def counting(events: Counted, delta: float) -> float:
        asked.append(_rounds(events))
        return 0.5

    async def play() -> None:
        spending = SpendingTracker(certificate, DELTA, counting)
        for rounds in (5, 5, 64, 61, 90, 5):
            await priced(spending, Settled(rounds), Settled(rounds), tight=True)
        assert asked == [5, 64, 62, 90]

    played(play)


# -- as a server says it


def test_whoever_asks_while_an_answer_is_made_gets_that_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, ready = list[int](), asyncio.Event()

    async def slow(*_: Any) -> dict[str, Any]:
        made.append(len(made))
        await ready.wait()
        return {"answer": made[-1]}

    monkeypatch.setattr(status, "_status", slow)

    async def play() -> None:
        async with live_server(tmp_path, CASES["in step"]) as on:
            first = asyncio.create_task(on.server._status_reporter.answer())
            others = [asyncio.create_task(on.server._status_reporter.answer()) for _ in range(20)]
            await asyncio.sleep(0)
            first.cancel()  # whoever asked first hangs up
            ready.set()
            assert {json.loads(answer)["answer"] for answer in await asyncio.gather(*others)} == {0}
            assert json.loads(await on.server._status_reporter.answer()) == {"answer": 1}

    played(play)


async def asked(on: LiveServer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await Endpoint(f"127.0.0.1:{on.port}").status(60))
    return found


@pytest.mark.slow
def test_the_status_has_the_epsilon_of_the_rounds_that_arrived(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, LONG) as on:
            fake = await on.join(0)
            await fake.send(0, np.zeros(on.agreed.objective.size))
            while (found := await asked(on))["clients"][0]["round"] == 0:
                pass
            while found["clients"][0]["epsilon_is"] != "tight":
                found = await asked(on)
            first, second = found["clients"]
            assert on.agreed.certificate is not None and on.agreed.delta is not None
            true = account(on.agreed.certificate.events(0)[:1], on.agreed.delta, state_error=False).epsilon
            assert first["epsilon"] == pytest.approx(true, rel=1e-12) and second["epsilon"] == 0
            assert (found["mechanism"], found["delta"]) == ("minibatch", on.agreed.delta)

    played(play)


def test_without_a_certificate_there_is_no_epsilon(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, CASES["in step"]) as on:
            for client in (await asked(on))["clients"]:
                assert (client["epsilon"], client["epsilon_is"]) == (None, None)
                assert not client["joined"] and client["silent_seconds"] is None

    played(play)


def test_bytes_are_counted_over_all_streams_of_a_client(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, case(clients={"count": 1})) as on:
            size = on.agreed.objective.size
            for i in range(2):
                fake = await on.join(0, last=i - 1)
                await fake.send(i, np.zeros(size))
                while (found := await asked(on))["clients"][0]["round"] <= i:
                    pass
                await fake.call.done_writing()
                while (await asked(on))["clients"][0]["connected"]:
                    pass
            assert found["clients"][0]["bytes_up"] == 2 * 8 * size

    played(play)
