"""What is sent on every wire: the same release, rounded once to the wire's floats, and cut to the largest of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crescendo.audit.driving.lead import Faults, led
from crescendo.audit.driving.subject import Draw, Script, Subject, releases
from crescendo.audit.driving.tap import Tap
from crescendo.audit.worst_cases.edges import RECORDS, tail_words
from crescendo.audit.worst_cases.scenes import plain_records
from crescendo.core.vectors import WIRES, rounded

_ROUNDS = 8  # in a row, on each wire


def same_on_every_wire(name: str, subject: Subject, rng: np.random.Generator, faults: Faults) -> None:
    """The same draw and the same words: each wire must carry what float64 does, but for its own rounding."""
    rounds = subject.pairs()[0]
    data, rows = plain_records(subject, rng, RECORDS), np.arange(RECORDS)
    starts = tuple(rng.normal(size=subject.objective.size) * 0.3 for _ in rounds)
    draws = {i: Draw(np.arange(3), rng.random(3)) for i in rounds}
    words = {i: tail_words(rng, subject.objective.size) for i in rounds}
    sent = {}
    for wire in WIRES:
        tap = Tap(Script(draws), draws, words)
        with faults.noting(f"{name} on {wire}"):
            sent[wire] = releases(replace(subject, wire=wire), data, rows, tap, rounds, starts)
    for wire, got in sent.items():
        for i, one, exact in zip(rounds, got, sent.get("float64", got), strict=True):
            due = np.asarray(rounded(exact, wire, saturate=True), dtype=np.float64)
            if not np.array_equal(one, due):
                faults.note("wires", f"with {name}: round {i} on {wire} is not the release on float64, rounded")


def moves_as_sent(subject: Subject, rng: np.random.Generator, faults: Faults) -> None:
    """On every wire a client goes on from what it sent as the other side decodes it."""
    shared = subject.rounds()
    rounds = np.array(shared[: min(len(shared), _ROUNDS)])
    for wire in WIRES:
        one = replace(subject, wire=wire)
        with faults.noting(f"the wire {wire}"):
            for _ in led(one, Tap(one.source(rng)), plain_records(one, rng, RECORDS), rng, rounds, faults):
                pass  # what is wrong is noted on the way
