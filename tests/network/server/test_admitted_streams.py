"""Keys, tokens and revocations change while a federation runs: nobody is started again, and nobody stays who should not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from crescendo import system
from crescendo.cli.addresses import listening, place
from crescendo.errors import Refused
from crescendo.network.aggregator.node import Node
from crescendo.network.authority.certificate_requests import request_certificate, sign_request
from crescendo.network.authority.certificates import make_certificates
from crescendo.network.authority.revoking import revoke
from crescendo.network.protocol.wire_messages import Refusal
from crescendo.network.server import admitted_streams
from crescendo.network.server.admitted_streams import DAY, EXPIRED, OWN, AdmittedStreams
from crescendo.network.transport.retry import Backoff, Unreachable
from crescendo.network.transport.security.authenticator import everybody
from crescendo.network.transport.security.certificate_file import shown_certificate
from crescendo.network.transport.security.identity import Identity
from tests.cli.joining_clients import Told, joins, played
from tests.conformance.cases import case
from tests.network.live_server import LiveServer, live_server, until

THREE = case(clients={"count": 3}, schedule={"rounds": 4, "sizes": {"kind": "constant", "size": 50}})
SOON = Backoff(0.01, 0.05, give_up=0.1)

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitted_streams, "POLL", 0.01)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return made(tmp_path / "keys")


def made(keys: Path, **how: Any) -> Path:
    make_certificates(keys, clients=["client 0", "client 1"], aggregators=["edge"], **how)
    return keys


def mine(keys: Path, c: int = 0) -> Path:
    return keys / "clients" / f"client {c}"


@asynccontextmanager
async def served(keys: Path, folder: Path) -> AsyncIterator[LiveServer]:
    """A federation of three whose last client never comes: nobody gets far, and everybody stays."""
    where = listening("127.0.0.1:0", keys / "server")
    async with live_server(folder / "served", THREE, credentials=where.credentials, admit=where.admit) as live:
        yield live


def joining(live: LiveServer, keys: Path, folder: Path, c: int = 0, log: Any = None) -> asyncio.Task[Any]:
    (folder / str(c)).mkdir(exist_ok=True)
    there = place(f"127.0.0.1:{live.port}", mine(keys, c))
    return joins(there, folder / str(c), log or Told(), SOON, name=f"client {c}")


async def here(live: LiveServer, clients: int = 1, times: int = 1) -> None:
    """So many clients have joined, so many times in all, and their streams are looked after."""
    await until(lambda: len(live.events("joined")) >= times)
    await until(lambda: len(live.server._admitted._open) == len(live.server.sessions) == clients)


def test_a_revoked_client_s_stream_ends_and_it_does_not_get_in_again(keys: Path, tmp_path: Path) -> None:
    async def play() -> None:
        async with served(keys, tmp_path) as live:
            log = Told()
            gone, stays = joining(live, keys, tmp_path, 0, log), joining(live, keys, tmp_path, 1)
            await here(live, 2)
            revoke(keys, "client 0")
            with pytest.raises(Refused, match="the certificate that was shown is revoked"):
                await gone
            assert [line["event"] for line in log.lines][-2:] == ["sent_away", "refused"]
            assert list(live.server.sessions) == [1]
            assert [facts["ended"] for facts in live.events("keys_changed")] == [1]
        with pytest.raises(Unreachable):
            await stays

    played(play)


def test_a_stream_ends_when_the_certificate_expires_that_was_shown(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS looked at it when the stream began, and a stream lasts as long as the run."""
    later = 0.0
    now = system.time
    monkeypatch.setattr(system, "time", lambda: now() + later)

    async def play() -> None:
        nonlocal later
        async with served(keys, tmp_path) as live:
            client = joining(live, keys, tmp_path)
            await here(live)
            assert not live.events("certificate_expires") and not live.events("certificate_expired")
            later = 84 * DAY
            await until(lambda: {facts["party"] for facts in live.events("certificate_expires")} == {"client 0", OWN})
            assert len(live.server.sessions) == 1
            later = 91 * DAY
            await until(lambda: bool(live.events("certificate_expired")))
            later = 0.0  # it has a new one
            await here(live, times=2)
            assert not client.done()
        with pytest.raises(Unreachable):
            await client

    played(play)


def test_an_expiry_is_said_once_a_day_from_a_week_before_and_ends_a_stream_once() -> None:
    said, ended = list[dict[str, Any]](), list[Refusal]()
    streams = AdmittedStreams(everybody, lambda event, **facts: said.append({"event": event, **facts}))
    with (
        streams.counted(lambda: None, ended.append, "alice", expires=100 * DAY),
        streams.counted(lambda: None, ended.append, "bob"),
    ):
        for day in (92.9, 93.0, 93.5, 94.1, 99.9, 100.0, 100.1):
            streams.check_expiry(day * DAY, None)
    assert [(line["event"], line.get("days")) for line in said] == [
        ("certificate_expires", 7.0),
        ("certificate_expires", 5.9),
        ("certificate_expires", 0.1),
        ("certificate_expired", None),
    ]
    assert ended == [EXPIRED] and {line["party"] for line in said} == {"alice"}


def test_a_client_that_renewed_its_certificate_comes_back_with_it_when_the_old_one_is_revoked(
    keys: Path, tmp_path: Path
) -> None:
    async def play() -> None:
        async with served(keys, tmp_path) as live:
            client = joining(live, keys, tmp_path)
            await here(live)
            asked = request_certificate(mine(keys), Identity("client", "client 0"))
            signed = sign_request(keys, asked.path, renew=True)  # into the client's own folder: it lies on this machine
            assert signed.before is not None
            revoke(keys, f"{signed.before:x}")
            await here(live, times=2)
            assert live.events("disconnected") and not client.done()
        with pytest.raises(Unreachable):
            await client

    played(play)


def test_a_server_shows_its_new_certificate_and_trusts_a_new_authority_without_a_restart(
    keys: Path, tmp_path: Path
) -> None:
    others = made(tmp_path / "others")

    async def status(live: LiveServer, folder: Path) -> Any:
        return json.loads(await place(f"127.0.0.1:{live.port}", folder).status(60))

    async def play() -> None:
        async with served(keys, tmp_path) as live:
            address, client = f"127.0.0.1:{live.port}", joining(live, keys, tmp_path)
            await here(live)
            before = await asyncio.to_thread(shown_certificate, address)
            (keys / "server" / "ca.pem").unlink()
            make_certificates(keys)  # as docs/deploy.md says
            assert await asyncio.to_thread(shown_certificate, address) != before
            both = (keys / "authority" / "ca.pem").read_bytes() + (others / "authority" / "ca.pem").read_bytes()
            (mine(others) / "ca.pem").write_bytes(both)
            with pytest.raises(grpc.aio.AioRpcError):
                await status(live, mine(others))
            (keys / "server" / "ca.pem").write_bytes(both)
            assert (await status(live, mine(others)))["k"] == 0
            (keys / "server" / "cert.pem").write_bytes(b"half a copy")
            await until(lambda: bool(live.events("keys_unusable")))
            assert (await status(live, mine(others)))["k"] == 0  # the last good one stays in use
            assert list(live.server.sessions) == [0] and not client.done()
        with pytest.raises(Unreachable):
            await client

    played(play)


def test_a_token_that_is_struck_off_ends_its_stream_and_a_new_one_is_taken_up(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys", tokens=True)

    async def play() -> None:
        async with served(keys, tmp_path) as live:
            gone, stays = joining(live, keys, tmp_path, 0), joining(live, keys, tmp_path, 1)
            await here(live, 2)
            book = keys / "server" / "tokens.json"
            whole = book.read_bytes()
            book.write_bytes(whole[:-20])  # as an editor may leave it for a moment
            await until(lambda: bool(live.events("keys_unusable")))
            await until(lambda: bool(live.events("keys_changed")))
            assert sorted(live.server.sessions) == [0, 1]
            book.write_bytes(whole)
            revoke(keys, "client 0")
            with pytest.raises(Refused, match=r"no certificate or token of .* was shown"):
                await gone
            (mine(keys, 1) / "ca.pem").unlink()
            made(keys)  # a new token for client 1, in its own folder
            await here(live, times=3)
            assert not stays.done()
        with pytest.raises(Unreachable):
            await stays

    played(play)


def test_a_revoked_aggregator_ends(keys: Path, tmp_path: Path) -> None:
    async def play() -> None:
        async with served(keys, tmp_path) as live:
            log, parent = Told(), place(f"127.0.0.1:{live.port}", keys / "aggregators" / "edge")
            node = Node("edge", parent, backoff=SOON, log=log)
            running = asyncio.create_task(node.run("127.0.0.1:0", asyncio.Event()))
            await log.until("joined")
            revoke(keys, "edge")
            with pytest.raises(Refused, match="revoked"):
                await running

    played(play)


def test_an_aggregator_ends_the_streams_of_its_own_revoked_clients(keys: Path, tmp_path: Path) -> None:
    async def play() -> None:
        async with served(keys, tmp_path) as live:
            log, edge, stop = Told(), keys / "aggregators" / "edge", asyncio.Event()
            where, parent = listening("127.0.0.1:0", edge), place(f"127.0.0.1:{live.port}", edge)
            node = Node("edge", parent, where.admit, SOON, log)
            running = asyncio.create_task(node.run(where.address, stop, where.credentials))
            await log.until("joined")
            (tmp_path / "0").mkdir()
            there = place(f"127.0.0.1:{node.port}", mine(keys))
            client = joins(there, tmp_path / "0", Told(), SOON, name="client 0")
            await until(lambda: bool(live.events("joined")))
            revoke(keys, "client 0")
            with pytest.raises(Refused, match="revoked"):
                await client
            stop.set()
            await running

    played(play)
