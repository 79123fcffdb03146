"""Attack on resumed rounds: after a kill, another process must use the same records, and noise that no other process had.

A client is killed at some slot of some round. The auditor chooses the draws: records stand in the slots on either side of the
kill, where a slot that is run twice or left out shows, and a process that would draw again is given other records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crescendo.audit.driving.lead import Faults
from crescendo.audit.driving.subject import Draw, Driver, Script, Subject
from crescendo.core.arrays import Array, Floats
from crescendo.core.client import Client, Work
from crescendo.data.records import Records
from crescendo.errors import CrescendoError

KIND = "rounds gone on with"
_RECORDS = 40
_MOST_DRAWN = 12
_EVERY = 5  # tries: that many less have noise
_SPREAD = 0.1  # of start models

_Stored = tuple[Mapping[str, Any], Mapping[str, Array]]  # the client's export and the worker's


@dataclass(frozen=True, eq=False)
class _Kill:
    """Round i, which begins at ``start`` and draws ``draw``, is killed at slot ``at``. A new process would draw ``another``."""

    i: int
    slots: int
    at: int
    data: Records
    start: Floats
    draw: Draw
    another: Draw

    @classmethod
    def random(cls, subject: Subject, rng: np.random.Generator) -> _Kill:
        """A round at random, killed at a slot at random, with records before and after it."""
        i = int(rng.choice(subject.rounds()))
        slots = subject.certificate.terms.share(i, subject.me)
        at = int(rng.integers(min(1, slots), slots + 1))
        count = int(rng.integers(2, _MOST_DRAWN + 1))
        tags = rng.random(count)
        tags[:2] = (max(at - 1, 0) + 0.5) / slots, (min(at, slots - 1) + 0.5) / slots
        first, second = rng.permutation(_RECORDS)[:count], rng.permutation(_RECORDS)[:count]
        # not so long that the model's own floats would swallow the records' part and the noise
        spread = min(_SPREAD, (subject.scale(i) or subject.sensitivity(i)) * 2.0**18)
        start = rng.normal(size=subject.objective.size) * spread
        draws = Draw(first, tags), Draw(second, rng.random(count))
        return cls(i, slots, at, subject.plain_records(rng, _RECORDS), start, *draws)

    def driver(self, subject: Subject, rng: np.random.Generator, draw: Draw) -> Driver:
        """A process of its own at the round's beginning, which would draw ``draw``."""
        source = Script({self.i: draw}, behind=subject.source(rng))
        return Driver(subject, self.data, np.arange(_RECORDS), source, self.start)


def resumed_test(subject: Subject, rng: np.random.Generator, tries: int, faults: Faults) -> None:
    """Kills in rounds at random. Another process goes on from the stored round; a third does after a second kill.

    Without noise all must make the same release, to the last bit. With noise they must not: a stored round has no noise in it,
    nor the bits that noise is made of.
    """
    subject = replace(subject, wire="float64")  # without noise the wire's rounding would show
    quiet = subject.without_noise()
    with faults.noting("a kill in the middle of a round"):
        _others(quiet, rng, faults)
        for k in range(max(1, tries)):
            kill = _Kill.random(subject, rng)
            whole, others = _released(quiet, kill, rng)
            if not all(np.array_equal(whole, one) for one in others):
                faults.note(KIND, _unlike(kill, whole, others))
            if k % _EVERY:
                continue
            whole, others = _released(subject, kill, rng)
            both = [whole, *others]
            if any(np.mean(a == b) > 0.5 for n, a in enumerate(both) for b in both[:n]):
                faults.note(KIND, "two processes that went on with a round have the same noise: it was stored")


def _others(subject: Subject, rng: np.random.Generator, faults: Faults) -> None:
    """A stored round that names records which are not there, or that another kind of round wrote, must be refused."""
    kill = _Kill.random(subject, rng)
    first = kill.driver(subject, rng, kill.draw)
    if first.worker.export() is not None:
        faults.note(KIND, "a round is stored before it has begun")
    first.begin(kill.i, kill.start)
    first.worker.begin()
    first.worker.run(kill.at)
    if (stored := _stored(first)) is None:
        return
    rows = stored[1]["rows"]
    wrong: dict[str, dict[str, Array]] = {
        "records beyond the last": {"rows": rows + _RECORDS},
        "records before the first": {"rows": rows - _RECORDS - 1},
        "records that are no whole numbers": {"rows": rows.astype(np.float64)},
        "slots of another number": {"ends": np.append(stored[1]["ends"], len(rows))} if "ends" in stored[1] else {},
        "slots that end before they begin": {"ends": stored[1]["ends"][::-1].copy()} if "ends" in stored[1] else {},
    }
    for what, parts in wrong.items():
        if all(np.array_equal(part, stored[1][name]) for name, part in parts.items()):
            continue
        try:
            _gone_on(kill.driver(subject, rng, kill.another), (stored[0], {**stored[1], **parts}))
        except CrescendoError:
            continue
        faults.note(KIND, f"a stored round with {what} was gone on with")


def _unlike(kill: _Kill, whole: Floats, others: list[Floats]) -> str:
    apart = max(float(np.abs(whole - one).max()) for one in others)
    return (
        f"round {kill.i} of {kill.slots} slots, gone on with after a kill at slot {kill.at}, is {apart:.17g} away from the "
        f"same round without a kill: it is not of the records that were drawn for it, each once"
    )


def _released(subject: Subject, kill: _Kill, rng: np.random.Generator) -> tuple[Floats, list[Floats]]:
    """The release of a client that was not killed, and those of others that went on with its round, after one kill and two."""
    first = kill.driver(subject, rng, kill.draw)
    first.begin(kill.i, kill.start)
    first.worker.begin()
    first.worker.run(kill.at)
    others = []
    if (stored := _stored(first)) is not None:
        second = _gone_on(kill.driver(subject, rng, kill.another), stored)
        work = second.worker.next()
        left = work.slots if isinstance(work, Work) and work.round == kill.i else 0
        second.worker.run(left // 2)
        if (again := _stored(second)) is not None:
            others.append(_finished(_gone_on(kill.driver(subject, rng, kill.another), again), kill.i))
        others.append(_finished(second, kill.i))
    return _finished(first, kill.i), others


def _stored(driver: Driver) -> _Stored | None:
    """Everything that a client has written down; None if it writes nothing down."""
    client, made = driver.worker.client, driver.worker.export()
    if made is None or not isinstance(client, Client):
        return None
    return client.export() | {"frame": None}, {name: array.copy() for name, array in made.items()}


def _gone_on(driver: Driver, stored: _Stored) -> Driver:
    driver.worker.resume(Client.restore(driver.subject.certificate.terms, dict(stored[0])), stored[1])
    return driver


def _finished(driver: Driver, i: int) -> Floats:
    """Run the rest of round i and return its release."""
    work = driver.worker.next()
    if isinstance(work, Work) and work.round == i:
        driver.worker.run(work.slots)
    return driver.finish(i)
