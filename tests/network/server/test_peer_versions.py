"""Versions over real sockets: who is let in, what the status shows, and that no version changes what protects a client."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from crescendo import __version__
from crescendo.config.loading import read
from crescendo.errors import PeerError, Refused
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.aggregator.node import Node
from crescendo.network.client.join import join
from crescendo.network.protocol.versions import OURS, PeerVersion
from crescendo.network.protocol.wire_messages import Hello, Refusal, Welcome
from crescendo.network.server.service import Service
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff
from crescendo.privacy.mechanisms.noise import SeededSource
from crescendo.runs.prepare import load_parts
from tests.conformance.cases import PRIVATE, case
from tests.network.live_server import TWO, LiveServer, live_server, run_async, until

NEWER = PeerVersion("9.0.0", OURS.highest + 1, OURS.highest + 2)
BOTH = PeerVersion("9.0.0", OURS.lowest, OURS.highest + 7)
ALONE = case(
    clients={"count": 1}, schedule={"rounds": 3}, privacy={"mechanism": "minibatch", **PRIVATE, "records": 300}
)


async def status(live: LiveServer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await Endpoint(f"127.0.0.1:{live.port}").status(60))
    return found


@asynccontextmanager
async def aggregator(name: str, port: int) -> AsyncIterator[Node]:
    """An aggregator in this process, once it has joined its parent at ``port``."""
    stop, joined = asyncio.Event(), asyncio.Event()
    node = Node(name, Endpoint(f"127.0.0.1:{port}"), log=lambda event, **_: joined.set() if event == "joined" else None)
    running = asyncio.create_task(node.run("127.0.0.1:0", stop))
    try:
        await asyncio.wait({running, asyncio.create_task(joined.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield node
    finally:
        stop.set()
        await asyncio.gather(running, return_exceptions=True)


def test_the_status_shows_the_version_of_each_client_and_unknown_where_it_sends_none(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, case(clients={"count": 3})) as live:
            await live.join(0, version=BOTH)
            await live.join(1)
            found = await status(live)
            assert (found["version"], found["aggregators"]) == (__version__, [])
            shown = [(client["version"], client["protocol"]) for client in found["clients"]]
            assert shown == [("9.0.0", OURS.highest), ("unknown", 1), (None, None)]
            assert (found["build"], [client["build"] for client in found["clients"]]) == (OURS.build, [None] * 3)
            assert [facts["version"] for facts in live.events("joined")] == ["9.0.0", "unknown"]
            await live.join(2, version=OURS)
            assert (await status(live))["clients"][2]["build"] == OURS.build

    run_async(play)


@pytest.mark.slow
def test_versions_pass_through_aggregators_which_are_shown_at_whatever_depth(tmp_path: Path) -> None:
    async def play() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Service, "version", PeerVersion("8.0.0", OURS.lowest, OURS.highest + 1))
            async with (
                live_server(tmp_path, TWO) as live,
                aggregator("near", live.port) as near,
                aggregator("far", near.port) as far,
                Endpoint(f"127.0.0.1:{far.port}").stream(Hello("client 0", "0" * 32, version=BOTH)) as looking,
            ):
                # the server's program, and what all on the way speak
                shown = PeerVersion("8.0.0", OURS.lowest, OURS.highest)
                assert (await looking.read()).version == shown
                said = Hello("client 0", "0" * 32, live.agreed.federation, live.agreed.digest, version=BOTH)
                async with Endpoint(f"127.0.0.1:{far.port}").stream(said) as stream:
                    welcome = await stream.read()
                    assert isinstance(welcome, Welcome) and welcome.version == shown
                    await live.server.liveness.check()
                    (link,) = live.server._aggregators.links
                    await until(lambda: bool(link.below))
                    found = await status(live)
            client = found["clients"][0]
            assert (client["version"], client["protocol"]) == ("9.0.0", OURS.highest)
            assert found["aggregators"] == [{"name": name, "version": __version__} for name in ("far", "near")]

    run_async(play)


def test_a_client_of_no_common_protocol_is_refused_for_good_with_both_versions(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path, TWO) as live:
            for changes in ({}, {"digest": "", "federation": ""}):  # one that joins, one that asks for the terms
                _, answer = await live.say_hello(0, version=NEWER, **changes)
                assert isinstance(answer, Refusal) and answer.final
                assert answer.reason.startswith('"client 0" runs Crescendo 9.0.0, which speaks protocol')
                assert f"the server runs Crescendo {__version__}" in answer.reason
                assert "; upgrade the server to 9.0.0" in answer.reason
            assert not live.service.durable.instances

    run_async(play)


def test_who_cannot_prove_its_name_does_not_learn_the_version(tmp_path: Path) -> None:
    def nobody(name: str, token: str, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        raise PeerError("a stranger")

    async def play() -> None:
        async with live_server(tmp_path, TWO, admit=nobody) as live:
            _, answer = await live.say_hello(0, version=NEWER)
            assert answer == Refusal("a stranger", final=True)

    run_async(play)


def joining(folder: Path, port: int, **changes: Any) -> Any:
    """The only client of ``ALONE``, with noise from a seed."""
    config, policy = read(ALONE), Policy.model_validate({"epsilon": 100.0, "delta": 1e-5})
    dataset, (rows,) = load_parts(config)
    folder.mkdir()
    labels = np.array(dataset.classes)[dataset.train.y[rows].astype(int)]
    np.savez(folder / "part.npz", x=dataset.train.x[rows], y=labels)
    place, source = Endpoint(f"127.0.0.1:{port}"), RecordSource(str(folder / "part.npz"))
    chosen: dict[str, Any] = {"backoff": Backoff(0.01, 0.1), "randomness": lambda me: SeededSource(7, me), **changes}
    return asyncio.to_thread(join, place, "client 0", source, folder / "state", policy, **chosen)


@pytest.mark.slow
def test_a_client_declines_a_server_of_no_common_protocol_that_would_let_it_in(tmp_path: Path) -> None:
    async def play() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Service, "version", NEWER)
            patch.setattr(Hello, "check_version", lambda *_: None)
            async with live_server(tmp_path / "served", ALONE) as live:
                with pytest.raises(Refused, match=r"upgrade this client to 9\.0\.0"):
                    await joining(tmp_path / "client", live.port)
                await until(lambda: bool(live.events("declined")))
                assert live.events("declined")[0]["reason"].startswith("the server runs Crescendo 9.0.0")

    run_async(play)


def test_an_aggregator_of_no_common_protocol_ends_with_both_versions(tmp_path: Path) -> None:
    async def play() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Service, "version", NEWER)
            async with live_server(tmp_path, TWO) as live:
                with pytest.raises(Refused, match=r'aggregator "node" runs .* upgrade aggregator "node" to 9\.0\.0'):
                    async with aggregator("node", live.port):
                        raise AssertionError("it was let in")

    run_async(play)


# -- a server cannot weaken a client by what it says of itself


def kept(ledger: Path) -> list[tuple[str, str]]:
    """What a ledger holds, but for what is drawn or dated anew for each."""
    with sqlite3.connect(ledger) as db:
        rows = db.execute("select kind, body from entries order by seq").fetchall()
    drawn = ("instance", "at", "when", "time")
    return [
        (kind, json.dumps({key: value for key, value in json.loads(body).items() if key not in drawn}))
        for kind, body in rows
    ]


@pytest.mark.slow
def test_whatever_version_a_server_claims_a_private_client_signs_charges_and_sends_the_same(tmp_path: Path) -> None:
    """Charges have the SHA-256 of the bytes that were sent, so that the ledger tells all of it."""
    claims = [OURS, PeerVersion("0.0.1", 1, 1), PeerVersion("99.0", 1, 2**32 - 1)]
    found = []
    for number, claim in enumerate(claims):

        async def play(folder: Path = tmp_path / str(number), claim: PeerVersion = claim) -> None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Service, "version", claim)
                patch.setenv("CRESCENDO_REGISTRY", str(folder / "registry"))  # each is another machine
                async with live_server(folder / "served", ALONE) as live:
                    ended = await joining(folder / "client", live.port)
                    assert ended.last == live.agreed.terms.rounds - 1
                    assert np.array_equal(ended.model, live.service.durable.model)

        run_async(play)
        found.append(kept(tmp_path / str(number) / "client" / "state" / "ledger.sqlite"))
    assert found[0] == found[1] == found[2]
    assert {kind for kind, _ in found[0]} >= {"budget", "sign", "charge"}
