"""`simulate`: runs a config and returns the trained model with its metrics; writes a folder on request."""

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.algorithms.algorithm_kinds import OURS, AlgorithmSides
from crescendo.algorithms.algorithm_kinds import algorithm as by_name
from crescendo.algorithms.corrected_steps import CorrectedObjective, CorrectingClient
from crescendo.algorithms.pooled import PooledRecords, pooled_timing
from crescendo.config.loading import read
from crescendo.config.schema import Config
from crescendo.config.to_clocks import clocks_of
from crescendo.core.arrays import Floats, Ints
from crescendo.data import Dataset
from crescendo.data.records import finite_rows
from crescendo.errors import DataError, Diverged, PeerError, UsageError
from crescendo.federation.divergence import remedy
from crescendo.privacy.mechanisms.mechanism import Mechanism
from crescendo.runs.evaluation import Meter
from crescendo.runs.folder import new_folder
from crescendo.runs.prepare import Prepared, prepare
from crescendo.runs.result import Result
from crescendo.runs.run_events import Event, ModelsMeasured, RoundCompleted, RunBegan, RunEnded, Sink, WithoutNoise
from crescendo.runs.run_files import RunFiles
from crescendo.simulator.many_cores import clients_at_a_time
from crescendo.simulator.rehearsal import ClientScript, rehearsed
from crescendo.simulator.side_by_side import side_by_side
from crescendo.simulator.simulation import Moment, Simulation
from crescendo.simulator.timing import Timing
from crescendo.worker import Worker
from crescendo_dp.accounting.epsilon import Progress


def simulate(
    config: Config | Path | str | Mapping[str, Any],
    objective: Any = None,
    data: Dataset | None = None,
    out: Path | str | None = None,
    *,
    sinks: Sequence[Sink] = (),
    progress: Progress | None = None,
    standalone: bool = False,
    algorithm: str = OURS,
    options: Mapping[str, Any] | None = None,
    cores: int | None = None,
) -> Result:
    """Run the federation of a run file on a virtual clock; `crescendo.simulate` takes records and keywords too.

    ``objective`` and ``data`` replace those of the config. The run writes files only if ``out`` names a new folder, which is
    called ``out.running`` until the run is complete. ``sinks`` receive every event, ``progress`` that of the accounting before
    the first round. A ``standalone`` report opens alone; any other uses a script next to ``out``. ``algorithm`` is one of
    `algorithms.algorithm_kinds`, with its ``options``: a rival computes as many gradients on the same data, clock and network.
    At most ``cores`` clients compute at once, by default one per core if that is faster; the result is the same bit for bit.
    """
    chosen = by_name(algorithm)
    asked = chosen.made(options)
    if out is not None and (algorithm != OURS or asked != chosen.made()):
        what = algorithm if algorithm != OURS else "options"
        raise UsageError(
            f"out= stores a run that its run file repeats, and a run file cannot state {what}; remove out="
        )
    if data is not None and isinstance(config, Mapping) and "data" not in config:
        config = {**config, "data": {"source": data.name}}
    checked = read(config)
    if data is not None and checked.privacy.mechanism == "none":
        _refuse_not_finite(data)
    with new_folder(Path(out)) if out is not None else contextlib.nullcontext() as folder:
        prepared = prepare(checked, objective, data, progress, chosen, asked)
        hearing = [*sinks, *([RunFiles(folder, standalone)] if folder is not None else ())]
        _tell(hearing, RunBegan(prepared))
        result = run_prepared(prepared, str(out) if out is not None else None, hearing, cores=cores)
        if checked.evaluate.without_noise:
            twin = run_prepared(
                prepared, sinks=[lambda event: _tell(sinks, WithoutNoise(event))], noise=False, cores=cores
            )
            result = dataclasses.replace(result, noise_free=twin.metrics[-1])
        _tell(hearing, RunEnded(result))
    return result


def _refuse_not_finite(data: Dataset) -> None:
    """Refuse records with numbers that are not finite, in a run without privacy. In a private run such a record counts as 0."""
    for records, part in ((data.train, "training"), (data.test, "test")):
        unsound = 0 if records is None else int(np.count_nonzero(~finite_rows(records.x)))
        if records is not None and unsound:
            raise DataError(
                f"numbers that are not finite are in {unsound:,} of {len(records):,} {part} records of {data.name}; "
                "fill them in or leave these records out"
            )


def _tell(sinks: Sequence[Sink], event: Event) -> None:
    for sink in sinks:
        sink(event)


def run_prepared(
    prepared: Prepared,
    out: str | None = None,
    sinks: Sequence[Sink] = (),
    noise: bool = True,
    cores: int | None = None,
) -> Result:
    """Run a prepared run. Without its ``noise``, a private run states no epsilon."""
    started, agreed, alone = time.perf_counter(), prepared.agreement, prepared.algorithm.pools
    wire, model = "float64" if alone else agreed.wire, agreed.initial()
    sides = prepared.algorithm.sides(prepared.working, model, prepared.options, wire)
    workers = _workers(prepared, sides, model, wire, noise)
    meter = Meter(prepared, lambda rows: _tell(sinks, ModelsMeasured(rows)))

    def observe(moment: Moment) -> None:
        moment = dataclasses.replace(moment, bytes_up=0, bytes_down=0) if alone else moment
        meter.observe(moment)
        _tell(sinks, RoundCompleted(moment, sides.moves))

    timing = clocks_of(prepared.config, agreed.terms)  # one clock for all algorithms
    timing = pooled_timing(timing) if alone else timing
    at_once = clients_at_a_time(cores, prepared.working, prepared.objective, prepared.dataset.train)
    if any(isinstance(client, CorrectingClient) for client in sides.clients):  # their steps read the client's counters
        at_once = 1
    scripts = _rehearsed(prepared, timing, wire) if at_once > 1 else []
    try:
        with side_by_side(workers, scripts, at_once) as at_work:
            run = Simulation(prepared.working, at_work, sides.server, timing, agreed.seed, wire=wire, observe=observe)
            trace = run.run()
    except (PeerError, Diverged) as error:
        helps = remedy(prepared.config.schedule.steps, prepared.step_room)
        raise Diverged(f"the run diverged and broke off: {error}; {helps}") from error
    trace = dataclasses.replace(trace, bytes_up=0, bytes_down=0) if alone else trace  # one machine sends nothing
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
    )


def _workers(prepared: Prepared, sides: AlgorithmSides, model: Floats, wire: str, noise: bool) -> list[Worker]:
    """Return a worker for every client of the algorithm."""
    goal, records, seed = prepared.objective, prepared.dataset.train, prepared.agreement.seed
    parts = [np.arange(len(records))] if prepared.algorithm.pools else prepared.parts
    workers = []
    for c, (rows, client) in enumerate(zip(parts, sides.clients, strict=True)):
        local = CorrectedObjective(goal, client) if isinstance(client, CorrectingClient) else goal
        mechanism = _mechanism(prepared, c, rows, noise)
        workers.append(Worker(prepared.working, c, model, local, records, rows, seed, wire, mechanism, client))
    return workers


def _rehearsed(prepared: Prepared, timing: Timing, wire: str) -> list[ClientScript]:
    """Rehearse the run, with a model of only as many numbers as masks need, and return each client's script."""
    terms = prepared.working
    sides = prepared.algorithm.sides(terms, np.zeros(terms.blocks), prepared.options, wire)
    return rehearsed(terms, sides.server, sides.clients, timing, prepared.agreement.seed)


def _mechanism(prepared: Prepared, c: int, rows: Ints, noise: bool) -> Mechanism | None:
    guarantee = prepared.privacy
    if prepared.algorithm.pools:
        return PooledRecords(prepared.working, len(rows), prepared.row_weights(), prepared.agreement.seed)
    return guarantee.mechanism(c, rows, prepared.config.run.seed, noise) if guarantee is not None else None
