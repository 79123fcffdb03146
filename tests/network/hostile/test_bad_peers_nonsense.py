"""Peers that send anything at all, message or not: each is answered in a sentence."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.wire_messages import Hello
from crescendo.network.transport import rate_limits
from tests.network.attacks import WITH_PRIVACY, Attack, Patch, attacked, each, each_without, run_attack, succeeds
from tests.network.fuzzing import fuzz, fuzz_the_door
from tests.network.raw_streams import RawStream

pytestmark = pytest.mark.slow


async def whatever_is_said_is_answered(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for allowed in ("STRIKES", "JOINS"):  # so that each message is really looked at
            patch.setattr(rate_limits, allowed, 1e9)
        async with attacked(folder, WITH_PRIVACY) as here:
            bad, rng = here.client(0), random.Random(5)
            await fuzz(bad, rng, 150, below=here.agreed.terms.rounds)
            await fuzz_the_door(bad, rng, 50)
            await here.finish(1, 2)


async def bytes_that_are_no_message_are_refused_in_a_sentence(folder: Path) -> None:
    async with attacked(folder) as here:
        line = RawStream(here.channel)
        await line.say(b"\xff\xff\xff")
        answer = await line.hear()
        assert isinstance(answer, pb.ToClient) and answer.HasField("refusal"), answer
        bad = here.client(0)
        assert rate_limits.STRIKES <= await bad.break_rules(100, b"\xff\xff\xff") < 100


@each(whatever_is_said_is_answered)
def test_bad_peer(attack: Attack, tmp_path: Path) -> None:
    run_attack(attack, tmp_path)


@each(bytes_that_are_no_message_are_refused_in_a_sentence)
def test_what_once_was_a_hole(attack: Attack, tmp_path: Path) -> None:
    run_attack(attack, tmp_path)


# -- guards taken away ---------------------------------------------------------------------------------------------------


def an_exception_of_the_server_s_own(patch: Patch) -> None:
    patch.setattr(Hello, "client_in", lambda hello, _: 0 if hello.name == "client 0" else {}[hello.name])


@each_without((an_exception_of_the_server_s_own, whatever_is_said_is_answered))
def test_without_the_guard_the_attack_is_seen_to_succeed(
    planted: Callable[[Patch], None], attack: Attack, tmp_path: Path, monkeypatch: Patch
) -> None:
    planted(monkeypatch)
    succeeds(attack, tmp_path)
