"""Crescendo: federated learning without waiting, in rounds that grow.

How the folders fit:

core        the algorithm: Server and Client, state machines that do no I/O
schedules   round sizes, step sizes, delay bounds and the certificate that they fit together
objectives  what is learned               data        where records come from and how they are split over clients
worker      one client's work: a Client joined to its data and objective
runtimes    what drives workers: the simulator and its traces
report      a run as one HTML page        apps        run files, `simulate` and the command line
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crescendo.errors import ConfigError, CrescendoError, DataError, PeerError, Refused, UsageError

if TYPE_CHECKING:
    from crescendo.privacy.planning.planner import plan
    from crescendo.runs.result import Result
    from crescendo.runs.simulate import simulate

__version__ = "0.1.0"
__all__ = [
    "ConfigError",
    "CrescendoError",
    "DataError",
    "PeerError",
    "Refused",
    "Result",
    "UsageError",
    "plan",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in ("simulate", "Result"):
        from crescendo.runs import simulate as run

        return getattr(run, name)
    if name == "plan":
        from crescendo.privacy.planning import planner

        return planner.plan
    raise AttributeError(f"module 'crescendo' has no attribute {name!r}")
