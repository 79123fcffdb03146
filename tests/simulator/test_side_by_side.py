"""Clients that compute side by side: the same run bit for bit, really at the same time, and an end for every thread."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.core.client import Client
from crescendo.core.server import Server
from crescendo.core.terms import Terms
from crescendo.errors import UsageError
from crescendo.objectives.base import LoopStepper
from crescendo.schedules import ConstantDelay, ConstantSteps
from crescendo.simulator import side_by_side as beside
from crescendo.simulator.rehearsal import ClientScript, rehearsed
from crescendo.simulator.simulation import Moment, Simulation
from crescendo.simulator.timing import Constant, Crashes, LogNormal, Timing
from crescendo.simulator.trace import Trace
from crescendo.worker import Worker
from tests.core.properties import for_all
from tests.core.strategies import make_terms
from tests.objectives.bare import Bare
from tests.simulator import federations as f
from tests.simulator.federations import NOTHING, Case, Parts

ROUGH = Timing((1.0, 1.5, 2.0), (0.0, 0.3, 0.0), LogNormal(0.5, 1.0), 0.2, 0.2, 1.0, Crashes(9.0, 3.0), 2.0)


def scripts(terms: Terms, timing: Timing, seed: int = 0) -> list[ClientScript]:
    model = np.zeros(terms.blocks)
    clients = [Client(terms, c, model) for c in range(terms.clients)]
    return rehearsed(terms, Server(terms, model), clients, timing, seed)


class Beside:
    """The simulation as `Parts` drive it, with clients that compute side by side."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.scripts: list[Any] = []

    def __call__(self, terms: Terms, workers: Any, server: Any, timing: Timing, seed: int, **more: Any) -> Any:
        self.made = (terms, workers, server, timing, seed), more
        return self

    def run(self) -> Trace:
        (terms, workers, server, timing, seed), more = self.made
        with beside.side_by_side(workers, scripts(terms, timing, seed), self.cores) as sides:
            self.scripts = (
                [] if self.cores == 1 else [side._script for side in sides if isinstance(side, beside.EarlyWorker)]
            )
            return Simulation(terms, sides, server, timing, seed, **more).run()


def told(run: f.Run) -> list[Any]:
    """Everything that a run shows, down to the bits; the gradients of each client in order."""
    tables = run.trace.tables
    columns = [(name, column, tables[name][column].tobytes()) for name in tables for column in tables[name]]
    counted = {k: v for k, v in vars(run.trace).items() if k not in ("model", "tables")}
    moments = [(*(v for k, v in vars(m).items() if k != "model"), m.model.tobytes()) for m in run.moments]
    return [columns, counted, moments, sorted(run.book, key=lambda g: g.client)]


def is_the_same_run(case: Case) -> None:
    alone = told(f.simulate(Parts(), case))
    for cores in (2, 5):
        together = Beside(cores)
        assert told(f.simulate(Parts(simulation=together), case)) == alone, f"another run with {cores} at a time"
        for script in together.scripts:
            assert script._at == len(script._asked), "the rehearsal told something else"


@pytest.mark.slow
def test_any_run_is_the_same_bit_for_bit_however_many_compute_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "_SLOTS_AT_ONCE", 2)  # rounds are short here
    for_all(f.cases(), is_the_same_run, 60)
    for_all(
        f.cases().map(lambda case: replace(case, terms=replace(case.terms, whole_rounds=True))), is_the_same_run, 40
    )


@pytest.mark.parametrize("whole_rounds", [False, True])
@pytest.mark.parametrize("rule", [{"ahead": 2}, {"slope": 0.5, "whole": False, "spare": 6.0}], ids=["ahead", "tau"])
def test_crashes_losses_and_absences_change_nothing_either(rule: dict[str, Any], whole_rounds: bool) -> None:
    terms = make_terms((6, 8, 9, 7, 9, 8), (0.3, 0.3, 0.4), rule, whole_rounds=whole_rounds)
    for seed in range(6):
        is_the_same_run(Case(terms, ROUGH, seed))


# -- who computes, and when


class Watched(Bare):
    """A model whose steps call a function of the test's."""

    size = 2

    def __init__(self, watch: Callable[[Any], None]) -> None:
        self.watch = watch

    def gradient(self, w: Any, data: Any, rows: Any) -> Any:
        self.watch(w)
        return w - 1.0

    def stepper(self, data: Any) -> LoopStepper:
        return LoopStepper(self, data)


def run(terms: Terms, timing: Timing, watch: Callable[[Any], None], cores: int, observe: Any = None) -> Trace:
    rows, model = np.zeros(1, dtype=np.int64), np.zeros(2)
    goal = Watched(watch)
    workers = [Worker(terms, c, model, goal, NOTHING, rows, 0, "float64") for c in range(terms.clients)]
    with beside.side_by_side(workers, scripts(terms, timing), cores) as sides:
        return Simulation(terms, sides, Server(terms, model), timing, 0, "float64", observe).run()


def all_have_ended() -> bool:
    """No thread of a run goes on."""
    return not [thread for thread in threading.enumerate() if thread.name.startswith("crescendo-client")]


TWO = make_terms((8, 8, 8), (0.5, 0.5), {"ahead": 1})
EVEN = Timing((1.0, 1.0), (0.0, 0.0))


def test_no_slot_is_left_to_the_thread_of_the_clock() -> None:
    here: list[bool] = []
    run(TWO, Timing((1.0, 1.3), (0.0, 0.2), Constant(0.4)), lambda w: here.append(_on_the_clock()), 2)
    assert here and not any(here)
    here.clear()
    run(TWO, EVEN, lambda w: here.append(_on_the_clock()), 1)
    assert here and all(here), "one core: no thread is made"


def _on_the_clock() -> bool:
    return threading.current_thread() is threading.main_thread()


def test_two_clients_are_at_work_at_the_same_time() -> None:
    """Each waits in its first step for the other: one after the other, they would wait for ever."""
    both, met = threading.Barrier(2), set[str]()

    def meet(w: Any) -> None:
        if threading.current_thread().name not in met:
            met.add(threading.current_thread().name)
            both.wait(60)

    run(TWO, EVEN, meet, 2)
    assert len(met) == 2 and all_have_ended()


# -- how it ends


def fails(w: Any) -> None:
    if w[0] > 0.6:
        raise UsageError(f"the model is {w[0]:.17g}")


@pytest.mark.parametrize("timing", [EVEN, Timing((1.0, 3.0), (0.0, 0.5), Constant(0.7))], ids=["even", "uneven"])
def test_what_a_client_raises_comes_out_as_it_would_without_threads(timing: Timing) -> None:
    said, shown = [], []
    for cores in (1, 2, 5):
        moments: list[Moment] = []
        with pytest.raises(UsageError, match="the model is") as raised:
            run(
                make_terms((8,) * 6, (0.5, 0.5), {"ahead": 1}, steps=ConstantSteps(0.1)),
                timing,
                fails,
                cores,
                moments.append,
            )
        said.append(str(raised.value))
        shown.append([(m.k, m.seconds, m.model.tobytes()) for m in moments])
    assert len(set(said)) == 1 and shown[0] == shown[1] == shown[2]
    assert all_have_ended()


@pytest.mark.parametrize("error", [SystemExit(3), MemoryError(), FloatingPointError("overflow")], ids=repr)
def test_whatever_it_raises(error: BaseException) -> None:
    def stop(w: Any) -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        run(TWO, EVEN, stop, 2)
    assert raised.value is error and all_have_ended()


def test_numpy_is_set_in_threads_as_it_is_for_the_caller() -> None:
    def overflow(w: Any) -> None:
        np.float64(1e308) * np.float64(10)

    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        run(TWO, EVEN, overflow, 2)


def test_a_schedule_that_is_not_live_is_said_as_without() -> None:
    terms = make_terms((8, 8), (0.5, 0.5), {"tau": ConstantDelay(5)})
    assert [script.undisturbed() for script in scripts(terms, EVEN)] == [(1, False)] * 2
    with pytest.raises(UsageError, match="deadlock"):
        run(terms, EVEN, lambda w: None, 2)
    assert all_have_ended()


def test_an_interrupt_ends_the_run_and_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes while the clock waits for slots of which there are many more: these are not waited for."""
    waits, ends, steps = threading.Event(), threading.Event(), list[int]()
    once, wait, end = threading.Lock(), beside.EarlyWorker.run, beside._Threads.end

    def interrupt(w: Any) -> None:
        steps.append(1)
        if once.acquire(blocking=False):
            assert waits.wait(60)
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGINT)
        assert ends.wait(60)

    def waiting(worker: Any, slots: int) -> None:
        waits.set()
        wait(worker, slots)

    def ending(threads: Any) -> None:
        threads._ended.set()
        ends.set()
        end(threads)

    monkeypatch.setattr(beside, "_SLOTS_AT_ONCE", 1)
    monkeypatch.setattr(beside.EarlyWorker, "run", waiting)
    monkeypatch.setattr(beside._Threads, "end", ending)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # an interrupt in a callback of the collector would be dropped: Hypothesis has one
    try:
        with pytest.raises(KeyboardInterrupt):
            run(make_terms((100_000,), (0.5, 0.5), {"ahead": 0}), EVEN, interrupt, 2)
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, before)
    assert len(steps) < 10 and all_have_ended()


def test_threads_leave_a_run_file_and_its_folder_as_they_are(tmp_path: Path) -> None:
    """Nothing of a run says how many cores computed it."""
    from crescendo.runs.simulate import simulate
    from tests.config.small import small

    folders = [tmp_path / str(cores) for cores in (1, 2)]
    for cores, folder in zip((1, 2), folders, strict=True):
        simulate(small(), out=folder, cores=cores)
    files = sorted(path.name for path in folders[0].iterdir())
    assert files == sorted(path.name for path in folders[1].iterdir())
    for name in ("config.toml", "metrics.jsonl", "trace.npz", "model.npz"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name
