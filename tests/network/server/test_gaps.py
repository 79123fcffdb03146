"""Acknowledgements do not grow with the run, whatever a client leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from crescendo.core.messages import Settled
from crescendo.network.protocol.wire_messages import Refusal
from crescendo.network.server import service
from crescendo.network.server.service import NEVER_CAME
from crescendo.storage.journal.journal_entries import Absent
from tests.conformance.cases import case
from tests.network.live_server import ONES, live_server, run_async

ROUNDS = 12
LONG = case(
    clients={"count": 2},
    schedule={"rounds": ROUNDS, "sizes": {"kind": "constant", "size": 10}, "wait": {"rounds": 1}},
)


@pytest.mark.slow
def test_rounds_that_a_client_says_it_sent_and_never_sends_become_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST_OVERTAKING", 3)

    async def play() -> None:
        async with live_server(tmp_path, LONG) as on:
            await on.join(0)
            await on.server.put(0, Absent(0))
            other = await on.join(1)
            for i in range(2):
                await other.send(i, ONES)
            await other.k(2)
            liar, longest = await on.join(0, last=1), 0
            for i in range(2, ROUNDS):
                await liar.send(i, ONES)
                await other.send(i, ONES)
                yours = (await liar.k(i + 1)).yours
                assert yours is not None
                longest = max(longest, len(yours.beyond))
            assert on.service.durable.settled(0) == Settled(ROUNDS)
            assert longest <= 3 + 2, "an acknowledgement names the rounds that overtook"
            (said,) = [line for line in on.events("void") if line["reason"] == NEVER_CAME]
            assert (said["client"], said["rounds"], said["count"]) == (on.agreed.names[0], "0-1", 2)

    run_async(play)


@pytest.mark.slow
def test_a_client_hears_which_of_its_rounds_became_void(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MOST_OVERTAKING", 1)

    async def play() -> None:
        async with live_server(tmp_path, LONG) as on:
            await on.join(0)
            await on.server.put(0, Absent(0))
            other = await on.join(1)
            await other.send(0, ONES)
            await other.k(1)
            liar = await on.join(0, last=0)
            for i in range(1, 5):
                await liar.send(i, ONES)
                await other.send(i, ONES)
                await other.k(i + 1)
            assert await liar.hear_until(Refusal) == Refusal(NEVER_CAME, False, 0)

    run_async(play)
