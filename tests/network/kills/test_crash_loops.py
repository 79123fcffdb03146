"""A client that crashes as it joins and is started again at once, as a service manager does: the others finish."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from crescendo.cli.show.show_status import _waiting
from crescendo.network.transport.channels import Endpoint
from tests.network.final_checks import applied_of, entries_of
from tests.network.processes import CONTEXT, Client, Federation, federation, run_client
from tests.network.random_kills import long_case

HOLD = 2.0  # seconds
ROUNDS = 30
PIECE = 0.1  # seconds that a round takes at most: the others are still at work when no round waits for it any more


def run_crashing(client: Client) -> None:
    """The body of a client's process that dies when the server has let it in."""
    from crescendo.network.client.participant import Participant

    def dies(self: Participant, start: int) -> None:
        os._exit(0)

    with patch.object(Participant, "welcomed", dies):
        run_client(client)


def three(folder: Path) -> Federation:
    raw = long_case("none", ROUNDS)
    raw["clients"] = {**raw.get("clients", {}), "count": 3}
    raw["serve"].update(absent_after=HOLD, hold_after=HOLD, hold_least=HOLD)
    return federation(folder, raw)


def status(made: Federation) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(asyncio.run(Endpoint(f"127.0.0.1:{made.port}").status(60)))
    return found


@pytest.mark.slow
def test_the_others_finish_while_one_client_crashes_as_it_joins(tmp_path: Path) -> None:
    crashes, flapping = 0, list[str]()
    with three(tmp_path) as made:
        made.longest_piece = PIECE
        made.start_server()
        for c in (1, 2):
            made.start_client(c)
        made.start_client(0, run_crashing)
        while any(made.clients[c].is_alive() for c in (1, 2)):
            if not made.clients[0].is_alive():
                crashes += 1
                said = _waiting(status(made))
                flapping += [line for line in said if "client 0" in line and "flapping" in line]
                made.start_client(0, run_crashing)
            CONTEXT.Event().wait(0.05)
        made.join(made.clients[1], made.clients[2])
        assert [made.clients[c].exitcode for c in (1, 2)] == [0, 0], made.logs()
        events = [facts["event"] for facts in made.events("server.log")]
        for c in (1, 2):
            assert len(applied_of(entries_of(made), c)) == ROUNDS
        assert not applied_of(entries_of(made), 0)
        print(f"{crashes} crashes; {events.count('held_up')} held_up, {events.count('absent')} absent; {flapping[-1:]}")
        assert 1 <= events.count("held_up") <= 2 and crashes > 3
        assert flapping, "status says that it is flapping"
