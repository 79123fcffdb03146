"""Models that remember: the gradient of a record must not depend on the records before it.

A user's model is an object, and may keep something of all that it sees: a running mean, a list of hard examples, a cache. That
may show late, after hundreds of records, or only once it has evaluated others. So it is led through a long history, and its
gradients of some records are compared with those of copies that were made before anything was shown. The mechanisms isolate such
code, so that nothing should show: this is the audit of the isolation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import is_dataclass

import numpy as np

from crescendo.audit.driving.lead import Faults
from crescendo.audit.driving.subject import Subject
from crescendo.core.arrays import Floats
from crescendo.data.records import Records
from crescendo.objectives.base import Objective, Slots, isolate

KIND = "models that remember"
_PROBES = 24  # records that are asked about again and again
_HISTORY = 1500  # records that are shown, one by one
_SLOW_HISTORY = 150  # to a model that computes with a library of its own, and is copied before each call
_STOPS = (1, 3, 10, 30, 60, 120, 250, 500, 1000)  # after how many the probes are asked about
_TOGETHER = 3  # records of a round whose steps are looked at
_NEAR = 1e-7  # of the largest number: libraries may add up in another order

_Says = Callable[[Objective, Floats, Records], Floats]


def probe_memory(subject: Subject, rng: np.random.Generator, faults: Faults) -> None:
    """A long history of gradients and evaluations; models of the project's own that are plain data have no memory to look at."""
    objective = subject.objective
    if is_dataclass(objective):
        return
    says = _moved if subject.certificate.mechanism == "batch-clip" else _gradient
    count = 1 if says is _gradient else _TOGETHER
    probes = [_record(subject, rng, count) for _ in range(_PROBES)]
    starts = [_start(subject, rng) for _ in probes]
    with faults.noting("a long history of records"):
        due = [says(_pristine(objective), w, _again(data)) for w, data in zip(starts, probes, strict=True)]
        used = _pristine(objective)
        for shown in _history(subject, used, says, count, rng):
            for w, data, before in zip(starts, probes, due, strict=True):
                after = says(used, w, _again(data))
                apart = float(np.abs(after - before).max(initial=0.0))
                if not apart <= _NEAR * float(np.abs(before).max(initial=0.0)) and not np.array_equal(
                    after, before, equal_nan=True
                ):
                    faults.note(KIND, f"after {shown} the gradient of a record is {apart:.3g} away from the one before")
                    return


def _history(subject: Subject, used: Objective, says: _Says, count: int, rng: np.random.Generator) -> Iterator[str]:
    """Show the model record after record, and evaluations in between; yield, in words, how much it has seen."""
    many = _SLOW_HISTORY if subject.objective.traits.clips else _HISTORY
    labels, w = subject.labels, _start(subject, rng)
    for n in range(1, many + 1):
        data = _record(subject, rng, count)
        says(used, w, data)
        del data  # the next record may have its place in memory, and with it its id
        if n in _STOPS or n == many:
            yield f"{n} records"
    plain = subject.plain_records(rng, 60)
    for k, kept in enumerate((0.95, 0.05)):  # one label is common, then it is rare
        y = np.where(rng.random(60) < kept, labels[0], labels[-1])
        used.evaluate(_start(subject, rng), Records(plain.x, y))
        yield f"{many} records and {k + 1} evaluations"
    # an objective may be asked about a record among all of them
    used.gradient(w, plain, np.arange(20))
    yield f"{many} records, two evaluations and a batch"


def _pristine(objective: Objective) -> Objective:
    """A copy that has seen nothing, isolated as the mechanisms isolate it; of code that cannot be copied, the code itself."""
    with suppress(Exception):
        objective = copy.deepcopy(objective)
    isolate(objective)
    return objective


def _record(subject: Subject, rng: np.random.Generator, count: int) -> Records:
    return subject.plain_records(rng, count)


def _again(data: Records) -> Records:
    """The same in another place of memory."""
    return data.take(np.arange(len(data)))


def _start(subject: Subject, rng: np.random.Generator) -> Floats:
    return np.asarray(rng.normal(size=subject.objective.size) * 10 ** rng.uniform(-2, 0.5))


def _gradient(objective: Objective, w: Floats, data: Records) -> Floats:
    return np.array(objective.gradient(w.copy(), data, np.zeros(1, dtype=np.int64)), dtype=np.float64)


def _moved(objective: Objective, w: Floats, data: Records) -> Floats:
    """How far a round of one step a record moves the model."""
    count, stepper = len(data), objective.stepper(data)
    stepper.load(w.copy())
    stepper.advance(Slots(np.arange(count), np.full(count, 0.1), np.arange(1, count + 1)), 0, count)
    return w - np.asarray(stepper.read(), dtype=np.float64)
