"""Peers that send numbers which must not get into the model: too long, not finite, again, in pieces, as sums."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from crescendo.core.messages import DuplicateUpdate, Settled
from crescendo.core.server import Server
from crescendo.network.protocol import tree_pb2 as tree
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.resumption import PART, Unfinished
from crescendo.network.protocol.tree_messages import TO_PARENT, NodeHello
from crescendo.network.protocol.vector_parts import Assembly, Part
from crescendo.network.server import service
from crescendo.privacy.mechanisms.norm_limits import NormLimits
from crescendo.storage.journal import journal_entries
from crescendo.storage.journal.segments import Segments
from tests.network.attacks import (
    LARGE,
    RELAY,
    WITH_PRIVACY,
    Attack,
    Patch,
    attacked,
    each,
    each_without,
    refused,
    run_attack,
    succeeds,
)
from tests.network.bad_sums import bad_sum, parsed
from tests.network.raw_streams import BROKEN, End, RawStream, memory_of

pytestmark = pytest.mark.slow


async def an_update_beyond_the_norm_limit_is_refused(folder: Path) -> None:
    async with attacked(folder, WITH_PRIVACY) as here:
        bad = here.client(0)
        reason = refused(await bad.fire(*bad.update(value=1e6)))
        assert "not longer than" in reason
        assert here.received() == []
        await here.finish(1, 2)


async def numbers_that_are_not_finite_are_refused(folder: Path) -> None:
    async with attacked(folder) as here:
        bad = here.client(0)
        for i, strange in enumerate((np.nan, np.inf)):
            data = np.full(here.agreed.objective.size, strange, dtype=np.float32).tobytes()
            reason = refused(await bad.fire(*bad.update(i, data=data)))
            assert "not finite" in reason
        await here.finish(1, 2)
        assert np.isfinite(here.server.service.durable.model).all()


async def a_repeat_changes_nothing_and_other_bytes_are_an_alarm(folder: Path) -> None:
    async with attacked(folder) as here:
        bad = here.client(0)
        old = bad.update(0)
        assert await bad.fire(*old) == []
        before = len(list(Segments(folder / "journal").records())), here.server.service.durable.model.tobytes()
        assert await bad.fire(*old, *old, *old) == []
        assert bad.settled == Settled(1)
        assert (
            len(list(Segments(folder / "journal").records())),
            here.server.service.durable.model.tobytes(),
        ) == before
        heard = await bad.fire(*bad.update(0, value=2e-4))
        assert "other bytes" in refused(heard)
        await here.finish(0, 1, 2)
        assert len(here.received()) == 12


async def parts_that_overlap_or_never_end_are_held_within_bounds(folder: Path) -> None:
    """A slow loris: one part after the other, begun again and again, never finished; and parts in a wrong order."""
    async with attacked(folder, LARGE) as here:
        held: list[Assembly] = []
        made = Assembly.__init__

        def remember(self: Assembly, *told: Any) -> None:
            made(self, *told)
            held.append(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Assembly, "__init__", remember)
            bad = here.client(0)
            parts = bad.update(0)
            assert len(parts) == 4
            size, before = 4 * here.agreed.objective.size, memory_of(os.getpid())
            for _ in range(10):
                assert await bad.fire(*parts[:3]) == []
                assert sum(one.held for one in held) <= size
            for wrong in ([parts[1]], [parts[0], parts[2]], [parts[0], parts[1], parts[1]], [parts[3]]):
                heard = await bad.fire(*wrong)
                assert "out of turn" in refused(heard)
            for name, value in (("parts", 2**32 - 1), ("numbers", 2**40), ("numbers", 1)):
                first = pb.ToServer.FromString(parts[0].SerializeToString())
                setattr(first.update.vector, name, value)
                assert refused(await bad.fire(first)), name
            longer = pb.ToServer.FromString(parts[0].SerializeToString())
            longer.update.vector.numbers += 1 << 20
            longer.update.vector.parts += 4
            assert "announced" in refused(await bad.fire(longer))
            assert memory_of(os.getpid()) - before < 256 << 20
        assert here.received() == []
        await here.finish(1)


async def a_bad_aggregator_stops_nobody(folder: Path) -> None:
    """What comes by the other door, mutated likewise; streams that end in an exception of the server would show here."""
    rng = random.Random(6)
    async with attacked(folder, WITH_PRIVACY) as here:
        for _ in range(300):
            line, sent = RawStream(here.channel, RELAY, tree.Down), [TO_PARENT.encode(NodeHello("node"))]
            messages = [bad_sum(rng, here.client(0)) for _ in range(rng.randrange(1, 4))]
            await line.say(*sent, *messages)
            await line.half_close()
            while not isinstance(answer := await line.hear(), End):
                pass
            undecodable = any(parsed(message) is None for message in messages)
            assert undecodable or answer == BROKEN or answer.code == grpc.StatusCode.OK, (answer, messages)
        assert here.received() == []
        await here.finish(1, 2)


async def numbers_that_add_up_beyond_the_wire_s_floats_do_not_end_the_server(folder: Path) -> None:
    async with attacked(folder) as here:
        bad = here.client(0)
        await bad.fire(*bad.update(0, value=3e38), *bad.update(1, value=3e38))
        await here.finish(1, 2)


@each(
    an_update_beyond_the_norm_limit_is_refused,
    numbers_that_are_not_finite_are_refused,
    a_repeat_changes_nothing_and_other_bytes_are_an_alarm,
    parts_that_overlap_or_never_end_are_held_within_bounds,
    a_bad_aggregator_stops_nobody,
)
def test_bad_peer(attack: Attack, tmp_path: Path) -> None:
    run_attack(attack, tmp_path)


@each(numbers_that_add_up_beyond_the_wire_s_floats_do_not_end_the_server)
def test_what_once_was_a_hole(attack: Attack, tmp_path: Path) -> None:
    run_attack(attack, tmp_path)


# -- guards taken away ---------------------------------------------------------------------------------------------------


def no_norm_limit(patch: Patch) -> None:
    patch.setattr(NormLimits, "longest", lambda *asked: np.inf)


def nobody_looks_at_the_numbers(patch: Patch) -> None:
    for module in (service, journal_entries):
        patch.setattr(module, "decode", lambda data, wire, numbers, finite=True: np.frombuffer(data, dtype="<f4"))
    patch.setattr(Server, "_moved", lambda self, i, delta, what: self.model - delta)


def updates_are_applied_again(patch: Patch) -> None:
    def receive(self: Server, update: Any) -> bool:
        self.model = self._moved(update.round, update.delta, "")
        return self._settle(update.round, update.client)

    patch.setattr(Server, "receive", receive)


def nobody_compares_the_bytes(patch: Patch) -> None:
    patch.setattr(Server, "_repeated", lambda self, i, c, delta: DuplicateUpdate(f"again {i}"))


def no_length_limit(patch: Patch) -> None:
    patch.setattr(Assembly, "_check_first", lambda self, part: None)


def parts_are_only_counted(patch: Patch) -> None:
    def add(self: Assembly, part: Part) -> bytes | None:
        before = self._vector or Unfinished(0, part.wire, part.numbers, memoryview(b""), PART)
        came, count = bytes(before.room) + bytes(part.data), before.about + 1
        self._vector = Unfinished(count, part.wire, part.numbers, memoryview(came), PART, len(came))
        return came if count >= part.parts else None

    patch.setattr(Assembly, "_add", add)


@each_without(
    (no_norm_limit, an_update_beyond_the_norm_limit_is_refused),
    (no_norm_limit, a_bad_aggregator_stops_nobody),
    (nobody_looks_at_the_numbers, numbers_that_are_not_finite_are_refused),
    (updates_are_applied_again, a_repeat_changes_nothing_and_other_bytes_are_an_alarm),
    (nobody_compares_the_bytes, a_repeat_changes_nothing_and_other_bytes_are_an_alarm),
    (no_length_limit, parts_that_overlap_or_never_end_are_held_within_bounds),
    (parts_are_only_counted, parts_that_overlap_or_never_end_are_held_within_bounds),
)
def test_without_the_guard_the_attack_is_seen_to_succeed(
    planted: Callable[[Patch], None], attack: Attack, tmp_path: Path, monkeypatch: Patch
) -> None:
    planted(monkeypatch)
    succeeds(attack, tmp_path)
