"""Bounds of a client, an aggregator and an authority, at one less, at the bound and at one more."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cryptography import x509

from crescendo import system
from crescendo.core.messages import Settled, Update
from crescendo.errors import DataError, UsageError
from crescendo.network.aggregator import downstream
from crescendo.network.aggregator.downstream import ANSWER_TIMEOUT, Downstream
from crescendo.network.aggregator.node import MAX_SUMS_IN_FLIGHT, Node
from crescendo.network.aggregator.upstream import LINGER, MAX_QUEUED_UP, Upstream
from crescendo.network.authority.certificate_checks import (
    LONGEST_DAYS,
    LONGEST_FILE,
    LONGEST_HOST,
    LONGEST_NAME,
    check_host,
    check_party_name,
)
from crescendo.network.authority.certificate_requests import LARGEST_REQUEST, RSA_BITS, read_request
from crescendo.network.authority.certificates import make_certificates
from crescendo.network.client import checkpoints, client_session, terms_request
from crescendo.network.client.checkpoints import LEAST, MOST_STARTS, ROOM
from crescendo.network.client.client_session import GOODBYE_TIMEOUT
from crescendo.network.client.participant import MOST_FAILED
from crescendo.network.protocol.tree_messages import Alive
from crescendo.network.protocol.wire_messages import Ping
from crescendo.network.transport.channels import Endpoint, StreamBroken
from crescendo.network.transport.retry import Backoff
from crescendo.network.transport.security.identity import Identity
from crescendo.network.transport.stream_writer import MAX_QUEUED
from tests.bounds.edges import around
from tests.bounds.test_core_bounds import node as core_of
from tests.bounds.test_transport_bounds import run_virtually, turns
from tests.network.authority.test_certificate_requests import csr
from tests.network.client import test_checkpoints, test_failed_rounds

# -- the client --------------------------------------------------------------------------------------------------------


@around(MAX_QUEUED)
def test_a_client_answers_pings_while_so_few_messages_wait(many: int) -> None:
    """A server that pings and does not read cannot fill the client's memory."""
    connection: Any = client_session._Connection.__new__(client_session._Connection)
    connection._outgoing = asyncio.Queue()
    for n in range(many):
        connection._on_ping(Ping(n))
    assert connection._outgoing.qsize() == min(many, MAX_QUEUED)


@pytest.mark.parametrize("late", [-1.0, 0.0, 1.0])
def test_a_server_has_so_many_seconds_to_read_the_goodbye(late: float) -> None:
    class Deaf:
        async def read(self) -> Any:
            await asyncio.Event().wait()

    @asynccontextmanager
    async def stream(hello: Any) -> AsyncIterator[Any]:
        yield Deaf()

    agreement = SimpleNamespace(federation="f", digest="0" * 64, size=1, wire="float32")
    seen = SimpleNamespace(epoch=0, k=0, settled=Settled(0))
    participant: Any = SimpleNamespace(agreement=agreement, seen=seen, name="a", introduce=lambda: -1)
    endpoint: Any = SimpleNamespace(stream=stream, token="", address="there")

    async def play(loop: asyncio.AbstractEventLoop, move: Any) -> None:
        over = asyncio.Event()
        over.set()
        connection = client_session._Connection(endpoint, participant, "0" * 32, lambda event, **facts: None, over)
        ending = asyncio.create_task(connection.one_stream())
        while connection._outgoing is None and len(asyncio.all_tasks()) < 4:
            await asyncio.sleep(0)
        await turns(20)
        move(GOODBYE_TIMEOUT + late)
        await turns(20)
        assert ending.done() is (late >= 0.0)
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)

    run_virtually(play)


@pytest.mark.parametrize("late", [-1.0, 0.0, 1.0])
def test_a_server_that_does_not_answer_is_named_after_so_many_seconds(late: float) -> None:
    said: list[str] = []

    async def play(loop: asyncio.AbstractEventLoop, move: Any) -> None:
        waiting = asyncio.create_task(terms_request.log_silence(lambda event, **facts: said.append(event), "there"))
        await turns()
        move(terms_request.SILENCE + late)
        await turns()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    run_virtually(play)
    assert said == ["unanswered"] * (late >= 0)


@pytest.mark.slow
@around(MOST_FAILED)
def test_so_many_rounds_in_a_row_may_fail(many: int, tmp_path: Path) -> None:
    scene = test_failed_rounds.Scene(tmp_path)
    goal = test_failed_rounds.Fragile(MemoryError(), at=0)
    with scene.opened() as ledger:
        one = scene.participant(ledger, goal)

        def tell(done: Any) -> None:
            if done.round + 1 == min(many, MOST_FAILED - 1):
                goal.raises = None if many < MOST_FAILED else goal.raises
            if done.round == many:
                one.stop()

        if many < MOST_FAILED:
            one.work(tell)
        else:
            with pytest.raises(UsageError, match="rounds in a row failed"):
                one.work(tell)
        assert test_failed_rounds.charged(ledger) == (many + 1 if many < MOST_FAILED else MOST_FAILED)


@pytest.mark.slow
@around(MOST_STARTS)
def test_so_many_starts_go_on_from_one_checkpoint(many: int, tmp_path: Path) -> None:
    scene = test_checkpoints.Scene(tmp_path)
    scene.work(0, 6)
    for _ in range(many):
        with scene.opened() as ledger:
            scene.participant(ledger)
    assert scene.events() == ["checkpoint_resumed"] * min(many, MOST_STARTS) + ["checkpoint_discarded"] * (
        many > MOST_STARTS
    )


@pytest.mark.parametrize("size", [1, LEAST])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_checkpoint_leaves_so_much_of_the_disk(
    more: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    free = max(ROOM * size, LEAST) + more
    monkeypatch.setattr(system, "disk_usage", lambda folder: usage._replace(free=free))
    written: list[Path] = []
    one: Any = checkpoints.Checkpoints.__new__(checkpoints.Checkpoints)
    one._path = tmp_path / "round"
    checkpoint: Any = SimpleNamespace(size=size, write=written.append)
    if more < 0:
        with pytest.raises(DataError, match="are free on the disk"):
            one._write(checkpoint)
    else:
        one._write(checkpoint)
    assert bool(written) is (more >= 0)


@pytest.mark.parametrize("more", [-1.0, 0.0, 1.0])
def test_a_checkpoint_is_due_after_so_many_seconds_and_so_many_times_its_own(more: float) -> None:
    for took, due in ((0.0, checkpoints.EVERY), (1.0, float(checkpoints.SHARE))):
        written: list[int] = []
        one: Any = checkpoints.Checkpoints.__new__(checkpoints.Checkpoints)
        one._every, one._unsaved, one._took, one._whose = checkpoints.EVERY, 0.0, took, {}
        one.__dict__["_about"] = {}
        one._write_down = lambda about, export: written.append(1)  # noqa: B023
        one.worked(due + more)
        one.write_if_due(lambda: None)
        assert bool(written) is (more >= 0)


# -- the aggregator ----------------------------------------------------------------------------------------------------


@around(MAX_QUEUED_UP)
def test_so_many_messages_wait_for_a_parent_that_does_not_read(many: int) -> None:
    """Then clients wait, or are told to come back; once it reads, there is room."""

    async def fill() -> None:
        up: Any = Upstream(None, Endpoint("nowhere:1"), Backoff())  # type: ignore[arg-type]
        queue: asyncio.Queue[Any] = asyncio.Queue()
        up._set_queue(queue)
        for n in range(many):
            up.send(Alive(n))
        assert up.is_free is up._room.is_set() is (many < MAX_QUEUED_UP)
        for _ in range(2):
            await up._next(queue)
        assert up.is_free and up._room.is_set()

    asyncio.run(fill())


@around(MAX_SUMS_IN_FLIGHT)
def test_so_many_sums_wait_for_the_servers_word(many: int) -> None:
    sent: list[Any] = []
    node: Any = Node.__new__(Node)
    node.core, node.upstream = core_of(), SimpleNamespace(is_up=True, send=sent.append)
    for i in range(many):
        node.core.receive(0, Update(i, 0, np.full(1, 1.0 + i)))
        node.send_sums()
    assert len(sent) == min(many, MAX_SUMS_IN_FLIGHT) and node.core.waiting == many - len(sent)


@pytest.mark.parametrize("late", [-1.0, 0.0, 1.0])
def test_the_server_has_so_many_seconds_to_answer_a_hello(late: float) -> None:
    async def play(loop: asyncio.AbstractEventLoop, move: Any) -> None:
        down: Any = Downstream.__new__(Downstream)
        down._hellos = {}

        def ask(hello: Any, answer: Any) -> bool:
            down._hellos[hello.name] = downstream._PendingHello(hello, answer)
            return True

        down._ask = ask
        from crescendo.network.protocol.wire_messages import Hello

        asked = asyncio.create_task(down._introduce(Hello("a", "0" * 32)))
        await turns()
        move(ANSWER_TIMEOUT + late)
        await turns()
        assert asked.done() is (late >= 0.0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)

    run_virtually(play)


@pytest.mark.parametrize("late", [-1.0, 0.0, 1.0])
def test_after_the_last_round_a_parent_is_waited_for_so_long(late: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(system, "monotonic", lambda: clock[0])

    async def play() -> None:
        over = asyncio.Event()
        down = SimpleNamespace(send_away=lambda why: None)
        node: Any = SimpleNamespace(
            over=over, downstream=down, agreement=object(), after_the_last_round=True, log=lambda event, **facts: None
        )
        up: Any = Upstream(node, Endpoint("nowhere:1"), Backoff(0.0, 0.0))
        tried: list[int] = []

        async def one_stream() -> None:
            tried.append(1)
            clock[0] = 1000.0 + LINGER + late
            if len(tried) > 2:
                over.set()
            raise StreamBroken("the parent is gone")

        up._one_stream = one_stream
        await asyncio.wait_for(up.keep(), 60)
        assert len(tried) == (1 if late > 0 else 3)

    asyncio.run(play())


# -- the authority -----------------------------------------------------------------------------------------------------


@around(LONGEST_NAME)
def test_a_name_in_a_certificate_is_so_long_at_most(many: int) -> None:
    if many > LONGEST_NAME:
        with pytest.raises(UsageError, match="cannot be a name"):
            check_party_name("n" * many)
    else:
        check_party_name("n" * many)


@around(LONGEST_FILE)
def test_the_folder_of_a_name_is_so_long_at_most(many: int) -> None:
    """Letters that are not plain take three signs each there, and dots at the front too."""
    name = "ä" * (many // 6) + "n" * (many % 6)
    if many > LONGEST_FILE:
        with pytest.raises(UsageError, match="too long for a folder"):
            check_party_name(name)
    else:
        check_party_name(name)


@around(LONGEST_HOST)
def test_a_host_is_so_long_at_most(many: int) -> None:
    label = "h" * 60 + "."
    host = (label * 5)[: many - 1] + "h"
    assert len(host) == many
    if many > LONGEST_HOST:
        with pytest.raises(UsageError, match="not a host"):
            check_host(host)
    else:
        check_host(host)


@pytest.mark.parametrize("days", [0, 1, 2, LONGEST_DAYS - 1, LONGEST_DAYS, LONGEST_DAYS + 1])
def test_a_certificate_lasts_so_many_days_at_most(days: int, tmp_path: Path) -> None:
    if not 1 <= days <= LONGEST_DAYS:
        with pytest.raises(UsageError, match="at least a day"):
            make_certificates(tmp_path / "keys", clients=["a"], days=days)
    else:
        make_certificates(tmp_path / "keys", clients=["a"], days=days)


@around(LARGEST_REQUEST)
def test_a_request_is_so_long_at_most(many: int, tmp_path: Path) -> None:
    uri = x509.UniformResourceIdentifier(Identity("client", "alice").uri)
    request = csr(tmp_path / "request", names=[uri])
    request.write_bytes(request.read_bytes().ljust(many, b"\n"))
    if many > LARGEST_REQUEST:
        with pytest.raises(DataError):
            read_request(request)
    else:
        assert read_request(request)[0].name == "alice"


@pytest.mark.parametrize(
    ("bits", "fine"), [(2047, False), (2048, True), (2049, True), (8191, True), (8192, True), (8193, False)]
)
def test_an_rsa_key_has_so_many_bits(bits: int, fine: bool) -> None:
    assert (bits in RSA_BITS) is fine
