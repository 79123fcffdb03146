"""`join` when the server is not there: before it starts, in the middle, and after the end."""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crescendo.cli.addresses import place
from crescendo.cli.main import app
from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.errors import Refused, UsageError
from crescendo.federation.agreement import build_terms
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.authority.certificates import make_certificates
from crescendo.network.client.join import join
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff, Unreachable
from crescendo.network.transport.security.authenticator import Authenticator
from crescendo.network.transport.security.party_folder import PartyFolder
from crescendo.storage.ledger.open_ledger import open_ledger
from tests.cli.joining_clients import ONE, OPEN, Told, begun, joined, joins, nowhere, played, records
from tests.network.live_server import live_server
from tests.network.processes import free_port

# -- after the end


@pytest.mark.slow
def test_a_client_whose_folder_is_complete_needs_no_server_to_end(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path / "served", ONE) as on:
            first = await joined(on, tmp_path, OPEN)
        log = Told()
        again = await joins(nowhere(), tmp_path, log)
        assert (again.federation, again.rounds, again.last) == (first.federation, 4, 3)
        assert np.array_equal(again.model, first.model)
        assert [line["event"] for line in log.lines] == ["finished"], "it asked more than once"
        assert "this folder has all of it" in log.lines[0]["why"]

    played(play)


@pytest.mark.slow
def test_the_command_says_so_with_exit_code_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with live_server(tmp_path / "served", ONE) as on:
            await joined(on, tmp_path, OPEN)

    played(play)
    monkeypatch.chdir(tmp_path)
    Path("policy.toml").write_text('mechanisms = ["none"]')
    words = ["--data", "mine.npz", "--as", "client 0", "--state", "client", "--policy", "policy.toml", "--json"]
    found = CliRunner().invoke(app, ["join", f"127.0.0.1:{free_port()}", *words])
    assert found.exit_code == 0 and json.loads(found.stdout)["finished"] is True, found.output


@pytest.mark.slow
@pytest.mark.parametrize("what", ["another name", "no model", "another federation was begun"])
def test_a_folder_that_may_have_more_to_do_waits_for_the_server(what: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path / "served", ONE) as on:
            await joined(on, tmp_path, OPEN)
        if what == "no model":
            (tmp_path / "client" / "model.npz").write_bytes(b"")
        if what == "another federation was begun":
            agreed = build_terms(terms_text(read({**ONE, "serve": {**ONE["serve"], "federation": "next"}})))
            with open_ledger(tmp_path / "client" / "ledger.sqlite") as ledger:
                plan = agreed.plan(0)
                ledger.sign("next", agreed.digest, "client 0", plan, 1e-9, lambda events, delta: float("inf"))
        name = "mallory" if what == "another name" else "client 0"
        source, allowed = RecordSource(str(records(tmp_path))), Policy.model_validate(OPEN)
        with pytest.raises(Unreachable):
            await asyncio.to_thread(
                join, nowhere(), name, source, tmp_path / "client", allowed, backoff=Backoff(0.01, 0.01, 0.05)
            )

    played(play)


@pytest.mark.slow
def test_a_complete_folder_takes_part_in_the_next_federation(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path / "served", ONE) as on:
            await joined(on, tmp_path, OPEN)
        following = {**ONE, "serve": {**ONE["serve"], "federation": "next"}}
        async with live_server(tmp_path / "next", following) as on:
            result = await joined(on, tmp_path, OPEN)
            assert result.federation == "next" and on.service.durable.finished

    played(play)


# -- before the start, and in the middle


def test_a_client_gives_up_when_it_is_told_to_and_goes_on_later(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path / "served", ONE) as on:
            await begun(on, tmp_path)
            with pytest.raises(Unreachable, match="the same command goes on"):
                await joins(nowhere(), tmp_path, Told(), Backoff(0.01, 0.01, 0.05))
            assert (await joined(on, tmp_path, OPEN)).last == 3

    played(play)


def test_a_client_gives_up_in_the_middle_too(tmp_path: Path) -> None:
    """The server counts from when it was last there, so that a long stream is not held against it."""
    from tests.conformance.cases import case

    two = case(clients={"count": 2}, schedule=ONE["schedule"])

    async def play() -> None:
        log = Told()
        async with live_server(tmp_path / "served", two) as on:
            client = joins(Endpoint(f"127.0.0.1:{on.port}"), tmp_path, log, Backoff(0.01, 0.01, 0.05))
            await log.until("joined")
        with pytest.raises(Unreachable):
            await client

    played(play)


@pytest.mark.parametrize("seconds", ["nan", "-1"])
def test_giving_up_takes_a_number_of_seconds(seconds: str) -> None:
    with pytest.raises(UsageError, match="--give-up-after must be a number of seconds"):
        Backoff(give_up=float(seconds))


@pytest.mark.slow
def test_a_pinned_server_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    """And one that shows another certificate is refused for good."""
    keys, port = tmp_path / "keys", free_port()
    make_certificates(keys, clients=["client 0"])
    pem = (keys / "server" / "cert.pem").read_text()
    pin = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
    address, certs = f"127.0.0.1:{port}", keys / "clients" / "client 0"

    async def play() -> None:
        allowed, log = Policy.model_validate({**OPEN, "server": pin}), Told()
        client = joins(place(address, certs, allowed), tmp_path, log, server=pin)
        await log.until("unreachable")
        how = {
            "credentials": PartyFolder(keys / "server").server_credentials(),
            "admit": Authenticator.of(keys / "server"),
        }
        async with live_server(tmp_path / "served", ONE, port=port, **how):
            assert (await client).last == 3
            wrong = Policy.model_validate({**OPEN, "server": "0" * 64})
            with pytest.raises(Refused, match="whose certificate has the SHA-256"):
                await joins(place(address, certs, wrong), tmp_path, Told())

    played(play)
