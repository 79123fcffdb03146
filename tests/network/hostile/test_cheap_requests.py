"""Requests that cost the asker nothing: they wait, the log counts them, and clients go on as if they were not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.wire_messages import TO_SERVER
from crescendo.network.server import grpc_server
from crescendo.network.transport import pending_streams, rate_limits
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.log_summaries import LINES, SummarisedLog
from crescendo.network.transport.pending_streams import OUR_FAULT, PendingStreams
from crescendo.network.transport.rate_limits import TOO_MUCH_STATUS
from tests.network.attacks import Attack, AttackedServer, Patch, attacked, each, each_without, run_attack, succeeds
from tests.network.hostile.test_bad_peers_identity import doorkeeper
from tests.network.raw_streams import DEADLINE, RawStream, check_clear

pytestmark = pytest.mark.slow

TRIES = 60


async def hello_with(here: AttackedServer, token: str) -> pb.ToClient:
    line = RawStream(here.channel)
    await line.say(TO_SERVER.encode(here.client(0, token).hello()))
    answer = await line.hear()
    assert isinstance(answer, pb.ToClient), answer
    line.cut()
    return answer


async def wrong_tokens_wait_and_are_counted_and_the_right_one_does_not_wait(folder: Path) -> None:
    held: list[float] = []
    hold = PendingStreams.hold

    async def noted(self: PendingStreams, context: object, seconds: float) -> bool:
        held.append(seconds)
        return await hold(self, context, min(seconds, 0.001))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PendingStreams, "hold", noted)
        patch.setattr(pending_streams, "REFUSALS", 5.0)
        patch.setattr(pending_streams, "REFUSAL_RATE", 1e-3)
        async with attacked(folder, admit=doorkeeper(folder, 3)) as here:
            for _ in range(TRIES):
                assert (await hello_with(here, "wrong")).refusal.final
            assert held[:5] == [0.0] * 5 and min(held[5:]) > 0, held
            assert (await hello_with(here, "token 0")).HasField("welcome")
            assert len(held) == TRIES
            lines = [*here.live.log]
        assert len([line for line in lines if line["event"] == "refused"]) == LINES
        (counted,) = [line for line in here.live.log if line["event"] == "repeated"]
        assert (counted["kind"], counted["count"], counted["among"]) == ("refused", TRIES - LINES, "127.0.0.1")


async def status_asked_for_without_end_is_turned_away(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grpc_server, "LONGEST_HOLD", 0.01)  # seconds that one is held before it is turned away
        patch.setattr(rate_limits, "STATUSES", 5.0)
        patch.setattr(rate_limits, "STATUS_RATE", 1e-3)
        async with attacked(folder) as here:
            there = Endpoint(f"127.0.0.1:{here.port}")
            for _ in range(5):
                assert await there.status(DEADLINE)
            here.server._status_limits._buckets.take("address 127.0.0.1")  # the one that is owed would be waited for
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await there.status(DEADLINE)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert caught.value.details() == TOO_MUCH_STATUS
            await here.finish(0, 1, 2)


async def a_damaged_list_of_tokens_is_described_in_the_log_alone(folder: Path) -> None:
    async with attacked(folder, admit=doorkeeper(folder, 3)) as here:
        (folder / "tokens.json").write_text('[{"name": "client 0"')
        refusal = (await hello_with(here, "token 0")).refusal
        assert refusal.reason == OUR_FAULT and not refusal.final
        check_clear(refusal.reason)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await Endpoint(f"127.0.0.1:{here.port}", show=lambda: "token 0").status(DEADLINE)
        assert caught.value.details() == OUR_FAULT
        assert all("tokens.json is not a list of" in line["reason"] for line in here.live.events("stream_failed"))
        assert len(here.live.events("stream_failed")) == 2
        doorkeeper(folder, 3)
        assert (await hello_with(here, "token 0")).HasField("welcome"), "it is read anew"


ATTACKS = (
    wrong_tokens_wait_and_are_counted_and_the_right_one_does_not_wait,
    status_asked_for_without_end_is_turned_away,
    a_damaged_list_of_tokens_is_described_in_the_log_alone,
)


@each(*ATTACKS)
def test_requests(attack: Attack, tmp_path: Path) -> None:
    run_attack(attack, tmp_path)


def every_line_is_written(patch: Patch) -> None:
    patch.setattr(SummarisedLog, "__call__", lambda self, event, key, **facts: self._log(event, **facts))


def faults_are_told(patch: Patch) -> None:
    patch.setattr(PendingStreams, "our_fault", lambda self, error: str(error))


@each_without(
    (every_line_is_written, wrong_tokens_wait_and_are_counted_and_the_right_one_does_not_wait),
    (faults_are_told, a_damaged_list_of_tokens_is_described_in_the_log_alone),
)
def test_without_the_guard_the_attack_is_seen_to_succeed(
    planted: Callable[[Patch], None], attack: Attack, tmp_path: Path, monkeypatch: Patch
) -> None:
    planted(monkeypatch)
    succeeds(attack, tmp_path)
