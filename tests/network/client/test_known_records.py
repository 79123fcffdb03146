"""One budget for the same records, whatever the folder: a second ledger for them is refused before any server is asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import crescendo.network.client.join as join_module
import crescendo.privacy.guarantee as guarantee_module
from crescendo.errors import UsageError
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.client.join import Joined, join
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo_dp.accounting.epsilon import account
from tests.cli.joining_clients import ONE, played, records
from tests.conformance.cases import PRIVATE
from tests.network.live_server import LiveServer, live_server

ASKED: dict[str, Any] = {**ONE, "privacy": {"mechanism": "minibatch", **PRIVATE, "records": 200}}
RICH: dict[str, Any] = {"epsilon": 10.0, "delta": 1e-5}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices by Renyi divergence: what they are is not what is looked at here."""

    def bound(events: Any, delta: float, **how: Any) -> Any:
        return account(events, delta, quick=True)

    monkeypatch.setattr(guarantee_module, "account", bound)
    monkeypatch.setattr(join_module, "tight", lambda events, delta: bound(events, delta).epsilon)


async def joined(on: LiveServer, folder: Path, state: str, log: list[dict[str, Any]], **policy: Any) -> Joined:
    return await asyncio.to_thread(
        join,
        Endpoint(f"127.0.0.1:{on.port}"),
        "client 0",
        RecordSource(str(records(folder))),
        folder / state,
        Policy.model_validate({**RICH, **policy}),
        log=lambda event, **facts: log.append({"event": event, **facts}),
        backoff=Backoff(0.02, 0.2),
    )


def another(federation: str) -> dict[str, Any]:
    return {**ASKED, "serve": {**ASKED["serve"], "federation": federation}}


def test_two_state_folders_are_one_budget(tmp_path: Path) -> None:
    log: list[dict[str, Any]] = []

    async def play() -> None:
        async with live_server(tmp_path / "first server", another("first")) as on:
            await joined(on, tmp_path, "a", log)
        async with live_server(tmp_path / "second server", another("second")) as on:
            with pytest.raises(UsageError) as refused:
                await joined(on, tmp_path, "b", log)
            assert not on.events("declined") and not on.events("joined"), "the server heard of it"
            said = str(refused.value)
            assert str(tmp_path / "a" / "ledger.sqlite") in said and "crescendo account --register" in said
            assert "\n" not in said and ". " not in said
            assert not (tmp_path / "b" / "ledger.sqlite").exists(), "a refused client has begun a ledger"
            kept = str(tmp_path / "a" / "ledger.sqlite")  # what the sentence says to do
            assert (await joined(on, tmp_path, "b", log, ledger=kept)).federation == "second"

    played(play)
    with open_ledger(tmp_path / "a" / "ledger.sqlite", read_only=True) as ledger:
        assert [one["federation"] for one in ledger.summary()["federations"]] == ["first", "second"]
    assert not [line for line in log if line["event"] == "registered"], "a ledger that begins is no news"
