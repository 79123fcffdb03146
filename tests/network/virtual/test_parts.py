"""The parts of the simulation, one by one: a simulated machine must not be kinder than a real one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.network.virtual import disk as disks
from tests.network.virtual import threads
from tests.network.virtual.clock import START, Stuck, VirtualLoop
from tests.network.virtual.disk import Disk
from tests.network.virtual.lines import WINDOW, Line, Pipe
from tests.network.virtual.process import Killed, Process, current


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop()
    yield made
    made.close()


@pytest.fixture
def process(loop: VirtualLoop, tmp_path: Path) -> Process:
    """A process with a disk of its own."""
    machine: Any = SimpleNamespace(loop=loop, disk=Disk(tmp_path, Random(1)))
    return Process(machine)


def played(loop: VirtualLoop, process: Process, job: Any) -> Any:
    """Run a coroutine of a process."""
    return loop.run_until_complete(loop.create_task(job, context=process.new_context()))


def test_time_jumps_to_the_next_timer(loop: VirtualLoop) -> None:
    loop.run_until_complete(asyncio.sleep(86_400.0))
    assert loop.time() == pytest.approx(START + 86_400.0)


def test_nothing_that_is_left_to_happen_is_an_error(loop: VirtualLoop) -> None:
    with pytest.raises(Stuck):
        loop.run_until_complete(loop.create_future())


def test_a_killed_process_does_not_even_clean_up(loop: VirtualLoop, process: Process) -> None:
    said: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            said.append("cleaned up")

    async def play() -> None:
        task = loop.create_task(work(), context=process.new_context())
        await asyncio.sleep(5)
        process.kill()
        await asyncio.sleep(100)
        assert not task.done()

    loop.run_until_complete(play())
    assert not said


def test_a_frozen_process_goes_on_where_it_was(loop: VirtualLoop, process: Process) -> None:
    async def play() -> float:
        task = loop.create_task(asyncio.sleep(10, "done"), context=process.new_context())
        await asyncio.sleep(0)
        process.freeze()
        await asyncio.sleep(50)
        assert not task.done()
        process.thaw()
        await task
        return loop.time()

    assert loop.run_until_complete(play()) == pytest.approx(START + 50)


def test_threads_take_turns_and_wait_in_virtual_time(loop: VirtualLoop, process: Process) -> None:
    said: list[str] = []
    lock = threads.Lock()

    def first() -> None:
        with lock:
            threads.sleep(10.0)
            said.append("first")

    def second() -> None:
        with lock:
            said.append("second")

    async def play() -> None:
        await asyncio.gather(asyncio.to_thread(first), asyncio.to_thread(second))

    played(loop, process, play())
    assert said == ["first", "second"] and loop.time() == pytest.approx(START + 10)


def test_the_loop_hurries_the_thread_that_has_its_lock(loop: VirtualLoop, process: Process) -> None:
    lock = threads.Lock()

    def hold() -> None:
        with lock:
            threads.sleep(1000.0)

    async def play() -> float:
        task = asyncio.create_task(asyncio.to_thread(hold))
        await asyncio.sleep(1)
        with lock:
            at = loop.time()
        await task
        return at

    assert played(loop, process, play()) == pytest.approx(START + 1)


def test_a_kill_unwinds_threads_wherever_they_wait(loop: VirtualLoop, process: Process) -> None:
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            with (condition := threads.Condition()):
                condition.wait()
        except BaseException as error:
            raised.append(error)
            current()

    async def play() -> None:
        loop.create_task(asyncio.to_thread(wait), context=process.new_context())
        await asyncio.sleep(1)
        process.kill()

    loop.run_until_complete(play())
    assert [type(error) for error in raised] == [Killed] and not process.strands


@pytest.mark.parametrize("synced", [True, False])
def test_a_loss_of_power_takes_what_was_not_synced(tmp_path: Path, process: Process, synced: bool) -> None:
    def write() -> None:
        number = disks.open_file(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        folder = disks.open_file(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
        disks.pwrite(number, b"old" * 100, 0)
        disks.sync(number)
        disks.sync(folder)
        disks.pwrite(number, b"new" * 100, 0)
        if synced:
            disks.sync(number)

    process.new_context().run(write)
    kept = set()
    for _ in range(1 if synced else 200):
        content = (tmp_path / "file").read_bytes()
        process.machine.disk.lose_power()
        kept.add((tmp_path / "file").read_bytes())
        assert len(content) == 300
    assert kept == {b"new" * 100} if synced else b"new" * 100 not in kept or len(kept) == 1


def test_a_file_whose_name_was_not_synced_may_vanish(tmp_path: Path) -> None:
    there = set()
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        machine: Any = SimpleNamespace(loop=None, disk=Disk(folder, Random(seed)))
        process = Process(machine)
        process.new_context().run(disks.open_file, folder / "file", os.O_RDWR | os.O_CREAT)
        machine.disk.lose_power()
        there.add((folder / "file").exists())
    assert there == {True, False}


def test_messages_wait_for_a_reader_and_for_the_line(loop: VirtualLoop) -> None:
    line = Line()
    line.bandwidth, line.delay = 1000.0, 0.5
    pipe = Pipe(loop, copy_context(), line, Line())

    async def play() -> tuple[float, Any]:
        await pipe.put(WINDOW, "first")
        writing = asyncio.create_task(pipe.put(1000, "second"))
        await asyncio.sleep(WINDOW / 1000.0 + 10)
        assert not writing.done()
        first = await pipe.get()
        await writing
        second = await pipe.get()
        return loop.time(), (first, second)

    at, got = loop.run_until_complete(play())
    assert got == ("first", "second") and at == pytest.approx(START + WINDOW / 1000.0 + 11.52)


def test_what_is_sent_into_a_cut_line_comes_when_it_is_mended(loop: VirtualLoop) -> None:
    line = Line()
    pipe = Pipe(loop, copy_context(), line, Line())

    async def play() -> float:
        line.is_cut_out = True
        await pipe.put(10, "late")
        await asyncio.sleep(60)
        line.is_cut_out = False
        pipe.go_on()
        assert await pipe.get() == "late"
        return loop.time()

    assert loop.run_until_complete(play()) == pytest.approx(START + 60.04, abs=0.01)
