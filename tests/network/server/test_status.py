"""What a server says about itself: the epsilon in it never understates, and is tight as soon as it can be."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from crescendo.config.loading import read, read_served
from crescendo.config.to_terms import terms_text
from crescendo.core.messages import Settled
from crescendo.federation.agreement import build_terms
from crescendo.logs import quiet
from crescendo.network.server import status
from crescendo.network.server.accountant_process import Accountant, AccountantFailed, Accountants, accountant_process
from crescendo.network.server.spending import Price, SpendingTracker
from crescendo.network.transport.channels import Endpoint
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.runs.serving import _remembered_terms
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.journal_entries import Received
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import Counted, PoissonGaussian, tally
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
        spending = SpendingTracker(certificate, DELTA, accountants=by(tight))
        (price,) = await priced(spending, Settled(rounds), tight=True)
        true, next_mark = (
            account(certificate.events(0)[:many], DELTA, state_error=False).epsilon
            for many in (rounds, Price.next_mark(rounds))
        )
        assert true <= price.epsilon <= next_mark

    played(play)


def test_rounds_that_overtook_count_with_those_before_them(certificate: Certificate) -> None:
    async def play() -> None:
        spending = SpendingTracker(certificate, DELTA, accountants=by(lambda events: float(_rounds(events))))
        found = await priced(spending, Settled(3), Settled(3, ((6, 7),)), tight=True)
        assert [price.mark for price in found] == [3, 7]

    played(play)


def by(account: Callable[[Counted], float], ready: asyncio.Event | None = None) -> Accountants:
    """An accountant in this process, which waits with its answers until it is ready."""

    @asynccontextmanager
    async def here() -> AsyncIterator[Accountant]:
        async def epsilon(events: Counted, delta: float) -> float:
            if ready is not None:
                await ready.wait()
            return account(events)

        yield epsilon

    return here


def tight(events: Counted) -> float:
    return account(events, DELTA, state_error=False).epsilon


def _rounds(events: Counted) -> int:
    return sum(count for _, count in events)


def test_no_number_exceeds_what_the_whole_plan_costs(certificate: Certificate) -> None:
    """The quick bound of a few rounds alone can be many times the tight cost of all."""

    async def play() -> None:
        plan = tight(tally(certificate.events(0)))
        assert account(certificate.events(0)[:80], DELTA, quick=True).epsilon > plan
        spending = SpendingTracker(
            certificate, DELTA, [plan, 1e-9], accountants=by(tight, asyncio.Event()), patience=0.05
        )
        found = await priced(spending, Settled(80), Settled(80), tight=False)
        assert [price.epsilon for price in found] == [plan, 1e-9] and not any(price.tight for price in found)
        await spending.close()

    played(play)


def test_closing_ends_a_computation_in_flight_and_whoever_asked_gets_the_bound(certificate: Certificate) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def endless() -> AsyncIterator[Accountant]:
        async def epsilon(events: Counted, delta: float) -> float:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        try:
            yield epsilon
        finally:
            ended.set()

    async def play() -> None:
        spending = SpendingTracker(certificate, DELTA, accountants=endless, patience=300)
        asking = asyncio.create_task(spending.of([Settled(5), Settled(5)]))
        await begun.wait()
        await spending.close()
        assert ended.is_set()
        assert all(price is not None and not price.tight and price.epsilon > 0 for price in await asking)
        assert await spending.of([Settled(90), Settled(5)]) == [None, (await asking)[1]]

    played(play)


def test_an_accountant_that_fails_is_logged_and_the_bound_stays(certificate: Certificate) -> None:
    log: list[str] = []

    def failing(events: Counted) -> float:
        raise AccountantFailed("it was killed")

    async def play() -> None:
        spending = SpendingTracker(
            certificate, DELTA, accountants=by(failing), log=lambda event, **facts: log.append(f"{event}: {facts}")
        )
        (price, _) = await priced(spending, Settled(5), Settled(5), tight=False)
        assert not price.tight and log == ["accounting_failed: {'reason': 'it was killed'}"]

    played(play)


@pytest.mark.slow
def test_the_accountant_s_process_answers_like_the_accountant_and_ends_with_the_block(certificate: Certificate) -> None:
    async def play() -> None:
        events = tally(certificate.events(0)[:20])
        async with accountant_process() as epsilon:
            assert await epsilon(events, DELTA) == tight(events)
            with pytest.raises(AccountantFailed, match="delta must lie"):
                await epsilon(events, 2.0)
            before = asyncio.ensure_future(epsilon(tally([(PoissonGaussian(0.3, 0.5), 10**7)]), DELTA))
        with pytest.raises(AccountantFailed, match="has ended"):
            await before

    played(play)


def test_a_bound_stands_for_the_tight_number_until_it_is_there(certificate: Certificate) -> None:
    async def play() -> None:
        ready = asyncio.Event()
        spending = SpendingTracker(certificate, DELTA, accountants=by(tight, ready), patience=0.05)
        (bound,) = await priced(spending, Settled(5), tight=False)
        assert not bound.tight
        ready.set()
        (price,) = await priced(spending, Settled(5), tight=True)
        assert 0 < price.epsilon < bound.epsilon

    played(play)


def test_each_mark_is_accounted_for_once_and_clients_alike_share_it(certificate: Certificate) -> None:
    asked: list[int] = []

    def counting(events: Counted) -> float:
        asked.append(_rounds(events))
        return 0.5

    async def play() -> None:
        spending = SpendingTracker(certificate, DELTA, accountants=by(counting))
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


# -- as a process that is asked to end

# An accountant that says when it is at work, in compiled code, and never comes to an end.
ENDLESS = """
import json, sys
sys.path = json.loads(sys.argv[1])
import numpy as np
from crescendo.network.server import accountant_process

def endless(*_, **__):
    with open({at_work!r}, "w"):
        pass
    while True:
        np.fft.rfft(np.ones(1 << 20))

accountant_process.account = endless
accountant_process.answer_all()
"""
SERVER = """
from crescendo.__main__ import main
from crescendo.network.server import accountant_process

accountant_process.PROGRAM = {program!r}
main()
"""


def settled(folder: Path, rounds: int) -> Path:
    """A run file, and the state of its server after these rounds."""
    (folder / "federation.toml").write_text(tomli_w.dumps(LONG))
    config = read_served(folder / "federation.toml")
    asked, text, costs = _remembered_terms(config, folder / "served", quiet)
    agreed = build_terms(text)
    (folder / "served").mkdir()
    (folder / "served" / "terms.json").write_text(json.dumps({"asked": asked, "terms": text, "costs": costs}))
    still = np.zeros(agreed.size, agreed.wire).tobytes()
    with DurableServer(folder / "served" / "journal", text, lambda text: agreed.terms, agreed.initial()) as durable:
        for i in range(rounds):
            for c in range(len(agreed.names)):
                durable.submit(Received(i, c, agreed.wire, still))
        durable.commit()
    return folder / "federation.toml"


@pytest.mark.slow
def test_a_server_that_is_accounting_for_a_status_ends_at_once_and_well(tmp_path: Path) -> None:
    """A process that ends while its thread computes in compiled code may be aborted; so the computation has its own process."""
    at_work = tmp_path / "at_work"
    os.mkfifo(at_work)
    program = SERVER.format(program=ENDLESS.format(at_work=str(at_work)))
    words = ["serve", str(settled(tmp_path, 20)), "--listen", "127.0.0.1:0", "--state", str(tmp_path / "served")]
    command = [sys.executable, "-c", program, *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            port = next(facts["port"] for line in server.stderr if (facts := json.loads(line))["event"] == "serving")
            with ThreadPoolExecutor(1) as threads:
                asking = threads.submit(lambda: asyncio.run(Endpoint(f"127.0.0.1:{port}").status(300)))
                at_work.read_text()  # until the accountant has opened it
                server.terminate()
                out, err = server.communicate(timeout=300)
                clients = json.loads(asking.result())["clients"]
        finally:
            server.kill()
    assert server.returncode == 0 and "20 of 90 rounds, stopped" in out, err
    assert json.loads(err.splitlines()[-1])["event"] == "stopped"
    assert [client["epsilon_is"] for client in clients] == ["bound", "bound"]
