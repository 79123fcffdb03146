"""A client that comes back from an absence in the middle of a round: nothing that it charges is dropped, or both sides say so."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.core.messages import Broadcast, Settled
from crescendo.core.vectors import encode
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.client.join import join
from crescendo.network.protocol.tree_messages import SumRefusal
from crescendo.network.protocol.wire_messages import Refusal
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff
from crescendo.storage.journal.journal_entries import Absent, Summed
from crescendo.storage.ledger.outbox import Release
from crescendo.worker import Worker
from tests.cli.joining_clients import OPEN, records
from tests.network.client.test_participant import NEWS, Steady, Working, opened, participant, terms
from tests.network.final_checks import applied_of, charges_in, entries_in
from tests.network.live_server import ONES, TWO, LiveServer, live_server, run_async, until
from tests.network.scripted_client import SOON


def full(worker: Worker) -> bool:
    """Whether the round in hand is full, as the worker itself says."""
    return worker.client.round_is_full


class Gate:
    """Holds a worker at the end of its first round, and notes how the round goes on: released, or full and held."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.computed, self.may_go = threading.Event(), threading.Event()
        self.released: list[int] = []
        self.looks = 0  # at a round that is full: the second one means that it was not released after the first
        run, finish = Worker.run, Worker.finish

        def held_run(worker: Worker, slots: int) -> None:
            run(worker, slots)
            self.computed.set()
            assert self.may_go.wait(SOON)

        def noted_finish(worker: Worker) -> Any:
            update = finish(worker)
            self.released.append(update.round)
            return update

        def noted_full(worker: Worker) -> bool:
            self.looks += full(worker)
            return full(worker)

        monkeypatch.setattr(Worker, "run", held_run)
        monkeypatch.setattr(Worker, "finish", noted_finish)
        monkeypatch.setattr(Worker, "round_is_full", property(noted_full))

    def has_gone_on(self) -> bool:
        return bool(self.released) or self.looks >= 2


def joins(on: LiveServer, folder: Path, log: list[dict[str, Any]]) -> asyncio.Task[Any]:
    """A real client in a thread of its own."""
    source, policy = RecordSource(str(records(folder))), Policy.model_validate(OPEN)
    where, backoff = Endpoint(f"127.0.0.1:{on.port}"), Backoff(0.02, 0.2, give_up=SOON)

    def note(event: str, **facts: Any) -> None:
        log.append({"event": event, **facts})

    return asyncio.create_task(
        asyncio.to_thread(join, where, "client 0", source, folder / "client", policy, log=note, backoff=backoff)
    )


@pytest.mark.slow
def test_a_round_that_is_finished_while_a_hello_waits_for_its_welcome_is_not_charged_if_the_server_passed_it_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, said = Gate(monkeypatch), list[dict[str, Any]]()

    async def play() -> None:
        async with live_server(tmp_path / "served", TWO) as on:
            other, client = await on.join(1), joins(on, tmp_path, said)
            await asyncio.to_thread(gate.computed.wait, SOON)
            await on.server.put(0, Absent(0))
            for i in range(2):
                await other.send(i, ONES)
                await other.k(i + 1)
            async with on.server.commit_queue.paused():
                on.server.sessions[0].close(Refusal("come back"))
                await until(lambda: 0 in on.server._arriving)  # its hello, which says that it has sent nothing
                gate.may_go.set()
                await until(gate.has_gone_on)
            for i in range(2, 6):
                await other.send(i, ONES)
                await other.k(i + 1)
            assert (await client).last == 5
            voids = [(facts["client"], facts["first"], facts["next"]) for facts in on.events("rounds_void")]
            assert voids == [("client 0", 0, 2)] and not on.events("void_update")

    run_async(play)
    charged = charges_in(tmp_path / "client" / "ledger.sqlite")
    applied = applied_of(entries_in(tmp_path / "served"), client=0)
    assert charged == applied and set(applied) == {2, 3, 4, 5}
    assert [(facts["first"], facts["next"]) for facts in said if facts["event"] == "rounds_void"] == [(0, 2)]


class Watched(Steady):
    """An objective that says hello for its client while the last slot of the first round is being computed."""

    def gradient(self, *args: Any, **named: Any) -> Any:
        found = super().gradient(*args, **named)
        if len(self.models) == 3:
            self.last = self.one.introduce()
        return found

    one: Any
    last: int | None = None


@pytest.mark.parametrize("start", [0, 2], ids=["waited for", "passed by"])
def test_a_full_round_waits_for_the_welcome_that_says_whether_it_is_void(
    start: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal, agreed = Watched(), terms()
    looked = threading.Semaphore(0)

    def noted(worker: Worker) -> bool:
        if full(worker):
            looked.release()
        return full(worker)

    monkeypatch.setattr(Worker, "round_is_full", property(noted))
    with opened(tmp_path, agreed) as ledger:
        one = goal.one = participant(ledger, agreed, goal)
        one.hear(Broadcast(np.zeros(2), 0, Settled(0)))
        with Working(one) as at_work:
            assert looked.acquire(timeout=SOON) and looked.acquire(timeout=SOON)  # full, and looked at again: it waits
            assert goal.last == -1 and ledger.last_round("f") == -1 and not at_work.released
            one.hear(NEWS)  # news is no welcome
            one.introduce()  # the first stream broke; the next hello says the same
            assert ledger.last_round("f") == -1
            one.welcomed(start)
            one.hear(Broadcast(np.zeros(2), 2, Settled(start)))
            at_work.until(1)
        assert at_work.released[0].round == start


def test_the_last_round_of_a_hello_is_the_one_that_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The charge is on disk before the participant knows of it; a hello at that instant has to wait."""
    goal, agreed = Steady(), terms()
    with opened(tmp_path, agreed) as ledger:
        one, release = participant(ledger, agreed, goal), ledger.release
        one.hear(Broadcast(np.zeros(2), 0, Settled(0)))
        said: list[int] = []
        hello = threading.Thread(target=lambda: said.append(one.introduce()))

        def slow(*args: Any) -> bytes:
            data = release(*args)
            hello.start()
            assert not said  # it waits: the other thread cannot come by before this one returns
            return data

        monkeypatch.setattr(ledger, "release", slow)

        def stop(done: Release) -> None:
            hello.join(SOON)
            one.stop()

        one.work(stop)
        assert said == [0] == [ledger.last_round("f")]


def test_an_update_of_a_round_that_was_void_before_it_came_is_logged_on_both_sides_and_is_no_duplicate(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            other = await on.join(1)
            await on.server.put(0, Absent(0))
            for i in range(2):
                await other.send(i, ONES)
                await other.k(i + 1)
            back = await on.join(0)
            await back.send(1, ONES)  # as a client of an earlier version can
            refusal = await back.hear_until(Refusal)
            assert (refusal.round, refusal.final) == (1, False) and "never applied" in refusal.reason
            assert [(f["client"], f["round"]) for f in on.events("void_update")] == [("client 0", 1)]
            await other.send(1, ONES)  # a repetition is dropped without a word
            await other.send(2, ONES)
            await other.acknowledged(Settled(3))
            assert len(on.events("void_update")) == 1 and not on.events("alarm")

    run_async(play)


def test_a_sum_with_an_update_of_a_void_round_is_answered_with_that_pair_so_that_its_aggregator_sends_the_rest(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as on:
            other = await on.join(1)
            await on.server.put(0, Absent(0))
            await other.send(0, ONES)
            await other.k(1)
            await on.join(0)
            total = Summed(((0, 0), (1, 1)), on.agreed.wire, encode(2 * ONES, on.agreed.wire))
            submission = await on.server.put(-1, total, sum_id="a" * 32)
            [answer] = submission.answers
            assert isinstance(answer, SumRefusal) and answer.pairs == ((0, 0),) and not submission.taken
            assert [(f["client"], f["round"]) for f in on.events("void_update")] == [("client 0", 0)]
            rest = await on.server.put(-1, Summed(((1, 1),), on.agreed.wire, encode(ONES, on.agreed.wire)))
            assert rest.taken and not rest.answers

    run_async(play)
