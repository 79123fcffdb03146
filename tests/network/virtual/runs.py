"""One run: from a schedule to what it broke."""

from __future__ import annotations

import asyncio
import gc
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.network.virtual import faults
from tests.network.virtual.checks import final_problems, fingerprint
from tests.network.virtual.clock import START, Stuck, VirtualLoop
from tests.network.virtual.federation import Federation
from tests.network.virtual.hearing import Models, overheard
from tests.network.virtual.schedules import Schedule
from tests.network.virtual.simulation import simulated
from tests.network.virtual.streams import Network
from tests.network.virtual.watching import Watcher
from tests.network.virtual.wire_tap import WireTap

MOST_PROBLEMS = 20  # that are told of one run
MOST_SECONDS = 240.0  # of real time; a run that takes longer is told as one that hangs


@dataclass(frozen=True)
class Outcome:
    """What a run showed."""

    seed: int
    problems: tuple[str, ...]
    virtual: float  # seconds
    real: float
    cpu: float
    faults: int  # those that happened: a crash loop counts each crash
    updates: int
    longest_wait: float
    fingerprint: str
    log: tuple[tuple[float, str, str, dict[str, Any]], ...] = ()


def run(seed: int, schedule: Schedule, keep_log: bool = False) -> Outcome:
    """Run a schedule. The same seed and schedule give the same run."""
    folder = Path(tempfile.mkdtemp(prefix="crescendo-virtual-", dir=_memory()))
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    gc.disable()  # it would run the ends of killed coroutines at instants that no seed determines
    try:
        with _silence():
            outcome = _run(seed, schedule, keep_log, folder, loop)
            with simulated(loop, Network(loop, Random(), copy_context()), Random()):
                gc.collect()
        return outcome
    finally:
        gc.enable()
        asyncio.set_event_loop(None)
        shutil.rmtree(folder, ignore_errors=True)


def _run(seed: int, schedule: Schedule, keep_log: bool, folder: Path, loop: VirtualLoop) -> Outcome:
    began, cpu = time.perf_counter(), time.process_time()
    federation = Federation(schedule.shape, seed, folder, loop, dict(schedule.hostile))
    models, watcher = Models(), Watcher(federation, schedule.quiet)
    tap = WireTap(federation.agreed, models)
    problems: list[str] = []
    with simulated(loop, federation.network, Random(f"{seed} chance")), overheard(models):
        federation.listen_in(tap)
        try:
            loop.run_until_complete(_play(federation, schedule, watcher, began))
        except Stuck as error:
            problems.append(str(error))
        finally:
            federation.end()
            loop.close()
    problems += watcher.problems + models.problems + federation.refused_wrongly()
    problems += [f"the event loop reports {facts}" for facts in loop.failures]
    with _problems_of_files(problems):
        problems += final_problems(federation, tap)
    log = [
        (at - START, machine.name, event, facts) for machine in federation.machines for at, event, facts in machine.log
    ]
    return Outcome(
        seed,
        tuple(problems[:MOST_PROBLEMS]),
        loop.time() - START,
        time.perf_counter() - began,
        time.process_time() - cpu,
        federation.faults_happened,
        len(tap.sent),
        watcher.longest_wait,
        fingerprint(federation),
        tuple(sorted(log, key=lambda line: line[0])) if keep_log else (),
    )


async def _play(federation: Federation, schedule: Schedule, watcher: Watcher, began: float) -> None:
    loop = federation.loop
    for fault in schedule.faults:
        loop.call_later(fault.at, faults.begin, federation, fault, context=federation.world)
    federation.start()
    while not (federation.is_over or watcher.gives_up or len(federation.refused_wrongly()) >= MOST_PROBLEMS):
        await asyncio.sleep(watcher.every)
        watcher.look()
        if time.perf_counter() - began > MOST_SECONDS:
            raise Stuck(f"the run takes more than {MOST_SECONDS:.0f} s")


@contextmanager
def _problems_of_files(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        problems.append(f"what is on the disks cannot be checked: {error!r}")


@contextmanager
def _silence() -> Iterator[None]:
    """What is left of killed processes goes without a word."""
    before, sys.unraisablehook = sys.unraisablehook, lambda raised: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # coroutines that never began
            yield
    finally:
        sys.unraisablehook = before


def _memory() -> str | None:
    """A folder in memory, if there is one: simulated disks do not wait for a real one."""
    with suppress(OSError):
        if Path("/dev/shm").is_dir():
            return "/dev/shm"
    return None
