"""Terms at the edges of what is certified: the largest and smallest numbers that are accepted, every wire, words in the tails.

What holds at a run's own numbers need not hold where floats run out: noise that is absorbed by a large model, scales without
bits, releases that do not fit the wire. Each variant of the terms that is still certified has to send what the formula says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np

from crescendo.audit.driving import literal_certificate
from crescendo.audit.driving.lead import Faults, led
from crescendo.audit.driving.subject import Draw, Script, Subject
from crescendo.audit.driving.tap import Tap
from crescendo.core.arrays import Uints
from crescendo.core.terms import Terms
from crescendo.core.vectors import WIRES, rounded
from crescendo.data.records import Records
from crescendo.errors import CrescendoError
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.schedules.parameters import POSITIVE, FloatArray
from crescendo.schedules.sizes import ConstantSizes, PowerSizes
from crescendo.schedules.steps import ConstantSteps, DiminishingSteps, PerKey, Steps
from crescendo_dp.planning.sigmas import Sigmas

_Change = Callable[[float], "Subject | None"]

_AS_THEY_ARE = "the terms as they are"
_RECORDS = 24
_FEW = 12  # rounds of a variant
LEAST_FOR_EDGES = 100  # tries: a search this short does not look for the edges of what is certified
_ROUNDS = 8  # in a row, on each wire
_LONGEST = 140.0  # the power of ten by which records of every length differ: their squares are still floats
_EVERY_LENGTH = "records of every length"
STEP, MOST_STEPS, HALVINGS = 64.0, 80, 8  # the search for an edge: by factors of 64 out, then by halving in logarithms
_OTHERS: dict[str, dict[str, Any]] = {
    "rounds that grow": {"growing": True},
    "steps that diminish": {"diminishing": "round"},
    "steps that diminish within a round": {"diminishing": "slot"},
    "steps that rise": {"rising": "round"},
    "steps that rise within a round": {"rising": "slot"},
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


@dataclass(frozen=True)
class _Rising(Steps):
    """Steps that rise to twice the first, as a rule from outside the package may have them."""

    eta: Annotated[float, POSITIVE, "the first step"]
    per: PerKey = "round"

    def _eta(self, t: FloatArray) -> FloatArray:
        return np.asarray(self.eta * (1 + t / (1 + t)))


def probe_edges(subject: Subject, rng: np.random.Generator, tries: int, faults: Faults) -> None:
    """Every variant, each wire and the moves of the client; a short search looks at the terms as they are alone."""
    found = _variants(subject) if tries >= LEAST_FOR_EDGES else [(_AS_THEY_ARE, subject)]
    for name, variant in found:
        if said := literal_certificate.denied(variant.certificate):
            faults.note("certificate", f"with {name}: {said}")
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
            change: _Change = lambda v, key=key: _changed(subject, **{key: v})  # type: ignore[misc]  # noqa: E731
            if value > 0 and (found := _edge(change, value, factor)) is not None:
                yield f"the {which} {name} that is certified, {found[0]:.3g}", found[1]
    for name, options in _OTHERS.items():
        if (one := _changed(subject, **options)) is not None:
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


def probe_lengths(subject: Subject, rng: np.random.Generator, faults: Faults) -> None:
    """Ordinary records drawn along with some that are far too long or short: what becomes of these is no matter of the others.

    Two releases that differ by one record may be within the certified sensitivity by luck, so the formula is what they must meet.
    """
    plain = subject.plain_records(rng, _RECORDS)
    powers = np.where(rng.random(_RECORDS) < 1 / 3, rng.uniform(-_LONGEST, _LONGEST, _RECORDS), 0.0)
    x = np.asarray(plain.x, dtype=np.float64) * 10.0 ** powers[:, None]
    _probe(_EVERY_LENGTH, subject, rng, faults, far=False, data=replace(plain, x=x))


def _probe(
    name: str, subject: Subject, rng: np.random.Generator, faults: Faults, far: bool, data: Records | None = None
) -> None:
    """Some rounds of these terms, with draws of any size and with words of the tails among the others."""
    shared = subject.rounds()
    rounds = np.unique([*shared[:2], shared[len(shared) // 2], *shared[-2:]])
    data, size = subject.plain_records(rng, _RECORDS) if data is None else data, subject.objective.size
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
    data, rows = subject.plain_records(rng, _RECORDS), np.arange(_RECORDS)
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
            for _ in led(one, Tap(one.source(rng)), one.plain_records(rng, _RECORDS), rng, rounds, faults):
                pass  # what is wrong is noted on the way


# -- a subject under other terms, certified anew: what a run might have been configured to ---------------------------------


def _changed(
    subject: Subject,
    *,
    eta: float | None = None,
    clip: float | None = None,
    sigma: float | None = None,
    l2: float | None = None,
    sigmas: bool = False,
    growing: bool = False,
    diminishing: Literal["round", "slot"] | None = None,
    rising: Literal["round", "slot"] | None = None,
    clients: int | None = None,
    coin: bool = False,
    whole: bool = False,
    blocks: int | None = None,
    features: int | None = None,
) -> Subject | None:
    """The subject under changed terms, of few rounds; None where they are refused.

    ``blocks`` 0 is one for every coordinate; ``whole`` is a rate of 1; ``clients`` puts the audited one last.
    """
    old = subject.certificate
    wide = subject if features is None else subject.widened(features)
    if wide is None:
        return None
    try:
        objective: Any = wide.objective
        if l2 is not None:
            if not is_dataclass(objective) or isinstance(objective, type):
                return None  # a user's model says its own
            objective = replace(objective, l2=l2)
        terms, records, me = replace(old.terms, rounds=min(old.terms.rounds, _FEW)), old.records, subject.me
        first = float(old.terms.steps.at(0))
        if diminishing is not None:
            terms = replace(terms, steps=DiminishingSteps(first, 0.3, per=diminishing))
        if rising is not None:
            terms = replace(terms, steps=_Rising(first / 2, rising))
        if eta is not None:
            terms = replace(terms, steps=ConstantSteps(eta))
        if clients is not None:
            terms, records, me = _among(terms, clients), _declared(records, me, clients), clients - 1
        if growing:
            terms = replace(terms, sizes=PowerSizes(max(1.0, terms.sizes(0) / _FEW)))
        if coin:
            terms = replace(terms, shares_by="coin")
        if blocks is not None:
            terms = replace(terms, blocks=blocks or objective.size)
        if whole:
            records = tuple(max(1, *(terms.share(i, c) for i in range(terms.rounds))) for c in range(terms.clients))
        noise = Sigmas.constant(old.sigma(0) if sigma is None else sigma)
        if sigmas:
            half = max(1, terms.rounds // 2)
            noise = Sigmas(((half, old.sigma(0)), (max(1, terms.rounds - half), 2 * old.sigma(0))))
        certificate = certify(
            old.mechanism,
            terms,
            objective,
            clip=_scaled(old, clip),
            sigma=noise,
            records=records,
            norm_bound=old.norm_bound,
        )
    except (CrescendoError, OverflowError, ZeroDivisionError):  # what is refused, in whatever way, is not run
        return None
    if not any(terms.share(i, me) for i in range(terms.rounds)):
        return None
    return replace(wide, certificate=_like(old, certificate), objective=objective, me=me, shared=None)


def _scaled(old: Certificate, clip: float | None) -> Any:
    """The certificate's own clip, or this one; clips by layer become larger or smaller together."""
    if old.layers is not None:
        return old.layers if clip is None else old.layers.scaled(clip / old.clip)
    return old.clip if clip is None else clip


def _among(terms: Terms, clients: int) -> Terms:
    """Clients of which the last has the largest weight, and as many slots as the audited one had."""
    weights = tuple(2.0 * (c + 1) / (clients * (clients + 1)) for c in range(clients))
    return replace(terms, weights=weights, sizes=ConstantSizes(max(clients, 2 * int(terms.sizes(0)))))


def _declared(records: tuple[int, ...], me: int, clients: int) -> tuple[int, ...]:
    return tuple(3 * records[me] - c * (records[me] // clients) for c in range(clients))


def _like(old: Certificate, new: Certificate) -> Certificate:
    """Of the same class: a certificate may be somebody's own."""
    return new if type(old) is Certificate else type(old)(**{f.name: getattr(new, f.name) for f in fields(new)})
