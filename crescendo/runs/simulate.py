"""`simulate`: a config in, a trained model with its metrics out, and a folder if one is asked for."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.config.loading import read, write
from crescendo.config.schema import Config
from crescendo.core.random import Purpose, stream
from crescendo.core.server import Server
from crescendo.core.vectors import message_bytes
from crescendo.data import Dataset
from crescendo.data.records import IntArray
from crescendo.errors import PeerError, UsageError
from crescendo.privacy.accounting.accountant import Progress
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.runs.clocks import make_timing
from crescendo.runs.evaluation import Meter
from crescendo.runs.folder import new_folder, write_lines
from crescendo.runs.prepare import Prepared, prepare
from crescendo.simulator.simulation import Moment, Simulation
from crescendo.simulator.trace import Trace
from crescendo.worker import Worker

Row = dict[str, Any]
Watch = Callable[[Moment, Row | None, int], None]


@dataclass(frozen=True)
class Savings:
    """Constant rounds of the size this run starts with, for the same gradients. Computed, not run."""

    size: int
    rounds: int
    bytes_up: int
    bytes_down: int


@dataclass(frozen=True, eq=False)
class Result:
    """What a run gave. The first fields are the JSON object of ``crescendo run --json``."""

    gradients: int
    rounds: int
    broadcasts: int
    bytes_up: int
    bytes_down: int
    loss: float | None
    accuracy: float | None
    max_rounds_ahead: int
    max_delay_used: float | None
    waits: int
    virtual_seconds: float
    wall_seconds: float
    privacy: Row | None
    run: str | None
    model: npt.NDArray[np.float64]
    metrics: list[Row]
    trace: Trace
    prepared: Prepared
    constant: Savings
    noise_free: Row | None = None  # the last metrics of the same run without its noise

    def as_json(self) -> Row:
        names = list(Result.__dataclass_fields__)
        found = {name: getattr(self, name) for name in names[: names.index("model")]}
        if self.privacy is not None:
            cost = {"noise_free_accuracy": self.noise_free["accuracy"]} if self.noise_free is not None else {}
            found["privacy"] = {**self.privacy, **cost}
        return found


def simulate(
    config: Config | Path | str | Mapping[str, Any],
    objective: Any = None,
    data: Dataset | None = None,
    out: Path | str | None = None,
    *,
    watch: Watch | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run a federation on a virtual clock.

    ``objective`` and ``data`` stand in for those of the config. Nothing is written unless ``out`` names a new folder. ``watch``
    is told of every round, ``progress`` of the accounting before the first.
    """
    if data is not None and isinstance(config, Mapping) and "data" not in config:
        config = {**config, "data": {"source": data.name}}
    checked = read(config)
    with contextlib.ExitStack() as stack:
        draft = stack.enter_context(new_folder(Path(out))) if out is not None else None
        prepared = prepare(checked, objective, data, progress)
        result = run_prepared(prepared, str(out) if out is not None else None, watch)
        if checked.evaluate.without_noise:
            twin = run_prepared(prepared, watch=watch, noise=False)
            result = dataclasses.replace(result, noise_free=twin.metrics[-1])
        if draft is not None:
            save(result, draft)
    return result


def run_prepared(prepared: Prepared, out: str | None = None, watch: Watch | None = None, noise: bool = True) -> Result:
    """Run what `prepare` made ready; nothing is written. A private run without its noise gets no epsilon."""
    config, terms, goal = prepared.config, prepared.terms, prepared.objective
    started = time.perf_counter()
    seed, wire = config.run.seed, config.run.wire
    model = np.asarray(goal.initial(stream(seed, Purpose.INIT)), dtype=np.float64)
    if model.shape != (goal.size,) or not np.isfinite(model).all():
        raise UsageError(
            f"the objective's initial model must be {goal.size} finite numbers; it has shape {model.shape}"
        )
    workers = [
        Worker(terms, c, model, goal, prepared.dataset.train, rows, seed, wire, _mechanism(prepared, c, rows, noise))
        for c, rows in enumerate(prepared.parts)
    ]
    meter = Meter(prepared)

    def observe(moment: Moment) -> None:
        row = meter.observe(moment)
        if watch is not None:
            watch(moment, row, terms.rounds)

    timing = make_timing(config, terms)
    try:
        trace = Simulation(terms, workers, Server(terms, model), timing, seed, wire=wire, observe=observe).run()
    except PeerError as error:
        raise UsageError(f"the run broke off: {error}; a smaller step size often helps") from error
    metrics, guarantee = meter.finish(), prepared.privacy
    last = metrics[-1]
    return Result(
        gradients=trace.gradients,
        rounds=trace.rounds,
        broadcasts=trace.broadcasts,
        bytes_up=trace.bytes_up,
        bytes_down=trace.bytes_down,
        loss=last["loss"],
        accuracy=last["accuracy"],
        max_rounds_ahead=trace.max_rounds_ahead,
        max_delay_used=trace.max_delay_used,
        waits=trace.waits,
        virtual_seconds=trace.virtual_seconds,
        wall_seconds=time.perf_counter() - started,
        privacy=guarantee.to_json(prepared.names) if guarantee is not None and noise else None,
        run=out,
        model=trace.model,
        metrics=metrics,
        trace=trace,
        prepared=prepared,
        constant=constant_rounds(prepared),
    )


def _mechanism(prepared: Prepared, c: int, rows: IntArray, noise: bool) -> Private | None:
    guarantee = prepared.privacy
    return guarantee.mechanism(c, rows, prepared.config.run.seed, noise) if guarantee is not None else None


def constant_rounds(prepared: Prepared) -> Savings:
    """What the same gradients would take in rounds that stay as small as the first."""
    terms, size = prepared.terms, prepared.sizes(0)
    rounds = math.ceil(prepared.sizes.gradients / size)
    clients, numbers = terms.clients, prepared.objective.size
    wire = prepared.config.run.wire
    up = message_bytes(math.ceil(numbers / terms.blocks), wire)
    down = message_bytes(numbers, wire)
    sending = min(clients, size)  # a client without a gradient in a round sends nothing
    return Savings(size, rounds, rounds * sending * up, (rounds + 1) * clients * down)


def save(result: Result, folder: Path) -> None:
    """Everything of a run but the time it took, so that one seed gives the same bytes again."""
    from crescendo.report import page
    from crescendo.report.from_result import story_of

    (folder / "config.toml").write_text(write(result.prepared.config), encoding="utf-8")
    write_lines(folder / "metrics.jsonl", result.metrics)
    result.trace.save(folder / "trace.npz")
    guarantee = result.prepared.privacy
    spent = guarantee.to_json(result.prepared.names, events=True) if guarantee is not None else None
    if spent is not None and result.noise_free is not None:
        spent["noise_free_accuracy"] = result.noise_free["accuracy"]
    (folder / "privacy.json").write_text(json.dumps(spent) + "\n", encoding="utf-8")
    np.savez(folder / "model.npz", model=result.model)
    (folder / "report.html").write_text(page(story_of(result)), encoding="utf-8")
