"""Bad peers against a server in this process, so that a test can look inside it.

Each guard is also taken away once: without it the same attack succeeds, so the check can fail.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from crescendo.apps.runfile import read
from crescendo.apps.terms import Agreed, build_terms, terms_text
from crescendo.core.messages import Settled
from crescendo.core.server import DuplicateUpdate, Server
from crescendo.runtimes import entries
from crescendo.runtimes import tree_pb2 as tree
from crescendo.runtimes import wire_pb2 as pb
from crescendo.runtimes.durable import DurableServer, replay
from crescendo.runtimes.entries import Received, Summed, from_bytes
from crescendo.runtimes.journal import read_records
from crescendo.runtimes.network import conduct, door, hall, server
from crescendo.runtimes.network.hall import Hall
from crescendo.runtimes.network.limits import Limits
from crescendo.runtimes.network.server import Admit, NetworkServer, everybody
from crescendo.runtimes.security import Doorkeeper, token_hash
from crescendo.runtimes.server_state import ServerState
from crescendo.runtimes.tree_messages import SERVICE as TREE
from crescendo.runtimes.tree_messages import NodeHello, to_parent
from crescendo.runtimes.wire import PART, Assembly, Part
from crescendo.runtimes.wire_messages import Hello, Pong, VoidRound, to_server
from tests.conformance.cases import PRIVATE, case
from tests.runtimes.network import bad_peers
from tests.runtimes.network.bad_peers import End, Line, Mallory, channel_to, check_clear, memory_of
from tests.runtimes.network.test_bad_peers import fuzz, fuzz_the_door

pytestmark = pytest.mark.slow

SMALL = case(
    run={"wire": "float32"},
    clients={"count": 3},
    schedule={"rounds": 4, "sizes": {"kind": "constant", "size": 30}, "wait": {"rounds": 1}},
    serve={"absent_after": 600.0},
)
LARGE = case(
    run={"wire": "float32"},
    clients={"count": 2},
    objective={"intercept": False},
    schedule={"rounds": 2, "sizes": {"kind": "constant", "size": 8}, "wait": {"rounds": 1}},
    serve={"absent_after": 600.0, "features": 3 * PART // 4 + 1},  # four parts, the last of one number
)
RELAY = f"/{TREE}/Relay"
WITH_PRIVACY = {**SMALL, "privacy": {"mechanism": "minibatch", **PRIVATE}}

Attack = Callable[[Path], Coroutine[Any, Any, None]]


@dataclass
class House:
    """A server in this process, and the way to it."""

    folder: Path
    port: int
    agreed: Agreed
    served: NetworkServer
    channel: grpc.aio.Channel

    def client(self, c: int, token: str = "") -> Mallory:
        return Mallory(self.channel, self.agreed, c, token)

    def received(self) -> list[Received | Summed]:
        found = [from_bytes(record.kind, record.body) for record in read_records(self.folder / "journal")]
        return [entry for entry in found if isinstance(entry, Received | Summed)]

    async def finish(self, *good: int) -> None:
        """The others train to the end, and the model is what the journal adds up to, bit for bit."""
        for c in set(range(self.agreed.terms.clients)) - set(good):
            await self.served._put(c, hall.Silence())
        training: asyncio.Future[Any] = asyncio.gather(*(self.client(c).train() for c in good))
        failed: asyncio.Future[Any] = self.served.failed
        try:
            async with asyncio.timeout(bad_peers.DEADLINE):
                await asyncio.wait({training, failed}, return_when=asyncio.FIRST_COMPLETED)
            assert not failed.done(), f"the server has ended: {failed.exception()}"
            training.result()
        finally:
            training.cancel()
            await asyncio.gather(training, return_exceptions=True)
        assert self.served.hall.finished
        self.check()

    def check(self) -> None:
        assert not self.served.failed.done()
        assert self.served.hall.durable.model.tobytes() == replay(self.folder / "journal").tobytes()
        pairs = [(entry.round, entry.client) for entry in self.received() if isinstance(entry, Received)]
        assert len(set(pairs)) == len(pairs)


@asynccontextmanager
async def house(folder: Path, raw: dict[str, Any] = SMALL, admit: Admit = everybody) -> AsyncIterator[House]:
    agreed = build_terms(terms_text(read(raw)))
    limits = Limits(agreed.certificate, agreed.objective.size, agreed.objective.l2)
    with DurableServer(folder / "journal", agreed.text, lambda text: agreed.terms, agreed.initial()) as durable:
        about = agreed.terms, agreed.text, agreed.federation, agreed.digest, agreed.names, agreed.wire
        served = NetworkServer(Hall(durable, *about, limits), admit=admit)
        try:
            port = await served.start("127.0.0.1:0")
            async with channel_to(port) as channel:
                yield House(folder, port, agreed, served, channel)
        finally:
            if served.failed.done():
                served.failed.exception()  # seen; else it would be printed when it is collected
            await served.stop()


def play(attack: Attack, folder: Path) -> None:
    """What an attack leaves behind is collected here, not in the midst of another test's report."""
    try:
        asyncio.run(attack(folder))
    finally:
        gc.collect()


def refused(heard: list[pb.ToClient | End]) -> str:
    """The reason of the first refusal."""
    reasons = [one.refusal.reason for one in heard if isinstance(one, pb.ToClient)]
    assert reasons, heard
    return reasons[0]


# -- who it is -----------------------------------------------------------------------------------------------------------


def doorkeeper(folder: Path, agreed_names: int) -> Doorkeeper:
    book = [{"name": f"client {c}", "role": "client", "sha256": token_hash(f"token {c}")} for c in range(agreed_names)]
    (folder / "tokens.json").write_text(json.dumps(book))
    return Doorkeeper(folder / "tokens.json")


async def a_wrong_token_or_name_is_refused(folder: Path) -> None:
    async with house(folder, admit=doorkeeper(folder, 3)) as here:
        for c, token, name in ((0, "", None), (0, "token 1", None), (0, "x", None), (1, "token 1", "client 0")):
            line = Line(here.channel)
            changes = {} if name is None else {"name": name}
            await line.say(to_server(here.client(c, token).hello(**changes)))
            answer = await line.hear()
            assert isinstance(answer, pb.ToClient) and answer.refusal.final, answer
            check_clear(answer.refusal.reason)
            assert "token 1" not in answer.refusal.reason
        welcome = await here.client(0, "token 0").join()
        assert isinstance(welcome, pb.ToClient) and welcome.HasField("welcome"), welcome
        assert here.served.hall.durable.instances == {0: here.client(0).instance}


async def a_second_instance_is_refused_and_the_first_stays(folder: Path) -> None:
    async with house(folder) as here:
        good = here.client(0)
        await good.join()
        line = Line(here.channel)
        await line.say(to_server(good.hello(instance="f" * 32)))
        answer = await line.hear()
        assert isinstance(answer, pb.ToClient) and "another instance" in answer.refusal.reason, answer
        assert await good.fire() == [], "the first stream is cut"
        await here.finish(0, 1, 2)


# -- vectors -------------------------------------------------------------------------------------------------------------


async def an_update_beyond_the_norm_limit_is_refused(folder: Path) -> None:
    async with house(folder, WITH_PRIVACY) as here:
        bad = here.client(0)
        reason = refused(await bad.fire(*bad.update(value=1e6)))
        assert "not longer than" in reason
        assert here.received() == []
        await here.finish(1, 2)


async def numbers_that_are_not_finite_are_refused(folder: Path) -> None:
    async with house(folder) as here:
        bad = here.client(0)
        for i, strange in enumerate((np.nan, np.inf)):
            data = np.full(here.agreed.objective.size, strange, dtype=np.float32).tobytes()
            reason = refused(await bad.fire(*bad.update(i, data=data)))
            assert "not finite" in reason
        await here.finish(1, 2)
        assert np.isfinite(here.served.hall.durable.model).all()


async def a_repeat_changes_nothing_and_other_bytes_are_an_alarm(folder: Path) -> None:
    async with house(folder) as here:
        bad = here.client(0)
        old = bad.update(0)
        assert await bad.fire(*old) == []
        before = len(list(read_records(folder / "journal"))), here.served.hall.durable.model.tobytes()
        assert await bad.fire(*old, *old, *old) == []
        assert bad.settled == Settled(1)
        assert (len(list(read_records(folder / "journal"))), here.served.hall.durable.model.tobytes()) == before
        heard = await bad.fire(*bad.update(0, value=2e-4))
        assert "other bytes" in refused(heard)
        await here.finish(0, 1, 2)
        assert len(here.received()) == 12


async def parts_that_overlap_or_never_end_are_held_within_bounds(folder: Path) -> None:
    """A slow loris: one part after the other, begun again and again, never finished; and parts in a wrong order."""
    async with house(folder, LARGE) as here:
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


# -- too much ------------------------------------------------------------------------------------------------------------


async def a_flood_waits_for_itself(folder: Path) -> None:
    """Messages that change nothing are read at a bounded rate once the burst is used up; others are not held up."""
    waits: list[float] = []
    take = conduct.Bucket.take

    def remember(self: conduct.Bucket, amount: float = 1.0) -> float:
        wait = take(self, amount)
        waits.append(wait)
        return wait

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conduct, "USELESS_BURST", 20.0)
        patch.setattr(conduct, "USELESS_RATE", 200.0)
        patch.setattr(conduct.Bucket, "take", remember)
        async with house(folder) as here:
            bad = here.client(0)
            repeat = bad.update(0)
            assert await bad.fire(*repeat, *[to_server(Pong(n)) for n in range(40)], *repeat * 20) == []
            assert max(waits) > 0, "nobody had to wait"
            await here.finish(0, 1, 2)


async def one_that_keeps_breaking_the_rules_is_shut_out(folder: Path) -> None:
    async with house(folder) as here:
        bad = here.client(0)
        assert conduct.STRIKES <= await bad.break_rules(most=100) < 100
        await here.finish(1, 2)


async def who_says_nothing_is_hung_up_on(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "FIRST_WORD", 0.05)
        async with house(folder) as here:
            lines = [Line(here.channel) for _ in range(30)]
            for line in lines:
                assert isinstance(await line.hear(), End)
            await here.finish(0, 1, 2)


async def a_compressed_bomb_is_not_unpacked(folder: Path) -> None:
    async with house(folder) as here, channel_to(here.port, grpc.Compression.Gzip) as channel:
        line = Line(channel)
        await line.say(b"\x7a\x80\x80\x80\x10" + bytes(32 << 20))
        end = await line.hear()
        assert isinstance(end, End) and end.code == grpc.StatusCode.RESOURCE_EXHAUSTED, end
        await here.finish(0, 1, 2)


# -- lies ----------------------------------------------------------------------------------------------------------------


async def claims_of_what_was_acknowledged_only_begin_epochs(folder: Path) -> None:
    """A server may have been opened from a backup, so it believes such claims; a liar gains nothing by them."""
    async with house(folder) as here:
        good = [here.client(c) for c in (1, 2)]
        for client in good:
            await client.join()
        bad = here.client(0)
        for n in range(20):
            answer = await bad.join(epoch=bad.epoch + n % 3, k=n % 5, acknowledged=Settled(n % 5))
            assert isinstance(answer, pb.ToClient)
        for lie in ({"k": 5}, {"acknowledged": Settled(5)}, {"epoch": 2**52}, {"last": 4}):
            answer = await bad.join(**lie)
            assert isinstance(answer, pb.ToClient) and answer.refusal.final, (lie, answer)
        assert here.served.hall.durable.epoch > 5 and here.received() == []
        await here.finish(1, 2)


async def messages_about_another_federation_are_refused(folder: Path) -> None:
    async with house(folder) as here:
        bad = here.client(0)
        for about in ({"federation": "other"}, {"digest": "0" * 64}):
            assert "another federation" in refused(await bad.fire(*bad.update(0, **about)))  # type: ignore[arg-type]
        await here.finish(0, 1, 2)
        assert len(here.received()) == 12


async def a_bad_aggregator_stops_nobody(folder: Path) -> None:
    """What comes by the other door, mutated likewise; streams that end in an exception of the server would show here."""
    rng = random.Random(6)
    async with house(folder, WITH_PRIVACY) as here:
        for _ in range(300):
            line, sent = Line(here.channel, RELAY, tree.Down), [to_parent(NodeHello("node"))]
            messages = [bad_peers.bad_sum(rng, here.client(0)) for _ in range(rng.randrange(1, 4))]
            await line.say(*sent, *messages)
            await line.half_close()
            while not isinstance(answer := await line.hear(), End):
                pass
            undecodable = any(bad_peers.parsed(message) is None for message in messages)
            assert undecodable or answer == bad_peers.BROKEN or answer.code == grpc.StatusCode.OK, (answer, messages)
        assert here.received() == []
        await here.finish(1, 2)


# -- anything ------------------------------------------------------------------------------------------------------------


async def whatever_is_said_is_answered(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conduct, "STRIKES", 1e9)
        async with house(folder, WITH_PRIVACY) as here:
            bad, rng = here.client(0), random.Random(5)
            await fuzz(bad, rng, 150)
            await fuzz_the_door(bad, rng, 50)
            await here.finish(1, 2)


ATTACKS: tuple[Attack, ...] = (
    a_wrong_token_or_name_is_refused,
    a_second_instance_is_refused_and_the_first_stays,
    an_update_beyond_the_norm_limit_is_refused,
    numbers_that_are_not_finite_are_refused,
    a_repeat_changes_nothing_and_other_bytes_are_an_alarm,
    parts_that_overlap_or_never_end_are_held_within_bounds,
    a_flood_waits_for_itself,
    one_that_keeps_breaking_the_rules_is_shut_out,
    who_says_nothing_is_hung_up_on,
    a_compressed_bomb_is_not_unpacked,
    claims_of_what_was_acknowledged_only_begin_epochs,
    messages_about_another_federation_are_refused,
    a_bad_aggregator_stops_nobody,
    whatever_is_said_is_answered,
)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_bad_peer(attack: Attack, tmp_path: Path) -> None:
    play(attack, tmp_path)


# -- guards taken away ---------------------------------------------------------------------------------------------------

Patch = pytest.MonkeyPatch


def the_name_in_the_message_is_trusted(patch: Patch) -> None:
    patch.setattr(Doorkeeper, "__call__", lambda *told: None)


def any_instance_will_do(patch: Patch) -> None:
    patch.setattr(ServerState, "_join", lambda self, c, instance: self.instances.update({c: instance}) is None)


def no_norm_limit(patch: Patch) -> None:
    patch.setattr(Limits, "longest", lambda *asked: np.inf)


def nobody_looks_at_the_numbers(patch: Patch) -> None:
    for module in (hall, entries):
        patch.setattr(module, "decode", lambda data, wire, numbers, finite=True: np.frombuffer(data, dtype="<f4"))
    patch.setattr(Server, "_moved", lambda self, i, delta, what: self.model - delta)


def updates_are_applied_again(patch: Patch) -> None:
    def receive(self: Server, update: Any) -> bool:
        self.model = self._moved(update.round, update.delta, "")
        return self._settle(update.round, update.client)

    patch.setattr(Server, "receive", receive)


def nobody_compares_the_bytes(patch: Patch) -> None:
    patch.setattr(Server, "_repeat", lambda self, i, c, delta: DuplicateUpdate(f"again {i}"))


def no_length_limit(patch: Patch) -> None:
    patch.setattr(Assembly, "_check_first", lambda self, part: None)


def parts_are_only_counted(patch: Patch) -> None:
    def add(self: Assembly, part: Part) -> bytes | None:
        self._next, self._whole = self._next + 1, memoryview(bytes(self._whole) + bytes(part.data))
        return bytes(self._whole) if self._next >= part.parts else None

    patch.setattr(Assembly, "_add", add)


def nobody_has_to_wait(patch: Patch) -> None:
    patch.setattr(conduct.Bucket, "take", lambda self, amount=1.0: 0.0)


def no_limit_on_a_message(patch: Patch) -> None:
    unlimited = [(name, -1 if "receive" in name else value) for name, value in door.DOOR_OPTIONS]
    patch.setattr(server, "DOOR_OPTIONS", unlimited)


def silence_is_waited_out(patch: Patch) -> None:
    patch.setattr(door.Porch, "first_word", lambda self, context: context.read())
    patch.setattr(bad_peers, "DEADLINE", 0.5)


def every_claim_is_believed(patch: Patch) -> None:
    patch.setattr(ServerState, "epoch_after", lambda self, client, epoch, k, acknowledged: self.server.epoch + 1)


def nobody_asks_what_it_is_about(patch: Patch) -> None:
    patch.setattr(Hall, "check_about", lambda *told: None)


def an_exception_of_the_server_s_own(patch: Patch) -> None:
    patch.setattr(Hall, "index", lambda self, hello: 0 if hello.name == "client 0" else {}[hello.name])


PLANTED: tuple[tuple[Callable[[Patch], None], Attack], ...] = (
    (the_name_in_the_message_is_trusted, a_wrong_token_or_name_is_refused),
    (any_instance_will_do, a_second_instance_is_refused_and_the_first_stays),
    (no_norm_limit, an_update_beyond_the_norm_limit_is_refused),
    (no_norm_limit, a_bad_aggregator_stops_nobody),
    (nobody_looks_at_the_numbers, numbers_that_are_not_finite_are_refused),
    (updates_are_applied_again, a_repeat_changes_nothing_and_other_bytes_are_an_alarm),
    (nobody_compares_the_bytes, a_repeat_changes_nothing_and_other_bytes_are_an_alarm),
    (no_length_limit, parts_that_overlap_or_never_end_are_held_within_bounds),
    (parts_are_only_counted, parts_that_overlap_or_never_end_are_held_within_bounds),
    (nobody_has_to_wait, a_flood_waits_for_itself),
    (nobody_has_to_wait, one_that_keeps_breaking_the_rules_is_shut_out),
    (no_limit_on_a_message, a_compressed_bomb_is_not_unpacked),
    (silence_is_waited_out, who_says_nothing_is_hung_up_on),
    (every_claim_is_believed, claims_of_what_was_acknowledged_only_begin_epochs),
    (nobody_asks_what_it_is_about, messages_about_another_federation_are_refused),
    (an_exception_of_the_server_s_own, whatever_is_said_is_answered),
)


@pytest.mark.parametrize(("planted", "attack"), PLANTED, ids=lambda one: one.__name__)
def test_without_the_guard_the_attack_is_seen_to_succeed(
    planted: Callable[[Patch], None], attack: Attack, tmp_path: Path, monkeypatch: Patch
) -> None:
    planted(monkeypatch)
    with pytest.raises((AssertionError, TimeoutError)):
        play(attack, tmp_path)


# -- what once were holes --------------------------------------------------------------------------------------------------


async def numbers_that_add_up_beyond_the_wire_s_floats_do_not_end_the_server(folder: Path) -> None:
    async with house(folder) as here:
        bad = here.client(0)
        await bad.fire(*bad.update(0, value=3e38), *bad.update(1, value=3e38))
        await here.finish(1, 2)


async def bytes_that_are_no_message_are_refused_in_a_sentence(folder: Path) -> None:
    async with house(folder) as here:
        line = Line(here.channel)
        await line.say(b"\xff\xff\xff")
        answer = await line.hear()
        assert isinstance(answer, pb.ToClient) and answer.HasField("refusal"), answer
        bad = here.client(0)
        assert conduct.STRIKES <= await bad.break_rules(100, b"\xff\xff\xff") < 100


async def questions_about_the_terms_leave_room_for_others(folder: Path) -> None:
    async with house(folder) as here:
        lines = [Line(here.channel) for _ in range(100)]
        for line in lines:
            await line.say(to_server(Hello("client 0", "0" * 32)))
            await line.hear()
        answer = await here.client(1).join()
        assert isinstance(answer, pb.ToClient), answer


async def refusals_do_not_pile_up_for_one_that_does_not_read(folder: Path) -> None:
    narrow = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1)]
    async with house(folder) as here, channel_to(here.port, options=narrow) as channel:
        bad = Mallory(channel, here.agreed, 0)
        await bad.fire()
        assert bad.line is not None
        about = here.agreed.federation, here.agreed.digest
        for n in range(8000):
            if bad.line.end is None:
                await bad.line.say(to_server(VoidRound(10**9 + n, *about)))
        waiting = [len(peer._words) for peer in here.served.peers.values()]
        assert max(waiting, default=0) < 1000, waiting


async def a_liar_does_not_write_to_the_journal_at_will(folder: Path) -> None:
    async with house(folder) as here:
        bad = here.client(0)
        for _ in range(200):
            await bad.join(epoch=bad.epoch, acknowledged=Settled(4))
        epochs = [record for record in read_records(folder / "journal") if record.kind == 8]
        assert len(epochs) < 100, len(epochs)


HOLES: tuple[Attack, ...] = (
    numbers_that_add_up_beyond_the_wire_s_floats_do_not_end_the_server,
    bytes_that_are_no_message_are_refused_in_a_sentence,
    questions_about_the_terms_leave_room_for_others,
    refusals_do_not_pile_up_for_one_that_does_not_read,
    a_liar_does_not_write_to_the_journal_at_will,
)


@pytest.mark.parametrize("attack", HOLES, ids=lambda attack: attack.__name__)
def test_what_once_was_a_hole(attack: Attack, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(bad_peers, "DEADLINE", 10.0)
    play(attack, tmp_path)
