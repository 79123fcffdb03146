"""A disk that fills: the server takes nothing new, says so once, and goes on by itself; nothing is lost, nobody is absent."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from shutil import _ntuple_diskusage
from typing import Any

import numpy as np
import pytest

from crescendo import system
from crescendo.config.loading import read, read_served
from crescendo.core.messages import Settled
from crescendo.federation.agreement import Agreement
from crescendo.logs import Log
from crescendo.network.protocol.wire_messages import Ack, Refusal, Welcome
from crescendo.network.server import serve
from crescendo.network.server.liveness import LONGEST_WAIT, LivenessLimits
from crescendo.network.server.serve import Listening
from crescendo.runs.serving import serve_file
from crescendo.storage.journal.durable_server import SNAPSHOT_BYTES, DurableServer
from crescendo.storage.journal.journal_entries import Voided, from_bytes
from crescendo.storage.journal.segments import Segments
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo.storage.upkeep.disk_room import WARNING, DiskRoom, Room, Usage, usual_reserve
from tests.cli.joining_clients import ONE, OPEN, joined
from tests.conformance.cases import case
from tests.network.final_checks import pairs_in
from tests.network.live_server import ONES, TWO, LiveServer, live_server, run_async
from tests.network.server.test_liveness import Clock, clock
from tests.network.server.test_the_end import below_a_node

__all__ = ["clock"]  # a fixture


class Disk:
    """How much of it is free is whatever a test says."""

    def __init__(self, free: float = 0.5) -> None:
        self.free = free

    def __call__(self, folder: Path) -> float:
        return self.free


def said(on: LiveServer) -> list[str]:
    return [facts["event"] for facts in on.log if facts["event"].startswith("disk_")]


def test_a_full_disk_turns_updates_and_hellos_away_and_room_lets_the_same_bytes_in(tmp_path: Path) -> None:
    disk = Disk()

    async def play() -> None:
        async with live_server(tmp_path, TWO, free=disk) as on:
            clients = [await on.join(c) for c in (0, 1)]
            disk.free = 0.015
            before = Segments(tmp_path).paths()[-1].stat().st_size
            for client in clients:
                await client.send(0, ONES)
                answer = await client.hear_until(Refusal | Ack)
                assert isinstance(answer, Refusal) and not answer.final and answer.round is None, answer
                await client.closed()
            _, answer = await on.say_hello(0, last=0)
            assert isinstance(answer, Refusal) and not answer.final and "nearly full" in answer.reason
            assert Segments(tmp_path).paths()[-1].stat().st_size == before
            assert on.service.durable.present.all() and on.service.durable.settled(0) == Settled(0)
            told = json.loads(await on.server._status_reporter.answer())
            assert (told["disk"], told["disk_free"]) == ("none", 0.015), "whoever asks why nothing goes on is told"
            disk.free = 0.04
            for c in (0, 1):
                client = await on.join(c, last=0)
                await client.send(0, ONES)
                await client.acknowledged(Settled(1))
            assert on.service.durable.k == 1 and said(on) == ["disk_full", "disk_room"]
            assert not on.events("refused") and not on.events("void")

    run_async(play)


def test_little_room_is_logged_once_and_rounds_go_on(tmp_path: Path) -> None:
    disk = Disk(0.09)

    async def play() -> None:
        async with live_server(tmp_path, TWO, free=disk) as on:
            clients = [await on.join(c) for c in (0, 1)]
            for i in range(3):
                disk.free = (0.09, 0.101, 0.099)[i]
                for client in clients:
                    await client.send(i, ONES)
                for client in clients:
                    await client.k(i + 1)
            assert said(on) == ["disk_low"]

    run_async(play)


def test_no_client_becomes_absent_while_the_server_turns_it_away_or_before_it_can_be_back(
    tmp_path: Path, clock: Clock
) -> None:
    """One client was turned away and is silent, the other is heard all the time: else silence would not count anyway."""
    disk, limits = Disk(), LivenessLimits(absent_after=4.0)

    async def play() -> None:
        async with live_server(tmp_path, TWO, limits, free=disk) as on:
            away, here = await on.join(0), await on.join(1)
            await on.server.liveness.check()
            disk.free = 0.01
            await away.send(0, ONES)
            await away.closed()

            async def passes(seconds: float) -> None:
                for _ in range(int(seconds)):
                    clock.now += 1.0
                    on.server.last_heard[1] = clock.now
                    await on.server.liveness.check()

            await passes(60)
            assert on.service.durable.present.all() and said(on) == ["disk_full"]
            disk.free = 0.5
            await passes(LONGEST_WAIT - 1)
            assert on.service.durable.present.all() and said(on) == ["disk_full", "disk_room"]
            await passes(7)  # it does not come back, although it could: that is an absence
            assert not on.service.durable.present[0] and on.service.durable.present[1]
            await here.call.done_writing()

    run_async(play)


@pytest.mark.slow
@pytest.mark.parametrize("is_tree", [False, True], ids=["flat", "below an aggregator"])
def test_a_real_client_keeps_what_it_has_and_loses_nothing_to_a_full_disk(tmp_path: Path, is_tree: bool) -> None:
    """The disk is full from the third measurement to the eighth: each batch and each attempt to come back is one."""
    measured = 0

    def free(folder: Path) -> float:
        nonlocal measured
        measured += 1
        return 0.001 if first <= measured < first + 6 else 0.5

    first = 4 if is_tree else 3  # an aggregator's hello is one more

    async def play() -> None:
        async with live_server(tmp_path / "served", ONE, free=free) as on, AsyncExitStack() as held:
            log: list[dict[str, Any]] = []
            if is_tree:
                await held.enter_async_context(below_a_node(on, []))
            result = await joined(on, tmp_path, OPEN, log=log)
            assert result.last == 3 and on.service.durable.finished and said(on) == ["disk_full", "disk_room"]
            reasons = [facts["reason"] for facts in log if facts["event"] == "sent_away"]
            assert reasons and (is_tree or all("nearly full" in reason for reason in reasons))
        entries = [from_bytes(record.kind, record.body) for record in Segments(tmp_path / "served").records()]
        assert [i for entry in entries for i, _ in pairs_in(entry)] == [0, 1, 2, 3]
        assert not any(isinstance(entry, Voided) for entry in entries)
        with open_ledger(tmp_path / "client" / "ledger.sqlite", read_only=True) as ledger:
            assert ledger.last_round(on.agreed.federation) == 3 and not ledger.unacknowledged(on.agreed.federation)

    run_async(play)


def test_after_the_last_round_clients_are_let_in_to_hear_of_it(tmp_path: Path) -> None:
    disk = Disk()

    async def play() -> None:
        async with live_server(tmp_path, TWO, free=disk) as on:
            clients = [await on.join(c) for c in (0, 1)]
            for i in range(6):
                for client in clients:
                    await client.send(i, np.ones(5))
                for client in clients:
                    await client.k(i + 1)
            disk.free = 0.001
            _, answer = await on.say_hello(0, last=5)
            assert isinstance(answer, Welcome)

    run_async(play)


def test_a_file_system_that_does_not_say_how_large_it_is_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "disk_usage", lambda folder: _ntuple_diskusage(0, 0, 0))
    assert DiskRoom(tmp_path, 1e6).measured() is Room.ENOUGH


def room_with(usage: Usage, reserve: float) -> Room:
    return DiskRoom(Path(), reserve, lambda folder: usage).measured()


@pytest.mark.parametrize(("free", "room"), [(1.0, Room.ENOUGH), (0.0, Room.NONE)])
def test_what_counts_is_what_the_model_and_the_journal_need_not_the_size_of_the_disk(free: float, room: Room) -> None:
    """150 GB free of 10 TB were "full", and 30 MB free of 1 GB were not."""
    reserve = usual_reserve(model=8 * 10**6, journal=16 * 8 * 10**6)
    assert reserve == 20 * 8 * 10**6
    for total in (10**9, 10**13):
        assert room_with(Usage(free * 0.15e12, total), reserve) is room


@pytest.mark.parametrize(("times", "room"), [(1, Room.NONE), (WARNING, Room.LITTLE)])
def test_each_limit_is_passed_at_one_byte_less(times: float, room: Room) -> None:
    reserve = 10**8
    rooms = [room_with(Usage(times * reserve + more, 1e13), reserve) for more in (-1, 0, 1)]
    assert rooms[0] is room and rooms[1] is rooms[2] and rooms[1].value == room.value - 1


@pytest.mark.parametrize("stated", [None, 123.0])
def test_a_server_keeps_what_its_own_model_and_journal_need_or_what_the_operator_states(
    stated: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Reached(Exception):
        """The server would begin now."""

    kept: list[float] = []

    def begins(durable: DurableServer, agreed: Agreement, log: Log, disk: DiskRoom) -> None:
        kept.extend([disk.reserve, usual_reserve(durable.model.nbytes, durable.snapshot_bytes)])
        raise Reached

    monkeypatch.setattr(serve, "Service", begins)
    (tmp_path / "federation.toml").write_text(read(case(serve={"disk_reserve": stated} if stated else {})).to_toml())
    with pytest.raises(Reached):
        serve_file(read_served(tmp_path / "federation.toml"), Listening("127.0.0.1:0"), tmp_path / "state")
    reserve, usual = kept
    assert reserve == (usual if stated is None else stated * 1e6) and usual >= SNAPSHOT_BYTES
