"""A federation on simulated machines: a server, clients, and aggregators between them, each with its real program."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.core.arrays import Floats, Ints, Uints
from crescendo.federation.agreement import Agreement
from crescendo.federation.own_model import servers_copy, with_copy
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.aggregator.node import Node
from crescendo.network.client.checkpoints import EVERY
from crescendo.network.client.join import _Joining
from crescendo.network.client.ledger_for import ledger_for
from crescendo.network.server.liveness import LivenessLimits
from crescendo.network.server.serve import Listening, _serve
from crescendo.network.server.service import Service
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff
from crescendo.network.transport.shutdown import ShutdownRequest
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.journal import JournalFailed
from crescendo.storage.round_checkpoint import remove_stale
from crescendo.storage.upkeep.disk_room import DiskRoom, usual_reserve
from tests.conformance.cases import PRIVATE, case
from tests.network.virtual.clock import START, VirtualLoop
from tests.network.virtual.hostile import misbehave
from tests.network.virtual.machine import Machine
from tests.network.virtual.process import Process
from tests.network.virtual.simulation import agreement_of
from tests.network.virtual.streams import Network
from tests.network.virtual.wire_tap import WireTap

SNAPSHOT_BYTES = 20_000  # of journal between snapshots: so that there are some
FOREVER = 1e9  # seconds that a server lingers: its operator stops it when every client has heard the end


@dataclass(frozen=True)
class Shape:
    """What a federation is, before anything goes wrong."""

    clients: int = 3
    aggregators: int = 0
    rounds: int = 40
    ahead: int = 1
    mechanism: str = "none"
    wire: str = "float64"
    features: int = 4
    slots: int = 4  # of each client in a round
    round_takes: float = 20.0  # seconds, on a machine that is neither fast nor slow
    hold_after: float = 300.0
    hold_least: float = 60.0
    absent_after: float = 60.0
    prune: bool = False
    far: float = 0.0  # seconds to the server; if not 0, all clients begin behind one aggregator, which adds up

    @property
    def limits(self) -> LivenessLimits:
        return LivenessLimits(self.absent_after, self.hold_after, self.hold_after, self.hold_least)


@functools.lru_cache(maxsize=64)
def agreed_on(shape: Shape) -> Agreement:
    """The terms. Those of two shapes that differ in what is no part of the terms are the same."""
    schedule = {
        "rounds": shape.rounds,
        "sizes": {"kind": "constant", "size": shape.slots * shape.clients},
        "wait": {"rounds": shape.ahead},
    }
    private = {} if shape.mechanism == "none" else {"privacy": {"mechanism": shape.mechanism, **PRIVATE}}
    raw = case(
        run={"wire": shape.wire},
        clients={"count": shape.clients},
        schedule=schedule,
        serve={"features": shape.features},
        **private,
    )
    config = read(raw)
    return with_copy(agreement_of(terms_text(config)), servers_copy(config.objective.kind))


class FreshSource:
    """Randomness of one start of a client: what is computed again after a kill comes out otherwise, as on a real machine."""

    simulated = True

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def members(self, i: int, records: int, rate: float) -> Ints:
        return np.flatnonzero(self._rng.random(records) < rate)

    def tags(self, i: int, count: int) -> Floats:
        return self._rng.random(count)

    def words(self, i: int, size: int) -> Uints:
        return self._rng.integers(0, 2**64, size, dtype=np.uint64)

    def more(self, i: int, number: int) -> Iterator[int]:
        while True:
            yield int(self._rng.integers(0, 2**64, dtype=np.uint64))


class Federation:
    """Machines and the network between them."""

    def __init__(
        self, shape: Shape, seed: int, folder: Path, loop: VirtualLoop, hostile: Mapping[int, str] | None = None
    ) -> None:
        self.shape, self.seed, self.folder, self.loop = shape, seed, folder, loop
        self.world: Context = copy_context()  # of what belongs to no process
        self.network = Network(loop, Random(f"{seed} network"), self.world)
        self.agreed = agreed_on(shape)
        self.begun = 0  # faults
        self.errors: list[tuple[float, Machine, BaseException]] = []
        self.server = Machine(self, "server", 1, self._serve)
        self.aggregators = [Machine(self, f"aggregator{i}", 2 + i, self._aggregate) for i in range(shape.aggregators)]
        how = hostile or {}
        self.clients = [Machine(self, f"client{c}", 10 + c, self._program(c, how.get(c))) for c in range(shape.clients)]
        self.honest = [machine for c, machine in enumerate(self.clients) if c not in how]
        self.hostile_names = {self.agreed.names[c] for c in how}
        self.parents: dict[Machine, Machine] = {}
        if shape.far:
            self.server.line.delay = shape.far
            self.server.line.usual = self.server.line.bandwidth, shape.far
        self.network.machines = {machine.name: machine for machine in self.machines}
        self.longest_down = 0  # bytes of the longest message to a client
        self.restored: list[float] = []  # when the server went on from an older copy
        self.once_applied: set[tuple[int, int]] = set()  # pairs that a journal had which was replaced by an older one
        for place, client in enumerate(self.clients):
            ways = self.aggregators[:1] if shape.far else [self.server, *self.aggregators]
            self.parents[client] = ways[place % len(ways)]
            client.slot_takes = shape.round_takes / shape.slots * client.rng.uniform(0.3, 1.0)
            _write_records(client.folder / "mine.npz", place, shape.features)

    @property
    def machines(self) -> list[Machine]:
        return [self.server, *self.aggregators, *self.clients]

    def start(self) -> None:
        for machine in self.machines:
            machine.switch_on()

    @property
    def is_over(self) -> bool:
        """Every honest client has its last model."""
        return all(machine.is_finished for machine in self.honest)

    @property
    def faults_happened(self) -> int:
        return self.network.breaks + sum(machine.kills for machine in self.machines) + self.begun

    def listen_in(self, tap: WireTap) -> None:
        """Let ``tap`` see what honest clients send."""
        places = {machine: c for c, machine in enumerate(self.clients) if machine in self.honest}

        def up(process: Process, message: Any) -> None:
            if process.machine in places:
                tap.saw(places[process.machine], message)

        def down(process: Process, message: Any, size: int) -> None:
            self.longest_down = max(self.longest_down, size)

        self.network.tap, self.network.tap_down = up, down

    def refused_wrongly(self) -> list[str]:
        """What ended a program that should have gone on."""
        found = []
        for at, machine, error in self.errors:
            by_disk = machine is self.server and isinstance(error, JournalFailed | OSError)
            if not by_disk and machine in (self.server, *self.aggregators, *self.honest):
                found.append(f"{machine.name} ended after {at - START:.0f} s: {error!r}")
        return found

    def end(self) -> None:
        """Stop everything, and let go of it."""
        for machine in self.machines:
            machine.is_off = True
            machine.kill()
        for machine in self.machines:
            for process in machine.old:
                process.dispose()

    def on_error(self, machine: Machine, error: BaseException) -> None:
        self.errors.append((self.loop.time(), machine, error))

    def _program(self, c: int, how: str | None) -> Callable[[Machine], Awaitable[bool]]:
        if how is None:
            return self._join
        return lambda machine: misbehave(self, machine, c, how)

    # -- the programs ------------------------------------------------------------------------------------------------------

    async def _serve(self, machine: Machine) -> bool:
        """As `crescendo.network.server.serve.serve` does, on a loop that runs already."""
        agreed, state, shape = self.agreed, machine.folder, self.shape
        present = range(shape.clients)
        durable = DurableServer(
            state / "journal",
            agreed.text,
            lambda text: agreed.terms,
            agreed.initial(),
            present,
            prune=shape.prune,
            snapshot_bytes=SNAPSHOT_BYTES,
        )
        with durable:
            room = usual_reserve(durable.model.nbytes, durable.snapshot_bytes)
            service = Service(durable, agreed, machine.note, DiskRoom(state, room))
            machine.noted["service"] = service
            await _serve(
                service, Listening(machine.name), shape.limits, (), state, FOREVER, machine.note, ShutdownRequest()
            )
            durable.snapshot_if_possible()
        return all(client.is_finished for client in self.honest)  # else its operator starts it again

    async def _aggregate(self, machine: Machine) -> bool:
        node = Node(machine.name, Endpoint(self.server.name), log=machine.note)
        machine.noted["node"] = node
        await node.run(machine.name, ShutdownRequest().event())
        return all(client.is_finished for client in self.honest)  # as for the server

    async def _join(self, machine: Machine) -> bool:
        """As `crescendo.network.client.join.join` does, on a loop that runs already."""
        c, state, shape = self.clients.index(machine), machine.folder, self.shape
        policy = _policy(shape.mechanism)
        source = RecordSource(str(machine.folder / "mine.npz"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CRESCENDO_REGISTRY", str(machine.folder / "registry"))
            ledger = ledger_for(source.own_file(), policy, state, machine.note)
        machine.noted["ledger"] = ledger
        with ledger:
            remove_stale(
                state, [account.promise.terms for account in map(ledger.account, ledger.open_federations()) if account]
            )
            endpoint, name = Endpoint(self.parents[machine].name), self.agreed.names[c]
            start = machine.starts

            def randomness(me: int) -> FreshSource:
                return FreshSource(Random(f"{self.seed} {c} {start}").getrandbits(64))

            client = _Joining(
                endpoint, name, source, state, policy, ledger, machine.note, Backoff(), randomness, None, EVERY
            )
            joined = await client.run(ShutdownRequest())
        machine.noted.pop("ledger", None)
        return joined.model is not None


@functools.lru_cache(maxsize=8)
def _policy(mechanism: str) -> Policy:
    if mechanism == "none":
        return Policy.model_validate({"mechanisms": ["none"]})
    return Policy.model_validate({"mechanisms": [mechanism], "epsilon": 1e6, "delta": 1e-3})


def _write_records(path: Path, c: int, features: int) -> None:
    rng = np.random.default_rng(c)
    x = rng.normal(size=(80 if features < 100 else 8, features))
    np.savez(path, x=x, y=np.where(np.arange(len(x)) % 2, 1.0, -1.0))
