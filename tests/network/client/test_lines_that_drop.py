"""A real client whose line is cut at any byte: the run is that of an uncut line, and what was sent is not sent again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.client.join import join
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff
from crescendo.objectives import ModelFile
from tests.cli.joining_clients import OPEN, records
from tests.network.final_checks import applied_of, entries_in
from tests.network.live_server import live_server, run_async
from tests.network.proxy import CutOnce
from tests.network.scripted_client import SOON
from tests.network.small_parts import use_small_parts
from tests.network.wide_model import KIND, wide

NUMBERS, ROUNDS = 2000, 3  # 8,000 bytes: parts of 2,048, small ones of 256
SIZE = 4 * NUMBERS
pytestmark = pytest.mark.slow


def run_over(folder: Path, way: str, after: int) -> tuple[bytes, CutOnce, dict[int, str]]:
    """One client's run over a line that is cut once: the last model, the line, and what was applied."""
    found = list[Any]()

    async def play() -> None:
        async with (
            live_server(folder / "served", wide(NUMBERS, ROUNDS, clients=1)) as on,
            CutOnce(on.port, way, after) as line,
        ):
            source, policy = RecordSource(str(records(folder))), Policy.model_validate(OPEN)
            model = ModelFile.read(KIND)
            where, backoff = Endpoint(f"127.0.0.1:{line.port}"), Backoff(0.01, 0.05, give_up=SOON)

            def take_part() -> Any:
                return join(where, "client 0", source, folder / "c", policy, model=model, backoff=backoff)

            done = await asyncio.to_thread(take_part)
            assert done.last == ROUNDS - 1
            found.extend([on.service.durable.model.tobytes(), line])

    run_async(play)
    return found[0], found[1], applied_of(entries_in(folder / "served"), client=0)


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, int], dict[int, str]]:
    with pytest.MonkeyPatch.context() as patch:
        use_small_parts(patch, 2048, 256)
        model, line, applied = run_over(tmp_path_factory.mktemp("uncut"), "down", 1 << 40)
    return model, line.carried, applied


TALK = 3_000  # bytes of a stream's beginning at most: connection, hello, welcome and terms


@pytest.mark.parametrize("after", [0, 1, 3_000, 5_000, 7_000, 9_500, 10_001, 12_000, 13_500, 19_000, 26_000, 35_000])
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_cut_at_any_byte_changes_nothing_and_costs_a_vector_at_most(
    way: str, after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uncut: Any
) -> None:
    use_small_parts(monkeypatch, 2048, 256)
    model, line, applied = run_over(tmp_path, way, after)
    whole, carried, expected = uncut
    assert (model, applied) == (whole, expected)
    if line.is_cut:
        more = line.carried[way] - carried[way]  # gRPC may drop what came just before the cut and was not read yet
        assert more < SIZE + 2 * TALK, f"{more} bytes more than without the cut"
