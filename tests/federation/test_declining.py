"""What a server learns from a client that declines: terms and policy, never the ledger, the machine or another federation."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import crescendo.network.client.join as join_module
import crescendo.privacy.guarantee as guarantee_module
from crescendo.cli.main import app
from crescendo.errors import CrescendoError, DataError, Refused
from crescendo.federation.policy import Policy
from crescendo.network.aggregator.node import Node
from crescendo.network.client.join import CANNOT
from crescendo.network.protocol.wire_messages import TO_CLIENT, TO_SERVER, Goodbye, Refusal
from crescendo.network.transport.channels import Endpoint
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import PoissonGaussian
from crescendo_dp.ledger.budget import Budget
from tests.cli.joining_clients import ONE, OPEN, joined, played
from tests.conformance.cases import PRIVATE
from tests.network.live_server import LiveServer, live_server
from tests.network.scripted_client import SOON
from tests.storage.ledger_play import cheap

ASKED: dict[str, Any] = {**ONE, "privacy": {"mechanism": "minibatch", **PRIVATE, "records": 200}}
RICH: dict[str, Any] = {"epsilon": 10.0, "delta": 1e-5}
EVENT = PoissonGaussian(0.01, 5.0)


def offering(federation: str, **schedule: Any) -> dict[str, Any]:
    return {
        **ASKED,
        "serve": {**ASKED["serve"], "federation": federation},
        "schedule": {**ASKED["schedule"], **schedule},
    }


async def declined(folder: Path, raw: dict[str, Any], policy: dict[str, Any]) -> tuple[str, str]:
    """What the client says to its user, and what the server hears. Each folder is another client's machine."""
    os.environ["CRESCENDO_REGISTRY"] = str(folder / "registry")
    async with live_server(folder / f"server {len(list(folder.iterdir()))}", raw) as on:
        with pytest.raises(CrescendoError) as refused:
            await joined(on, folder, policy)
        (told,) = on.events("declined")
        return str(refused.value), told["reason"]


def signed(folder: Path, federation: str, terms: str = "ab" * 32, policy: dict[str, Any] = RICH) -> Path:
    (folder / "client").mkdir(exist_ok=True)
    path = folder / "client" / "ledger.sqlite"
    with open_ledger(path, Budget(policy["epsilon"], policy["delta"])) as ledger:
        ledger.sign(federation, terms, "client 0", [EVENT] * 3, 1e-6, cheap)
    return path


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices by Renyi divergence, on both sides: what they are is not what is looked at here."""

    def bound(events: Any, delta: float, **how: Any) -> Any:
        return account(events, delta, quick=True)

    monkeypatch.setattr(guarantee_module, "account", bound)
    monkeypatch.setattr(join_module, "tight", lambda events, delta: bound(events, delta).epsilon)


# -- the words ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_of_the_ledger_reaches_a_server(tmp_path: Path) -> None:
    """Each of these says to the user why, with paths, digests and numbers; to the server all say the same."""

    async def play() -> None:
        signed(tmp_path, "conformance")  # other terms under this id
        said, told = await declined(tmp_path, ASKED, RICH)
        assert "cannot change them" in said and "ab" * 32 in said and told == CANNOT
        said, told = await declined(tmp_path, offering("another"), RICH)
        assert "'conformance' is open" in said and "--close FEDERATION" in said and told == CANNOT
        said, told = await declined(
            tmp_path, offering("one more"), {**RICH, "max_open_federations": 2, "max_offers": 1}
        )
        assert told == CANNOT and "max_offers" in said
        poor = {"epsilon": 0.01, "delta": 1e-5}
        (tmp_path / "poor").mkdir()
        said, told = await declined(tmp_path / "poor", ASKED, poor)
        assert "0.01 left" in said and told == CANNOT
        (tmp_path / "small").mkdir()
        said, told = await declined(tmp_path / "small", ASKED, {"epsilon": 10.0, "delta": 1e-7, "max_delta": 1e-5})
        assert "whole budget is 1e-07" in said and told == CANNOT

    played(play)


@pytest.mark.slow
def test_a_fault_of_the_machine_is_nobodys_business(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        for error in (DataError("/home/ann/secret.sqlite is damaged"), ValueError("/home/ann"), MemoryError()):
            monkeypatch.setattr(Policy, "check_terms", _raising(error))
            async with live_server(tmp_path / type(error).__name__, ASKED) as on:
                with pytest.raises(type(error)):
                    await joined(on, tmp_path, RICH)
                assert [facts["reason"] for facts in on.events("declined")] == [CANNOT]

    played(play)


def _raising(error: BaseException) -> Any:
    def raises(*words: Any) -> None:
        raise error

    return raises


# -- few offers a day --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_server_cannot_bisect_what_is_left_with_plan_after_plan(tmp_path: Path) -> None:
    """Fresh ids or not, and however often the client is started: after so many answers there is no more."""
    heard = []

    async def play() -> None:
        for j in range(3):
            raw = offering(f"f{j // 2}", rounds=40 - j)
            heard.append(await declined(tmp_path / str(j), raw, {**policy(), "max_offers": 2}))
        async with live_server(tmp_path / "fits", offering("f9", rounds=1)) as on:
            with pytest.raises(Refused, match="2 different terms were offered within 24 hours"):
                await joined(on, tmp_path, {**policy(), "max_offers": 2})
            assert [facts["reason"] for facts in on.events("declined")] == [CANNOT]

    def policy() -> dict[str, Any]:
        return {"epsilon": 0.3, "delta": 1e-5, "ledger": str(tmp_path / "one.sqlite")}

    for j in range(3):
        (tmp_path / str(j)).mkdir()
    played(play)
    assert ["left" in said and "24 hours" not in said for said, _ in heard] == [True, True, False]
    assert {told for _, told in heard} == {CANNOT}


@pytest.mark.slow
def test_the_policys_own_limits_come_first_and_ask_the_ledger_nothing(tmp_path: Path) -> None:
    """Else terms beyond max_epsilon, which are never signed off, would be questions that cost a server nothing."""

    async def play() -> None:
        poor = {"epsilon": 0.02, "delta": 1e-5, "max_epsilon": 0.01, "max_offers": 1}
        for j in range(3):
            said, told = await declined(tmp_path, offering(f"f{j}"), poor)
            assert "policy allows max_epsilon = 0.01" in said
            assert "which this client's policy does not allow" in told and "max_epsilon" not in told

    played(play)


@pytest.mark.slow
def test_no_answer_tells_whether_a_federation_is_known_open_or_closed(tmp_path: Path) -> None:
    """Terms that are dear, or that the records do not fit: the answer is the same in every state of the ledger."""
    dear, unfit = {"max_epsilon": 0.01}, {"serve": {**ASKED["serve"], "features": 9, "federation": "guessed"}}
    heard: dict[str, set[str]] = {"dear": set(), "unfit": set()}

    async def play() -> None:
        for state in ("blank", "open elsewhere", "open here", "withdrawn"):
            folder = tmp_path / state
            folder.mkdir()
            if state != "blank":
                path = signed(folder, "elsewhere" if state == "open elsewhere" else "guessed")
            if state == "withdrawn":
                done = CliRunner().invoke(app, ["account", "--ledger", str(path), "--close", "guessed"])
                assert done.exit_code == 0, done.output
            heard["dear"].add((await declined(folder, offering("guessed"), {**RICH, **dear}))[1])
            heard["unfit"].add((await declined(folder, {**ASKED, **unfit}, RICH))[1])

    played(play)
    assert [len(told) for told in heard.values()] == [1, 1] and heard["unfit"] == {CANNOT}


# -- one federation at a time ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fresh_federation_ids_do_not_use_a_budget_up_and_a_closed_one_makes_room(tmp_path: Path) -> None:
    path = signed(tmp_path, "endless")

    async def play() -> None:
        said, _ = await declined(tmp_path, ASKED, RICH)
        assert f"--ledger {path} --close FEDERATION" in said
        done = CliRunner().invoke(app, ["account", "--ledger", str(path), "--close", "endless"])
        assert done.exit_code == 0, done.output
        async with live_server(tmp_path / "again", ASKED) as on:
            assert (await joined(on, tmp_path, RICH)).last == 3
        endless = offering("endless")
        said, told = await declined(tmp_path, endless, RICH)
        assert "can never be joined again" in said and told == CANNOT

    played(play)


def test_the_default_is_one_federation_and_ten_offers() -> None:
    policy = Policy.model_validate(RICH)
    assert (policy.max_open_federations, policy.max_offers) == (1, 10)


# -- who it is ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_servers_cannot_tell_by_the_instance_that_two_names_are_one_client(tmp_path: Path) -> None:
    """And one server knows it again: by way of an aggregator, directly, and after it was started anew at another port."""

    async def play() -> None:
        known = []
        for federation in ("f", "g"):
            raw = {**ONE, "serve": {**ONE["serve"], "federation": federation}}
            async with live_server(tmp_path / federation, raw) as on:
                async with aggregator(on) as port:
                    await joined(SimpleNamespace(port=port), tmp_path, OPEN)  # type: ignore[arg-type]
                known.append(on.service.durable.instances[0])
                await joined(on, tmp_path, OPEN)
            async with live_server(tmp_path / federation, raw) as on:
                await joined(on, tmp_path, OPEN)
                assert on.service.durable.instances == {0: known[-1]} and not on.events("alarm")
        assert known[0] != known[1]

    played(play)


@asynccontextmanager
async def aggregator(on: LiveServer) -> AsyncIterator[int]:
    """The port of an aggregator in this process, below the stage's server."""
    joined_above, stop = asyncio.Event(), asyncio.Event()

    def log(event: str, **facts: Any) -> None:
        if event == "joined":
            joined_above.set()

    node = Node("node", Endpoint(f"127.0.0.1:{on.port}"), log=log)
    running = asyncio.create_task(node.run("127.0.0.1:0", stop))
    await asyncio.wait_for(joined_above.wait(), SOON)
    try:
        yield node.port
    finally:
        stop.set()
        await running


# -- control characters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("evil", ["a\x1b[2Jb", "a\nb: finished", "a\x9b31mb", "a‮b", "a\x07b"])
def test_what_a_peer_writes_steers_no_terminal(evil: str) -> None:
    refusal, goodbye = (
        TO_CLIENT.decode(TO_CLIENT.encode(Refusal(evil))),
        TO_SERVER.decode(TO_SERVER.encode(Goodbye(evil))),
    )
    assert isinstance(refusal, Refusal) and isinstance(goodbye, Goodbye)
    assert refusal.reason.isprintable() and goodbye.reason.isprintable() and refusal.reason[0] == "a"
    assert replace(refusal, reason="") == Refusal("")
