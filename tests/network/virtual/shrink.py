"""Shrinks a failing schedule: drops hostile members and faults, many at once and then one by one, while it still fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.network.virtual.schedules import Schedule

MOST_RUNS = 120


def shrunk(schedule: Schedule, fails: Callable[[Schedule], bool], most: int = MOST_RUNS) -> Schedule:
    """A schedule that still fails, with as few faults as ``most`` further runs find.

    >>> from tests.network.virtual.faults import Fault
    >>> from tests.network.virtual.federation import Shape
    >>> faults = tuple(Fault(float(at), "kill", "server") for at in range(10))
    >>> small = shrunk(Schedule(Shape(), faults, 100.0), lambda one: {3.0, 7.0} <= {fault.at for fault in one.faults})
    >>> [fault.at for fault in small.faults]
    [3.0, 7.0]
    """
    runs = 0

    def still(candidate: Schedule) -> bool:
        nonlocal runs
        runs += 1
        return fails(candidate)

    if schedule.hostile and still(replace(schedule, hostile=())):
        schedule = replace(schedule, hostile=())
    size = len(schedule.faults)
    while size >= 1:
        at = 0
        while at < len(schedule.faults) and runs < most:
            rest = schedule.faults[:at] + schedule.faults[at + size :]
            candidate = replace(schedule, faults=rest)
            if still(candidate):
                schedule = candidate
            else:
                at += size
        size //= 2
    return schedule


_SCRIPT = """from tests.network.virtual.faults import Fault
from tests.network.virtual.federation import Shape
from tests.network.virtual.planted import plant
from tests.network.virtual.runs import run
from tests.network.virtual.schedules import Schedule

{plant}schedule = Schedule(
    {shape!r},
    (
{faults}    ),
    {quiet!r},
    {hostile!r},
)
print(*run({seed}, schedule).problems, sep="\\n")
"""


def script(seed: int, schedule: Schedule, bug: str = "") -> str:
    """A program that runs this again."""
    faults = "".join(f"        Fault{tuple(fault)!r},\n" for fault in schedule.faults)
    planted, shape, quiet, hostile = (
        f"plant({bug!r})\n" if bug else "",
        schedule.shape,
        schedule.quiet,
        schedule.hostile,
    )
    return _SCRIPT.format(seed=seed, plant=planted, shape=shape, faults=faults, quiet=quiet, hostile=hostile)
