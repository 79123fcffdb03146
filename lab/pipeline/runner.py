"""Runs the jobs of experiments in several processes; the findings do not depend on their number."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from threadpoolctl import threadpool_limits

from crescendo.data import catalogue
from crescendo.errors import UsageError
from lab.pipeline.experiment import Effort, Experiment, Findings, Job, Outcome

Progress = Callable[[str, int, int], None]
"""Called after every job with the experiment's name, the number of jobs done and their total."""


def run_experiments(
    experiments: Sequence[Experiment], effort: Effort, processes: int, progress: Progress | None = None
) -> Iterator[tuple[Experiment, Findings, list[str]]]:
    """Yield each experiment with its findings and the names of absent data, as soon as all of its jobs are done."""
    lists = [list(one.jobs(effort)) for one in experiments]
    total, done = sum(map(len, lists)), 0
    outcomes = _outcomes([job for jobs in lists for job in jobs], processes)
    for experiment, jobs in zip(experiments, lists, strict=True):
        found: list[Outcome] = []
        for _ in jobs:
            found.append(next(outcomes))
            done += 1
            if progress is not None:
                progress(experiment.name, done, total)
        absent = list(dict.fromkeys(one["absent"] for one in found if "absent" in one))
        yield experiment, experiment.findings(found), absent


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _outcomes(jobs: Sequence[Job], processes: int) -> Iterator[Outcome]:
    """Yield the outcome of each job, in order."""
    here = {source.name for source in catalogue() if source.here}
    absent = {job.data for job in jobs if job.data is not None and job.data not in here}
    if processes == 1:
        with threadpool_limits(1):
            for job in jobs:
                yield {**job.setting, "absent": job.data} if job.data in absent else job.run()
        return
    # "spawn": a forked child would inherit locked mutexes of numerical libraries
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _prepare_process)
    try:
        futures = [None if job.data in absent else pool.submit(job.run) for job in jobs]
        for job, future in zip(jobs, futures, strict=True):
            yield {**job.setting, "absent": job.data} if future is None else future.result()
    except BrokenProcessPool:
        raise UsageError(
            "a process of the experiments was killed, perhaps for lack of memory; try again with --processes 1"
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():  # a job may take minutes: an interrupt does not wait for it
            child.terminate()


def _prepare_process() -> None:
    """Use one thread for linear algebra, so that sums are the same in every process, and leave interrupts to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent has been killed; the pool would keep it waiting for more jobs."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
