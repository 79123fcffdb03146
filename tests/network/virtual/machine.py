"""A simulated machine: a disk, a line, and a service manager that starts its program again whenever it ends."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from crescendo.errors import CrescendoError
from tests.network.virtual.disk import Disk
from tests.network.virtual.lines import Line
from tests.network.virtual.process import Killed, Process

if TYPE_CHECKING:
    from tests.network.virtual.federation import Federation

START_AGAIN = 5.0  # seconds after which the service manager starts a program again


class Machine:
    """Runs ``program`` until that returns True: then it is finished."""

    def __init__(
        self, federation: Federation, name: str, number: int, program: Callable[[Machine], Awaitable[bool]]
    ) -> None:
        self.federation, self.loop, self.name, self.number, self._program = (
            federation,
            federation.loop,
            name,
            number,
            program,
        )
        self.folder = federation.folder / name
        self.folder.mkdir()
        self.rng = Random(f"{federation.seed} {name}")
        self.disk, self.line = Disk(self.folder, self.rng), Line()
        self.disk.on_last = self.kill
        self.process: Process | None = None
        self.old: list[Process] = []
        self.starts = self.kills = 0
        self.is_finished = False
        self.is_off = True  # nothing starts it
        self.log: list[tuple[float, str, dict[str, Any]]] = []
        self.unexpected: list[BaseException] = []
        self.slot_takes = 1.0  # seconds of computing
        self.held_by: Counter[str] = Counter()  # faults that last, by what they do
        self.noted: dict[str, Any] = {}  # what its program leaves for the harness

    def note(self, event: str, **facts: Any) -> None:
        """The log of its program."""
        self.log.append((self.loop.time(), event, facts))

    def failed(self, error: BaseException) -> None:
        """Something was raised that is no answer to anything that went wrong."""
        self.unexpected.append(error)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.alive

    # -- on and off --------------------------------------------------------------------------------------------------------

    starts_after = START_AGAIN

    def switch_on(self) -> None:
        self.is_off = False
        self._start()

    def switch_off(self, power: bool = False) -> None:
        """Until it is switched on again."""
        self.is_off = True
        self.kill(power)

    def kill(self, power: bool = False) -> None:
        """End its process at this instant, or, with ``power``, lose what was not synced as well."""
        process, self.process = self.process, None
        if process is not None and process.alive:
            self.kills += 1
            process.kill()
            self.federation.network.vanish(process, power)
            self.disk.close_all(process)
            self.old.append(process)
            self.disk.operations_left = None
            self._keep_ledger()
            if power:
                self.disk.lose_power()
            self._start_later()

    def _start_later(self) -> None:
        if not self.is_off and not self.is_finished:
            self.loop.call_later(START_AGAIN, self._start, context=self.federation.world)

    def _start(self) -> None:
        if self.is_off or self.runs or self.is_finished:
            return
        self.starts += 1
        self.process = Process(self)
        self.federation.world.copy().run(self._begin, self.process)

    def _begin(self, process: Process) -> None:
        task = self.loop.create_task(self._run(), context=process.context.copy())
        task.add_done_callback(lambda done: self._ended(process, done), context=self.federation.world.copy())

    async def _run(self) -> bool:
        return await self._program(self)

    def _ended(self, process: Process, task: asyncio.Task[bool]) -> None:
        error = None if task.cancelled() else task.exception()
        if not process.alive or isinstance(error, Killed):
            return
        if error is not None and not isinstance(error, CrescendoError | OSError):
            self.failed(error)
        self.note("ended", reason=repr(error))
        if error is not None:
            self.federation.on_error(self, error)
        self.is_finished = error is None and not task.cancelled() and task.result()
        self.process = None
        process.kill()
        self.federation.network.vanish(process, power=False)
        self.disk.close_all(process)
        self._keep_ledger()
        self.old.append(process)
        self._start_later()

    def _keep_ledger(self) -> None:
        """Let go of a killed client's ledger as a kill leaves it: closing it would fold its write-ahead log in."""
        ledger = self.noted.pop("ledger", None)
        if ledger is None or ledger._file._db is None:
            return
        files = [path for path in self.folder.glob("ledger.sqlite*") if not path.name.endswith((".lock", ".kept"))]
        for path in files:
            shutil.copyfile(path, path.with_name(path.name + ".kept"))
        ledger._file._db.close()
        ledger._file._db = None
        for path in self.folder.glob("ledger.sqlite*.kept"):
            original = path.with_name(path.name.removesuffix(".kept"))
            if original.name.endswith("-shm"):
                path.unlink()
            else:
                path.replace(original)

    # -- backups -----------------------------------------------------------------------------------------------------------

    def back_up(self, to: Path) -> None:
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.folder, to)

    def put_back(self, backup: Path) -> None:
        """Put an older copy in the place of its folder. It must be off."""
        shutil.rmtree(self.folder)
        shutil.copytree(backup, self.folder)
        self.disk.settle()
