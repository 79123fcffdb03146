"""`crescendo.simulate`: takes records or a run file, and returns a trained model with its metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack, overload

from crescendo.algorithms.algorithm_kinds import OURS
from crescendo.calls.asked_run import AskedRun, Data, Rows, RunFile
from crescendo.calls.keywords import RunKeys, spelled_out
from crescendo.calls.watching import watched
from crescendo.errors import UsageError
from crescendo.runs.result import Result
from crescendo.runs.run_events import Sink
from crescendo.runs.simulate import simulate as run
from crescendo_dp.accounting.epsilon import Progress


@overload
def simulate(
    config: RunFile,
    /,
    *,
    data: Data = None,
    objective: Any = None,
    out: Path | str | None = None,
    overrides: Sequence[str] = (),
    sinks: Sequence[Sink] = (),
    progress: bool | Progress | None = None,
    standalone: bool = False,
    algorithm: str = OURS,
    options: Mapping[str, Any] | None = None,
    cores: int | None = None,
    **keys: Unpack[RunKeys],
) -> Result: ...


@overload
def simulate(
    x: Rows,
    y: Any = None,
    /,
    *,
    objective: Any = None,
    name: str = "arrays",
    out: Path | str | None = None,
    overrides: Sequence[str] = (),
    sinks: Sequence[Sink] = (),
    progress: bool | Progress | None = None,
    standalone: bool = False,
    algorithm: str = OURS,
    options: Mapping[str, Any] | None = None,
    cores: int | None = None,
    **keys: Unpack[RunKeys],
) -> Result: ...


@spelled_out
def simulate(
    x: Any,
    y: Any = None,
    /,
    *,
    data: Data = None,
    objective: Any = None,
    name: str = "arrays",
    out: Path | str | None = None,
    overrides: Sequence[str] = (),
    sinks: Sequence[Sink] = (),
    progress: bool | Progress | None = None,
    standalone: bool = False,
    algorithm: str = OURS,
    options: Mapping[str, Any] | None = None,
    cores: int | None = None,
    **keys: Unpack[RunKeys],
) -> Result:
    """Run a federation on a virtual clock, on records in memory or from a run file.

    ``simulate(x, y, clients=5)`` splits records over clients and trains on them. ``x`` is a numpy array, a data frame, a sparse
    matrix or a tensor with one record per row, or the result of `crescendo.dataset`. Every key has a default, and
    ``print(result.config)`` shows the resulting run file. The default objective is logistic regression for two classes, softmax
    regression for more, and least squares for labels with fractions.

    ``simulate("run.toml")`` runs a file, a dict of its tables or a `Config`; ``data``, a pair (x, y) or a data set, replaces the
    records that the file names.

    The common keys of a run file are keywords of either call: clients, split, alpha, weights, combine; optimizer, l2,
    label_range, epochs, gradients, rounds, sizes, steps, wait, timing; epsilon, delta, sigma, clip, norm_bound, records,
    mechanism; classes, test, schema, drop, categories, missing, scale, seed. Set any other key with ``overrides``:
    ``["run.wire=float16"]``.
    ``epsilon`` makes a run private. Then you must state ``records``, the number that each client declares, and ``classes``, since
    no record may decide what others see.

    Records may come with their clients: ``x`` is a list with a pair (x, y) for each client, ``clients`` holds an id for each
    record, or ``split="column:NAME"`` names the data frame column that holds the id.

    ``objective`` is the name of an objective, a model of `crescendo.torch` or `crescendo.jax`, a torch module, or any object with
    initial, gradient and evaluate. Nothing is written unless ``out`` names a new folder, which is ``out.running`` until the run
    is complete; a ``standalone`` report needs no other file. ``sinks`` receive an event for every round. A run of more than a
    second shows its progress on a terminal and in a notebook; ``progress=True`` shows it everywhere and False nowhere, and a
    function receives the progress of the accounting before the first round. ``algorithm`` is one of
    `algorithms.algorithm_kinds`, with its ``options``: a rival computes as many gradients on the same data, clock and network. At
    most ``cores`` clients compute at a time, with the same result, bit for bit.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> simulate(x, x[:, 0] > x[:, 1], clients=2, gradients=400).accuracy > 0.9
    True
    """
    if out is not None and not isinstance(out, str | os.PathLike):
        raise UsageError(f'out is the path of a new folder, such as "runs/mine-1", not of type {type(out).__name__}')
    if not isinstance(sinks, Sequence) or not all(callable(one) for one in sinks):
        raise UsageError("sinks is a list of functions that hear of every round, as in sinks=[f]")
    asked = AskedRun.of("simulate", x, y, data, objective, overrides, name, keys)
    with watched(progress) as watch:
        return run(
            asked.config,
            asked.objective,
            asked.data,
            out,
            sinks=sinks if watch is None else [*sinks, watch.heard],
            progress=progress if callable(progress) else None if watch is None else watch.accounting,
            standalone=standalone,
            algorithm=algorithm,
            options=options,
            cores=cores,
        )
