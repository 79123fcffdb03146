"""Faults: what goes wrong, with which machine, when and for how long. They are plain data, so that a script can name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tests.network.virtual.journals import applied_in

if TYPE_CHECKING:
    from tests.network.virtual.federation import Federation
    from tests.network.virtual.machine import Machine


class Fault(NamedTuple):
    """``at`` and ``lasts`` are seconds; ``number`` says how often, how much or which, as the kind has it."""

    at: float
    kind: str
    who: str
    lasts: float = 0.0
    number: float = 0.0


def begin(federation: Federation, fault: Fault) -> None:
    """Let it happen now."""
    (machine,) = [one for one in federation.machines if one.name == fault.who]
    federation.begun += 1
    KINDS[fault.kind](federation, machine, fault)


def _later(federation: Federation, seconds: float, then: Callable[[], None]) -> None:
    federation.loop.call_later(seconds, then, context=federation.world)


def _for_a_while(
    federation: Federation, machine: Machine, what: str, fault: Fault, on: Callable[[], None], off: Callable[[], None]
) -> None:
    """Of several of the same at once the last one ends it."""

    def end() -> None:
        machine.held_by[what] -= 1
        if not machine.held_by[what]:
            off()

    machine.held_by[what] += 1
    on()
    _later(federation, fault.lasts, end)


def _kill(federation: Federation, machine: Machine, fault: Fault) -> None:
    """A kill, and an absence of any length."""
    _for_a_while(federation, machine, "off", fault, machine.switch_off, machine.switch_on)


def _lose_power(federation: Federation, machine: Machine, fault: Fault) -> None:
    _for_a_while(federation, machine, "off", fault, lambda: machine.switch_off(power=True), machine.switch_on)


def _kill_in_write(federation: Federation, machine: Machine, fault: Fault) -> None:
    """The ``number``-th operation of its disk from now on is its process's last."""
    machine.disk.on_last, machine.disk.operations_left = machine.kill, int(fault.number)


def _lose_power_in_write(federation: Federation, machine: Machine, fault: Fault) -> None:
    machine.disk.on_last, machine.disk.operations_left = lambda: machine.kill(power=True), int(fault.number)


def _crash_loop(federation: Federation, machine: Machine, fault: Fault) -> None:
    """Each of its processes dies ``number`` seconds after its start."""
    end = federation.loop.time() + fault.lasts

    def crash() -> None:
        machine.kill()
        if federation.loop.time() < end:
            _later(federation, fault.number + machine.starts_after, crash)

    crash()


def _freeze(federation: Federation, machine: Machine, fault: Fault) -> None:
    """SIGSTOP: it does not run, and its connections stay. What it was sent waits, so its peers meet a slow reader."""
    process = machine.process
    if process is not None and process.alive:
        _for_a_while(federation, machine, f"frozen {machine.starts}", fault, process.freeze, process.thaw)


def _drop(federation: Federation, machine: Machine, fault: Fault) -> None:
    """Its connections break, every ``number`` seconds."""
    end = federation.loop.time() + fault.lasts

    def drop() -> None:
        federation.network.reset(machine)
        if federation.loop.time() < end:
            _later(federation, max(0.1, fault.number), drop)

    drop()


def _slow_line(federation: Federation, machine: Machine, fault: Fault) -> None:
    """So many bytes a second, and the more delay the fewer."""
    line = machine.line

    def slow() -> None:
        line.bandwidth, line.delay = fault.number, min(10.0, max(0.1, 2e4 / fault.number))

    def usual() -> None:
        line.bandwidth, line.delay = line.usual

    _for_a_while(federation, machine, "slow line", fault, slow, usual)


def _partition(federation: Federation, machine: Machine, fault: Fault) -> None:
    """Cut off; ``number`` 1 loses only what it sends, 2 only what is sent to it."""
    network, outward, inward = federation.network, fault.number != 2, fault.number != 1
    _for_a_while(
        federation, machine, "cut", fault, lambda: network.cut(machine, outward, inward), lambda: network.mend(machine)
    )


def _disk_full(federation: Federation, machine: Machine, fault: Fault) -> None:
    def full(is_full: bool) -> None:
        machine.disk.is_full = is_full

    _for_a_while(federation, machine, "full", fault, lambda: full(True), lambda: full(False))


def _disk_errors(federation: Federation, machine: Machine, fault: Fault) -> None:
    """Its next ``number`` writes or syncs fail."""
    machine.disk.fails = int(fault.number)


def _slow_disk(federation: Federation, machine: Machine, fault: Fault) -> None:
    disk = machine.disk

    def sync_takes(low: float, high: float) -> None:
        disk.sync_takes = low, high

    usual = disk.usual_sync
    _for_a_while(
        federation,
        machine,
        "slow disk",
        fault,
        lambda: sync_takes(fault.number / 4, fault.number),
        lambda: sync_takes(*usual),
    )


def _older_copy(federation: Federation, machine: Machine, fault: Fault) -> None:
    """What is on its disk now is put back ``lasts`` seconds later."""
    backup = federation.folder / f"backup {machine.name} {fault.at}"
    machine.back_up(backup)

    def restore() -> None:
        was_off = machine.is_off
        machine.switch_off()
        federation.once_applied |= applied_in(machine.folder)
        machine.put_back(backup)
        machine.is_finished = False
        federation.restored.append(federation.loop.time())
        if not was_off:
            machine.switch_on()

    _later(federation, fault.lasts, restore)


def _move(federation: Federation, machine: Machine, fault: Fault) -> None:
    """A client comes back by another way: at the server, or at an aggregator."""
    ways = [federation.server, *federation.aggregators]
    federation.parents[machine] = ways[int(fault.number) % len(ways)]
    machine.kill()


KINDS: dict[str, Callable[[Federation, Machine, Fault], None]] = {
    "kill": _kill,
    "power": _lose_power,
    "kill in write": _kill_in_write,
    "power in write": _lose_power_in_write,
    "crash loop": _crash_loop,
    "freeze": _freeze,
    "drop": _drop,
    "slow line": _slow_line,
    "partition": _partition,
    "disk full": _disk_full,
    "disk errors": _disk_errors,
    "slow disk": _slow_disk,
    "older copy": _older_copy,
    "move": _move,
}
