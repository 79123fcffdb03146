"""What a server says about the end of a run is true, also when it is started after it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from crescendo.config.loading import read
from crescendo.network.server.serve import Listening
from crescendo.runs.serving import serve_file
from tests.cli.joining_clients import ONE, OPEN, joined, played
from tests.network.live_server import ONE_ROUND, LiveServer, live_server, to_the_end


async def served_again(state: Path, raw: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Started on a run that is over, without waiting for anybody: its log, by event."""
    lines: dict[str, dict[str, Any]] = {}
    where = Listening("127.0.0.1:0")
    await asyncio.to_thread(
        serve_file, read(raw), where, state, linger=0.0, log=lambda event, **facts: lines.update({event: facts})
    )
    return lines


def test_a_server_started_after_the_end_does_not_say_that_nobody_has_heard(tmp_path: Path) -> None:
    async def play() -> None:
        made: LiveServer
        async with live_server(tmp_path / "served" / "journal", ONE) as made:
            await joined(made, tmp_path, OPEN)
            assert made.server.untold() == []
        lines = await served_again(tmp_path / "served", ONE)
        for event in ("lingering", "end_not_confirmed"):
            assert lines[event]["clients"] == ["client 0"]
            assert "may have heard of it then" in lines[event]["why"]
        assert "one that has its last model needs nothing" in lines["end_not_confirmed"]["what_to_do"]

    played(play)


def test_a_server_that_sees_the_end_names_who_has_not_confirmed_it(tmp_path: Path) -> None:
    from crescendo.network.server.serve import _until_over

    async def play() -> None:
        lines: dict[str, dict[str, Any]] = {}
        async with live_server(tmp_path, ONE_ROUND) as made:
            over = asyncio.create_task(
                _until_over(
                    made.server,
                    asyncio.Event(),
                    lambda event, **facts: lines.update({event: facts}),
                    0.0,
                    lambda: None,
                )
            )
            await asyncio.sleep(0)  # it begins to wait before the end comes
            await to_the_end(made)
            await over
        assert lines["end_not_confirmed"]["clients"] == ["client 0", "client 1"]
        assert "have not confirmed the end" in lines["end_not_confirmed"]["why"]

    played(play)
