"""Attacks on a live server: what they need, how they are run, and how they are shown to matter (guards taken away)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from crescendo import system
from crescendo.federation.agreement import Agreement
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.resumption import PART
from crescendo.network.protocol.tree_messages import SERVICE as TREE
from crescendo.network.server.grpc_server import NetworkServer
from crescendo.network.transport import rate_limits
from crescendo.network.transport.security.authenticator import Admit, everybody
from crescendo.storage.journal.journal_entries import Absent, Entry, NewEpoch, Received, Summed, from_bytes
from crescendo.storage.journal.replay import replay
from crescendo.storage.journal.segments import Segments
from tests.conformance.cases import PRIVATE, case
from tests.network import raw_streams
from tests.network.hostile_client import HostileClient
from tests.network.live_server import LiveServer, live_server
from tests.network.raw_streams import End, channel_to

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
Patch = pytest.MonkeyPatch


@dataclass
class AttackedServer:
    """A live server over ``folder``, and a connection with none of the limits that a sound client has."""

    folder: Path
    live: LiveServer
    channel: grpc.aio.Channel

    @property
    def agreed(self) -> Agreement:
        return self.live.agreed

    @property
    def server(self) -> NetworkServer:
        return self.live.server

    @property
    def port(self) -> int:
        return self.live.port

    def client(self, c: int, token: str = "") -> HostileClient:
        return HostileClient(self.channel, self.agreed, c, token)

    def written(self) -> list[Entry]:
        """All that is in the journal."""
        return [from_bytes(record.kind, record.body) for record in Segments(self.folder / "journal").records()]

    def received(self) -> list[Received | Summed]:
        return [entry for entry in self.written() if isinstance(entry, Received | Summed)]

    def epochs_begun(self) -> int:
        return sum(isinstance(entry, NewEpoch) for entry in self.written())

    async def finish(self, *good: int) -> None:
        """The others train to the end, and the model is what the journal adds up to, bit for bit."""
        for c in set(range(self.agreed.terms.clients)) - set(good):
            await self.server.put(c, Absent(c))
        training: asyncio.Future[Any] = asyncio.gather(*(self.client(c).train() for c in good))
        failed: asyncio.Future[Any] = self.server.failed
        try:
            async with asyncio.timeout(raw_streams.DEADLINE):
                await asyncio.wait({training, failed}, return_when=asyncio.FIRST_COMPLETED)
            assert not failed.done(), f"the server has ended: {failed.exception()}"
            training.result()
        finally:
            training.cancel()
            await asyncio.gather(training, return_exceptions=True)
        assert self.server.service.durable.finished
        self.check()

    def check(self) -> None:
        """The server goes on, its model is what the journal adds up to, and no update is in it twice."""
        assert not self.server.failed.done()
        assert self.server.service.durable.model.tobytes() == replay(self.folder / "journal").tobytes()
        pairs = [(entry.round, entry.client) for entry in self.received() if isinstance(entry, Received)]
        assert len(set(pairs)) == len(pairs)


@asynccontextmanager
async def attacked(
    folder: Path, raw: dict[str, Any] = SMALL, admit: Admit = everybody
) -> AsyncIterator[AttackedServer]:
    """A server over ``folder``, and a connection to it."""
    async with live_server(folder / "journal", raw, admit=admit) as live, channel_to(live.port) as channel:
        yield AttackedServer(folder, live, channel)


def run_attack(attack: Attack, folder: Path) -> None:
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


# -- attacks as tests, and the guards against them taken away ------------------------------------------------------------


def each(*attacks: Attack) -> pytest.MarkDecorator:
    """A test for each attack, called by its name."""
    return pytest.mark.parametrize("attack", attacks, ids=lambda attack: attack.__name__)


def each_without(*planted: tuple[Callable[[Patch], None], Attack]) -> pytest.MarkDecorator:
    """A test for each guard that is taken away, and the attack that it guards against."""
    return pytest.mark.parametrize(("planted", "attack"), planted, ids=lambda one: one.__name__)


def succeeds(attack: Attack, folder: Path) -> None:
    """The attack does what it should not: so its checks can fail."""
    with pytest.raises((AssertionError, TimeoutError)):
        run_attack(attack, folder)


@contextmanager
def waits(burst: float) -> Iterator[list[float]]:
    """How long those are made to wait who say what changes nothing: a number for each time that somebody is asked to.

    The buckets' clock stands still, so that it does not matter how fast this machine is: who says more than the burst waits,
    and not long.
    """
    noted: list[float] = []
    take = rate_limits.TokenBucket.take

    def note(self: rate_limits.TokenBucket, amount: float = 1.0) -> float:
        noted.append(take(self, amount))
        return noted[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(system, "monotonic", lambda: 0.0)
        patch.setattr(rate_limits, "USELESS_BURST", burst)
        patch.setattr(rate_limits, "USELESS_RATE", 1e5)
        patch.setattr(rate_limits.TokenBucket, "take", note)
        yield noted
