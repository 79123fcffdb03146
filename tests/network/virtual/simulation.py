"""Puts the simulation in the place of the machine: `crescendo.system`, gRPC, and what computing takes."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import grpc.aio
import pytest

from crescendo import system
from crescendo.federation.agreement import build_terms
from crescendo.network.aggregator import node
from crescendo.network.client import join
from crescendo.network.server import serve
from crescendo.network.server.grpc_server import NetworkServer
from crescendo.network.transport.connections import Connections
from crescendo.worker import Worker
from crescendo_dp.ledger.book import tight
from tests.network.virtual import disk, threads
from tests.network.virtual.clock import VirtualLoop
from tests.network.virtual.process import current
from tests.network.virtual.streams import Network

agreement_of = functools.lru_cache(maxsize=64)(
    build_terms
)  # frozen data; making it anew for each start takes most of a run
price_of = functools.lru_cache(maxsize=1024)(tight)
_run = Worker.run


@contextmanager
def simulated(loop: VirtualLoop, network: Network, rng: Random) -> Iterator[None]:
    """While this lasts, `loop` has the time, and everything that the package asks its machine for is simulated."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("Condition", "Event", "Lock", "RLock", "Thread", "ThreadPoolExecutor"):
            patch.setattr(system, name, getattr(threads, name))
        for name in (
            "close",
            "disk_usage",
            "fdopen",
            "flock",
            "ftruncate",
            "open_file",
            "pread",
            "pwrite",
            "replace",
            "unlink",
        ):
            patch.setattr(system, name, getattr(disk, name))
        for name in ("fsync", "fdatasync"):
            patch.setattr(system, name, disk.sync)
        for name in ("monotonic", "perf_counter"):
            patch.setattr(system, name, loop.time)
        patch.setattr(system, "time", loop.since_1970)
        patch.setattr(system, "uniform", rng.uniform)
        patch.setattr(system, "urandom", rng.randbytes)
        patch.setattr(grpc.aio, "server", network.server)
        patch.setattr(grpc.aio, "insecure_channel", network.channel)
        patch.setattr(Connections, "watch", _no_sockets)
        patch.setattr(Worker, "run", _run_slots)
        for module in (join, node):
            patch.setattr(module, "build_terms", agreement_of)
        patch.setattr(join, "tight", price_of)
        patch.setattr(serve, "NetworkServer", _NotedServer)
        yield


class _NotedServer(NetworkServer):
    """The server, where the watcher finds it."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        current().machine.noted["network_server"] = self


async def _no_sockets(connections: Connections, port: int) -> None:
    """It looks at the sockets of this process, and there are none."""
    await asyncio.Event().wait()


def _run_slots(worker: Worker, slots: int) -> None:
    """Compute, and let the time pass that it takes on this machine."""
    _run(worker, slots)
    threads.sleep(slots * current().machine.slot_takes)
