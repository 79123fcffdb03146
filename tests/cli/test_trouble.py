"""Connections that fail or break: what no attempt can mend ends the first contact, all else is tried again, in words."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from crescendo.cli.addresses import listening, place
from crescendo.network.aggregator.node import aggregate
from crescendo.network.authority.certificates import make_certificates
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.error_translation import CONNECTING, UNRECOVERABLE
from crescendo.network.transport.retry import Backoff, Unreachable, Unrecoverable
from crescendo.network.transport.security.authenticator import Authenticator
from crescendo.network.transport.security.party_folder import PartyFolder
from tests.cli.joining_clients import ONE, Told, joins, nowhere, played
from tests.conformance.cases import case
from tests.network.live_server import live_server
from tests.network.processes import free_port
from tests.network.scripted_client import SOON

TWO = case(clients={"count": 2}, schedule=ONE["schedule"])


def secured(keys: Path) -> dict[str, Any]:
    return {
        "credentials": PartyFolder(keys / "server").server_credentials(),
        "admit": Authenticator.of(keys / "server"),
    }


def made(folder: Path, **how: Any) -> Path:
    make_certificates(folder, clients=["client 0", "client 1"], aggregators=["edge"], **how)
    return folder


def no_second_attempt(event: str, **facts: Any) -> None:
    assert event != "disconnected", facts


def mine(keys: Path) -> Path:
    return keys / "clients" / "client 0"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("served", "shown", "reason"),
    [
        ("keys", "others", "not of the authority in your --certs folder"),
        ("elsewhere", "elsewhere", "its certificate is for other names and addresses"),
        (None, "keys", "it does not speak TLS"),
    ],
)
def test_what_no_attempt_can_mend_ends_the_first_contact(
    served: str | None, shown: str, reason: str, tmp_path: Path
) -> None:
    """Of a client and of an aggregator, neither of which would give up by itself."""
    for name in ("keys", "others"):
        made(tmp_path / name)
    made(tmp_path / "elsewhere", hosts=["server.example"])

    async def play() -> None:
        how = {} if served is None else secured(tmp_path / served)
        async with live_server(tmp_path / "served", ONE, **how) as on:
            address, log = f"127.0.0.1:{on.port}", Told()
            with pytest.raises(Unrecoverable, match=reason):
                await joins(place(address, mine(tmp_path / shown)), tmp_path, log, Backoff(0.01, 0.05, give_up=SOON))
            assert [line["event"] for line in log.lines] == []
            certs = tmp_path / shown / "aggregators" / "edge"
            there, here = place(address, certs), listening("127.0.0.1:0", certs)
            with pytest.raises(Unrecoverable, match=reason):
                await asyncio.to_thread(
                    aggregate, "edge", there, here, log=no_second_attempt, backoff=Backoff(0.01, 0.05)
                )

    played(play)


@pytest.mark.slow
def test_after_the_first_success_another_certificate_is_waited_out(tmp_path: Path) -> None:
    """The client is sound and has work to send; whoever put the wrong key in place will mend it."""
    keys, others, port = made(tmp_path / "keys"), made(tmp_path / "others"), free_port()

    async def play() -> None:
        log = Told()
        async with live_server(tmp_path / "served", TWO, port=port, **secured(keys)):
            there = place(f"127.0.0.1:{port}", mine(keys))
            client = joins(there, tmp_path, log, Backoff(0.01, 0.05))
            await log.until("joined")
        log.lines.clear()
        async with live_server(tmp_path / "served", TWO, port=port, **secured(others)):
            while "not of the authority" not in (await log.until("disconnected"))["reason"]:
                log.lines.clear()
        log.lines.clear()
        async with live_server(tmp_path / "served", TWO, port=port, **secured(keys)):
            there = place(f"127.0.0.1:{port}", keys / "clients" / "client 1")
            (tmp_path / "other").mkdir()
            other = joins(there, tmp_path / "other", log, Backoff(0.01, 0.05), name="client 1")
            assert [(await one).last for one in (client, other)] == [3, 3]

    played(play)


def test_a_server_that_is_not_there_is_described_in_words(tmp_path: Path) -> None:
    async def play() -> None:
        log = Told()
        with pytest.raises(
            Unreachable, match=r"gave up after \d+ s .* \(nothing is listening there; .*; what is done is kept"
        ) as e:
            await joins(nowhere(), tmp_path, log, Backoff(0.01, 0.01, 0.05))
        assert "ipv4:" not in str(e.value) + str(log.lines)

    played(play)


def test_a_server_that_stops_sends_its_clients_away_and_refuses_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        log = Told()
        async with live_server(tmp_path / "served", TWO) as on:
            client = joins(Endpoint(f"127.0.0.1:{on.port}"), tmp_path, log, Backoff(0.01, 0.01, 0.05))
            await log.until("joined")
        with pytest.raises(Unreachable):
            await client
        assert (await log.until("sent_away"))["reason"] == "the server stops; come back later"
        assert "refused" not in [line["event"] for line in log.lines]

    played(play)


def test_every_hopeless_word_has_a_meaning() -> None:
    assert set(UNRECOVERABLE) <= set(CONNECTING)
