"""A round that another process goes on with after a kill: of the same records, and with noise that no other process had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from crescendo.audit.driving.lead import Faults
from crescendo.audit.driving.subject import Driver, Subject
from crescendo.core.arrays import Array, Floats
from crescendo.core.client import Client, Work
from crescendo.data.records import Records

KIND = "rounds gone on with"
_RECORDS = 40

_Stored = tuple[Mapping[str, Any], Mapping[str, Array]]  # what the client and the worker export


def resumed_test(subject: Subject, rng: np.random.Generator, faults: Faults) -> None:
    """A client is killed in the middle of a round. Two others go on from what it stored, each with a source of its own.

    Without noise they must release what it would have released: a process that draws once more would have records of two draws
    in one release. With noise they must not: what is stored of a round has no noise in it, nor what it is made of.
    """
    subject = replace(subject, wire="float64")  # without noise the wire's rounding would show
    data, start = subject.plain_records(rng, _RECORDS), rng.normal(size=subject.objective.size) * 0.1
    with faults.noting("a kill in the middle of a round"):
        whole, others = _released(subject.without_noise(), data, start, rng)
        if not all(np.array_equal(whole, one) for one in others):
            faults.note(KIND, "a round that was gone on with after a kill is not of the records that were drawn for it")
        whole, others = _released(subject, data, start, rng)
        both = [whole, *others]
        if any(np.mean(a == b) > 0.5 for k, a in enumerate(both) for b in both[:k]):
            faults.note(KIND, "two processes that went on with a round have the same noise: it was stored")


def _released(
    subject: Subject, data: Records, start: Floats, rng: np.random.Generator
) -> tuple[Floats, tuple[Floats, ...]]:
    """What a client that was not killed sends of a round, and what two others send that went on in the middle of it."""
    i = subject.pairs()[0][0]

    def driver() -> Driver:
        return Driver(subject, data, np.arange(len(data)), subject.source(rng), start)

    first = driver()
    first.begin(i, start)
    work = first.worker.next()
    assert isinstance(work, Work)
    first.worker.run((work.slots + 1) // 2)
    stored = _stored(first)
    others: tuple[Floats, ...] = ()
    if stored is not None:
        others = tuple(_gone_on(driver(), stored, i) for _ in range(2))
    first.worker.run(work.slots // 2)
    return first.finish(i), others


def _stored(driver: Driver) -> _Stored | None:
    """What a client has written down; None if it writes nothing down."""
    client, made = driver.worker.client, driver.worker.export()
    if made is None or not isinstance(client, Client):
        return None
    return client.export() | {"frame": None}, {name: array.copy() for name, array in made.items()}


def _gone_on(driver: Driver, stored: _Stored, i: int) -> Floats:
    client = Client.restore(driver.subject.certificate.terms, dict(stored[0]))
    driver.worker.resume(client, stored[1])
    work = driver.worker.next()
    if isinstance(work, Work) and work.round == i:
        driver.worker.run(work.slots)
    return driver.finish(i)
