"""Terms at the edges of what is certified: the largest and smallest numbers that are accepted, every wire, words in the tails.

What holds at a run's own numbers need not hold where floats run out: noise that is absorbed by a large model, scales without
bits, releases that do not fit the wire. Each variant of the terms that is still certified has to send what the formula says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from crescendo.audit.driving.lead import Faults, led
from crescendo.audit.driving.subject import Draw, Script, Subject
from crescendo.audit.driving.tap import Tap
from crescendo.audit.worst_cases.scenes import plain_records
from crescendo.audit.worst_cases.variants import changed
from crescendo.core.arrays import Uints
from crescendo.core.vectors import WIRES, rounded

_Change = Callable[[float], "Subject | None"]

_AS_THEY_ARE = "the terms as they are"
_RECORDS = 24
_LEAST_FOR_EDGES = 100  # tries: a search this short does not look for the edges of what is certified
_ROUNDS = 8  # in a row, on each wire
STEP, MOST_STEPS, HALVINGS = 64.0, 80, 8  # the search for an edge: by factors of 64 out, then by halving in logarithms
_OTHERS: dict[str, dict[str, Any]] = {
    "rounds that grow": {"growing": True},
    "steps that diminish": {"diminishing": "round"},
    "steps that diminish within a round": {"diminishing": "slot"},
    "noise that differs by round": {"sigmas": True},
    "three unequal clients": {"clients": 3},
    "shares by coin": {"coin": True},
    "every record in every draw": {"whole": True},
    "two blocks": {"blocks": 2},
    "blocks of one coordinate": {"blocks": 0},
    "one feature": {"features": 1},
    "3,000 features": {"features": 3000},
}
# cells of the lower half of the uniforms, of 2^52: a number next to 0 and numbers up to 5.6 sigma; beyond 6, and without an end
_NEAR_CELLS = (2**52 - 1, 2**51, 2**40, 2**33, 2**27)
_FAR_CELLS = (0, 1, 3, 100)


def probe_edges(subject: Subject, rng: np.random.Generator, tries: int, faults: Faults) -> None:
    """Every variant, each wire and the moves of the client; a short search looks at the terms as they are alone."""
    found = _variants(subject) if tries >= _LEAST_FOR_EDGES else [(_AS_THEY_ARE, subject)]
    for name, variant in found:
        _probe(name, variant, rng, faults, far=variant is subject)
        for _ in range(tries // 400):
            _probe(name, variant, rng, faults, far=False)
        _same_on_every_wire(name, variant, rng, faults)
    _moves_as_sent(subject, rng, faults)


def _variants(subject: Subject) -> Iterator[tuple[str, Subject]]:
    """The subject itself, its terms with one number at the edge of what is certified, and with schedules of other kinds."""
    yield _AS_THEY_ARE, subject
    numbers = {
        "step": (float(subject.certificate.terms.steps.at(0)), "eta"),
        "clip": (subject.certificate.clip, "clip"),
        "sigma": (subject.certificate.sigma(0), "sigma"),
        "l2": (subject.objective.traits.l2, "l2"),
    }
    for name, (value, key) in numbers.items():
        for which, factor in (("largest", STEP), ("smallest", 1 / STEP)):
            change: _Change = lambda v, key=key: changed(subject, **{key: v})  # type: ignore[misc]  # noqa: E731
            if value > 0 and (found := _edge(change, value, factor)) is not None:
                yield f"the {which} {name} that is certified, {found[0]:.3g}", found[1]
    for name, options in _OTHERS.items():
        if (one := changed(subject, **options)) is not None:
            yield name, one


def _edge(change: _Change, value: float, factor: float) -> tuple[float, Subject] | None:
    """The last value that is accepted on the way from ``value`` by ``factor``, and the subject there."""
    found = change(value)
    if found is None:
        return None
    inside, outside = value, math.nan
    for _ in range(MOST_STEPS):
        outside = inside * factor
        further = change(outside)
        if further is None:
            break
        inside, found = outside, further
    else:
        return inside, found
    for _ in range(HALVINGS):
        middle = math.sqrt(inside) * math.sqrt(outside)
        between = change(middle)
        inside, outside, found = (middle, outside, between) if between is not None else (inside, middle, found)
    return inside, found


def _probe(name: str, subject: Subject, rng: np.random.Generator, faults: Faults, far: bool) -> None:
    """Some rounds of these terms, with draws of any size and with words of the tails among the others."""
    shared = subject.rounds()
    rounds = np.unique([*shared[:2], shared[len(shared) // 2], *shared[-2:]])
    data, size = plain_records(subject, rng, _RECORDS), subject.objective.size
    for noisy in (True, False):
        one = replace(subject if noisy else subject.without_noise(), wire="float64")
        draws = {int(i): _draw(rng, k) for k, i in enumerate(rounds)}
        words = {int(i): _tail_words(rng, size, far and i == rounds[-1]) for i in rounds}
        with faults.noting(name):
            for released in led(one, Tap(one.source(rng), draws, words), data, rng, rounds, faults, wild=True):
                found = (
                    {"edges": released.departs(), "public grid": released.off_grid()}
                    if noisy
                    else {"edges": released.differs()}
                )
                for kind, says in found.items():
                    if says is not None:
                        faults.note(kind, f"with {name}: {says}")


def _draw(rng: np.random.Generator, k: int) -> Draw:
    members = rng.choice(_RECORDS, (0, 1, 3, _RECORDS, 7)[k % 5], replace=False).astype(np.int64)
    return Draw(members, rng.random(len(members)))


def _tail_words(rng: np.random.Generator, size: int, far: bool = False) -> Uints:
    """Random words, some of them next to 0 and in the tails; with ``far`` one beyond 6 sigma, which takes long to round."""
    words = rng.integers(0, 2**64, size=size, dtype=np.uint64)
    some = rng.choice(size, min(size, len(_NEAR_CELLS) + 1), replace=False)
    cells = np.array([rng.choice(_FAR_CELLS) if far else _NEAR_CELLS[0], *_NEAR_CELLS], dtype=np.uint64)[: len(some)]
    words[some] = (cells << np.uint64(12)) | (words[some] & np.uint64(0xFFF))
    return words


# -- wires: the same release, rounded once to the wire's floats, and cut to the largest of them ---------------------------


def _same_on_every_wire(name: str, subject: Subject, rng: np.random.Generator, faults: Faults) -> None:
    """The same draw and the same words: each wire must carry what float64 does, but for its own rounding."""
    rounds = subject.pairs()[0]
    data, rows = plain_records(subject, rng, _RECORDS), np.arange(_RECORDS)
    starts = tuple(rng.normal(size=subject.objective.size) * 0.3 for _ in rounds)
    draws = {i: Draw(np.arange(3), rng.random(3)) for i in rounds}
    words = {i: _tail_words(rng, subject.objective.size) for i in rounds}
    sent, part = {}, subject.certificate.terms.combined
    for wire in WIRES:
        tap = Tap(Script(draws), draws, words)
        with faults.noting(f"{name} on {wire}"):
            sent[wire] = replace(subject, wire=wire).releases(data, rows, tap, rounds, starts)
    for wire, got in sent.items():
        for i, one, exact in zip(rounds, got, sent.get("float64", got), strict=True):
            due = np.asarray(rounded(exact * part, wire, saturate=True), dtype=np.float64)
            if not np.allclose(one * part, due, rtol=0.0 if part == 1 else 2.0**-50, atol=0.0):
                faults.note("wires", f"with {name}: round {i} on {wire} is not the release on float64, rounded")


def _moves_as_sent(subject: Subject, rng: np.random.Generator, faults: Faults) -> None:
    """On every wire a client goes on from what it sent as the other side decodes it."""
    shared = subject.rounds()
    rounds = np.array(shared[: min(len(shared), _ROUNDS)])
    for wire in WIRES:
        one = replace(subject, wire=wire)
        with faults.noting(f"the wire {wire}"):
            for _ in led(one, Tap(one.source(rng)), plain_records(one, rng, _RECORDS), rng, rounds, faults):
                pass  # what is wrong is noted on the way
