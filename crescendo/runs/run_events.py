"""Events of a run in progress. Every sink receives every event: the run's files, a progress bar, a program's sinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crescendo.runs.prepare import Prepared
from crescendo.runs.result import Result
from crescendo.simulator.simulation import Moment


@dataclass(frozen=True, eq=False)
class RunBegan:
    """The run is prepared and certified; the first round is next."""

    prepared: Prepared


@dataclass(frozen=True, eq=False)
class RoundCompleted:
    """k has risen (or is 0, before the first round), in a run of ``rounds``."""

    moment: Moment
    rounds: int


@dataclass(frozen=True, eq=False)
class ModelsMeasured:
    """Models were scored, a row each. Several are scored together, so this event follows their rounds with a delay."""

    rows: list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class WithoutNoise:
    """An event of the same run without noise, which follows a private run if ``evaluate.without_noise`` is set."""

    event: Event


@dataclass(frozen=True, eq=False)
class RunEnded:
    """The run is complete."""

    result: Result


Event = RunBegan | RoundCompleted | ModelsMeasured | WithoutNoise | RunEnded
Sink = Callable[[Event], None]
