"""Two copies of one client's folder: what is refused, what raises the alarm, and what the people on both sides are told."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.core.messages import Settled
from crescendo.errors import Refused
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.client.join import join
from crescendo.network.client.participant import Participant
from crescendo.network.protocol.wire_messages import Refusal, VoidRound
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff
from crescendo.storage.journal.journal_entries import Absent, Received
from tests.cli.joining_clients import OPEN, records
from tests.network.live_server import ONES, TWO, LiveServer, live_server, run_async, until
from tests.network.scripted_client import SOON

NAMED: dict[str, Any] = {**TWO, "serve": {**TWO["serve"], "names": ["alice", "bob"]}}


def joins(on: LiveServer, folder: Path, name: str = "client") -> asyncio.Task[Any]:
    """A real client in a thread of its own; it ends or is refused."""
    source, policy = RecordSource(str(records(folder))), Policy.model_validate(OPEN)
    where, backoff = Endpoint(f"127.0.0.1:{on.port}"), Backoff(0.02, 0.2, give_up=SOON)
    return asyncio.create_task(
        asyncio.to_thread(join, where, "client 0", source, folder / name, policy, backoff=backoff)
    )


def copied(folder: Path) -> None:
    """A copy of a client's folder that is in use, as a file system snapshot makes it."""
    (folder / "copy").mkdir()
    with sqlite3.connect(folder / "client" / "ledger.sqlite") as source:
        with sqlite3.connect(folder / "copy" / "ledger.sqlite") as target:
            source.backup(target)
        target.close()
    source.close()
    for path in (folder / "client").glob("seen-*.json"):
        shutil.copy(path, folder / "copy")


@pytest.mark.slow
def test_of_two_copies_that_run_at_once_the_older_ends_for_good_and_says_why(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path / "served", TWO) as on:
            first = joins(on, tmp_path)
            await until(lambda: on.service.durable.settled(0).below == 2)  # as far as it may go: the other is not here
            copied(tmp_path)
            second = joins(on, tmp_path, "copy")
            with pytest.raises(Refused, match="if these are two copies, stop one"):
                await first
            other = await on.join(1)
            for i in range(6):
                await other.send(i, ONES)
                await other.k(i + 1)
            assert (await second).last == 5 and not on.events("alarm")

    run_async(play)


@pytest.mark.slow
def test_a_copy_that_hears_of_a_round_it_never_sent_ends_before_it_releases_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update of the older copy was on its way when the newer one joined: the newer must not compute that round too."""

    def held(self: Participant, todo: Any) -> None:
        with self._wake:
            assert self._wake.wait_for(lambda: self._stopped, SOON)

    monkeypatch.setattr(Participant, "_run", held)

    async def play() -> None:
        async with live_server(tmp_path / "served", TWO) as on:
            client = joins(on, tmp_path)
            await until(lambda: 0 in on.server.sessions)
            await on.server.put(0, Received(0, 0, on.agreed.wire, np.ones(5).tobytes()))
            with pytest.raises(Refused, match=r"has round 0 .* another copy is at work"):
                await client

    run_async(play)


def test_the_same_round_with_other_bytes_is_an_alarm_that_names_the_client(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, NAMED) as on:
            fake = await on.join(1)
            await fake.send(0, ONES)
            await fake.acknowledged()
            await fake.send(0, 2 * ONES)
            refusal = await fake.hear_until(Refusal)
            assert refusal.final and refusal.reason.startswith("bob sent round 0 before with other bytes")
            assert [facts["reason"] for facts in on.events("alarm")] == [refusal.reason]

    run_async(play)


def test_a_refusal_of_another_instance_names_the_client(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, NAMED) as on:
            await on.join(0)
            _, answer = await on.say_hello(0, instance="f" * 32)
            assert answer.reason.startswith("alice is registered as another instance")

    run_async(play)


def test_an_older_copy_is_refused_although_the_others_have_gone_far_beyond_it(tmp_path: Path) -> None:
    """What lies before the round it would go on with, it cannot judge itself: void rounds look the same."""

    async def play() -> None:
        async with live_server(tmp_path, NAMED) as on:
            alice, bob = await on.join(0), await on.join(1)
            await alice.send(0, ONES)
            await bob.send(0, ONES)
            await alice.acknowledged()
            await on.server.put(0, Absent(0))
            for i in range(1, 4):
                await bob.send(i, ONES)
            await bob.k(4)
            _, answer = await on.say_hello(0, last=-1)
            assert isinstance(answer, Refusal) and answer.final
            assert "alice says that its last round is -1, but it sent round 0" in answer.reason

    run_async(play)


def test_many_void_rounds_are_one_line_of_the_log(tmp_path: Path) -> None:
    long = {**NAMED, "schedule": {**NAMED["schedule"], "rounds": 200}}

    async def play() -> None:
        async with live_server(tmp_path, long) as on:
            await on.join(1)
            fake = await on.join(0, last=149, k=149)  # the server is an older copy
            for i in range(150):
                await fake.say(VoidRound(i, on.agreed.federation, on.agreed.digest))
            await fake.acknowledged(Settled(150))
            await fake.say(VoidRound(0, on.agreed.federation, on.agreed.digest))  # said again, it changes nothing
            await fake.send(150, ONES)
            await fake.acknowledged(Settled(151))
            [line] = on.events("void")
            assert (line["client"], line["rounds"], line["count"]) == ("alice", "0-149", 150)

    run_async(play)
