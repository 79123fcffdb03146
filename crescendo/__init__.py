"""Crescendo: federated learning without waiting, in rounds that grow.

How the folders fit, from the inside out:

core        the algorithm: Server and Client, state machines that do no I/O      schedules   sizes, steps, delays
data        sources of records            objectives  models and losses          privacy     mechanisms, guarantees
worker      one client at work: a Client with its data, objective and mechanism
simulator   drives workers on a virtual clock                                    algorithms  rivals on the same simulator
federation  the terms of both sides       storage     journal and ledger         network     drives workers over gRPC
audit       attacks on releases           config      the run file               runs        a configured run, start to finish
report      runs and studies as pages     studies     comparisons and sweeps     projects    a new project's files
calls       the Python interface          cli         the commands

The folder `lab` next to the package has the experiments, contests and benchmarks that test it.
"""

from __future__ import annotations

from crescendo.errors import ConfigError, CrescendoError, DataError, PeerError, Refused, UsageError

TYPE_CHECKING = False  # importing typing takes time, and an interrupt before `__main__` starts prints a traceback
if TYPE_CHECKING:
    from typing import Any

    from crescendo.calls.loaded_run import load
    from crescendo.calls.planning import plan
    from crescendo.calls.scheduling import schedule
    from crescendo.calls.simulating import simulate
    from crescendo.calls.studying import compare, sweep
    from crescendo.data.from_arrays import dataset
    from crescendo.objectives.neural import jax_model as jax
    from crescendo.objectives.neural import torch_model as torch
    from crescendo.runs.result import Result

__version__ = "0.1.0"
__all__ = [
    "ConfigError",
    "CrescendoError",
    "DataError",
    "PeerError",
    "Refused",
    "Result",
    "UsageError",
    "compare",
    "dataset",
    "jax",
    "load",
    "plan",
    "schedule",
    "simulate",
    "sweep",
    "torch",
]


def __dir__() -> list[str]:
    """Return every public name, loaded or not, and the names that Python keeps in a module."""
    kept = {name for name in globals() if name.startswith("__") and name.endswith("__")}
    return sorted(kept | set(__all__))


def __getattr__(name: str) -> Any:
    if name == "simulate":
        from crescendo.calls import simulating

        return simulating.simulate
    if name == "schedule":
        from crescendo.calls import scheduling

        return scheduling.schedule
    if name == "load":
        from crescendo.calls import loaded_run

        return loaded_run.load
    if name == "Result":
        from crescendo.runs import result

        return result.Result
    if name in ("compare", "sweep"):
        from crescendo.calls import studying

        return studying.compare if name == "compare" else studying.sweep
    if name == "plan":
        from crescendo.calls import planning

        return planning.plan
    if name == "dataset":
        from crescendo.calls.foreign_words import in_a_sentence
        from crescendo.data import from_arrays

        return in_a_sentence("dataset")(from_arrays.dataset)
    if name in ("torch", "jax"):
        return _neural(name)
    raise AttributeError(f"module 'crescendo' has no attribute {name!r}")


def _neural(library: str) -> Any:
    try:
        if library == "jax":
            from crescendo.objectives.neural import jax_model

            return jax_model
        from crescendo.objectives.neural import torch_model

        return torch_model
    except ImportError as error:
        raise ConfigError(
            f"a {library} model needs {library}; install it with pip install 'crescendo-fl[{library}]'"
        ) from error
